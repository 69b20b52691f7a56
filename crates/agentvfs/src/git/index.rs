//! The index of a repository, read without git: which paths are tracked, and git's records of the versions of
//! files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A symbolic link.
const LINK: u32 = 0o120_000;
/// A submodule.
const GITLINK: u32 = 0o160_000;

/// The lengths of the two kinds of object names.
const HASHES: [usize; 2] = [20, 32];

pub(crate) struct GitIndex {
    bytes: Vec<u8>,
    /// The length of the names of objects.
    hash: usize,
    /// When it was written: seconds and nanoseconds.
    written: (i64, i64),
}

/// One tracked path.
pub(crate) struct IndexedPath<'a> {
    pub(crate) path: &'a [u8],
    pub(super) is_submodule: bool,
    /// git does not look for it among the files: a sparse checkout leaves it out.
    pub(super) is_left_out: bool,
    /// The name of the version that was committed or added; empty if that is not known.
    pub(crate) object: &'a [u8],
    stat: &'a [u8],
}

impl<'a> IndexedPath<'a> {
    /// An entry about which nothing else is known.
    pub(super) fn unknown(path: &'a [u8], is_submodule: bool, is_left_out: bool) -> IndexedPath<'a> {
        IndexedPath {
            path,
            is_submodule,
            is_left_out,
            object: &[],
            stat: &[],
        }
    }

    /// Whether it is a symbolic link.
    pub(super) fn is_link(&self) -> bool {
        number(self.stat, 24).is_some_and(|mode| mode & 0o170_000 == LINK)
    }

    /// Whether a file is the version that git has recorded. In doubt it is not.
    pub(super) fn is_version(&self, found: &fs::Metadata, index: &GitIndex) -> bool {
        let noted = |at: usize| number(self.stat, at);
        let modified = (found.mtime(), found.mtime_nsec());
        let is_same = [
            (noted(8), found.mtime() as u32),
            (noted(12), found.mtime_nsec() as u32),
            (noted(20), found.ino() as u32),
            (noted(36), found.size() as u32),
        ];
        // A file that changed while the index was written looks unchanged.
        is_same.iter().all(|(noted, found)| *noted == Some(*found)) && modified < index.written
    }
}

impl GitIndex {
    /// `None` without an index, or with one that cannot be read here: a split index, or one of a future version.
    pub(super) fn read(git_directory: &Path) -> Option<GitIndex> {
        let place = git_directory.join("index");
        let found = fs::metadata(&place).ok().filter(fs::Metadata::is_file)?;
        let written = (found.mtime(), found.mtime_nsec());
        Some(GitIndex {
            written,
            ..GitIndex::of_bytes(fs::read(place).ok()?)?
        })
    }

    /// An index whose modification time is unknown.
    pub(crate) fn of_bytes(bytes: Vec<u8>) -> Option<GitIndex> {
        let mut index = GitIndex {
            bytes,
            hash: 0,
            written: (0, 0),
        };
        index.hash = HASHES.into_iter().find(|hash| index.fits(*hash))?;
        Some(index)
    }

    /// An empty one.
    pub(super) fn unread() -> GitIndex {
        GitIndex {
            bytes: Vec::new(),
            hash: 0,
            written: (0, 0),
        }
    }

