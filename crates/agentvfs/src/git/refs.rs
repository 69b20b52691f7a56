//! The refs of a repository as a stored tree holds them.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use avfs_core::{EntryKind, TreePath};
use avfs_tree::{ObjectError, ReadError, TreeReader};

use crate::error::GitError;
use crate::git_names::{ObjectName, RefName};

/// A ref that names a different object than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedRef {
    /// `None`: the HEAD itself, which is on no branch.
    pub name: Option<RefName>,
    /// Where it was; `None` if it is new.
    pub before: Option<ObjectName>,
    /// Where it is; `None` if it is gone.
    pub after: Option<ObjectName>,
}

/// The checked-out branch or commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GitHead {
    Missing,
    Branch(RefName),
    Detached(ObjectName),
}

/// How many symbolic refs are followed in a row.
const SYMBOLIC_DEPTH: usize = 5;
const LOOSE_MAX: u64 = 4 << 10;
const PACKED_MAX: u64 = 256 << 20;

/// The refs in one tree. An entry that is not a plain file with a valid name is not a ref.
pub(super) struct StoredRefs<'a> {
    reader: &'a TreeReader,
    /// The directory of the repository.
    place: &'a TreePath,
    packed: OnceCell<BTreeMap<RefName, ObjectName>>,
}

