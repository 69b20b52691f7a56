//! Reads files of a source ahead of time: first those that the host may remove.
//!
//! The repository of a project comes first: a `git gc` of the user's replaces packs that a task still needs,
//! and moves refs into a file that the task may have missed; refs are read immediately. Then what the programs of
//! earlier runs had to wait for ([`ReadBefore`]), before those of this run request it. Then small files that
//! look as if people wrote them. Everything else is read on demand. Files that the rules of the view make
//! unreadable are never read: they stay out of the store.

mod read_before;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use avfs_core::rules::{Level, Rule, Rules};
use avfs_core::{Content, EntryKind, EntryName, ObjectId, PromiseId, TreePath};
use avfs_tree::{Objects, ReadError, TreeReader, WorkTree};

use self::read_before::ReadBefore;
use crate::error::Result;
use crate::taken_trees::{TakenTree, TakenTrees, TreeTurn};
use crate::vault::Vault;

const GIT: &[u8] = b".git";
/// Directories that tools create, and can recreate.
const MADE: [&[u8]; 4] = [b"node_modules", b"target", b".venv", b"__pycache__"];
/// Larger files are read on demand.
const SMALL: u64 = 256 << 10;
/// Larger files are not read again, and no more bytes than this in all: the cache of the store has room for both.
const LARGEST: u64 = 1 << 20;
const READ_AGAIN: u64 = 20 << 20;
/// How much of a repository is read, and how many of its entries are examined.
const REPOSITORY: Budget = Budget {
    entries: 200_000,
    bytes: 1 << 30,
    can_be_cut_short: true,
};
/// The same for its refs and the files beside them.
const REFS: Budget = Budget {
    entries: 10_000,
    bytes: 16 << 20,
    can_be_cut_short: false,
};
/// The same for everything else.
const OTHERS: Budget = Budget {
    entries: 20_000,
    bytes: 128 << 20,
    can_be_cut_short: true,
};
/// All other processes of the machine have priority.
const PRIORITY: i32 = 15;
/// How often a walk looks whether another one of the same tree has come to its end.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A thread that reads files ahead of time. When this is dropped, it ends at the next file, once refs are
/// read.
pub struct TakingAhead {
    thread: Option<JoinHandle<()>>,
    /// Closing it ends the thread.
    going_on: Option<Sender<()>>,
    /// `None`: nothing is promised, so nothing is waited for.
    before: Option<ReadBefore>,
}

impl TakingAhead {
    /// Reads files of the present state of a vault, as seen through `rules`. Begins after a while, so
    /// that a short run costs nothing.
    pub fn start(vault: &Vault, rules: Option<Vec<Rule>>, after: Duration) -> TakingAhead {
        let (going_on, ended) = channel();
        if !vault.store().objects().may_promise() {
            return TakingAhead {
                thread: None,
                going_on: None,
                before: None,
            };
        }
        let before = ReadBefore::of(vault);
        let paths = before.as_ref().map(ReadBefore::paths).unwrap_or_default();
        let vault = vault.clone();
        let thread = std::thread::Builder::new()
            .name("take-ahead".into())
            .spawn(move || {
                let Ok(walk) = TakenWalk::new(&vault, rules, ended) else {
                    return;
                };
                walk.take_refs();
                walk.read_again(&paths);
                if walk.ended.recv_timeout(after) == Err(RecvTimeoutError::Timeout) {
                    // Only a courtesy to other threads: reading works without it.
                    let _ = rustix::process::setpriority_process(None, PRIORITY);
                    walk.run_once(vault.store().walks());
                }
            });
        // Without it, everything is read on demand.
        TakingAhead {
            thread: thread.ok(),
            going_on: Some(going_on),
            before,
        }
    }

    /// Notes for later runs what programs behind the mounts of a tree had to wait for.
    pub fn learn(&self, tree: &WorkTree) {
        if let Some(before) = &self.before {
            before.add(tree.requested_paths());
        }
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
            // It holds the vault's store open, which must not outlast the run.
            let _ = thread.join();
        }
    }
}

fn repository() -> TreePath {
    TreePath::root().join(&EntryName::new(GIT).expect("a good name"))
}

