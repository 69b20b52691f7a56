//! What the programs of earlier runs had to wait for, as a list of paths beside a vault.
//!
//! The forks of a vault, such as the tasks of a project, share its list: a new task begins where others were. Only time
//! is at stake, so a list that cannot be read is none, and one that cannot be written stays as it is.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use avfs_core::TreePath;

use crate::vault::Vault;

/// In the work directory of a vault.
const FILE: &str = "read-before";
/// No path contains it.
const END: u8 = 0;
/// The most paths of a list, and the most bytes that are read of one.
const MOST: usize = 8192;
const MOST_BYTES: u64 = 4 << 20;

pub(super) struct ReadBefore {
    place: PathBuf,
    paths: Vec<TreePath>,
}

impl ReadBefore {
    /// The list of a vault, or of the one that it was forked from. `None` in a store that keeps nothing.
    pub(crate) fn of(vault: &Vault) -> Option<ReadBefore> {
        let store = vault.store();
        store.work().lasting()?;
        let parent = vault.record().ok()?.0.parent.map(|parent| parent.vault);
        // A fork may outlive the vault that it was made from.
        let parent = parent.filter(|id| store.vault_by_id(*id).record().is_ok());
        let place = store
            .work()
            .of_vault(parent.unwrap_or(vault.id()))
            .ok()?
            .join(FILE);
        let paths = read(&place).unwrap_or_default();
        Some(ReadBefore { place, paths })
    }

    pub(crate) fn paths(&self) -> Vec<TreePath> {
        self.paths.clone()
    }

    /// Appends what was requested and is not on the list yet. The oldest paths make room.
    pub(crate) fn add(&self, requested: Vec<TreePath>) {
        let mut known: HashSet<&TreePath> = self.paths.iter().collect();
        let new: Vec<&TreePath> = requested.iter().filter(|path| known.insert(path)).collect();
        if new.is_empty() {
            return;
        }
        let all: Vec<&TreePath> = self.paths.iter().chain(new).collect();
        let kept = &all[all.len().saturating_sub(MOST)..];
        // Only speed depends on it: without the list, the next run waits for each file.
        let _ = write(&self.place, kept);
    }
}

fn read(place: &Path) -> io::Result<Vec<TreePath>> {
    let mut bytes = Vec::new();
    File::open(place)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    let paths = bytes.split(|byte| *byte == END).filter(|path| !path.is_empty());
    Ok(paths
        .filter_map(|path| TreePath::parse(path).ok())
        .take(MOST)
        .collect())
}

/// Replaces the list as a whole: two runs may end at once.
fn write(place: &Path, paths: &[&TreePath]) -> io::Result<()> {
    let directory = place.parent().ok_or(io::ErrorKind::NotFound)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend_from_slice(path.as_bytes());
        bytes.push(END);
    }
    file.write_all(&bytes)?;
    file.persist(place)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text.as_bytes()).unwrap()
    }

    fn list(directory: &Path) -> ReadBefore {
        let place = directory.join(FILE);
        let paths = read(&place).unwrap_or_default();
        ReadBefore { place, paths }
    }

    #[test]
    fn a_list_grows_in_the_order_of_requests_and_names_nothing_twice() {
        let directory = tempfile::tempdir().unwrap();
        list(directory.path()).add(vec![path("b"), path("a/c"), path("b")]);
        list(directory.path()).add(vec![path("a/c"), path("d")]);
        assert_eq!(list(directory.path()).paths(), ["b", "a/c", "d"].map(path));
    }

    #[test]
    fn the_oldest_paths_make_room() {
        let directory = tempfile::tempdir().unwrap();
        list(directory.path()).add((0..MOST).map(|number| path(&format!("{number}"))).collect());
        list(directory.path()).add(vec![path("new")]);
        let paths = list(directory.path()).paths();
        assert_eq!(
            (paths.len(), &paths[0], &paths[MOST - 1]),
            (MOST, &path("1"), &path("new"))
        );
    }

    #[test]
    fn broken_contents_of_the_file_do_no_harm() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE), b"\xff\0../x\0/\0good\0cut").unwrap();
        let paths = list(directory.path()).paths();
        assert!(
            paths.contains(&path("good")) && !paths.iter().any(|path| path.as_bytes().starts_with(b".."))
        );
    }
}
