//! Which files of a tree git ignores, by the `.gitignore` files of the tree and the user's own lists.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use avfs_core::{EntryKind, TreePath};
use avfs_tree::{ReadError, TreeReader};

use super::error::GitError;
use super::host::HostRepository;
use super::program::GIVING;

const IGNORE_FILE: &[u8] = b".gitignore";
const IGNORE_MAX: u64 = 16 << 20;
const LAYING_OUT: &str = "laying out what git ignores";

/// Those of the paths that are ignored. What the user's repository tracks is not.
pub(super) fn ignored(
    tree: &TreeReader,
    host: &HostRepository,
    paths: &[&TreePath],
) -> Result<BTreeSet<TreePath>, GitError> {
    if paths.is_empty() {
        return Ok(BTreeSet::new());
    }
    let place = tempfile::Builder::new().prefix("avfs-git-").tempdir().map_err(GitError::host(LAYING_OUT))?;
    lay_out(tree, paths, place.path())?;
    let git = host.git("looking for what is ignored").with_user_settings().arg("-C").arg(place.path());
    let git = git.arg("--work-tree").arg(place.path()).args(["check-ignore", "-z", "--stdin"]);
    let listed = git.output_of(|input| {
        for path in paths {
            // With a colon in front it would be a pattern.
            let line = [b"./", path.as_bytes(), b"\0"].concat();
            input.write_all(&line).map_err(GitError::host(GIVING))?;
        }
        Ok(())
    });
    match listed {
        Ok(listed) => Ok(parse(&listed)),
        // It has nothing to say where nothing is ignored.
        Err(GitError::Failed { message, .. }) if message == NOTHING => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

/// How a call that said nothing and ended with status 1 is told.
const NOTHING: &str = "exit status: 1";

fn parse(listed: &[u8]) -> BTreeSet<TreePath> {
    let paths = listed.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    paths.filter_map(|path| TreePath::parse(path).ok()).collect()
}

/// Writes the `.gitignore` files that matter for these paths into an empty directory.
fn lay_out(tree: &TreeReader, paths: &[&TreePath], place: &Path) -> Result<(), GitError> {
    let mut known = BTreeSet::new();
    for path in paths {
        let mut above = path.split_last();
        while let Some((directory, _)) = above {
            above = directory.split_last();
            if !known.insert(directory.clone()) {
                break;
            }
            copy_ignore_file(tree, &directory, place)?;
        }
    }
    Ok(())
}

fn copy_ignore_file(tree: &TreeReader, directory: &TreePath, place: &Path) -> Result<(), GitError> {
    let path = directory.join_path(&TreePath::parse(IGNORE_FILE).expect("this is a path"));
    match tree.find(&path) {
        Ok(found) if matches!(found.entry.kind, EntryKind::File { size, .. } if size <= IGNORE_MAX) => {
            let to = place.join(OsStr::from_bytes(directory.as_bytes()));
            fs::create_dir_all(&to).map_err(GitError::host(LAYING_OUT))?;
            let bytes = tree.read(&path)?;
            fs::write(to.join(OsStr::from_bytes(IGNORE_FILE)), bytes).map_err(GitError::host(LAYING_OUT))
        }
        Ok(_) | Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
