//! Files of the home of which a run has a copy of its own: settings that a program writes, and that it must
//! not change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::super::workspace::host;
use super::make_directory;
use crate::error::Result;

/// The copies of one run, in their initial state.
pub(super) struct Copies {
    /// The private part of a home.
    private: PathBuf,
    files: Vec<Copy>,
}

struct Copy {
    below_home: PathBuf,
    /// `None`: the user has no such file.
    bytes: Option<Vec<u8>>,
}

impl Copies {
    /// Copies those of `files` that exist; they are below both directories. Links of the user are followed.
    pub(super) fn make(home: &Path, private: &Path, files: &[PathBuf]) -> Result<Copies> {
        let copied = files.iter().map(|below_home| {
            let (from, to) = (home.join(below_home), private.join(below_home));
            let bytes = if from.is_file() {
                Some(copy(&from, &to)?)
            } else {
                None
            };
            Ok(Copy {
                below_home: below_home.clone(),
                bytes,
            })
        });
        Ok(Copies {
            private: private.to_owned(),
            files: copied.collect::<Result<_>>()?,
        })
    }

    /// The copies that the run has changed.
    pub(super) fn changed(&self) -> Vec<PathBuf> {
        let is_changed = |file: &&Copy| !is_as(&self.private.join(&file.below_home), file.bytes.as_deref());
        self.files
            .iter()
            .filter(is_changed)
            .map(|file| file.below_home.clone())
            .collect()
    }
}

fn copy(from: &Path, to: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(from).map_err(|source| host("reading", from, source))?;
    to.parent().map_or(Ok(()), make_directory)?;
    fs::copy(from, to).map_err(|source| host("making", to, source))?;
    Ok(bytes)
}

/// A program may have put anything in its place: only a file of the same size is read.
fn is_as(place: &Path, expected: Option<&[u8]>) -> bool {
    let found = fs::symlink_metadata(place);
    match (expected, found) {
        (None, Err(error)) => error.kind() == io::ErrorKind::NotFound,
        (Some(bytes), Ok(found)) if found.is_file() && found.len() == bytes.len() as u64 => {
            fs::read(place).is_ok_and(|now| now == bytes)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_changed_made_or_removed_is_named() {
        let (home, private) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = ["same", "removed", "a/replaced", "made", "never"].map(PathBuf::from);
        fs::create_dir(home.path().join("a")).unwrap();
        for file in ["same", "removed", "elsewhere"] {
            fs::write(home.path().join(file), file).unwrap();
        }
        std::os::unix::fs::symlink("../elsewhere", home.path().join("a/replaced")).unwrap();
        let copies = Copies::make(home.path(), private.path(), &files).unwrap();
        assert_eq!(fs::read(private.path().join("a/replaced")).unwrap(), b"elsewhere");
        assert_eq!(copies.changed(), Vec::<PathBuf>::new());
        fs::remove_file(private.path().join("removed")).unwrap();
        fs::remove_file(private.path().join("a/replaced")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", private.path().join("a/replaced")).unwrap();
        fs::write(private.path().join("made"), "").unwrap();
        assert_eq!(
            copies.changed(),
            ["removed", "a/replaced", "made"].map(PathBuf::from)
        );
    }
}
