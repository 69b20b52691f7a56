//! Taking files of a source before somebody asks for them: those that the host may take away first.
//!
//! The repository of a project comes first: a `git gc` of the user's replaces packs that a task still needs, and moves refs
//! into a file that the task may have missed; refs are taken at once. Then small files that look as if people wrote them.
//! Everything else is taken when it is asked for. What nobody may read through the rules of the view is never taken: it
//! stays out of the store.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use avfs_core::rules::{Level, Rule, Rules};
use avfs_core::{Content, EntryKind, EntryName, ObjectId, PromiseId, TreePath};
use avfs_tree::{Objects, ReadError, TreeReader};

use crate::error::Result;
use crate::vault::Vault;

const GIT: &[u8] = b".git";
/// What tools make, and can make again.
const MADE: [&[u8]; 4] = [b"node_modules", b"target", b".venv", b"__pycache__"];
/// Larger files are taken when they are asked for.
const SMALL: u64 = 256 << 10;
/// How much of a repository is taken, and how many of its entries are looked at.
const REPOSITORY: Budget = Budget { entries: 200_000, bytes: 1 << 30, can_be_cut_short: true };
/// The same for its refs and what lies beside them.
const REFS: Budget = Budget { entries: 10_000, bytes: 16 << 20, can_be_cut_short: false };
/// The same for everything else.
const OTHERS: Budget = Budget { entries: 20_000, bytes: 128 << 20, can_be_cut_short: true };
/// Everything else of the machine goes first.
const PRIORITY: i32 = 15;

/// A thread that takes files ahead of time. Dropped, it ends at the next file, once refs are taken.
pub struct TakingAhead {
    thread: Option<JoinHandle<()>>,
    /// Closed, it tells the thread to end.
    going_on: Option<Sender<()>>,
}

impl TakingAhead {
    /// Takes files of the present state of a vault, as it is seen through `rules`. Begins after a while, so that what is
    /// over by then costs nothing.
    pub fn start(vault: &Vault, rules: Option<Vec<Rule>>, after: Duration) -> TakingAhead {
        let (going_on, ended) = channel();
        if !vault.store().objects().may_promise() {
            return TakingAhead { thread: None, going_on: None };
        }
        let vault = vault.clone();
        let thread = std::thread::Builder::new().name("take-ahead".into()).spawn(move || {
            let Ok(walk) = Walk::new(&vault, rules, ended) else { return };
            walk.take_refs();
            if walk.ended.recv_timeout(after) == Err(RecvTimeoutError::Timeout) {
                // Where that is refused it works all the same.
                let _ = rustix::process::setpriority_process(None, PRIORITY);
                walk.run();
            }
        });
        // Without it, everything is taken when it is asked for.
        TakingAhead { thread: thread.ok(), going_on: Some(going_on) }
    }

    /// Waits until everything is taken that is to be.
    pub fn finish(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Tells it to end, and gives back the thread, which may still be taking a large file.
    pub fn stop(mut self) -> Option<JoinHandle<()>> {
        self.going_on = None;
        self.thread.take()
    }
}

impl Drop for TakingAhead {
    fn drop(&mut self) {
        self.going_on = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn repository() -> TreePath {
    TreePath::root().join(&EntryName::new(GIT).expect("a good name"))
}

struct Walk {
    reader: TreeReader,
    objects: Objects,
    /// Whoever wants this is gone when it is closed.
    ended: Receiver<()>,
}

/// How much may still be taken.
struct Budget {
    entries: u64,
    bytes: u64,
    /// Ends when the run does.
    can_be_cut_short: bool,
}

impl Walk {
    fn new(vault: &Vault, rules: Option<Vec<Rule>>, ended: Receiver<()>) -> Result<Walk> {
        let reader = vault.stored_reader()?;
        let reader = match rules {
            Some(rules) => reader.through(Rules::new(rules)?),
            None => reader,
        };
        Ok(Walk { reader, objects: vault.store().objects().clone(), ended })
    }

    /// An index without the refs that it belongs to would look like staged work, and a later `sync` would see no commit of
    /// the user's to bring. So refs come first, and both are taken to the end, however short the run is.
    fn take_refs(&self) {
        let refs = repository().join(&EntryName::new(b"refs").expect("a good name"));
        self.below(refs, REFS, SMALL, &|_| true);
        self.below(repository(), REFS, SMALL, &|_| false);
    }

    fn run(&self) {
        self.below(repository(), REPOSITORY, u64::MAX, &|_| true);
        let is_written = |name: &EntryName| name.as_bytes() != GIT && !MADE.contains(&name.as_bytes());
        self.below(TreePath::root(), OTHERS, SMALL, &is_written);
    }

    /// Takes the files below a directory, those nearest to it first.
    fn below(&self, top: TreePath, mut budget: Budget, largest: u64, enters: &dyn Fn(&EntryName) -> bool) {
        let mut open = std::collections::VecDeque::from([top]);
        while let Some(directory) = open.pop_front() {
            // A directory that cannot be listed has nothing to be taken.
            let _ = self.directory(&directory, &mut open, &mut budget, largest, enters);
            if self.is_done(&budget) {
                return;
            }
        }
    }

    fn directory(
        &self,
        directory: &TreePath,
        open: &mut std::collections::VecDeque<TreePath>,
        budget: &mut Budget,
        largest: u64,
        enters: &dyn Fn(&EntryName) -> bool,
    ) -> Result<(), ReadError> {
        for entry in self.reader.list(directory)? {
            let (name, found) = entry?;
            budget.entries -= 1;
            match found.entry.kind {
                EntryKind::Directory { .. } if enters(&name) => open.push_back(directory.join(&name)),
                EntryKind::File { size, content } if found.level >= Level::Read && size <= largest => {
                    self.file(content, size, budget);
                }
                _ => {}
            }
            if self.is_done(budget) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes one file, if it fits. One that cannot be taken fails when it is asked for.
    fn file(&self, content: Content, size: u64, budget: &mut Budget) {
        let Some(id) = id_of(content).filter(|_| size <= budget.bytes) else { return };
        if let Ok(Some(promise)) = self.objects.promise(id)
            && self.objects.keep(PromiseId::from_object(id), &promise).is_ok()
        {
            budget.bytes -= size;
        }
    }

    fn is_done(&self, budget: &Budget) -> bool {
        let is_cut_short =
            || budget.can_be_cut_short && self.ended.try_recv() == Err(TryRecvError::Disconnected);
        budget.entries == 0 || is_cut_short()
    }
}

fn id_of(content: Content) -> Option<ObjectId> {
    match content {
        Content::Empty => None,
        Content::Blob(id) => Some(id.object()),
        Content::Chunks(id) => Some(id.object()),
    }
}
