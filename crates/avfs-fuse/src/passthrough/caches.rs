//! Caches of tools: reads come from the host's own directories, and all writes go to a layer over them.
//!
//! A cached name is looked up in the layer first, then in the host's directory. The host's directory is never
//! changed: a file is copied into the layer before it is changed, and a removed file is marked there as gone.
//! The layer outlives the mount.

mod layer;
mod ways;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use self::layer::CacheLayer;
pub use self::layer::LAYER_FILES;
pub(super) use self::ways::CacheWay;
use self::ways::CacheWays;
use super::places::{open_reached, reach_below};

/// One directory, or one file, that is cached.
pub struct CachedPlace {
    /// Its path from the top, without a leading slash.
    pub below: Vec<u8>,
    /// The host's directory; `None`: it does not exist, and everything is in the layer.
    pub lower: Option<OwnedFd>,
}

/// The caches, and where changes go.
pub struct CacheOptions {
    /// The caches.
    pub caches: Vec<CachedPlace>,
    /// A directory of ours with the layer.
    pub layer: OwnedFd,
    /// Nothing of the layer can be changed.
    pub read_only: bool,
    /// Whether the file of the host at a path is read before it is shown, because it may hold a credential.
    pub is_inspected: fn(&[u8]) -> bool,
    /// The largest file that is inspected. A larger one is not shown.
    pub inspected_bytes: u64,
    /// Whether such a file must be hidden, by its path and contents.
    pub is_secret: fn(&[u8], &[u8]) -> bool,
}

/// The layer in which a cached entry was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheSide {
    Layer,
    Host,
}

pub(super) struct CachePlaces {
    ways: CacheWays,
    lowers: Vec<Option<OwnedFd>>,
    layer: CacheLayer,
    pub(super) read_only: bool,
    is_inspected: fn(&[u8]) -> bool,
    inspected_bytes: u64,
    is_secret: fn(&[u8], &[u8]) -> bool,
}

/// A path in a cache: the whole path, and the part inside the cache's directory.
#[derive(Clone, Copy)]
pub(super) struct CachedPath<'a> {
    pub(super) cache: usize,
    pub(super) path: &'a [u8],
    pub(super) below: usize,
}

impl<'a> CachedPath<'a> {
    fn in_cache(&self) -> &'a [u8] {
        self.path.get(self.below..).unwrap_or_default()
    }
}

impl CachePlaces {
    pub(super) fn new(options: CacheOptions) -> Result<CachePlaces, Errno> {
        let CacheOptions {
            caches,
            layer,
            read_only,
            is_inspected,
            inspected_bytes,
            is_secret,
        } = options;
        let layer = CacheLayer::at(layer)?;
        let mut ways = CacheWays::default();
        let mut lowers = Vec::new();
        for CachedPlace { below, lower } in caches {
            let is_there = lower.is_some() || layer.has(&below);
            ways.add(&below, lowers.len(), is_there);
            lowers.push(lower);
        }
        Ok(CachePlaces {
            ways,
            lowers,
            layer,
            read_only,
            is_inspected,
            inspected_bytes,
            is_secret,
        })
    }

    pub(super) fn top(&self) -> CacheWay {
        CacheWays::TOP
    }

    pub(super) fn step(&self, way: CacheWay, name: &[u8], path_length: usize) -> CacheWay {
        self.ways.step(way, name, path_length)
    }

    /// Whether a directory outside of caches has a cache below it.
    pub(super) fn leads_on(&self, way: CacheWay) -> bool {
        self.ways.leads_on(way)
    }

    /// Whether such a directory is shown: a cache below it has something.
    pub(super) fn is_there(&self, way: CacheWay, path: &[u8]) -> bool {
        self.ways.leads_on(way) && (self.ways.is_there(way) || self.layer.has(path))
    }

    /// The names that lead from a directory towards caches.
    pub(super) fn names(&self, way: CacheWay) -> Vec<&[u8]> {
        self.ways.names(way)
    }