    /// Calls for each tracked path, in git's order.
    pub(crate) fn each(&self, told: &mut dyn FnMut(IndexedPath<'_>)) {
        // It was read to its end before.
        let _ = self.walk(self.hash, told);
    }

    /// Whether everything in it is consistent, if the names of objects have this length.
    fn fits(&self, hash: usize) -> bool {
        self.walk(hash, &mut |_| ())
            .is_some_and(|end| self.is_whole(end, hash))
    }

    /// Returns where the entries end.
    fn walk(&self, hash: usize, told: &mut dyn FnMut(IndexedPath<'_>)) -> Option<usize> {
        let (version, count) = (number(&self.bytes, 4)?, number(&self.bytes, 8)?);
        if !self.bytes.starts_with(b"DIRC") || !(2..=4).contains(&version) {
            return None;
        }
        let mut at = 12;
        let mut last = Vec::new();
        for _ in 0..count {
            let stat = self.bytes.get(at..at + 40)?;
            let object = self.bytes.get(at + 40..at + 40 + hash)?;
            let flags = short(&self.bytes, at + 40 + hash)?;
            let mut name = at + 42 + hash;
            let mut is_left_out = false;
            if flags & 0x4000 != 0 {
                is_left_out = short(&self.bytes, name)? & 0x4000 != 0;
                name += 2;
            }
            if version == 4 {
                let (cut, rest) = varint(&self.bytes, name)?;
                last.truncate(last.len().checked_sub(cut)?);
                name = rest;
            } else {
                last.clear();
            }
            let length = self.bytes.get(name..)?.iter().position(|byte| *byte == 0)?;
            last.extend_from_slice(&self.bytes[name..name + length]);
            at = match version {
                4 => name + length + 1,
                // Entries are filled up with one to eight bytes.
                _ => at + ((name + length - at) / 8 + 1) * 8,
            };
            let is_submodule = number(stat, 24)? & 0o170_000 == GITLINK;
            told(IndexedPath {
                path: &last,
                is_submodule,
                is_left_out,
                object,
                stat,
            });
        }
        Some(at)
    }

    /// Whether only known extensions follow the entries, up to the end.
    fn is_whole(&self, at: usize, hash: usize) -> bool {
        // A lower-case letter: the entries cannot be interpreted without it. `sdir` only means that some are
        // directories.
        let is_known = |kind: &[u8]| !kind[0].is_ascii_lowercase() || kind == b"sdir";
        self.extensions(at, hash)
            .is_some_and(|found| found.iter().all(|(kind, _)| is_known(kind)))
    }

    /// The extensions after the entries: kinds and contents. `None` if they are inconsistent.
    fn extensions(&self, mut at: usize, hash: usize) -> Option<Vec<(&[u8], &[u8])>> {
        let end = self.bytes.len().checked_sub(hash)?;
        let mut found = Vec::new();
        while at < end {
            let size = number(&self.bytes, at + 4)? as usize;
            let contents = self.bytes[..end].get(at + 8..(at + 8).checked_add(size)?)?;
            found.push((&self.bytes[at..at + 4], contents));
            at += 8 + size;
        }
        (at == end).then_some(found)
    }

    /// The contents of an extension.
    pub(super) fn extension(&self, kind: &[u8; 4]) -> Option<&[u8]> {
        let entries_end = self.walk(self.hash, &mut |_| ())?;
        let found = self.extensions(entries_end, self.hash)?;
        found
            .into_iter()
            .find_map(|(name, contents)| (name == kind).then_some(contents))
    }

    /// The paths of all directories and untracked files in the cache of untracked files; empty if there is no
    /// such cache. `None` if it cannot be interpreted.
    pub(super) fn untracked_names(&self) -> Option<Vec<Vec<u8>>> {
        let Some(cache) = self.extension(b"UNTR") else {
            return Some(Vec::new());
        };
        let (length, at) = varint(cache, 0)?;
        // The times and sizes of two files, flags, and the names of two objects.
        let at = at
            .checked_add(length)?
            .checked_add(2 * STAT + 4 + 2 * self.hash)?;
        let (_, at) = text(cache, at)?;
        let (directories, mut at) = varint(cache, at)?;
        let mut names = Vec::new();
        // The directories that are being read: their paths, and how many are still to come in each.
        let mut open: Vec<(Vec<u8>, usize)> = Vec::new();
        for _ in 0..directories {
            let (files, after) = varint(cache, at)?;
            let (below, after) = varint(cache, after)?;
            let (name, mut after) = text(cache, after)?;
            let path = joined(open.last().map(|(path, _)| &path[..]), name);
            for _ in 0..files {
                let (file, rest) = text(cache, after)?;
                names.push(joined(Some(&path), file.strip_suffix(b"/").unwrap_or(file)));
                after = rest;
            }
            if !path.is_empty() {
                names.push(path.clone());
            }
            if let Some((_, left)) = open.last_mut() {
                *left = left.checked_sub(1)?;
            }
            open.push((path, below));
            while open.last().is_some_and(|(_, left)| *left == 0) {
                open.pop();
            }
            at = after;
        }
        open.is_empty().then_some(names)
    }
}

/// The length of git's record of a file's times, owner and size.
const STAT: usize = 36;

fn joined(directory: Option<&[u8]>, name: &[u8]) -> Vec<u8> {
    match directory {
        None | Some(b"") => name.to_vec(),
        Some(directory) => [directory, b"/", name].concat(),
    }
}

/// A text that ends with a zero, and where the next thing begins.
fn text(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(at..)?;
    let length = rest.iter().position(|byte| *byte == 0)?;
    Some((&rest[..length], at + length + 1))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// A number in as many bytes as it needs, and where it ends.
fn varint(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)? + usize::from(byte & 0x7f);
    }
    Some((value, at + 1))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(directory: &Path, words: &[&str]) {
        let mut command = Command::new("git");
        command.args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "protocol.file.allow=always",
        ]);
        let output = command
            .args(words)
            .current_dir(directory)
            .env("HOME", directory)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn paths(directory: &Path) -> Vec<String> {
        let index = GitIndex::read(&directory.join(".git")).unwrap();
        let mut found = Vec::new();
        index.each(&mut |tracked| {
            let path = String::from_utf8(tracked.path.to_vec()).unwrap();
            let file = fs::metadata(directory.join(&path));
            let known = file.is_ok_and(|file| tracked.is_version(&file, &index));
            found.push(format!(
                "{path} {} {} {known}",
                tracked.is_submodule, tracked.is_left_out
            ));
        });
        found
    }

    #[test]
    fn every_kind_of_index_is_read_or_left_alone() {
        for format in ["sha1", "sha256"] {
            for version in ["2", "3", "4"] {
                let place = tempfile::tempdir().unwrap();
                let directory = place.path();
                git(directory, &["init", "-q", "--object-format", format]);
                let long = "n".repeat(200);
                for name in ["a", "ab/c", "ab/cd", long.as_str()] {
                    fs::create_dir_all(directory.join("ab")).unwrap();
                    fs::write(directory.join(name), name).unwrap();
                    let old = fs::File::open(directory.join(name)).unwrap();
                    old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
                }
                git(directory, &["add", "-A"]);
                git(
                    directory,
                    &[
                        "update-index",
                        "--index-version",
                        version,
                        "--skip-worktree",
                        "ab/c",
                    ],
                );
                fs::write(directory.join("ab/cd"), "other").unwrap();
                let expected = [
                    "a false false true".to_owned(),
                    "ab/c false true true".to_owned(),
                    "ab/cd false false false".to_owned(),
                    format!("{long} false false true"),
                ];
                assert_eq!(paths(directory), expected, "{format} {version}");
                git(directory, &["update-index", "--split-index"]);
                assert!(
                    GitIndex::read(&directory.join(".git")).is_none(),
                    "{format} {version}: split"
                );
                fs::write(directory.join(".git/index"), b"DIRC\0\0\0\x02\0\0\0\x09short").unwrap();
                assert!(
                    GitIndex::read(&directory.join(".git")).is_none(),
                    "{format} {version}: damaged"
                );
            }
        }
        assert!(GitIndex::read(Path::new("/nonexistent")).is_none());
    }
}