struct TakenWalk {
    tree: TakenTree,
    reader: TreeReader,
    objects: Objects,
    /// Closed when the result is no longer wanted.
    ended: Receiver<()>,
}

/// The remaining limits.
struct Budget {
    entries: u64,
    bytes: u64,
    /// Ends when the run does.
    can_be_cut_short: bool,
}

impl TakenWalk {
    fn new(vault: &Vault, rules: Option<Vec<Rule>>, ended: Receiver<()>) -> Result<TakenWalk> {
        let reader = vault.stored_reader()?;
        let tree = TakenTree {
            root: reader.root().clone(),
            rules: [vault.rules().map(|rules| rules.list().to_vec()), rules.clone()],
        };
        let reader = match rules {
            Some(rules) => reader.through(Rules::shared(rules)?),
            None => reader,
        };
        Ok(TakenWalk {
            tree,
            reader,
            objects: vault.store().objects().clone(),
            ended,
        })
    }

    /// An index without the refs that it belongs to would look like staged work, and a later `sync` would see no commit of
    /// the user's to bring. So refs come first, and both are taken to the end, however short the run is.
    fn take_refs(&self) {
        let refs = repository().join(&EntryName::new(b"refs").expect("a good name"));
        self.below(refs, REFS, SMALL, &|_| true);
        self.below(repository(), REFS, SMALL, &|_| false);
    }

    /// Takes the files, unless another walk has taken them. One that is cut short leaves them to those that wait for it.
    fn run_once(&self, trees: &TakenTrees) {
        loop {
            match trees.begin(&self.tree) {
                TreeTurn::Ours => {
                    self.run();
                    trees.end(&self.tree, !self.has_ended());
                    return;
                }
                TreeTurn::Others if self.ended.recv_timeout(LOOK_AGAIN) == Err(RecvTimeoutError::Timeout) => {
                }
                TreeTurn::Others | TreeTurn::Nothings => return,
            }
        }
    }

    /// Reads what earlier runs have waited for, at the speed of any other thread: programs are about to request it.
    fn read_again(&self, paths: &[TreePath]) {
        let mut bytes = READ_AGAIN;
        for path in paths {
            if self.has_ended() {
                return;
            }
            // An entry may be gone, or hidden by now.
            let Ok(found) = self.reader.find(path) else {
                continue;
            };
            match found.entry.kind {
                EntryKind::File { size, .. } if found.level < Level::Read || size > LARGEST => {}
                EntryKind::File { size, .. } if size > bytes => return,
                _ => bytes -= self.objects.read_ahead(&found.entry).unwrap_or_default(),
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.try_recv() == Err(TryRecvError::Disconnected)
    }

    fn run(&self) {
        self.below(repository(), REPOSITORY, u64::MAX, &|_| true);
        let is_written = |name: &EntryName| name.as_bytes() != GIT && !MADE.contains(&name.as_bytes());
        self.below(TreePath::root(), OTHERS, SMALL, &is_written);
    }

    /// Takes the files below a directory, those nearest to it first.
    fn below(&self, top: TreePath, mut budget: Budget, largest: u64, enters: &dyn Fn(&EntryName) -> bool) {
        let mut open = VecDeque::from([top]);
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
        open: &mut VecDeque<TreePath>,
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

    /// Reads one file, if it fits. An error is reported when the file is read on demand.
    fn file(&self, content: Content, size: u64, budget: &mut Budget) {
        let Some(id) = id_of(content).filter(|_| size <= budget.bytes) else {
            return;
        };
        if let Ok(Some(promise)) = self.objects.promise(id)
            && self.objects.keep(PromiseId::from_object(id), &promise).is_ok()
        {
            budget.bytes -= size;
        }
    }

    fn is_done(&self, budget: &Budget) -> bool {
        budget.entries == 0 || (budget.can_be_cut_short && self.has_ended())
    }
}

fn id_of(content: Content) -> Option<ObjectId> {
    match content {
        Content::Empty => None,
        Content::Blob(id) => Some(id.object()),
        Content::Chunks(id) => Some(id.object()),
    }
}
