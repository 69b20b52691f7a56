//! The location of a path: in the host's directory, in a cache or in the private directory, and the
//! directories leading there. No link is followed on the way.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use avfs_core::Labels;
use avfs_core::rules::{Level, RuleState, Rules};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::caches::{CachePlaces, CacheWay, CachedPath};

/// How often a walk is retried if a rename interferes.
const ATTEMPTS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceLayer {
    Shared,
    Cached,
    Private,
}

/// A path, and what the rules decide about it.
pub(super) struct RuledPlace {
    /// From the top, without a leading slash; empty for the top itself.
    path: Vec<u8>,
    pub(super) rule_state: RuleState,
    /// On the way to a shared or cached path, and neither itself.
    pub(super) is_way: bool,
    way: CacheWay,
    /// In a read-only cache.
    is_frozen: bool,
}

impl RuledPlace {
    pub(super) fn layer(&self) -> PlaceLayer {
        match self.way {
            _ if self.rule_state.level() > Level::None => PlaceLayer::Shared,
            CacheWay::Within { .. } => PlaceLayer::Cached,
            CacheWay::Towards(_) | CacheWay::Apart => PlaceLayer::Private,
        }
    }

    /// The path, if it is in a cache.
    pub(super) fn cached(&self) -> Option<CachedPath<'_>> {
        match (self.layer(), self.way) {
            (PlaceLayer::Cached, CacheWay::Within { cache, below }) => Some(CachedPath {
                cache,
                path: &self.path,
                below,
            }),
            _ => None,
        }
    }

    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    pub(super) fn is_shared(&self) -> bool {
        self.layer() == PlaceLayer::Shared
    }

    /// Whether anything can be changed here.
    pub(super) fn is_writable(&self) -> bool {
        match self.layer() {
            PlaceLayer::Shared => self.rule_state.level() == Level::Write,
            PlaceLayer::Cached => !self.is_frozen,
            PlaceLayer::Private => true,
        }
    }

    /// Whether the name itself can be created, replaced or removed.
    pub(super) fn check_changeable(&self) -> Result<(), Errno> {
        if self.is_writable() && !self.is_way {
            Ok(())
        } else {
            Err(Errno::ACCESS)
        }
    }

    /// The path of its directory, and its name there.
    fn split(&self) -> (&[u8], &[u8]) {
        match self.path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&self.path[..slash], &self.path[slash + 1..]),
            None => (b"", &self.path),
        }
    }

    pub(super) fn name(&self) -> &[u8] {
        self.split().1
    }
}

pub(super) struct HostPlaces {
    shared: OwnedFd,
    private: OwnedFd,
    pub(super) rules: Rules,
    pub(super) caches: Option<CachePlaces>,
}

impl HostPlaces {
    pub(super) fn new(
        shared: OwnedFd,
        private: OwnedFd,
        rules: Rules,
        caches: Option<CachePlaces>,
    ) -> HostPlaces {
        HostPlaces {
            shared,
            private,
            rules,
            caches,
        }
    }

    pub(super) fn standpoint(&self, names: &[Box<[u8]>]) -> RuledPlace {
        let rule_state = self.rules.root(&Labels::default());
        let is_way = self.rules.is_passable(&rule_state) && rule_state.level() == Level::None;
        let way = self.caches.as_ref().map_or(CacheWay::Apart, CachePlaces::top);
        let is_frozen = self.caches.as_ref().is_some_and(|caches| caches.read_only);
        let is_way = is_way || self.leads_on(way);
        let top = RuledPlace {
            path: Vec::new(),
            rule_state,
            is_way,
            way,
            is_frozen,
        };
        names.iter().fold(top, |at, name| self.below(at, name))
    }

    pub(super) fn child(&self, at: &RuledPlace, name: &[u8]) -> RuledPlace {
        let path = at.path.clone();
        self.below(
            RuledPlace {
                path,
                rule_state: at.rule_state.clone(),
                ..*at
            },
            name,
        )
    }

    fn below(&self, at: RuledPlace, name: &[u8]) -> RuledPlace {
        let rule_state = self.rules.child(&at.rule_state, name, &Labels::default());
        let is_frozen = at.is_frozen;
        let mut path = at.path;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        let way = self
            .caches
            .as_ref()
            .map_or(CacheWay::Apart, |caches| caches.step(at.way, name, path.len()));
        let is_passable = self.rules.is_passable(&rule_state) || self.leads_on(way);
        let is_cached = matches!(way, CacheWay::Within { .. });
        let is_way = rule_state.level() == Level::None && is_passable && !is_cached;
        RuledPlace {
            path,
            rule_state,
            is_way,
            way,
            is_frozen,
        }
    }

    fn leads_on(&self, way: CacheWay) -> bool {
        self.caches.as_ref().is_some_and(|caches| caches.leads_on(way))
    }

