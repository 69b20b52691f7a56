//! Writing files: from memory or from a stream, and optionally only over the version that the writer knows.

use std::io::Read;
use std::ops::Range;

use avfs_core::chunks::BLOB_MAX;
use avfs_core::{Content, EntryKind, TreePath};
use avfs_tree::content::ContentBuilder;
use avfs_tree::{Attr, EntryPlace, FsError, Ino, InodeKind, NewEntry, ObjectWriter, WorkTree};

use super::OpenVault;
use crate::digest::Extents;
use crate::error::{Error, FileError, Result};
use crate::version::Version;

/// How much of an appended stream is kept in memory before it is stored.
const APPEND_MEMORY: usize = 8 << 20;

/// What to do with the bytes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// The file has these bytes then, and no others.
    Replace,
    /// The bytes are added at its end.
    Append,
}

impl OpenVault {
    /// Writes a file from a stream, with a bounded amount of it in memory. With `expect`, only if the file
    /// has that version.
    pub fn write(
        &self,
        path: &TreePath,
        bytes: &mut dyn Read,
        mode: WriteMode,
        expect: Option<&Version>,
    ) -> Result<()> {
        let place = self.place(path)?;
        let existing = self.at_place(path, &place)?;
        if let Some(expect) = expect {
            self.check_version(path, existing.as_ref(), expect)?;
        }
        let _holding = self.hold_objects()?;
        match (mode, &existing) {
            (WriteMode::Append, Some(attr)) => self.append(path, attr, bytes),
            _ => {
                let stored = self.store_stream(bytes)?;
                self.replace(path, &place, existing.as_ref(), stored)
            }
        }
    }

    /// Writes a whole file from memory.
    pub fn write_bytes(&self, path: &TreePath, bytes: &[u8]) -> Result<()> {
        let place = self.place(path)?;
        let existing = self.at_place(path, &place)?;
        let _holding = self.hold_objects()?;
        let stored = self.store_bytes(bytes)?;
        self.replace(path, &place, existing.as_ref(), stored)
    }

    /// The entry at a place, if there is one.
    fn at_place(&self, path: &TreePath, place: &EntryPlace) -> Result<Option<Attr>> {
        match self.tree.lookup(place.parent, &place.name) {
            Ok(attr) => Ok(Some(attr)),
            // Making it is refused, whether it is there or not.
            Err(FsError::NotFound | FsError::Hidden) => Ok(None),
            Err(error) => Err(self.fail(path, error)),
        }
    }

    /// Gives the file at a place stored contents; creates it if it does not exist.
    fn replace(
        &self,
        path: &TreePath,
        place: &EntryPlace,
        existing: Option<&Attr>,
        (size, content): (u64, Content),
    ) -> Result<()> {
        let done = match existing {
            Some(attr) => self.tree.set_content(attr.ino, size, content),
            None => {
                let new = NewEntry {
                    kind: EntryKind::File { size, content },
                    ..NewEntry::file(0o644)
                };
                self.tree
                    .create(place.parent, &place.name, self.by_me(new))
                    .map(|_| ())
            }
        };
        done.map_err(|error| self.fail(path, error))
    }

    fn store_bytes(&self, mut bytes: &[u8]) -> Result<(u64, Content)> {
        if bytes.is_empty() || bytes.len() as u64 > BLOB_MAX {
            return self.store_stream(&mut bytes);
        }
        let writer = ObjectWriter::new(self.vault.store().objects());
        let id = writer.put_blob(bytes.to_vec())?;
        writer.flush()?;
        Ok((bytes.len() as u64, Content::Blob(id)))
    }

    fn append(&self, path: &TreePath, attr: &Attr, bytes: &mut dyn Read) -> Result<()> {
        match attr.kind {
            InodeKind::File => {}
            InodeKind::Directory => return Err(self.fail(path, FsError::IsADirectory)),
            _ => return Err(self.fail(path, FsError::Invalid("not a regular file"))),
        }
        let mut buffer = vec![0; 256 << 10];
        let (mut end, mut in_memory) = (attr.size, 0);
        loop {
            let len = read_some(bytes, &mut buffer)?;
            if len == 0 {
                return Ok(());
            }
            let written = self.tree.write(attr.ino, end, &buffer[..len]);
            written.map_err(|error| self.fail(path, error))?;
            (end, in_memory) = (end + len as u64, in_memory + len);
            if in_memory > APPEND_MEMORY {
                self.tree
                    .store_content(attr.ino)
                    .map_err(|error| self.fail(path, error))?;
                in_memory = 0;
            }
        }
    }

    /// Stores a stream as objects.
    pub(crate) fn store_stream(&self, bytes: &mut dyn Read) -> Result<(u64, Content)> {
        let objects = self.vault.store().objects();
        let writer = ObjectWriter::new(objects);
        let mut builder = ContentBuilder::new(objects, &writer);
        let mut buffer = vec![0; 256 << 10];
        loop {
            let len = read_some(bytes, &mut buffer)?;
            if len == 0 {
                break;
            }
            builder.push(&buffer[..len])?;
        }
        let stored = builder.finish()?;
        writer.flush()?;
        Ok(stored)
    }

    fn check_version(&self, path: &TreePath, existing: Option<&Attr>, expect: &Version) -> Result<()> {
        let found = match existing {
            None => Version::absent(),
            Some(attr) if attr.kind == InodeKind::File => {
                let mut file = LiveFile {
                    tree: &self.tree,
                    ino: attr.ino,
                };
                let found =
                    Version::of_extents(&mut file, attr.size).map_err(|error| self.fail(path, error))?;
                found.ok_or_else(|| self.fail(path, FsError::Invalid("it was cut short meanwhile")))?
            }
            Some(_) => return Err(self.fail(path, FsError::Invalid("only a file has a version"))),
        };
        if found.matches(expect) {
            return Ok(());
        }
        Err(Error::File(FileError::StaleVersion {
            path: path.clone(),
            expected: expect.to_string(),
            found: found.to_string(),
        }))
    }
}

/// A file of the present state.
struct LiveFile<'a> {
    tree: &'a WorkTree,
    ino: Ino,
}

impl Extents for LiveFile<'_> {
    type Error = FsError;

    fn data_from(&mut self, offset: u64) -> Result<Option<Range<u64>>, FsError> {
        let Some(start) = self.tree.seek_data(self.ino, offset)? else {
            return Ok(None);
        };
        Ok(Some(start..self.tree.seek_hole(self.ino, start)?))
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<usize, FsError> {
        self.tree.read(self.ino, offset, out)
    }
}

fn read_some(bytes: &mut dyn Read, buffer: &mut [u8]) -> Result<usize> {
    loop {
        match bytes.read(buffer) {
            Ok(len) => return Ok(len),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => {
                return Err(Error::Host {
                    action: "reading",
                    place: "the input".into(),
                    source,
                });
            }
        }
    }
}
