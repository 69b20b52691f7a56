//! The digest of a file's contents, in 64 digits.
//!
//! A file of up to 16 MiB is known by the BLAKE3 of its bytes. A larger one is known by its blocks that hold anything but
//! zeros, each hashed with its place, so that holes are never read: a sparse file that costs nothing to make costs
//! nothing to compare. Whether zeros are stored or a hole makes no difference.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::{LazyLock, Mutex, PoisonError};

use avfs_core::Content;
use avfs_tree::{ObjectError, Objects, content};
use rustix::fd::BorrowedFd;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Larger files are known by their blocks.
pub(crate) const WHOLE_MAX: u64 = 16 << 20;
const BLOCK: u64 = 64 << 10;
/// How much of a file is in memory at a time: whole blocks.
const PIECE: u64 = 1 << 20;
static ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];
/// Keeps digests of blocks apart from those of bytes.
const CONTEXT: &str = "agentvfs 2026 blocks of a large file";

/// Bytes with holes between them.
pub(crate) trait Extents {
    type Error;

    /// The first run of data at or after an offset; `None` if only holes follow. A file without information
    /// about holes is all data.
    fn data_from(&mut self, offset: u64) -> Result<Option<Range<u64>>, Self::Error>;

    /// Fills `out` from an offset on; returns less than its length only at the end of the file.
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<usize, Self::Error>;
}

/// The digest of a file of `size` bytes; `None` if it turns out to be shorter.
pub(crate) fn digest<X: Extents>(file: &mut X, size: u64) -> Result<Option<String>, X::Error> {
    let mut digester = Digester::new(size);
    let mut piece = vec![0; PIECE.min(size) as usize];
    let mut at = 0;
    while at < size {
        let end = if size <= WHOLE_MAX {
            size
        } else {
            let Some(run) = file.data_from(at)? else { break };
            at = at.max(run.start - run.start % BLOCK);
            run.end.checked_next_multiple_of(BLOCK).unwrap_or(size).min(size)
        };
        while at < end {
            let part = &mut piece[..PIECE.min(end - at) as usize];
            if file.read(at, part)? < part.len() {
                return Ok(None);
            }
            digester.add(at, part);
            at += part.len() as u64;
        }
    }
    Ok(Some(digester.finish()))
}

pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    let Ok(found) = digest(&mut InMemory(bytes), bytes.len() as u64);
    found.expect("a slice is as long as it says")
}

/// The digest of stored contents. For large contents it is computed once in a process: they never change.
pub(crate) fn of_content(objects: &Objects, content: Content, size: u64) -> Result<String, ObjectError> {
    static KNOWN: LazyLock<Mutex<HashMap<(Content, u64), String>>> = LazyLock::new(Mutex::default);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known().get(&(content, size)) {
        return Ok(found.clone());
    }
    let found = digest(
        &mut Stored {
            objects,
            content,
            size,
        },
        size,
    )?;
    let found = found.ok_or(avfs_core::DecodeError::Invalid("a file is shorter than its size"))?;
    if size > WHOLE_MAX {
        known().insert((content, size), found.clone());
    }
    Ok(found)
}

struct Digester {
    hasher: blake3::Hasher,
    by_blocks: bool,
}

impl Digester {
    fn new(size: u64) -> Digester {
        if size <= WHOLE_MAX {
            Digester {
                hasher: blake3::Hasher::new(),
                by_blocks: false,
            }
        } else {
            let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
            hasher.update(&size.to_le_bytes());
            Digester {
                hasher,
                by_blocks: true,
            }
        }
    }

    /// Adds the bytes at an offset, which is that of a block.
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        if !self.by_blocks {
            self.hasher.update(bytes);
            return;
        }
        for (index, block) in (offset / BLOCK..).zip(bytes.chunks(BLOCK as usize)) {
            if *block != ZEROS[..block.len()] {
                self.hasher.update(&index.to_le_bytes()).update(block);
            }
        }
    }

    fn finish(self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }
}

struct InMemory<'a>(&'a [u8]);

