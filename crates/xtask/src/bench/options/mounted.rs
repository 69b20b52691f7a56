//! A tree in memory, mounted with or without one option.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentvfs::mount::Transport;
use anyhow::{Context, Result};
use avfs_core::{Entry, EntryName, Meta, Root, Totals};
use avfs_fuse::abi::InitIn;
use avfs_fuse::mounting::{FuseMountOptions, UnmountMode, mount, unmount};
use avfs_fuse::transport::{FuseServing, ServingOptions};
use avfs_fuse::{
    Answered, Errno, FuseOperation, FuseReply, FuseRequest, FuseService, FuseSession, MountAccess,
    SessionSettings, Skin, SkinOptions,
};
use avfs_store::MemoryStore;
use avfs_tree::{BaseTree, Ino, NewEntry, Objects, SystemClock, WorkTree};

pub const FILES: usize = 1_000;
pub const LARGE: usize = 16 << 20;

/// The option that a mount lacks.
pub enum Lacking {
    /// Negotiated flags.
    Flags(u64),
    /// The kernel may cache missing names.
    MissingNames,
    /// The kernel opens files of an immutable mount by itself.
    OpeningWithoutAsking,
    /// Nothing, in an immutable mount.
    NothingPast,
    /// There is no other mount of the same tree.
    BeingAlone,
    /// Nothing, in an exclusive mount.
    NothingAlone,
    /// The serving threads yield to their callers.
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

    fn access(&self) -> MountAccess {
        match self {
            Lacking::NothingPast => MountAccess::Past,
            Lacking::OpeningWithoutAsking => MountAccess::ReadOnly,
            Lacking::Flags(_)
            | Lacking::MissingNames
            | Lacking::BeingAlone
            | Lacking::NothingAlone
            | Lacking::GivingWay => MountAccess::Everything,
        }
    }
}

pub struct Mounted {
    directory: tempfile::TempDir,
    serving: FuseServing,
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
                exclusive: matches!(lacking, Lacking::NothingAlone),
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
        let service = Arc::new(Reduced {
            skin: Arc::clone(&skin),
            refused,
            names,
        });
        let session = Arc::new(FuseSession::new(service, SessionSettings::default()));
        let directory = tempfile::tempdir()?;
        let read_only = lacking.access() != MountAccess::Everything;
        let options = FuseMountOptions {
            read_only,
            ..FuseMountOptions::new("options")
        };
        let connection = mount(directory.path(), &options)?;
        let yield_to_callers = !matches!(lacking, Lacking::GivingWay);
        let options = ServingOptions {
            transport,
            yield_to_callers,
            ..ServingOptions::default()
        };
        let serving = FuseServing::start(session, connection, options)?;
        skin.watch(serving.notifier());
        Ok(Mounted { directory, serving })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The number of requests of an action, and its duration.
    pub fn measure(&self, act: fn(&Path) -> Result<()>) -> Result<(u64, Duration)> {
        let requests = || self.serving.session().counters().total();
        let (before, start) = (requests(), Instant::now());
        act(self.path())?;
        let taken = start.elapsed();
        Ok((requests() - before, taken))
    }

    pub fn end(self) -> Result<()> {
        unmount(self.directory.path(), UnmountMode::IfUnused)?;
        self.serving.wait();
        Ok(())
    }
}

/// `files` with small ones, `large`, and `link`.
fn tree() -> Result<WorkTree> {
    let root = Entry::empty_directory(Meta {
        mode: 0o755,
        ..Meta::default()
    });
    let base = BaseTree {
        root: Root {
            directory: root,
            links: None,
            totals: Totals::default(),
        },
        inodes: None,
    };
    let tree = WorkTree::in_memory(
        Objects::new(Arc::new(MemoryStore::new())),
        base,
        Arc::new(SystemClock),
    )?;
    let make = |parent, name: &str, new| -> Result<Ino> {
        Ok(tree.create(parent, &EntryName::new(name.as_bytes())?, new)?.ino)
    };
    let files = make(Ino::ROOT, "files", NewEntry::directory(0o755))?;
    for number in 0..FILES {
        tree.write(
            make(files, &number.to_string(), NewEntry::file(0o644))?,
            0,
            &[7; 100],
        )?;
    }
    let large = make(Ino::ROOT, "large", NewEntry::file(0o644))?;
    tree.write(large, 0, &vec![7; LARGE])?;
    make(Ino::ROOT, "link", NewEntry::symlink(b"files/0"))?;
    tree.freeze()?.settle();
    Ok(tree)
}

/// A skin without some option.
struct Reduced {
    skin: Arc<Skin>,
    /// Capabilities that are not requested.
    refused: u64,
    /// Where missing names are looked up, so that the kernel does not learn that it may cache them.
    names: Option<WorkTree>,
}

impl Reduced {
    fn is_missing(&self, request: &FuseRequest<'_>) -> bool {
        let (FuseOperation::Lookup { name }, Some(tree)) = (request.operation, &self.names) else {
            return false;
        };
        EntryName::new(name).is_ok_and(|name| tree.lookup(Ino(request.nodeid), &name).is_err())
    }
}

impl FuseService for Reduced {
    fn init(&self, kernel: &InitIn) -> u64 {
        self.skin.init(kernel) & !self.refused
    }

    fn serve(&self, request: &FuseRequest<'_>, reply: FuseReply<'_>) -> Answered {
        if self.is_missing(request) {
            reply.error(Errno::NOENT)
        } else {
            self.skin.serve(request, reply)
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

/// Opens one; the error names the file.
pub fn open(path: &Path) -> Result<std::fs::File> {
    std::fs::File::open(path).with_context(|| path.display().to_string())
}
