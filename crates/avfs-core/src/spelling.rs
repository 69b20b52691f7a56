//! Names that some file systems treat as equal although their bytes differ: a file system may ignore case,
//! ignore certain characters (HFS+), or drop trailing characters of a name (NTFS).
//!
//! A tree of ours distinguishes all names. Files that leave it for a directory of the host may meet such a
//! file system there, where `.GIT` is the repository.

use crate::name::{EntryName, TreePath};

/// Characters that HFS+ ignores, as git lists them.
const UNSEEN: [std::ops::RangeInclusive<char>; 4] = [
    '\u{200c}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{206a}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
];

/// The common spelling of all names that some file system treats as equal. Bytes that are not characters are
/// unchanged.
pub fn folded(name: &[u8]) -> Vec<u8> {
    if is_folded(name) {
        return name.to_vec();
    }
    // After a colon, NTFS has names of streams of the same file.
    let own = name
        .split(|byte| *byte == b':')
        .next()
        .filter(|own| !own.is_empty())
        .unwrap_or(name);
    let mut folded = Vec::with_capacity(own.len());
    for chunk in own.utf8_chunks() {
        let seen = chunk
            .valid()
            .chars()
            .filter(|c| !UNSEEN.iter().any(|range| range.contains(c)));
        // By way of upper case: some letters have no lower case of their own but share an upper-case letter
        // (the long s).
        let small = seen.flat_map(char::to_uppercase).flat_map(char::to_lowercase);
        folded.extend(small.collect::<String>().bytes());
        folded.extend(chunk.invalid());
    }
    let end = folded
        .iter()
        .rposition(|byte| !matches!(byte, b' ' | b'.'))
        .map_or(0, |last| last + 1);
    match end {
        0 => name.to_vec(),
        end => folded[..end].to_vec(),
    }
}

/// A path with each of its names folded; `None` if nothing changes.
pub fn folded_path(path: &TreePath) -> Option<TreePath> {
    // This runs for every path, and folding costs much more than this test.
    if path.names().all(is_folded) {
        return None;
    }
    let mut other = TreePath::root();
    for name in path.components() {
        // Folding may make a name longer than the maximum; no file can have such a name.
        other.push(&EntryName::new(&folded(name.as_bytes())).ok()?);
    }
    (other != *path).then_some(other)
}

/// A quick test whether [`folded`] leaves a name unchanged. It may return `false` for such a name, too.
pub fn is_folded(name: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii() && !byte.is_ascii_uppercase() && *byte != b':';
    name.iter().all(is_plain) && !matches!(name.last(), Some(b' ' | b'.'))
}

/// Whether some file system treats a name as `.git`: the names that git itself refuses.
pub fn is_git_directory(name: &[u8]) -> bool {
    // The short names of NTFS. The first one is `.git` if that exists.
    let is_short = |name: &[u8]| matches!(name, [b'g', b'i', b't', b'~', b'1'..=b'9']);
    // This runs for every name of every path, and folding costs much more than this test.
    if name.is_ascii() && !matches!(name, [b'.' | b'g' | b'G', ..]) {
        return false;
    }
    let folded = folded(name);
    folded == b".git" || is_short(&folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_git_are_known() {
        for name in [
            ".git",
            ".GIT",
            ".gIt",
            ".git ",
            ".git...",
            ".git . .",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
            "git~1",
            "GIT~2",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".gi\u{206f}t\u{200d}",
            ".G\u{202e}IT. ",
        ] {
            assert!(is_git_directory(name.as_bytes()), "{name:?}");
        }
        for name in [
            "a",
            "x.git",
            "~git",
            ".gitignore",
            ".github",
            "git",
            ".gi",
            "git~",
            "git~10",
            ".git-x",
            ". git",
            "..git",
        ] {
            assert!(!is_git_directory(name.as_bytes()), "{name:?}");
        }
    }

    #[test]
    fn names_that_fold_to_one_have_one_spelling() {
        for (name, expected) in [
            (".VSCode", ".vscode"),
            (".v\u{17f}code", ".vscode"),
            (".bas\u{200d}hrc", ".bashrc"),
            ("\u{212a}eys", "keys"),
            ("tasks.json.", "tasks.json"),
            ("...", "..."),
            (":x", ":x"),
            ("\u{200c}", "\u{200c}"),
            ("Stra\u{df}e", "strasse"),
        ] {
            assert_eq!(folded(name.as_bytes()), expected.as_bytes(), "{name:?}");
        }
        assert_eq!(folded(b".GIT\xff"), b".git\xff");
        let path = |text: &str| TreePath::parse(text.as_bytes()).unwrap();
        assert_eq!(
            folded_path(&path("a/.VSCODE/tasks.json")),
            Some(path("a/.vscode/tasks.json"))
        );
        assert_eq!(folded_path(&path("a/b.c")), None);
    }
}
