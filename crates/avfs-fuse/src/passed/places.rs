//! Where a path is: in the host's directory, in a cache or in the private directory, and the ways there. No link is
//! followed on them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use avfs_core::Labels;
use avfs_core::rules::{Level, Rules, Standing};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::caches::{CachedPath, Caches, Way};

/// How often a way is tried again that a rename got in the way of.
const ATTEMPTS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    Shared,
    Cached,
    Private,
}

/// A path, and what the rules say of it.
pub(super) struct Standpoint {
    /// From the top, without a slash in front; empty for the top itself.
    path: Vec<u8>,
    pub(super) standing: Standing,
    /// On the way to something shared or cached, and neither itself.
    pub(super) is_way: bool,
    way: Way,
    /// Nothing in a cache can be changed.
    is_frozen: bool,
}

impl Standpoint {
    pub(super) fn layer(&self) -> Layer {
        match self.way {
            _ if self.standing.level() > Level::None => Layer::Shared,
            Way::Within { .. } => Layer::Cached,
            Way::Towards(_) | Way::Apart => Layer::Private,
        }
    }

    /// The path, if it is in a cache.
    pub(super) fn cached(&self) -> Option<CachedPath<'_>> {
        match (self.layer(), self.way) {
            (Layer::Cached, Way::Within { cache, below }) => {
                Some(CachedPath { cache, path: &self.path, below })
            }
            _ => None,
        }
    }

    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    pub(super) fn is_shared(&self) -> bool {
        self.layer() == Layer::Shared
    }

    /// Whether anything can be changed here.
    pub(super) fn is_writable(&self) -> bool {
        match self.layer() {
            Layer::Shared => self.standing.level() == Level::Write,
            Layer::Cached => !self.is_frozen,
            Layer::Private => true,
        }
    }

    /// Whether the name itself can be made, replaced or removed.
    pub(super) fn check_changeable(&self) -> Result<(), Errno> {
        if self.is_writable() && !self.is_way { Ok(()) } else { Err(Errno::ACCESS) }
    }

    /// The directory that it is in, and its name there.
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

pub(super) struct Places {
    shared: OwnedFd,
    private: OwnedFd,
    pub(super) rules: Rules,
    pub(super) caches: Option<Caches>,
}

impl Places {
    pub(super) fn new(shared: OwnedFd, private: OwnedFd, rules: Rules, caches: Option<Caches>) -> Places {
        Places { shared, private, rules, caches }
    }

    pub(super) fn standpoint(&self, names: &[Box<[u8]>]) -> Standpoint {
        let standing = self.rules.root(&Labels::default());
        let is_way = self.rules.is_passable(&standing) && standing.level() == Level::None;
        let way = self.caches.as_ref().map_or(Way::Apart, Caches::top);
        let is_frozen = self.caches.as_ref().is_some_and(|caches| caches.read_only);
        let is_way = is_way || self.leads_on(way);
        let top = Standpoint { path: Vec::new(), standing, is_way, way, is_frozen };
        names.iter().fold(top, |at, name| self.below(at, name))
    }

    pub(super) fn child(&self, at: &Standpoint, name: &[u8]) -> Standpoint {
        let path = at.path.clone();
        self.below(Standpoint { path, standing: at.standing.clone(), ..*at }, name)
    }

    fn below(&self, at: Standpoint, name: &[u8]) -> Standpoint {
        let standing = self.rules.child(&at.standing, name, &Labels::default());
        let is_frozen = at.is_frozen;
        let mut path = at.path;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        let way = self.caches.as_ref().map_or(Way::Apart, |caches| caches.step(at.way, name, path.len()));
        let is_passable = self.rules.is_passable(&standing) || self.leads_on(way);
        let is_cached = matches!(way, Way::Within { .. });
        let is_way = standing.level() == Level::None && is_passable && !is_cached;
        Standpoint { path, standing, is_way, way, is_frozen }
    }

    fn leads_on(&self, way: Way) -> bool {
        self.caches.as_ref().is_some_and(|caches| caches.leads_on(way))
    }

