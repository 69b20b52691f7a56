//! Periodic work of an owner: it syncs every second, and takes snapshots so that there is an automatic
//! history.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::open::OpenVault;

/// Receives errors for which no caller waits.
pub type Log = dyn Fn(&Error) + Send + Sync;

/// When things are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    /// Changes are durable after this long at most.
    pub sync: Duration,
    /// A snapshot is taken when nothing has changed for this long after a change …
    pub quiet: Duration,
    /// … or when this long has passed since the first one …
    pub busy: Duration,
    /// … or when the journal is this long, in bytes.
    pub journal: u64,
    /// After a failure, how long to wait before trying again.
    pub retry: Duration,
}

impl Default for Rhythm {
    fn default() -> Rhythm {
        Rhythm {
            sync: Duration::from_secs(1),
            quiet: Duration::from_secs(2),
            busy: Duration::from_secs(60),
            journal: 1 << 30,
            retry: Duration::from_secs(5),
        }
    }
}

/// How often the tree is checked.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Waits for the next check and returns the time since the start; `None`: stop.
type Ticks = dyn FnMut() -> Option<Duration> + Send;

/// The thread that looks after a vault, until it is dropped.
pub(crate) struct Keeper {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    bell: Condvar,
}

impl Keeper {
    pub(super) fn start(open: Arc<OpenVault>, rhythm: Rhythm, log: Arc<Log>) -> Keeper {
        let stop = Arc::new(Stop::default());
        let (ticking, start) = (Arc::clone(&stop), Instant::now());
        let ticks = Box::new(move || ticking.wait(LOOK_EVERY).then(|| start.elapsed()));
        let thread = spawn(open, rhythm, log, ticks);
        Keeper {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.ring();
        if let Some(thread) = self.thread.take() {
            // Joined: a sync or a snapshot that has begun ends before the vault is closed.
            let _ = thread.join();
        }
    }
}

impl Stop {
    /// Waits; returns whether to go on.
    fn wait(&self, time: Duration) -> bool {
        let stopped = self
            .stopped
            .lock()
            .expect("no panic happens while the lock is held");
        let waited = self.bell.wait_timeout_while(stopped, time, |stopped| !*stopped);
        !*waited.expect("no panic happens while the lock is held").0
    }

    fn ring(&self) {
        *self
            .stopped
            .lock()
            .expect("no panic happens while the lock is held") = true;
        self.bell.notify_all();
    }
}

fn spawn(open: Arc<OpenVault>, rhythm: Rhythm, log: Arc<Log>, mut ticks: Box<Ticks>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut watch = TreeWatch::new(rhythm);
        while let Some(now) = ticks() {
            if let Err(error) = look_after(&open, &mut watch, now) {
                watch.failed(now);
                log(&error);
            }
        }
    })
}

fn look_after(open: &OpenVault, watch: &mut TreeWatch, now: Duration) -> Result<()> {
    open.vault().store().objects().commit_kept()?;
    match watch.look(now, open.tree().journal_len()) {
        Due::Nothing => {}
        Due::Sync(upto) => {
            open.sync()?;
            watch.synced(now, upto);
        }
        Due::Snapshot => {
            open.settle()?;
            watch.saved();
        }
    }
    Ok(())
}

/// The action that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    /// The journal has grown up to here.
    Sync(u64),
    Snapshot,
}

/// The observations of a tree: the decisions, without doing anything.
struct TreeWatch {
    rhythm: Rhythm,
    /// The length of the journal at the last check.
    seen: u64,
    synced: u64,
    last_sync: Option<Duration>,
    /// The first and the last change that are in no snapshot.
    changed: Option<(Duration, Duration)>,
    not_before: Duration,
}

impl TreeWatch {
    fn new(rhythm: Rhythm) -> TreeWatch {
        let (last_sync, changed, not_before) = (None, None, Duration::ZERO);
        TreeWatch {
            rhythm,
            seen: 0,
            synced: 0,
            last_sync,
            changed,
            not_before,
        }
    }

