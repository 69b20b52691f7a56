//! A tree in memory, mounted with or without one agreement.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentvfs::mount::Transport;
use anyhow::{Context, Result};
use avfs_core::{Entry, EntryName, Meta, Root, Totals};
use avfs_fuse::abi::InitIn;
use avfs_fuse::mounting::{MountOptions, Unmount, mount, unmount};
use avfs_fuse::transport::{Serving, ServingOptions};
use avfs_fuse::{
    Access, Answered, Errno, Operation, Reply, Request, Service, Session, Settings, Skin, SkinOptions,
};
use avfs_store::MemoryStore;
use avfs_tree::{Base, Ino, NewEntry, Objects, SystemClock, WorkTree};

pub const FILES: usize = 1_000;
pub const LARGE: usize = 16 << 20;

/// What a mount does without.
pub enum Lacking {
    /// What is negotiated.
    Flags(u64),
    /// That the kernel may remember missing names.
    MissingNames,
    /// That the kernel opens files of the past by itself.
    OpeningWithoutAsking,
    /// Nothing, in a mount of the past.
    NothingPast,
    /// That there is no other mount of the same tree.
    BeingAlone,
    /// Nothing, in a mount that is alone.
    NothingAlone,
    /// That the threads which serve let their callers go first.
    GivingWay,
}

impl Lacking {
    /// The mount to compare with.
    pub fn nothing(&self) -> Lacking {
        match self {
            Lacking::OpeningWithoutAsking | Lacking::NothingPast => Lacking::NothingPast,
            Lacking::BeingAlone | Lacking::NothingAlone => Lacking::NothingAlone,
            Lacking::Flags(_) | Lacking::MissingNames | Lacking::GivingWay => Lacking::Flags(0),
        }
    }

    fn access(&self) -> Access {
        match self {
            Lacking::NothingPast => Access::Past,
            Lacking::OpeningWithoutAsking => Access::ReadOnly,
            Lacking::Flags(_)
            | Lacking::MissingNames
            | Lacking::BeingAlone
            | Lacking::NothingAlone
            | Lacking::GivingWay => Access::Everything,
        }
    }
}

pub struct Mounted {
    directory: tempfile::TempDir,
    serving: Serving,
}

impl Mounted {
    pub fn new(lacking: &Lacking, transport: Transport) -> Result<Mounted> {
        let tree = tree()?;
        let skin = Skin::new(
            &tree,
            SkinOptions {
                access: lacking.access(),
                rules: None,
                owner: None,
                checks_modes: false,
                alone: matches!(lacking, Lacking::NothingAlone),
                free_bytes: Arc::new(|| 1 << 40),
                log: Arc::new(|line| eprintln!("{line}")),
            },
        );
        let (refused, names) = match lacking {
            Lacking::Flags(flags) => (*flags, None),
            Lacking::MissingNames => (0, Some(tree.another_door())),
            Lacking::OpeningWithoutAsking
            | Lacking::NothingPast
            | Lacking::BeingAlone
            | Lacking::NothingAlone
            | Lacking::GivingWay => (0, None),
        };
        let service = Arc::new(Reduced { skin: Arc::clone(&skin), refused, names });
        let session = Arc::new(Session::new(service, Settings::default()));
        let directory = tempfile::tempdir()?;
        let read_only = lacking.access() != Access::Everything;
        let options = MountOptions { read_only, ..MountOptions::new("options") };
        let connection = mount(directory.path(), &options)?;
        let give_way = !matches!(lacking, Lacking::GivingWay);
        let options = ServingOptions { transport, give_way, ..ServingOptions::default() };
        let serving = Serving::start(session, connection, options)?;
        skin.watch(serving.notifier());
        Ok(Mounted { directory, serving })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// How many requests something makes, and how long it takes.
    pub fn measure(&self, act: fn(&Path) -> Result<()>) -> Result<(u64, Duration)> {
        let requests = || self.serving.session().counters().total();
        let (before, start) = (requests(), Instant::now());
        act(self.path())?;
        let taken = start.elapsed();
        Ok((requests() - before, taken))
    }

    pub fn end(self) -> Result<()> {
        unmount(self.directory.path(), Unmount::IfUnused)?;
        self.serving.wait();
        Ok(())
    }
}

/// `files` with small ones, `large`, and `link`.
fn tree() -> Result<WorkTree> {
    let root = Entry::empty_directory(Meta { mode: 0o755, ..Meta::default() });
    let base = Base { root: Root { directory: root, links: None, totals: Totals::default() }, inodes: None };
    let tree = WorkTree::in_memory(Objects::new(Arc::new(MemoryStore::new())), base, Arc::new(SystemClock))?;
    let make = |parent, name: &str, new| -> Result<Ino> {
        Ok(tree.create(parent, &EntryName::new(name.as_bytes())?, new)?.ino)
    };
    let files = make(Ino::ROOT, "files", NewEntry::directory(0o755))?;
    for number in 0..FILES {
        tree.write(make(files, &number.to_string(), NewEntry::file(0o644))?, 0, &[7; 100])?;
    }
    let large = make(Ino::ROOT, "large", NewEntry::file(0o644))?;
    tree.write(large, 0, &vec![7; LARGE])?;
    make(Ino::ROOT, "link", NewEntry::symlink(b"files/0"))?;
    tree.freeze()?.settle();
    Ok(tree)
}

/// A skin that does without something.
struct Reduced {
    skin: Arc<Skin>,
    /// Capabilities that are not asked for.
    refused: u64,
    /// Where missing names are looked for, so that the kernel need not be told that it may remember them.
    names: Option<WorkTree>,
}

impl Reduced {
    fn is_missing(&self, request: &Request<'_>) -> bool {
        let (Operation::Lookup { name }, Some(tree)) = (request.operation, &self.names) else { return false };
        EntryName::new(name).is_ok_and(|name| tree.lookup(Ino(request.nodeid), &name).is_err())
    }
}

impl Service for Reduced {
    fn init(&self, kernel: &InitIn) -> u64 {
        self.skin.init(kernel) & !self.refused
    }

    fn serve(&self, request: &Request<'_>, reply: Reply<'_>) -> Answered {
        match self.is_missing(request) {
            true => reply.error(Errno::NOENT),
            false => self.skin.serve(request, reply),
        }
    }

    fn known_file(&self) -> Option<u64> {
        self.skin.known_file()
    }

    fn destroy(&self) {
        self.skin.destroy();
    }
}

/// A file of a mount, by its number.
pub fn file(mount: &Path, number: usize) -> std::path::PathBuf {
    mount.join("files").join(number.to_string())
}

/// Opens one, with what went wrong if it cannot be.
pub fn open(path: &Path) -> Result<std::fs::File> {
    std::fs::File::open(path).with_context(|| path.display().to_string())
}