    /// The caches, and the path, if it is in one.
    pub(super) fn cached<'a>(&'a self, at: &'a Standpoint) -> Option<(&'a Caches, CachedPath<'a>)> {
        Some((self.caches.as_ref()?, at.cached()?))
    }

    /// The names of directories and files on the way to caches that are there.
    pub(super) fn names_towards_caches(&self, at: &Standpoint) -> Vec<Standpoint> {
        let names = self.caches.iter().flat_map(|caches| caches.names(at.way));
        let children = names.map(|name| self.child(at, name));
        children.filter(|child| child.layer() == Layer::Cached || child.is_way).collect()
    }

    pub(super) fn top(&self, layer: Layer) -> BorrowedFd<'_> {
        match layer {
            Layer::Shared => self.shared.as_fd(),
            // Caches have directories of their own.
            Layer::Cached | Layer::Private => self.private.as_fd(),
        }
    }

    /// The file itself, also a link, without opening it.
    pub(super) fn reach(&self, at: &Standpoint) -> Result<OwnedFd, Errno> {
        if let Some((caches, path)) = self.cached(at) {
            return Ok(caches.reach(path)?.0);
        }
        self.reach_in(at.layer(), &at.path, OFlags::PATH | OFlags::NOFOLLOW)
    }

    /// A directory, to list it.
    pub(super) fn open_directory(&self, layer: Layer, at: &Standpoint) -> Result<OwnedFd, Errno> {
        self.reach_in(layer, &at.path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// The file itself, where it can be changed, and whether it was copied there for that.
    pub(super) fn own(&self, at: &Standpoint) -> Result<(OwnedFd, bool), Errno> {
        match self.cached(at) {
            Some((caches, path)) => caches.own(path),
            None => Ok((self.reach(at)?, false)),
        }
    }

    /// The directory that something is in, and its name there.
    pub(super) fn parent<'a>(&'a self, at: &'a Standpoint) -> Result<(OwnedFd, &'a [u8]), Errno> {
        if let Some((caches, path)) = self.cached(at) {
            return caches.own_parent(path);
        }
        let (parent, name) = at.split();
        Ok((self.reach_in(at.layer(), parent, OFlags::PATH | OFlags::DIRECTORY)?, name))
    }

    /// The same for something that is about to be made: ways to it that the host does not have yet are made.
    pub(super) fn parent_to_be<'a>(&'a self, at: &'a Standpoint) -> Result<(OwnedFd, &'a [u8]), Errno> {
        match self.parent(at) {
            Err(Errno::NOENT) if at.is_shared() => {
                self.make_ways(at.split().0)?;
                self.parent(at)
            }
            found => found,
        }
    }

    fn make_ways(&self, path: &[u8]) -> Result<(), Errno> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut directory = self.reach_in(Layer::Shared, b"", OFlags::PATH | OFlags::DIRECTORY)?;
        let mut begin = 0;
        for end in ends.chain([path.len()]) {
            let name = &path[begin..end];
            match rustix::fs::mkdirat(&directory, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            directory = rustix::fs::openat(&directory, name, flags, Mode::empty())?;
            begin = end + 1;
        }
        Ok(())
    }

    /// What is there. A directory on the way to something shared that the host has is made in private, so that private
    /// names can be in it too.
    pub(super) fn stat(&self, at: &Standpoint) -> Result<Stat, Errno> {
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

    /// Whether a way is to be shown: the host has a directory there on the way to something shared, or there is
    /// something in a cache below it.
    pub(super) fn is_way_of_host(&self, at: &Standpoint) -> bool {
        let is_to_cache = |caches: &Caches| caches.is_there(at.way, &at.path);
        let is_on_host = || {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            self.reach_in(Layer::Shared, &at.path, flags).is_ok()
        };
        self.caches.as_ref().is_some_and(is_to_cache)
            || (self.rules.is_passable(&at.standing) && is_on_host())
    }

    fn reach_in(&self, layer: Layer, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        reach_below(self.top(layer), path, flags)
    }
}

/// What is below a directory; no link is followed on the way.
pub(super) fn reach_below(top: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path: &[u8] = if path.is_empty() { b"." } else { path };
    let plain = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mut reached = Err(Errno::AGAIN);
    for _ in 0..ATTEMPTS {
        reached = rustix::fs::openat2(top, path, flags | OFlags::CLOEXEC, Mode::empty(), plain);
        if !matches!(reached, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    // A link on the way is no directory here.
    reached.map_err(|errno| if errno == Errno::LOOP { Errno::NOENT } else { errno })
}

/// Opens a file that was reached for reading or writing. Only files: opening anything else may do something.
pub(super) fn open_reached(file: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let stat = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    rustix::fs::open(own_path(file), flags | OFlags::CLOEXEC, Mode::empty())
}

/// The path of a descriptor, for calls that take none.
pub(super) fn own_path(file: &OwnedFd) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