impl Extents for InMemory<'_> {
    type Error = Infallible;

    fn data_from(&mut self, offset: u64) -> Result<Option<Range<u64>>, Infallible> {
        Ok(Some(offset..self.0.len() as u64))
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<usize, Infallible> {
        let rest = self.0.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

struct Stored<'a> {
    objects: &'a Objects,
    content: Content,
    size: u64,
}

impl Extents for Stored<'_> {
    type Error = ObjectError;

    fn data_from(&mut self, offset: u64) -> Result<Option<Range<u64>>, ObjectError> {
        let Stored {
            objects,
            content,
            size,
        } = *self;
        if content == Content::Empty {
            return Ok(None);
        }
        let Some(start) = content::seek_data(objects, content, size, offset)? else {
            return Ok(None);
        };
        Ok(Some(start..content::seek_hole(objects, content, size, start)?))
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<usize, ObjectError> {
        content::read_at(self.objects, self.content, self.size, offset, out)
    }
}

/// An open file of the host.
pub(crate) struct HostFile<'a>(pub BorrowedFd<'a>);

impl HostFile<'_> {
    /// The next start, or end, of data at or after an offset. `None`: none before the end of the file.
    fn seek(&self, to: SeekFrom) -> rustix::io::Result<Option<u64>> {
        match rustix::fs::seek(self.0, to) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl Extents for HostFile<'_> {
    type Error = Errno;

    fn data_from(&mut self, offset: u64) -> rustix::io::Result<Option<Range<u64>>> {
        let start = match self.seek(SeekFrom::Data(offset)) {
            // A file system that does not know of holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(offset..u64::MAX)),
            start => start?,
        };
        let Some(start) = start else { return Ok(None) };
        Ok(Some(start..self.seek(SeekFrom::Hole(start))?.unwrap_or(u64::MAX)))
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> rustix::io::Result<usize> {
        let mut done = 0;
        while done < out.len() {
            match rustix::io::pread(self.0, &mut out[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(len) => done += len,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsFd;

    use super::*;

    const SIZE: u64 = WHOLE_MAX + 3 * BLOCK + 17;

    /// A file of `SIZE` bytes with these at these places.
    fn file(parts: &[(u64, &[u8])], is_sparse: bool) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        if is_sparse {
            file.set_len(SIZE).unwrap()
        } else {
            file.write_all(&vec![0; SIZE as usize]).unwrap()
        }
        for (at, bytes) in parts {
            file.seek(SeekFrom::Start(*at)).unwrap();
            file.write_all(bytes).unwrap();
        }
        file
    }

    fn of_host(file: &std::fs::File, size: u64) -> Option<String> {
        digest(&mut HostFile(file.as_fd()), size).unwrap()
    }

    #[test]
    fn digest_of_holes_is_that_of_zeros() {
        let parts: [(u64, &[u8]); 3] = [(0, b"a"), (BLOCK - 2, b"across"), (SIZE - 3, b"end")];
        let (sparse, dense) = (file(&parts, true), file(&parts, false));
        let found = of_host(&sparse, SIZE).unwrap();
        assert_eq!(of_host(&dense, SIZE).as_deref(), Some(&*found));
        let mut bytes = vec![0; SIZE as usize];
        HostFile(sparse.as_fd()).read(0, &mut bytes).unwrap();
        assert_eq!(of_bytes(&bytes), found);
    }

    #[test]
    fn digest_of_a_large_file_tells_bytes_places_and_sizes_apart() {
        let cases: [&[(u64, &[u8])]; 5] = [
            &[],
            &[(0, b"a")],
            &[(1, b"a")],
            &[(BLOCK, b"a")],
            &[(0, b"a"), (BLOCK, b"a")],
        ];
        let mut found: Vec<_> = cases
            .iter()
            .map(|parts| of_host(&file(parts, true), SIZE))
            .collect();
        let longer = file(&[], true);
        longer.set_len(SIZE + 1).unwrap();
        found.push(of_host(&longer, SIZE + 1));
        let distinct: std::collections::HashSet<_> = found.iter().collect();
        assert_eq!(distinct.len(), found.len());
    }

    #[test]
    fn digest_of_a_small_file_is_its_blake3() {
        assert_eq!(of_bytes(b"first"), blake3::hash(b"first").to_hex().as_str());
        assert_eq!(of_bytes(b""), blake3::hash(b"").to_hex().as_str());
    }

    #[test]
    fn file_that_shrinks_while_it_is_read_has_no_digest() {
        assert_eq!(of_host(&file(&[(SIZE - 1, b"x")], true), SIZE + BLOCK), None);
        let small = tempfile::tempfile().unwrap();
        assert_eq!(of_host(&small, 1), None);
    }

    #[test]
    fn digest_of_an_enormous_hole_reads_nothing() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 40).unwrap();
        // Reading it at 10 GB a second would take a quarter of an hour.
        let begun = std::time::Instant::now();
        assert!(of_host(&file, 8 << 40).is_some());
        assert!(begun.elapsed().as_secs() < 60);
    }
}
