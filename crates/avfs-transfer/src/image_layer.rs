//! The markers by which a layer of an image hides what lies below it.

/// What one member of a layer hides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whiteout {
    /// The entry at this path.
    Entry(Vec<u8>),
    /// Everything in the directory at this path.
    Contents(Vec<u8>),
    /// Notes that the storage driver of some engines left in its layers.
    Bookkeeping,
    /// A marker without a name.
    Nothing,
}

const MARKER: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
const RESERVED: &[u8] = b".wh..wh.";

/// Reads the name of a member; `None` if it hides nothing.
pub(super) fn whiteout(path: &[u8]) -> Option<Whiteout> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let (directory, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&b""[..], path),
    };
    let hidden = name.strip_prefix(MARKER)?;
    Some(if name == OPAQUE {
        Whiteout::Contents(directory.to_vec())
    } else if name.starts_with(RESERVED) {
        Whiteout::Bookkeeping
    } else if matches!(hidden, b"" | b".") {
        Whiteout::Nothing
    } else {
        Whiteout::Entry(super::join(directory, hidden))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_hides_what_it_names() {
        let entry = |path: &str| Some(Whiteout::Entry(path.into()));
        let cases: [(&str, Option<Whiteout>); 10] = [
            ("etc/passwd", None),
            ("etc/.wh.passwd", entry("etc/passwd")),
            (".wh.etc", entry("etc")),
            ("./a/.wh.b/", entry("./a/b")),
            // Refused later, as every path with '..'.
            ("a/.wh...", entry("a/..")),
            ("a/.wh..wh..opq", Some(Whiteout::Contents("a".into()))),
            (".wh..wh..opq", Some(Whiteout::Contents("".into()))),
            (".wh..wh.plnk", Some(Whiteout::Bookkeeping)),
            ("a/.wh.", Some(Whiteout::Nothing)),
            ("a/.wh..", Some(Whiteout::Nothing)),
        ];
        for (path, expected) in cases {
            assert_eq!(whiteout(path.as_bytes()), expected, "{path}");
        }
    }
}
