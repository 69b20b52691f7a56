//! The setting of a repository with the path of its files, read and written without git.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The path of a repository's files, relative to its directory. The last value counts.
pub(super) fn files_of(settings: &[u8]) -> Option<PathBuf> {
    let value = |line: &[u8]| {
        let rest = line
            .trim_ascii()
            .strip_prefix(b"worktree")?
            .trim_ascii_start()
            .strip_prefix(b"=")?;
        Some(PathBuf::from(OsString::from_vec(unquoted(rest.trim_ascii()))))
    };
    settings.rsplit(|byte| *byte == b'\n').find_map(value)
}

/// The text to append to settings so that they name this path.
pub(super) fn saying_files_are_at(way: &[u8]) -> Vec<u8> {
    [
        b"\n[core]\n\tbare = false\n\tworktree = ",
        &quoted(way)[..],
        b"\n",
    ]
    .concat()
}

/// A value as git interprets it: quotes only group it, and a backslash precedes characters that would end it.
fn unquoted(value: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {}
            b'\\' => plain.extend(bytes.next()),
            other => plain.push(*other),
        }
    }
    plain
}

fn quoted(value: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_setting_is_read_back() {
        let first = b"[core]\n\tbare = false\n\tworktree = ../../../plain path\n[remote \"origin\"]\n";
        assert_eq!(files_of(first), Some("../../../plain path".into()));
        for way in ["..", "../a b", "../#1; \"x\" \\y"] {
            let settings = [&first[..], &saying_files_are_at(way.as_bytes())].concat();
            assert_eq!(files_of(&settings), Some(way.into()));
        }
        assert_eq!(files_of(b"[core]\n\tworktreeless = 1\n"), None);
    }
}
