//! Paths that a file system of the host could mistake for others: the repository, and files that agents
//! cannot write.

use avfs_core::TreePath;
use avfs_core::rules::Preset;
use avfs_core::spelling::{folded_path, is_git_directory};

use crate::error::ApplyError;

/// The `.git` that contains a path, or a directory that some file system treats as one.
pub(super) fn git_directory(path: &TreePath) -> Option<TreePath> {
    let at = path.names().position(is_git_directory)?;
    Some(
        path.components()
            .take(at + 1)
            .fold(TreePath::root(), |above, name| above.join(&name)),
    )
}

/// The protected path that a path would be if its file system `folds` names, unless it is protected as
/// spelled. The file system is only examined for such paths.
pub(super) fn meant_by(
    path: &TreePath,
    folds: impl FnOnce(&TreePath) -> Result<bool, ApplyError>,
) -> Result<Option<TreePath>, ApplyError> {
    let is_disguised = |meant: &TreePath| Preset::names_protected(meant) && !Preset::names_protected(path);
    match folded_path(path).filter(is_disguised) {
        Some(meant) => Ok(folds(path)?.then_some(meant)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn whatever_some_file_system_takes_for_a_repository_is_one() {
        for (inside, expected) in [
            (".git/config", ".git"),
            ("a/.Git/hooks/x", "a/.Git"),
            (".git /config", ".git "),
            ("GIT~1/config", "GIT~1"),
            (".g\u{200c}it/config", ".g\u{200c}it"),
            (".git::$INDEX_ALLOCATION/config", ".git::$INDEX_ALLOCATION"),
        ] {
            assert_eq!(git_directory(&path(inside)), Some(path(expected)), "{inside:?}");
        }
        assert_eq!(git_directory(&path(".github/x")), None);
    }

    #[test]
    fn other_spellings_of_protected_paths_are_found_where_names_are_folded() {
        let meant = |text: &str, folds: bool| meant_by(&path(text), |_| Ok(folds)).unwrap();
        for (spelled, expected) in [
            (".VSCODE/tasks.json", ".vscode/tasks.json"),
            ("a/.vscode/Tasks.JSON", "a/.vscode/tasks.json"),
            (".BashRC", ".bashrc"),
            (".bash\u{200d}rc", ".bashrc"),
            (".husky./pre-commit", ".husky/pre-commit"),
            (".SSH/authorized_keys", ".ssh/authorized_keys"),
        ] {
            assert_eq!(meant(spelled, true), Some(path(expected)), "{spelled:?}");
            assert_eq!(meant(spelled, false), None, "{spelled:?}");
        }
        let never = |text: &str| meant_by(&path(text), |_| panic!("{text} needs no asking")).unwrap();
        for plain in [
            "README.md",
            "src/Main.rs",
            ".vscode/tasks.json",
            ".VSCODE/notes.md",
        ] {
            assert_eq!(never(plain), None);
        }
    }
}
