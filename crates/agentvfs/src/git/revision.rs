//! A revision of a repository, file by file.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::{Timestamp, printable};

use super::host::HostRepository;
use super::program::GIVING;
use crate::error::GitError;
use crate::git_names::ObjectName;

/// A repository and a revision as a user writes them: `REPO` or `REPO@REV`, where REPO is a path or a `file://` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitSource {
    /// A directory in the repository, or the repository.
    pub repository: PathBuf,
    /// What names the commit, as git reads it.
    pub revision: String,
}

impl GitSource {
    /// The part before the first `@` that follows an existing path is the repository.
    pub fn parse(text: &std::ffi::OsStr) -> GitSource {
        let bytes = text.as_bytes();
        let bytes = bytes.strip_prefix(b"file://").unwrap_or(bytes);
        let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
        let whole = || GitSource {
            repository: path(bytes),
            revision: "HEAD".into(),
        };
        if path(bytes).exists() {
            return whole();
        }
        let marks = bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'@')
            .map(|(at, _)| at);
        let found = marks
            .map(|at| (path(&bytes[..at]), &bytes[at + 1..]))
            .find(|(path, _)| path.exists());
        match found {
            Some((repository, revision)) => GitSource {
                repository,
                revision: String::from_utf8_lossy(revision).into_owned(),
            },
            None => whole(),
        }
    }
}

/// A commit of a host repository, to be read.
#[derive(Clone, Debug)]
pub struct GitRevision {
    host: HostRepository,
    commit: ObjectName,
    time: Timestamp,
}

/// Something in the tree of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) path: Vec<u8>,
    pub(crate) kind: ListedKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListedKind {
    File {
        object: ObjectName,
        executable: bool,
    },
    Symlink {
        object: ObjectName,
    },
    /// The place of another repository.
    Submodule,
}

impl GitRevision {
    /// Finds the commit.
    pub fn open(source: &GitSource) -> Result<GitRevision, GitError> {
        let host = HostRepository::open(&source.repository)?;
        let unknown = || GitError::UnknownRevision {
            place: source.repository.clone(),
            revision: source.revision.clone(),
        };
        let commit = host.commit(&source.revision)?.ok_or_else(unknown)?;
        let git =
            host.git("reading a commit")
                .args(["log", "-1", "--no-walk", "--format=%ct", commit.as_str()]);
        let seconds = git.line()?.parse().unwrap_or_default();
        Ok(GitRevision {
            host,
            commit,
            time: Timestamp { seconds, nanos: 0 },
        })
    }

    /// The commit.
    pub fn commit(&self) -> &ObjectName {
        &self.commit
    }

    /// When it was committed.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// The git directory.
    pub fn place(&self) -> &Path {
        self.host.place()
    }

    /// Everything in it but directories, in git's order.
    pub(crate) fn list(&self) -> Result<Vec<Listed>, GitError> {
        let git =
            self.host
                .git("listing files")
                .args(["ls-tree", "-r", "-z", "--full-tree", self.commit.as_str()]);
        let listed = git.output()?;
        let lines = listed.split(|byte| *byte == 0).filter(|line| !line.is_empty());
        lines
            .map(|line| parse(line).ok_or_else(|| strange(line)))
            .collect()
    }

    /// Calls `take` with the size and the bytes of each object, in order. Filters and attributes are ignored.
    pub(crate) fn read<E: From<GitError>>(
        &self,
        objects: &[&ObjectName],
        mut take: impl FnMut(usize, u64, &mut dyn Read) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut reading = self
            .host
            .git("reading objects")
            .args(["cat-file", "--batch", "--buffer"])
            .start()?;
        let (input, output) = reading.ends();
        let mut output = BufReader::with_capacity(1 << 18, output);
        let taken = std::thread::scope(|scope| {
            let asking = scope.spawn(move || ask(input, objects));
            let taken = (0..objects.len()).try_for_each(|index| {
                let size = size_of_next(&mut output, objects[index])?;
                let mut bytes = (&mut output).take(size);
                take(index, size, &mut bytes)?;
                // The unwanted rest, and the line end.
                let rest = bytes.limit() + 1;
                io::copy(&mut (&mut output).take(rest), &mut io::sink()).map_err(reading_failed)?;
                Ok(())
            });
            // A process that still writes to it gets a closed pipe.
            drop(output);
            (taken, asking.join().expect("asking does not panic"))
        });
        match taken {
            (Err(error), _) => {
                reading.abandon();
                Err(error)
            }
            (Ok(()), asked) => Ok(reading.finish_given(asked)?),
        }
    }
}

fn ask(input: impl Write, objects: &[&ObjectName]) -> Result<(), GitError> {
    let mut input = io::BufWriter::new(input);
    for object in objects {
        writeln!(input, "{object}").map_err(GitError::host(GIVING))?;
    }
    input.flush().map_err(GitError::host(GIVING))
}

fn reading_failed(source: io::Error) -> GitError {
    GitError::Host {
        action: "reading what git prints",
        source,
    }
}

/// Reads the line in front of an object's bytes.
fn size_of_next(output: &mut impl BufRead, object: &ObjectName) -> Result<u64, GitError> {
    let mut line = Vec::new();
    output.read_until(b'\n', &mut line).map_err(reading_failed)?;
    let text = String::from_utf8_lossy(&line);
    let fields: Vec<&str> = text.split_whitespace().collect();
    match fields[..] {
        [name, "blob", size] if name == object.as_str() => size.parse().map_err(|_| strange(&line)),
        _ => Err(strange(&line)),
    }
}

fn strange(line: &[u8]) -> GitError {
    GitError::Failed {
        action: "reading a revision",
        message: format!("it has '{}'", printable(line)),
    }
}

/// A line of `git ls-tree -z`: mode, kind, object, a tab and the path.
fn parse(line: &[u8]) -> Option<Listed> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let fields: Vec<&[u8]> = line[..tab].split(|byte| *byte == b' ').collect();
    let [mode, kind, object] = fields[..] else {
        return None;
    };
    let object = ObjectName::new(object)?;
    let kind = match (mode, kind) {
        (b"160000", _) => ListedKind::Submodule,
        (b"120000", b"blob") => ListedKind::Symlink { object },
        (b"100755", b"blob") => ListedKind::File {
            object,
            executable: true,
        },
        (_, b"blob") => ListedKind::File {
            object,
            executable: false,
        },
        _ => return None,
    };
    Some(Listed {
        path: line[tab + 1..].to_vec(),
        kind,
    })
}