    /// The caches, and the path, if it is in one.
    pub(super) fn cached<'a>(&'a self, at: &'a RuledPlace) -> Option<(&'a CachePlaces, CachedPath<'a>)> {
        Some((self.caches.as_ref()?, at.cached()?))
    }

    /// The names of directories and files on the way to existing caches.
    pub(super) fn names_towards_caches(&self, at: &RuledPlace) -> Vec<RuledPlace> {
        let names = self.caches.iter().flat_map(|caches| caches.names(at.way));
        let children = names.map(|name| self.child(at, name));
        children
            .filter(|child| child.layer() == PlaceLayer::Cached || child.is_way)
            .collect()
    }

    pub(super) fn top(&self, layer: PlaceLayer) -> BorrowedFd<'_> {
        match layer {
            PlaceLayer::Shared => self.shared.as_fd(),
            // Caches have directories of their own.
            PlaceLayer::Cached | PlaceLayer::Private => self.private.as_fd(),
        }
    }

    /// The file itself, even if it is a link, without opening it.
    pub(super) fn reach(&self, at: &RuledPlace) -> Result<OwnedFd, Errno> {
        if let Some((caches, path)) = self.cached(at) {
            return Ok(caches.reach(path)?.0);
        }
        self.reach_in(at.layer(), &at.path, OFlags::PATH | OFlags::NOFOLLOW)
    }

    /// A directory, to list it.
    pub(super) fn open_directory(&self, layer: PlaceLayer, at: &RuledPlace) -> Result<OwnedFd, Errno> {
        self.reach_in(layer, &at.path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// The file itself, in a place where it can be changed, and whether it was copied there for that.
    pub(super) fn own(&self, at: &RuledPlace) -> Result<(OwnedFd, bool), Errno> {
        match self.cached(at) {
            Some((caches, path)) => caches.own(path),
            None => Ok((self.reach(at)?, false)),
        }
    }

    /// The directory of an entry, and its name there.
    pub(super) fn parent<'a>(&'a self, at: &'a RuledPlace) -> Result<(OwnedFd, &'a [u8]), Errno> {
        if let Some((caches, path)) = self.cached(at) {
            return caches.own_parent(path);
        }
        let (parent, name) = at.split();
        Ok((
            self.reach_in(at.layer(), parent, OFlags::PATH | OFlags::DIRECTORY)?,
            name,
        ))
    }

    /// The same for an entry that is about to be created: missing directories on the way are created.
    pub(super) fn parent_to_be<'a>(&'a self, at: &'a RuledPlace) -> Result<(OwnedFd, &'a [u8]), Errno> {
        match self.parent(at) {
            Err(Errno::NOENT) if at.is_shared() => {
                self.make_ways(at.split().0)?;
                self.parent(at)
            }
            found => found,
        }
    }

    fn make_ways(&self, path: &[u8]) -> Result<(), Errno> {
        let ends = path
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'/')
            .map(|(at, _)| at);
        let mut directory = self.reach_in(PlaceLayer::Shared, b"", OFlags::PATH | OFlags::DIRECTORY)?;
        let mut begin = 0;
        for end in ends.chain([path.len()]) {
            let name = &path[begin..end];
            match rustix::fs::mkdirat(&directory, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            // A link in the place of a directory would lead out of what may be changed.
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            directory = rustix::fs::openat(&directory, name, flags, Mode::empty())?;
            begin = end + 1;
        }
        Ok(())
    }

    /// The attributes of an entry. If the host has a directory on the way to a shared path, the private
    /// directory is created as well, so that it can contain private names too.
    pub(super) fn stat(&self, at: &RuledPlace) -> Result<Stat, Errno> {
        match self.reach(at).and_then(|file| rustix::fs::fstat(&file)) {
            Err(Errno::NOENT) if at.is_way && self.is_way_of_host(at) => {
                let (parent, name) = self.parent(at)?;
                match rustix::fs::mkdirat(&parent, name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
                rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)
            }
            found => found,
        }
    }

    /// Whether a directory on the way is shown: the host has it on the way to a shared path, or a cache below
    /// it has something.
    pub(super) fn is_way_of_host(&self, at: &RuledPlace) -> bool {
        let is_to_cache = |caches: &CachePlaces| caches.is_there(at.way, &at.path);
        let is_on_host = || {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            self.reach_in(PlaceLayer::Shared, &at.path, flags).is_ok()
        };
        self.caches.as_ref().is_some_and(is_to_cache)
            || (self.rules.is_passable(&at.rule_state) && is_on_host())
    }

    fn reach_in(&self, layer: PlaceLayer, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        reach_below(self.top(layer), path, flags)
    }
}

/// The entry below a directory; no link is followed on the way.
pub(super) fn reach_below(top: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path: &[u8] = if path.is_empty() { b"." } else { path };
    let plain = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mut reached = Err(Errno::AGAIN);
    for _ in 0..ATTEMPTS {
        // The kernel fails with EAGAIN if something was renamed or mounted during the walk: it then cannot
        // determine whether the path stayed beneath.
        reached = rustix::fs::openat2(top, path, flags | OFlags::CLOEXEC, Mode::empty(), plain);
        if !matches!(reached, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    // A link on the way does not count as a directory here.
    reached.map_err(|errno| if errno == Errno::LOOP { Errno::NOENT } else { errno })
}

/// Opens a file that was reached for reading or writing. Only regular files: opening anything else may have
/// side effects.
pub(super) fn open_reached(file: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let stat = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    rustix::fs::open(own_path(file), flags | OFlags::CLOEXEC, Mode::empty())
}

/// The path of a descriptor, for calls that do not accept descriptors.
pub(super) fn own_path(file: &OwnedFd) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
