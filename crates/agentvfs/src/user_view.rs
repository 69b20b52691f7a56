//! Paths as the user of a sandbox meets them, for front ends that read and write files without a process inside:
//! symbolic links are followed, but never out of the tree, and mode bits hold.

use std::collections::VecDeque;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use avfs_core::rules::Level;
use avfs_core::{EntryKind, EntryName, TreePath};
use avfs_exec::plan::WORKSPACE;
use avfs_tree::{FsError, ReadError, TreeReader};

use crate::error::{Error, FileError, Result};
use crate::vault::Vault;

/// How many links a path may lead through, as on Linux.
const LINKS_MAX: u32 = 40;

/// The bits of the owner: inside, everything belongs to the user of the sandbox.
const READ: u32 = 0o400;
const WRITE: u32 = 0o200;
const SEARCH: u32 = 0o100;

/// A tree as the user of a sandbox meets it.
pub struct UserView<'a> {
    vault: &'a Vault,
    reader: &'a TreeReader,
    /// Where the sandbox shows the tree: targets of links begin with them.
    places: Vec<PathBuf>,
    obeys_modes: bool,
}

/// What a link stands for at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// What it leads to.
    Followed,
    /// Itself.
    Meant,
}

/// What becomes of a name that is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Refused,
    Kept,
}

