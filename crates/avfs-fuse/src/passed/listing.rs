//! Listing a directory: what is private in it, and what the host has there that is shared.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use super::Passed;
use super::attributes::number;
use super::places::{Layer, Standpoint};
use crate::abi::ReadIn;
use crate::reply::{Answered, Reply};

/// One entry: its number and its kind, as listings have it.
#[derive(Clone, Copy)]
struct Listed {
    ino: u64,
    kind: u32,
}

type Listing = Arc<Vec<(Vec<u8>, Listed)>>;

/// What open directories list: as it was when they were opened.
#[derive(Default)]
pub(super) struct Listings {
    open: Mutex<HashMap<u64, Listing>>,
    next: AtomicU64,
}

impl Listings {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Listing>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn close(&self, handle: u64) {
        self.open().remove(&handle);
    }
}

impl Passed {
    pub(super) fn open_directory(&self, node: u64) -> Result<u64, Errno> {
        let listing = Arc::new(self.list(&self.at(node)?)?);
        let handle = self.listings.next.fetch_add(1, Ordering::Relaxed);
        self.listings.open().insert(handle, listing);
        Ok(handle)
    }

    pub(super) fn read_directory(&self, read: &ReadIn, reply: Reply<'_>) -> Answered {
        let listing = self.listings.open().get(&read.fh).cloned();
        let Some(listing) = listing else { return reply.error(Errno::BADF) };
        let from = usize::try_from(read.offset).unwrap_or(usize::MAX);
        reply.directory(read.size as usize, |out| {
            for (index, (name, Listed { ino, kind })) in listing.iter().enumerate().skip(from) {
                if !out.add(*ino, index as u64 + 1, *kind, name) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn list(&self, at: &Standpoint) -> Result<Vec<(Vec<u8>, Listed)>, Errno> {
        let mut found = BTreeMap::new();
        match at.layer() {
            Layer::Shared => self.list_layer(at, Layer::Shared, &mut found)?,
            Layer::Cached => self.list_cached(at, &mut found)?,
            Layer::Private => {
                self.list_layer(at, Layer::Private, &mut found)?;
                match self.list_layer(at, Layer::Shared, &mut found) {
                    // The host need not have it, nor let us in.
                    Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
                    Err(errno) => return Err(errno),
                }
                self.list_ways_to_caches(at, &mut found);
            }
        }
        let here = Listed { ino: 1, kind: kind(FileType::Directory) };
        let dots = [(b".".to_vec(), here), (b"..".to_vec(), here)];
        Ok(dots.into_iter().chain(found).collect())
    }

    fn list_cached(&self, at: &Standpoint, found: &mut BTreeMap<Vec<u8>, Listed>) -> Result<(), Errno> {
        let Some((caches, path)) = self.places.cached(at) else { return Ok(()) };
        for (name, of) in caches.list(path)? {
            let ino = number(0, &self.places.child(at, &name));
            found.insert(name, Listed { ino, kind: kind(of) });
        }
        Ok(())
    }

    /// Caches, and directories with caches below them, that are there.
    fn list_ways_to_caches(&self, at: &Standpoint, found: &mut BTreeMap<Vec<u8>, Listed>) {
        for child in self.places.names_towards_caches(at) {
            if let Ok(stat) = self.places.stat(&child) {
                let listed = Listed { ino: number(stat.st_ino, &child), kind: stat.st_mode >> 12 };
                found.entry(child.name().to_vec()).or_insert(listed);
            }
        }
    }

    /// Adds what is shown of one layer: the names that belong to it, and ways that the host has.
    fn list_layer(
        &self,
        at: &Standpoint,
        layer: Layer,
        found: &mut BTreeMap<Vec<u8>, Listed>,
    ) -> Result<(), Errno> {
        // What has nothing shared below it is not looked at.
        if layer == Layer::Shared && !at.is_shared() && !at.is_way {
            return Ok(());
        }
        let directory: OwnedFd = self.places.open_directory(layer, at)?;
        for entry in Dir::new(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let child = self.places.child(at, name);
            let is_way = layer == Layer::Shared && child.is_way && self.places.is_way_of_host(&child);
            if child.layer() == layer || is_way {
                let ino = number(entry.ino(), &child);
                found.entry(name.to_vec()).or_insert(Listed { ino, kind: kind(entry.file_type()) });
            }
        }
        Ok(())
    }
}

/// The upper four bits of a mode.
fn kind(of: FileType) -> u32 {
    of.as_raw_mode() >> 12
}