impl<'a> StoredRefs<'a> {
    pub(super) fn new(reader: &'a TreeReader, place: &'a TreePath) -> StoredRefs<'a> {
        StoredRefs {
            reader,
            place,
            packed: OnceCell::new(),
        }
    }

    pub(super) fn get(&self, name: &RefName) -> Result<Option<ObjectName>, GitError> {
        let mut name = name.clone();
        for _ in 0..SYMBOLIC_DEPTH {
            let Some(path) = name.path() else { return Ok(None) };
            match self.read(&path, LOOSE_MAX)?.as_deref().map(parse_loose) {
                Some(Some(Target::Object(object))) => return Ok(Some(object)),
                Some(Some(Target::Ref(other))) => name = other,
                Some(None) => return Ok(None),
                None => return Ok(self.packed()?.get(&name).cloned()),
            }
        }
        Ok(None)
    }

    pub(super) fn head(&self) -> Result<GitHead, GitError> {
        let text = self.read(&head(), LOOSE_MAX)?;
        Ok(match text.as_deref().and_then(parse_loose) {
            None => GitHead::Missing,
            Some(Target::Object(object)) => GitHead::Detached(object),
            Some(Target::Ref(branch)) => GitHead::Branch(branch),
        })
    }

    /// The commit that is checked out.
    pub(super) fn head_commit(&self) -> Result<Option<ObjectName>, GitError> {
        match self.head()? {
            GitHead::Missing => Ok(None),
            GitHead::Branch(branch) => self.get(&branch),
            GitHead::Detached(commit) => Ok(Some(commit)),
        }
    }

    /// The objects that all refs and the HEAD name.
    pub(super) fn tips(&self) -> Result<BTreeSet<ObjectName>, GitError> {
        let mut names: BTreeSet<RefName> = self.packed()?.keys().cloned().collect();
        self.add_loose(&TreePath::parse(b"refs").expect("this is a path"), &mut names)?;
        let mut tips: BTreeSet<ObjectName> = self.head_commit()?.into_iter().collect();
        for name in names {
            tips.extend(self.get(&name)?);
        }
        Ok(tips)
    }

    fn add_loose(&self, directory: &TreePath, names: &mut BTreeSet<RefName>) -> Result<(), GitError> {
        let listing = match self.reader.list(&self.place.join_path(directory)) {
            Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => return Ok(()),
            listing => listing?,
        };
        for entry in listing {
            let (name, found) = entry?;
            let path = directory.join(&name);
            if found.entry.is_directory() {
                self.add_loose(&path, names)?
            } else {
                names.extend(RefName::new(path.as_bytes()))
            }
        }
        Ok(())
    }

    fn packed(&self) -> Result<&BTreeMap<RefName, ObjectName>, GitError> {
        if let Some(packed) = self.packed.get() {
            return Ok(packed);
        }
        let text = self.read(&packed_refs(), PACKED_MAX)?.unwrap_or_default();
        Ok(self.packed.get_or_init(|| parse_packed(&text)))
    }

    /// The bytes of a file of the repository; `None` if it does not exist, or is invalid.
    fn read(&self, path: &TreePath, max: u64) -> Result<Option<Vec<u8>>, GitError> {
        let path = self.place.join_path(path);
        match self.reader.find(&path) {
            Ok(found) if matches!(found.entry.kind, EntryKind::File { size, .. } if size <= max) => {
                Ok(Some(self.reader.read(&path)?.to_vec()))
            }
            Ok(_) | Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => Ok(None),
            // It had not been read before the host changed it: it says nothing about this tree.
            Err(ReadError::Object {
                source: ObjectError::Promised { .. },
                ..
            }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a file of the repository is the same in another tree, without reading it.
    fn is_same(&self, path: &TreePath, to: &StoredRefs<'_>) -> bool {
        let path = self.place.join_path(path);
        let content = |reader: &TreeReader| reader.find(&path).ok().map(|found| found.entry.kind);
        content(self.reader) == content(to.reader)
    }

    /// The refs that are not the same in another tree, with the objects that they name here and there.
    pub(super) fn moved(&self, to: &StoredRefs<'_>) -> Result<Vec<MovedRef>, GitError> {
        let mut moved = Vec::new();
        for name in self.touched(to)? {
            let (before, after) = (self.get(&name)?, to.get(&name)?);
            if before != after {
                moved.push(MovedRef {
                    name: Some(name),
                    before,
                    after,
                });
            }
        }
        if !self.is_same(&head(), to)
            && let GitHead::Detached(after) = to.head()?
        {
            let before = self.head_commit()?;
            if before.as_ref() != Some(&after) {
                moved.push(MovedRef {
                    name: None,
                    before,
                    after: Some(after),
                });
            }
        }
        Ok(moved)
    }

    /// The refs whose files differ: only those can have moved.
    fn touched(&self, to: &StoredRefs<'_>) -> Result<BTreeSet<RefName>, GitError> {
        let mut touched = BTreeSet::new();
        let refs = self
            .place
            .join_path(&TreePath::parse(b"refs").expect("this is a path"));
        let start = self.place.as_bytes().len() + usize::from(!self.place.is_root());
        self.reader.diff(to.reader, &refs, &mut |change| {
            touched.extend(RefName::new(&change.change.path.as_bytes()[start..]));
            Ok(())
        })?;
        if !self.is_same(&packed_refs(), to) {
            let (before, after) = (self.packed()?, to.packed()?);
            let names = before.keys().chain(after.keys());
            touched.extend(
                names
                    .filter(|name| before.get(*name) != after.get(*name))
                    .cloned(),
            );
        }
        Ok(touched)
    }
}

fn head() -> TreePath {
    TreePath::parse(b"HEAD").expect("this is a path")
}

fn packed_refs() -> TreePath {
    TreePath::parse(b"packed-refs").expect("this is a path")
}

/// The contents of a ref's file.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    Object(ObjectName),
    Ref(RefName),
}

fn parse_loose(text: &[u8]) -> Option<Target> {
    match text.strip_prefix(b"ref:") {
        Some(name) => RefName::new(name.trim_ascii()).map(Target::Ref),
        None => ObjectName::new(text.trim_ascii_end()).map(Target::Object),
    }
}

/// Lines that are not refs (comments, peeled tags, nonsense) are skipped.
fn parse_packed(text: &[u8]) -> BTreeMap<RefName, ObjectName> {
    let line = |line: &[u8]| {
        let space = line.iter().position(|byte| *byte == b' ')?;
        Some((
            RefName::new(&line[space + 1..])?,
            ObjectName::new(&line[..space])?,
        ))
    };
    text.split(|byte| *byte == b'\n').filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_no_ref() {
        let object = "a".repeat(40);
        assert!(matches!(
            parse_loose(format!("{object}\n").as_bytes()),
            Some(Target::Object(_))
        ));
        assert!(matches!(
            parse_loose(b"ref: refs/heads/main\n"),
            Some(Target::Ref(_))
        ));
        for bad in [
            "",
            "\n",
            "ref: ../../etc/passwd",
            "ref: HEAD",
            "ref: refs/heads/a\nb",
            &object[1..],
        ] {
            assert_eq!(parse_loose(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn packed_refs_are_read_line_by_line() {
        let object = "b".repeat(40);
        let text = format!(
            "# pack-refs with: peeled\n{object} refs/heads/main\n^{object}\n{object} refs/heads/../x\nzz refs/heads/y\n"
        );
        let names: Vec<String> = parse_packed(text.as_bytes())
            .keys()
            .map(RefName::to_string)
            .collect();
        assert_eq!(names, ["refs/heads/main"]);
    }
}
