//! Lists a directory: its private entries, and the host's shared ones.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use super::attributes::number;
use super::places::{HostPlaces, PlaceLayer, RuledPlace};
use crate::abi::ReadIn;
use crate::reply::{Answered, FuseReply};

/// One entry: its number and its kind, as listings have it.
#[derive(Clone, Copy)]
struct ListedName {
    ino: u64,
    kind: u32,
}

type NameListing = Arc<Vec<(Vec<u8>, ListedName)>>;

/// The listings of open directories, as of the time they were opened.
#[derive(Default)]
pub(super) struct OpenListings {
    open: Mutex<HashMap<u64, NameListing>>,
    next: AtomicU64,
}

impl OpenListings {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, NameListing>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn close(&self, handle: u64) {
        self.open().remove(&handle);
    }
}

impl OpenListings {
    /// Lists a directory, and keeps the listing until the handle is closed.
    pub(super) fn open_directory(&self, places: &HostPlaces, at: &RuledPlace) -> Result<u64, Errno> {
        let listing = Arc::new(places.list(at)?);
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.open().insert(handle, listing);
        Ok(handle)
    }

    pub(super) fn read_directory(&self, read: &ReadIn, reply: FuseReply<'_>) -> Answered {
        let listing = self.open().get(&read.fh).cloned();
        let Some(listing) = listing else {
            return reply.error(Errno::BADF);
        };
        let from = usize::try_from(read.offset).unwrap_or(usize::MAX);
        reply.directory(read.size as usize, |out| {
            for (index, (name, ListedName { ino, kind })) in listing.iter().enumerate().skip(from) {
                if !out.add(*ino, index as u64 + 1, *kind, name) {
                    break;
                }
            }
            Ok(())
        })
    }
}

impl HostPlaces {
    fn list(&self, at: &RuledPlace) -> Result<Vec<(Vec<u8>, ListedName)>, Errno> {
        let mut found = BTreeMap::new();
        match at.layer() {
            PlaceLayer::Shared => self.list_layer(at, PlaceLayer::Shared, &mut found)?,
            PlaceLayer::Cached => self.list_cached(at, &mut found)?,
            PlaceLayer::Private => {
                self.list_layer(at, PlaceLayer::Private, &mut found)?;
                match self.list_layer(at, PlaceLayer::Shared, &mut found) {
                    // The host's directory may be missing, or inaccessible to us.
                    Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
                    Err(errno) => return Err(errno),
                }
                self.list_ways_to_caches(at, &mut found);
            }
        }
        let here = ListedName {
            ino: 1,
            kind: kind(FileType::Directory),
        };
        let dots = [(b".".to_vec(), here), (b"..".to_vec(), here)];
        Ok(dots.into_iter().chain(found).collect())
    }

    fn list_cached(&self, at: &RuledPlace, found: &mut BTreeMap<Vec<u8>, ListedName>) -> Result<(), Errno> {
        let Some((caches, path)) = self.cached(at) else {
            return Ok(());
        };
        for (name, of) in caches.list(path)? {
            let ino = number(0, &self.child(at, &name));
            found.insert(name, ListedName { ino, kind: kind(of) });
        }
        Ok(())
    }

    /// Existing caches, and directories with caches below them.
    fn list_ways_to_caches(&self, at: &RuledPlace, found: &mut BTreeMap<Vec<u8>, ListedName>) {
        for child in self.names_towards_caches(at) {
            if let Ok(stat) = self.stat(&child) {
                let listed = ListedName {
                    ino: number(stat.st_ino, &child),
                    kind: stat.st_mode >> 12,
                };
                found.entry(child.name().to_vec()).or_insert(listed);
            }
        }
    }

    /// Adds the visible entries of one layer: the names that belong to it, and directories of the host on the
    /// way to shared paths.
    fn list_layer(
        &self,
        at: &RuledPlace,
        layer: PlaceLayer,
        found: &mut BTreeMap<Vec<u8>, ListedName>,
    ) -> Result<(), Errno> {
        // A directory without shared paths below it is skipped.
        if layer == PlaceLayer::Shared && !at.is_shared() && !at.is_way {
            return Ok(());
        }
        let directory: OwnedFd = self.open_directory(layer, at)?;
        for entry in Dir::new(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let child = self.child(at, name);
            let is_way = layer == PlaceLayer::Shared && child.is_way && self.is_way_of_host(&child);
            if child.layer() == layer || is_way {
                let ino = number(entry.ino(), &child);
                found.entry(name.to_vec()).or_insert(ListedName {
                    ino,
                    kind: kind(entry.file_type()),
                });
            }
        }
        Ok(())
    }
}

/// The upper four bits of a mode.
fn kind(of: FileType) -> u32 {
    of.as_raw_mode() >> 12
}