    fn look(&mut self, now: Duration, journal: u64) -> Due {
        if journal < self.seen {
            // Someone took a snapshot, and a new journal was begun.
            self.saved();
        }
        if journal > self.seen {
            self.changed = Some((self.changed.map_or(now, |(first, _)| first), now));
        }
        self.seen = journal;
        let Some((first, last)) = self.changed.filter(|_| now >= self.not_before) else {
            return Due::Nothing;
        };
        let since = |then: Duration| now.saturating_sub(then);
        if since(last) >= self.rhythm.quiet
            || since(first) >= self.rhythm.busy
            || journal >= self.rhythm.journal
        {
            return Due::Snapshot;
        }
        let sync_due = self.last_sync.is_none_or(|then| since(then) >= self.rhythm.sync);
        if journal > self.synced && sync_due {
            Due::Sync(journal)
        } else {
            Due::Nothing
        }
    }

    fn synced(&mut self, now: Duration, upto: u64) {
        self.last_sync = Some(now);
        self.synced = upto;
    }

    fn saved(&mut self) {
        (self.seen, self.synced, self.changed) = (0, 0, None);
    }

    fn failed(&mut self, now: Duration) {
        self.not_before = now + self.rhythm.retry;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::{Store, TreePath, VaultName};

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Checks journals of these lengths at these seconds, doing what is due.
    #[track_caller]
    fn check(looks: &[(u64, u64)], expected: &[Due]) {
        let mut watch = TreeWatch::new(Rhythm::default());
        let mut found = Vec::new();
        for (now, journal) in looks {
            let due = watch.look(seconds(*now), *journal);
            match due {
                Due::Nothing => {}
                Due::Sync(upto) => watch.synced(seconds(*now), upto),
                Due::Snapshot => watch.saved(),
            }
            found.push(due);
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn a_change_is_synced_and_then_saved_when_it_is_quiet() {
        use Due::*;
        check(
            &[(0, 0), (1, 50), (2, 50), (3, 50), (4, 0)],
            &[Nothing, Sync(50), Nothing, Snapshot, Nothing],
        );
    }

    #[test]
    fn steady_change_is_saved_once_a_minute() {
        let looks: Vec<(u64, u64)> = (1..=61).map(|second| (second, second * 10)).collect();
        let mut expected: Vec<Due> = (1..=60).map(|second| Due::Sync(second * 10)).collect();
        expected.push(Due::Snapshot);
        check(&looks, &expected);
    }

    #[test]
    fn a_long_journal_is_saved_at_once() {
        check(&[(1, 1 << 30)], &[Due::Snapshot]);
    }

    #[test]
    fn a_snapshot_by_someone_else_counts() {
        use Due::*;
        let looks = [(1, 500), (2, 100), (3, 100), (4, 100), (5, 0)];
        check(&looks, &[Sync(500), Sync(100), Nothing, Snapshot, Nothing]);
    }

    #[test]
    fn a_failure_is_tried_again_later() {
        let mut watch = TreeWatch::new(Rhythm::default());
        watch.look(seconds(1), 10);
        assert_eq!(watch.look(seconds(3), 10), Due::Snapshot);
        watch.failed(seconds(3));
        assert_eq!(watch.look(seconds(7), 10), Due::Nothing);
        assert_eq!(watch.look(seconds(8), 10), Due::Snapshot);
    }

    #[test]
    fn the_thread_takes_the_snapshot_and_ends_when_its_clock_does() {
        let home = tempfile::tempdir().unwrap();
        let vault = Store::open(home.path())
            .unwrap()
            .create_vault(&VaultName::new("main").unwrap())
            .unwrap();
        let open = Arc::new(vault.open().unwrap());
        open.write_bytes(&TreePath::parse(b"/a").unwrap(), b"kept")
            .unwrap();
        let (tick, ticks) = mpsc::channel();
        let log = Arc::new(|error: &Error| panic!("{error}"));
        let thread = spawn(
            Arc::clone(&open),
            Rhythm::default(),
            log,
            Box::new(move || ticks.recv().ok()),
        );
        for second in [1, 2, 3, 4] {
            tick.send(seconds(second)).unwrap();
        }
        drop(tick);
        thread.join().unwrap();
        assert!(!open.tree().is_dirty());
        assert_eq!(
            vault.history().entries(None, 10).unwrap()[0].action,
            "mount automatic"
        );
    }

    #[test]
    fn a_dropped_keeper_has_ended() {
        let vault = Store::in_memory()
            .create_vault(&VaultName::new("main").unwrap())
            .unwrap();
        let open = Arc::new(vault.open().unwrap());
        drop(Keeper::start(
            Arc::clone(&open),
            Rhythm::default(),
            Arc::new(|_: &Error| {}),
        ));
        assert_eq!(Arc::strong_count(&open), 1);
    }
}
