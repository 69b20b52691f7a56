//! The parts of an image by name, in an archive or in a directory.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fd::AsFd;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use tar::EntryType;

use super::beneath::HostRoot;
use super::error::TransferError;
use super::tar_read::archive_error;
use super::tar_stream::TarMembers;

pub(super) enum ImageFiles {
    Archive {
        file: File,
        members: HashMap<String, PartPlace>,
    },
    Directory(HostRoot),
}

/// A member of an archive.
pub(super) enum PartPlace {
    Data {
        start: u64,
        len: u64,
    },
    /// Another member with the same contents.
    SameAs(String),
}

/// The file that marks a directory as an image.
const LAYOUT: &str = "oci-layout";
/// An image has a few parts for each layer.
const MOST_MEMBERS: usize = 100_000;
/// How many links lead to a part at most.
const MOST_LINKS: usize = 8;
/// The most bytes of a part that describes others.
const MOST_TEXT: u64 = 8 << 20;

impl ImageFiles {
    /// Finds the parts in an archive, without reading the layers.
    pub(super) fn in_archive(file: File) -> Result<ImageFiles, TransferError> {
        let whole = FilePart {
            file: &file,
            at: 0,
            end: u64::MAX,
        };
        let mut archive = TarMembers::new(BufReader::with_capacity(128 << 10, whole));
        let mut members = HashMap::new();
        loop {
            let next = archive.advance();
            let start = archive.position();
            let Some(member) = next.map_err(|source| archive_error(format!("byte {start}"), source))? else {
                break;
            };
            let Some(path) = plain_path(&member.path) else {
                continue;
            };
            let place = match member.kind {
                EntryType::Regular | EntryType::Continuous if member.runs.is_none() => PartPlace::Data {
                    start,
                    len: member.size,
                },
                EntryType::Link => match plain_path(&member.link) {
                    Some(target) => PartPlace::SameAs(target),
                    None => continue,
                },
                EntryType::Symlink => match linked(&path, &member.link) {
                    Some(target) => PartPlace::SameAs(target),
                    None => continue,
                },
                _ => continue,
            };
            members.insert(path, place);
            if members.len() > MOST_MEMBERS {
                return Err(TransferError::OverLimit {
                    what: "parts",
                    limit: MOST_MEMBERS as u64,
                });
            }
        }
        Ok(ImageFiles::Archive { file, members })
    }

    /// The parts of an OCI image layout; `None` if the directory is something else.
    pub(super) fn in_layout(directory: &Path) -> Result<Option<ImageFiles>, TransferError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = match rustix::fs::open(directory, flags, Mode::empty()) {
            Ok(top) => top,
            Err(Errno::NOTDIR) => {
                let path = directory.to_owned();
                return Err(TransferError::NotADirectory { path });
            }
            Err(errno) => return Err(TransferError::host("opening", directory, errno)),
        };
        let files = ImageFiles::Directory(HostRoot::new(top, directory));
        Ok(files.has(LAYOUT)?.then_some(files))
    }

    pub(super) fn has(&self, path: &str) -> Result<bool, TransferError> {
        match self {
            ImageFiles::Archive { members, .. } => Ok(members.contains_key(path)),
            ImageFiles::Directory(root) => match open_in(root, path) {
                Ok(_) => Ok(true),
                Err(Errno::NOENT) => Ok(false),
                Err(errno) => Err(TransferError::host(
                    "opening",
                    root.host_path(path.as_bytes()),
                    errno,
                )),
            },
        }
    }

    /// Opens a part to be read once.
    pub(super) fn open(&self, path: &str) -> Result<Box<dyn Read + '_>, TransferError> {
        match self {
            ImageFiles::Archive { file, members } => {
                let (at, len) = place_of(members, path)?;
                let end = at.saturating_add(len);
                Ok(Box::new(FilePart { file, at, end }))
            }
            ImageFiles::Directory(root) => match open_in(root, path) {
                Ok(file) => Ok(Box::new(file)),
                Err(Errno::NOENT) => Err(missing(path)),
                Err(errno) => Err(TransferError::host(
                    "opening",
                    root.host_path(path.as_bytes()),
                    errno,
                )),
            },
        }
    }

    /// The whole of a part that is a text.
    pub(super) fn text(&self, path: &str) -> Result<Vec<u8>, TransferError> {
        let mut bytes = Vec::new();
        let read = self.open(path)?.take(MOST_TEXT + 1).read_to_end(&mut bytes);
        read.map_err(|source| archive_error(avfs_core::printable(path.as_bytes()), source))?;
        if bytes.len() as u64 > MOST_TEXT {
            let reason = format!("{} is too large", avfs_core::printable(path.as_bytes()));
            return Err(TransferError::BadImage { reason });
        }
        Ok(bytes)
    }
}

/// Nothing is opened through a symbolic link, and only files are.
fn open_in(root: &HostRoot, path: &str) -> Result<File, Errno> {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let directory = root.open_directory(directory.as_bytes())?;
    let file = root.open_file(directory.as_fd(), name.as_bytes())?;
    match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(File::from(file)),
        _ => Err(Errno::INVAL),
    }
}

fn place_of(members: &HashMap<String, PartPlace>, path: &str) -> Result<(u64, u64), TransferError> {
    let mut at = path;
    for _ in 0..MOST_LINKS {
        match members.get(at) {
            Some(PartPlace::Data { start, len }) => return Ok((*start, *len)),
            Some(PartPlace::SameAs(other)) => at = other,
            None => break,
        }
    }
    Err(missing(path))
}

fn missing(path: &str) -> TransferError {
    TransferError::BadImage {
        reason: format!("{} is missing", avfs_core::printable(path.as_bytes())),
    }
}

/// The path of a member without `.`; `None` if no part of an image has such a name.
fn plain_path(path: &[u8]) -> Option<String> {
    let path = std::str::from_utf8(path).ok()?;
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    (!path.starts_with('/') && !parts.is_empty() && !parts.contains(&"..")).then(|| parts.join("/"))
}

/// Where a symbolic link in the archive leads.
fn linked(link: &str, target: &[u8]) -> Option<String> {
    let target = std::str::from_utf8(target).ok()?;
    let mut parts: Vec<&str> = link.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    (!target.starts_with('/') && !parts.is_empty()).then(|| parts.join("/"))
}

/// A piece of a file, read without a position in it.
struct FilePart<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for FilePart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = (self.end - self.at).min(buffer.len() as u64) as usize;
        let read = self.file.read_at(&mut buffer[..len], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_an_archive_stays_in_it() {
        let cases = [
            ("a/layer.tar", "../b/layer.tar", Some("b/layer.tar")),
            ("a/layer.tar", "other.tar", Some("a/other.tar")),
            ("layer.tar", "../etc/passwd", None),
            ("a/layer.tar", "/etc/passwd", None),
            ("a", ".", None),
        ];
        for (link, target, expected) in cases {
            assert_eq!(
                linked(link, target.as_bytes()).as_deref(),
                expected,
                "{link} {target}"
            );
        }
    }
}
