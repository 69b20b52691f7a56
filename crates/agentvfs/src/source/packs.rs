//! Packs that git makes on the host while a task is at work.
//!
//! A `git gc` of the user's puts a new pack beside the old ones, and then removes those and the loose objects that are in
//! it. A task that has listed its objects before, and not read them, would lose them. So packs that appear on the host
//! appear in the task: objects are named by their contents, so that more of them are never wrong.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;

use avfs_core::{EntryName, SourceId, TreePath};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::error::Result;
use crate::open::OpenVault;
use crate::task::Task;

/// Where packs are, from the top of a project.
const PACKS: &str = ".git/objects/pack";

/// Follows the packs of a repository until it is dropped.
pub(crate) struct FollowingPacks {
    thread: Option<JoinHandle<()>>,
    /// Closing it ends the thread.
    going_on: Option<UnixStream>,
    watching: Arc<OwnedFd>,
}

/// The watch of a directory of the host. The kernel takes some ten milliseconds to end it, for which the
/// dropping thread waits.
pub(crate) struct PackWatch(#[expect(dead_code, reason = "held for its drop")] Arc<OwnedFd>);

impl FollowingPacks {
    /// `None` if the vault is not a task of a repository, or the host's packs cannot be watched.
    pub(crate) fn start(open: &Arc<OpenVault>) -> Option<FollowingPacks> {
        let task = Task::of(open.vault().clone()).ok()?;
        let root = task.root();
        let watching = Arc::new(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?);
        inotify::add_watch(
            &*watching,
            root.join(PACKS),
            WatchFlags::CREATE | WatchFlags::MOVED_TO,
        )
        .ok()?;
        let source = open.vault().store().projects().source_for(root).ok()?;
        let (going_on, ended) = UnixStream::pair().ok()?;
        let packs = Packs {
            open: Arc::clone(open),
            source,
        };
        let thread = std::thread::Builder::new().name("git-packs".into());
        let watched = Arc::clone(&watching);
        let thread = thread.spawn(move || packs.follow(&watched, &ended)).ok()?;
        Some(FollowingPacks {
            thread: Some(thread),
            going_on: Some(going_on),
            watching,
        })
    }

    /// Stops following. The result can be dropped where the delay does not matter.
    pub(crate) fn stop(self) -> PackWatch {
        PackWatch(Arc::clone(&self.watching))
    }
}

impl Drop for FollowingPacks {
    fn drop(&mut self) {
        self.going_on = None;
        if let Some(thread) = self.thread.take() {
            // It reads from the store of this process, which must not end before it.
            let _ = thread.join();
        }
    }
}

struct Packs {
    open: Arc<OpenVault>,
    source: SourceId,
}

impl Packs {
    fn follow(&self, watching: &OwnedFd, ended: &UnixStream) {
        loop {
            // A failure may be repaired with the next pack; without it, the task is unchanged.
            let _ = self.add_missing();
            let mut both = [
                PollFd::new(watching, PollFlags::IN),
                PollFd::new(ended, PollFlags::IN),
            ];
            match poll(&mut both, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            if !both[1].revents().is_empty() || !drained(watching) {
                return;
            }
        }
    }

    /// Adds the packs that the host has and the task does not.
    fn add_missing(&self) -> Result<()> {
        let directory = TreePath::parse(PACKS.as_bytes()).expect("a good path");
        let parent = self.open.tree().resolve(&directory)?;
        let store = self.open.vault().store();
        let _pin = store.objects().store().pin()?;
        let mut listed = store.objects().list_now(self.source, &directory)?;
        listed.retain(|(name, _)| is_of_pack(name));
        // git recognises a pack by its index.
        listed.sort_by_key(|(name, _)| name.as_bytes().ends_with(b".idx"));
        for (name, entry) in listed {
            if self.open.tree().lookup(parent.ino, &name).is_err() {
                self.open.tree().copy_stored(&entry, None, parent.ino, &name)?;
            }
        }
        Ok(())
    }
}

fn is_of_pack(name: &EntryName) -> bool {
    let ends = [&b".pack"[..], b".idx", b".rev"];
    name.as_bytes().starts_with(b"pack-") && ends.iter().any(|end| name.as_bytes().ends_with(end))
}

/// Takes the events that are there; whether there can be more.
fn drained(watching: &OwnedFd) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match rustix::io::read(watching.as_fd(), &mut buffer) {
            Ok(0) => return false,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return error == rustix::io::Errno::AGAIN,
        }
    }
}
