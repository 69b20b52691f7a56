//! Paths as git writes them in patches.

use avfs_core::TreePath;

/// `prefix` and the path, in quotes with C escapes if the path has bytes that need it.
pub(super) fn quoted(prefix: &str, path: &TreePath) -> Vec<u8> {
    quoted_bytes(&[prefix.as_bytes(), path.as_bytes()].concat())
}

/// The bytes, in quotes with C escapes if some of them need it.
pub fn quoted_bytes(whole: &[u8]) -> Vec<u8> {
    if !whole.iter().any(|byte| needs_quotes(*byte)) {
        return whole.to_vec();
    }
    let mut out = vec![b'"'];
    for &byte in whole {
        match escape(byte) {
            Some(letter) => out.extend([b'\\', letter]),
            None if needs_quotes(byte) => out.extend(format!("\\{byte:03o}").bytes()),
            None => out.push(byte),
        }
    }
    out.push(b'"');
    out
}

/// The path in a `---` or `+++` line: a tab ends a name with blanks in it.
pub(super) fn quoted_with_end(prefix: &str, path: &TreePath) -> Vec<u8> {
    let mut name = quoted(prefix, path);
    if name.first() != Some(&b'"') && name.iter().any(u8::is_ascii_whitespace) {
        name.push(b'\t');
    }
    name
}

fn needs_quotes(byte: u8) -> bool {
    !(0x20..0x7f).contains(&byte) || byte == b'"' || byte == b'\\'
}

fn escape(byte: u8) -> Option<u8> {
    match byte {
        0x07 => Some(b'a'),
        0x08 => Some(b'b'),
        b'\t' => Some(b't'),
        b'\n' => Some(b'n'),
        0x0b => Some(b'v'),
        0x0c => Some(b'f'),
        b'\r' => Some(b'r'),
        b'"' | b'\\' => Some(byte),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_bytes_are_quoted_as_git_does() {
        let check = |raw: &[u8], expected: &str| {
            let path = TreePath::parse(raw).unwrap();
            assert_eq!(String::from_utf8(quoted_with_end("a/", &path)).unwrap(), expected);
        };
        check(b"plain/x.rs", "a/plain/x.rs");
        check(b"with blank", "a/with blank\t");
        check("grün".as_bytes(), r#""a/gr\303\274n""#);
        check(b"tab\there", r#""a/tab\there""#);
        check(b"q\"\\\x01 \x7f", r#""a/q\"\\\001 \177""#);
    }
}