impl<'a> UserView<'a> {
    /// The view of a tree of the vault. Without `obeys_modes`, it is that of the owner of the store, for whom only rules
    /// hold.
    pub fn new(vault: &'a Vault, reader: &'a TreeReader, obeys_modes: bool) -> Result<UserView<'a>> {
        let places = [Some(PathBuf::from(WORKSPACE)), vault.own_path()?];
        Ok(UserView {
            vault,
            reader,
            places: places.into_iter().flatten().collect(),
            obeys_modes,
        })
    }

    /// What the path stands for, through all links.
    pub fn resolve(&self, path: &TreePath) -> Result<TreePath> {
        self.walk(path, Last::Followed, Missing::Refused)
    }

    /// The same, but if the last name is that of a link, the link itself is meant.
    pub fn resolve_entry(&self, path: &TreePath) -> Result<TreePath> {
        self.walk(path, Last::Meant, Missing::Refused)
    }

    /// The same for what is to be made: from the first name that is missing, the path is taken as it is.
    pub fn resolve_new(&self, path: &TreePath) -> Result<TreePath> {
        self.walk(path, Last::Followed, Missing::Kept)
    }

    /// Refuses to read what is at a resolved path, if its mode does not allow it.
    pub fn check_read(&self, path: &TreePath) -> Result<()> {
        self.check(path, READ, "reading")
    }

    /// Refuses to write the file at a resolved path, or to make it if it is missing.
    pub fn check_write(&self, path: &TreePath) -> Result<()> {
        match self.reader.find(path) {
            Err(ReadError::NotFound { .. }) => self.check_entry(path),
            _ => self.check(path, WRITE, "writing"),
        }
    }

    /// Refuses to make, move or remove the entry at a resolved path, with the directories above it that are missing.
    pub fn check_entry(&self, path: &TreePath) -> Result<()> {
        let mut parent = path.split_last().map(|(parent, _)| parent);
        while let Some(directory) = parent {
            match self.reader.find(&directory) {
                Err(ReadError::NotFound { .. }) => parent = directory.split_last().map(|(above, _)| above),
                _ => return self.check(&directory, WRITE | SEARCH, "changing"),
            }
        }
        Ok(())
    }

    fn check(&self, path: &TreePath, bits: u32, action: &'static str) -> Result<()> {
        if !self.obeys_modes {
            return Ok(());
        }
        // The next use of the path reports that it is missing, not a directory, or denied by rules.
        let Ok(found) = self.reader.find(path) else {
            return Ok(());
        };
        let needed = if bits & WRITE == 0 {
            Level::Read
        } else {
            Level::Write
        };
        let mode = found.entry.meta.mode;
        let is_file_on_the_way = bits & SEARCH != 0 && !found.entry.is_directory();
        if mode & bits == bits || found.level < needed || is_file_on_the_way {
            return Ok(());
        }
        Err(Error::File(FileError::Mode {
            path: path.clone(),
            mode,
            action,
        }))
    }

    fn walk(&self, path: &TreePath, last: Last, missing: Missing) -> Result<TreePath> {
        let follows_last = last == Last::Followed;
        let mut left: VecDeque<Vec<u8>> = path.names().map(<[u8]>::to_vec).collect();
        let mut at = TreePath::root();
        let mut links = 0;
        while let Some(name) = left.pop_front() {
            match &name[..] {
                b"" | b"." => continue,
                b".." => {
                    at = at.split_last().map_or_else(TreePath::root, |(above, _)| above);
                    continue;
                }
                _ => {}
            }
            let name = EntryName::new(&name).map_err(|source| {
                Error::File(FileError::BadPath {
                    text: path.to_string(),
                    source,
                })
            })?;
            self.check(&at, SEARCH, "searching")?;
            let next = at.join(&name);
            let found = match self.reader.find(&next) {
                Err(ReadError::NotFound { .. }) if missing == Missing::Kept => {
                    at = next;
                    continue;
                }
                found => found.map_err(|error| self.vault.history().read_error(error))?,
            };
            match found.entry.kind {
                EntryKind::Symlink { target } if follows_last || !left.is_empty() => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(self.invalid(path, "too many symbolic links"));
                    }
                    at = self.lead(&target, at, &mut left).ok_or_else(|| {
                        self.vault
                            .history()
                            .read_error(ReadError::NotFound { path: path.clone() })
                    })?;
                }
                _ => at = next,
            }
        }
        Ok(at)
    }

    /// Goes on along the target of a link; nothing, if that is out of the tree.
    fn lead(&self, target: &[u8], at: TreePath, left: &mut VecDeque<Vec<u8>>) -> Option<TreePath> {
        let (start, rest) = if target.starts_with(b"/") {
            let below = |place: &PathBuf| {
                let rest = target.strip_prefix(place.as_os_str().as_bytes())?;
                (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
            };
            (TreePath::root(), self.places.iter().find_map(below)?)
        } else {
            (at, target)
        };
        for name in rest.split(|byte| *byte == b'/').rev() {
            left.push_front(name.to_vec());
        }
        Some(start)
    }

    fn invalid(&self, path: &TreePath, reason: &'static str) -> Error {
        Error::File(FileError::Tree {
            vault: self.vault.name().map(|name| name.to_string()).unwrap_or_default(),
            path: path.clone(),
            source: FsError::Invalid(reason),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;
    use crate::{Store, VaultName};

    fn path(text: &str) -> TreePath {
        TreePath::parse(text.as_bytes()).unwrap()
    }

    fn vault() -> Vault {
        let vault = Store::in_memory()
            .create_vault(&VaultName::new("v").unwrap())
            .unwrap();
        let open = vault.begin().unwrap();
        open.make_directory(&path("/real/deep"), true).unwrap();
        open.write_bytes(&path("/real/deep/file"), b"text").unwrap();
        open.symlink(b"real", &path("/link")).unwrap();
        open.symlink(b"../../link/deep/file", &path("/real/deep/back"))
            .unwrap();
        open.symlink(b"/workspace/real", &path("/absolute")).unwrap();
        open.symlink(b"/etc", &path("/outside")).unwrap();
        open.symlink(b"turn", &path("/turn")).unwrap();
        open.commit("write", "").unwrap();
        vault
    }

    #[test]
    fn links_lead_on_inside_the_tree_and_never_out_of_it() {
        let vault = vault();
        let reader = vault.reader().unwrap();
        let view = UserView::new(&vault, &reader, true).unwrap();
        let resolved = |text: &str| view.resolve(&path(text)).map(|path| path.to_string());
        assert_eq!(resolved("/link/deep/file").unwrap(), "/real/deep/file");
        assert_eq!(resolved("/real/deep/back").unwrap(), "/real/deep/file");
        assert_eq!(resolved("/absolute/deep/file").unwrap(), "/real/deep/file");
        let new = view.resolve_new(&path("/absolute/deep/new/file")).unwrap();
        assert_eq!(new.to_string(), "/real/deep/new/file");
        assert_eq!(
            resolved("/outside/passwd").unwrap_err().code(),
            ErrorCode::NotFound
        );
        assert_eq!(resolved("/turn").unwrap_err().code(), ErrorCode::Invalid);
        assert_eq!(resolved("/none/file").unwrap_err().code(), ErrorCode::NotFound);
        assert_eq!(view.resolve_entry(&path("/link")).unwrap().to_string(), "/link");
    }

    #[test]
    fn modes_hold_for_the_user_and_not_for_the_owner_of_the_store() {
        let vault = vault();
        let open = vault.begin().unwrap();
        open.set_mode(&path("/real/deep/file"), 0o000).unwrap();
        open.set_mode(&path("/real/deep"), 0o500).unwrap();
        open.commit("chmod", "").unwrap();
        let reader = vault.reader().unwrap();
        let user = UserView::new(&vault, &reader, true).unwrap();
        let (file, new) = (path("/real/deep/file"), path("/real/deep/new"));
        let denied = |checked: Result<()>| checked.unwrap_err().code() == ErrorCode::Denied;
        assert!(denied(user.check_read(&file)));
        assert!(denied(user.check_write(&file)));
        assert!(denied(user.check_write(&new)));
        assert!(denied(user.check_entry(&file)));
        let owner = UserView::new(&vault, &reader, false).unwrap();
        owner.check_read(&file).unwrap();
        owner.check_write(&new).unwrap();
    }
}