    fn lower(&self, at: CachedPath<'_>) -> Option<BorrowedFd<'_>> {
        self.lowers[at.cache].as_ref().map(|lower| lower.as_fd())
    }

    /// The entry at a path, not opened.
    pub(super) fn reach(&self, at: CachedPath<'_>) -> Result<(OwnedFd, CacheSide), Errno> {
        match self.layer.reach(at.path) {
            Ok(found) => Ok((found, CacheSide::Layer)),
            Err(Errno::NOENT | Errno::NOTDIR) => {
                let found = self.reach_lower(at)?.ok_or(Errno::NOENT)?;
                Ok((found, CacheSide::Host))
            }
            Err(errno) => Err(errno),
        }
    }

    /// The host's entry at a path, if it is visible.
    fn reach_lower(&self, at: CachedPath<'_>) -> Result<Option<OwnedFd>, Errno> {
        let Some(lower) = self.lower(at).filter(|_| !self.layer.is_gone(at.path)) else {
            return Ok(None);
        };
        match reach_below(lower, at.in_cache(), OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(found) if self.is_hidden(at, &found)? => Ok(None),
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    fn is_hidden(&self, at: CachedPath<'_>, found: &OwnedFd) -> Result<bool, Errno> {
        if !(self.is_inspected)(at.path) {
            return Ok(false);
        }
        let stat = rustix::fs::fstat(found)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(false);
        }
        if stat.st_size.cast_unsigned() > self.inspected_bytes {
            return Ok(true);
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::from(open_reached(found, OFlags::RDONLY)?);
        // A file that grows meanwhile is read no further than this.
        let mut limited = std::io::Read::take(file, self.inspected_bytes);
        let read = std::io::Read::read_to_end(&mut limited, &mut bytes);
        Ok(read.is_err() || (self.is_secret)(at.path, &bytes))
    }

    /// The entry at a path, in the layer: copied there if only the host had it. Returns whether it was
    /// copied.
    pub(super) fn own(&self, at: CachedPath<'_>) -> Result<(OwnedFd, bool), Errno> {
        match self.reach(at)? {
            (found, CacheSide::Layer) => Ok((found, false)),
            (lower, CacheSide::Host) => {
                let (directory, name) = self.own_parent(at)?;
                self.layer.copy(&lower, &directory, name)?;
                Ok((self.layer.reach(at.path)?, true))
            }
        }
    }

    /// The layer's directory for an entry that exists or is about to be created, and its name in it.
    pub(super) fn own_parent<'a>(&self, at: CachedPath<'a>) -> Result<(OwnedFd, &'a [u8]), Errno> {
        self.layer.parent(at.path)
    }

    /// Whether the host's directory has an entry at a path too, so that its name must be marked when it is
    /// removed.
    fn is_on_host(&self, at: CachedPath<'_>) -> Result<bool, Errno> {
        Ok(self.reach_lower(at)?.is_some())
    }

    /// Whether an entry exists only in the layer.
    pub(super) fn is_own(&self, at: CachedPath<'_>) -> Result<bool, Errno> {
        Ok(self.layer.has(at.path) && !self.is_on_host(at)?)
    }

    /// Hides the host's version of a path from now on.
    pub(super) fn mark_gone(&self, at: CachedPath<'_>) -> Result<(), Errno> {
        if self.is_on_host(at)? {
            self.layer.mark_gone(at.path)
        } else {
            Ok(())
        }
    }

    pub(super) fn remove(&self, at: CachedPath<'_>, flags: rustix::fs::AtFlags) -> Result<(), Errno> {
        let is_directory = flags.contains(rustix::fs::AtFlags::REMOVEDIR);
        let found = self.reach(at)?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&found.0)?.st_mode);
        match (kind == FileType::Directory, is_directory) {
            (true, false) => return Err(Errno::ISDIR),
            (false, true) => return Err(Errno::NOTDIR),
            (true, true) if !self.list(at)?.is_empty() => return Err(Errno::NOTEMPTY),
            _ => {}
        }
        // The mark comes first: otherwise the host's version would be visible in between.
        self.mark_gone(at)?;
        match found.1 {
            CacheSide::Host => Ok(()),
            CacheSide::Layer => {
                let (directory, name) = self.own_parent(at)?;
                rustix::fs::unlinkat(directory, name, flags)
            }
        }
    }

    /// The names in a directory, with their kinds.
    pub(super) fn list(&self, at: CachedPath<'_>) -> Result<Vec<(Vec<u8>, FileType)>, Errno> {
        let mut all = std::collections::BTreeMap::new();
        let own = self.layer.list(at.path)?;
        let lower = match self.lower(at).filter(|_| !self.layer.is_gone(at.path)) {
            Some(lower) => layer::entries(reach_below(lower, at.in_cache(), LISTED))?,
            None => None,
        };
        if own.is_none() && lower.is_none() {
            return Err(Errno::NOENT);
        }
        all.extend(own.into_iter().flatten());
        for (name, kind) in lower.into_iter().flatten() {
            if all.contains_key(&name) {
                continue;
            }
            let path = [at.path, b"/", &name].concat();
            let child = CachedPath { path: &path, ..at };
            if self.is_plainly_seen(&child) || self.reach_lower(child)?.is_some() {
                all.insert(name, kind);
            }
        }
        Ok(all.into_iter().collect())
    }

    /// Whether a name of the host is visible without any further lookup.
    fn is_plainly_seen(&self, at: &CachedPath<'_>) -> bool {
        !self.layer.has_marks() && !(self.is_inspected)(at.path)
    }
}

const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);
