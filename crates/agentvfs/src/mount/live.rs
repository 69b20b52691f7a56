//! One mount that is being served.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use avfs_core::rules::{Rule, Rules};
use avfs_fuse::transport::{FuseServing, InUse, ServingOptions, ServingStop, TransportInUse};
use avfs_fuse::{FuseSession, MountAccess, NotFlushed, Notifier, SessionSettings, Skin, SkinOptions};
use avfs_tree::WorkTree;

use super::{MountOptions, Report, Transport};
use crate::control::{MountRecord, MountState};
use crate::error::{Error, Result, VaultMountError};
use crate::open::OpenVault;

pub(super) struct LiveMount {
    dir: PathBuf,
    options: Mutex<MountOptions>,
    skin: Arc<Skin>,
    session: Arc<FuseSession>,
    way: TransportInUse,
    stop: ServingStop,
    notifier: Notifier,
    /// Whether its name was removed: its remaining users are still served, and its directory may have another
    /// mount.
    detached: AtomicBool,
    ended: Mutex<bool>,
    end: Condvar,
}

impl LiveMount {
    /// Serves a connection until it is unmounted, then calls `when_ended`.
    pub(super) fn serve(
        open: &OpenVault,
        dir: &Path,
        options: MountOptions,
        connection: OwnedFd,
        report: &Report,
        when_ended: impl FnOnce(&Arc<LiveMount>) + Send + 'static,
    ) -> Result<Arc<LiveMount>> {
        let past = options.at.map(|snapshot| past_tree(open, snapshot)).transpose()?;
        let store = open.vault().store().clone();
        let skin = Skin::new(
            past.as_ref().unwrap_or(open.tree()),
            SkinOptions {
                access: match (options.at, options.read_only) {
                    (Some(_), _) => MountAccess::Past,
                    (None, true) => MountAccess::ReadOnly,
                    (None, false) => MountAccess::Everything,
                },
                rules: options.rules.clone().map(Rules::shared).transpose()?,
                owner: options.owner,
                exclusive: options.exclusive,
                checks_modes: options.is_asked_before_open() && super::leaves_modes_to_server(dir),
                free_bytes: Arc::new(move || store.free_bytes()),
                log: Arc::clone(report),
            },
        );
        let settings = SessionSettings {
            log: Arc::clone(report),
            ..SessionSettings::default()
        };
        let session = Arc::new(FuseSession::new(Arc::clone(&skin) as _, settings));
        let wanted = ServingOptions {
            transport: options.transport,
            ..ServingOptions::default()
        };
        let serving = FuseServing::start(Arc::clone(&session), connection, wanted)?;
        let way = serving.way();
        let stop = serving.stopper();
        let notifier = serving.notifier().clone();
        skin.watch(&notifier);
        let (detached, ended, end) = (AtomicBool::new(false), Mutex::new(false), Condvar::new());
        let mount = Arc::new(LiveMount {
            dir: dir.to_owned(),
            options: Mutex::new(options),
            skin,
            session,
            way,
            stop,
            notifier,
            detached,
            ended,
            end,
        });
        let waiting = Arc::clone(&mount);
        let thread = std::thread::Builder::new().name("mount".into()).spawn(move || {
            serving.wait();
            // No notification may be sent to a connection that is gone.
            waiting.skin.unwatch();
            when_ended(&waiting);
            *waiting.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
            waiting.end.notify_all();
        });
        thread.map_err(|source| Error::Host {
            action: "serving",
            place: dir.display().to_string(),
            source,
        })?;
        Ok(mount)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn is_detached(&self) -> bool {
        self.detached.load(Ordering::Acquire)
    }

    pub(super) fn set_detached(&self) {
        self.detached.store(true, Ordering::Release);
    }

    /// Stops serving: copies of it in other namespaces answer with errors.
    pub(super) fn cut_off(&self) {
        self.stop.ask();
    }

    /// Waits until no process can use it; returns whether that is so.
    pub(super) fn await_end(&self, at_most: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.end.wait_timeout_while(ended, at_most, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until the kernel has processed all notifications.
    pub(super) fn flush(&self, at_most: Duration) -> Result<(), NotFlushed> {
        self.notifier.flush(at_most)
    }

    /// Changes the rules through which it is seen: when this returns, the kernel has dropped its caches.
    pub(super) fn set_rules(&self, rules: Vec<Rule>, at_most: Duration) -> Result<()> {
        let compiled = Rules::shared(rules.clone())?;
        MountOptions {
            rules: Some(rules.clone()),
            ..self.options().clone()
        }
        .check()?;
        self.skin.set_rules(compiled);
        self.options().rules = Some(rules);
        self.flush(at_most).map_err(|_| {
            Error::Mount(VaultMountError::SlowKernel {
                dir: self.dir.clone(),
            })
        })
    }

    /// Whether the other mount cannot exist beside this one.
    pub(super) fn excludes(&self, other: &MountOptions) -> bool {
        !self.is_detached() && self.options().excludes(other)
    }

    pub(super) fn is_alone(&self) -> bool {
        self.options().exclusive
    }

    fn options(&self) -> MutexGuard<'_, MountOptions> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> MountState {
        let counters = self.session.counters();
        let by_opcode = counters.operations().into_iter();
        MountState {
            record: MountRecord::ours(&self.dir, &self.options().words()),
            transport: name(self.way.in_use()).into(),
            requests: counters.total(),
            by_opcode: by_opcode
                .map(|count| (format!("{:?}", count.opcode).to_lowercase(), count.requests))
                .collect(),
            serve_ns: counters.histogram(),
            deferred: self.skin.deferred(),
            memory_bytes: resident_bytes(),
        }
    }
}

fn name(way: Option<InUse>) -> &'static str {
    match way {
        None => "undecided",
        Some(InUse::Device) => Transport::Device.as_str(),
        Some(InUse::Uring) => Transport::Uring.as_str(),
    }
}

/// A tree of its own for a state of the past.
fn past_tree(open: &OpenVault, snapshot: avfs_core::SnapshotId) -> Result<WorkTree> {
    let (vault, store) = (open.vault(), open.vault().store());
    let root = vault.snapshot(snapshot)?.root;
    // The numbers of the present are those that tools know.
    let inodes = vault.record()?.0.head.inodes;
    let base = avfs_tree::BaseTree { root, inodes };
    Ok(WorkTree::in_memory(store.objects().clone(), base, store.clock())?)
}

/// Zero if the system does not report it.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
