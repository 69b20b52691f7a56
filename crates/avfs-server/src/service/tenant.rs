//! Tenants: each has a store, a database and limits of its own.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentvfs::mount::Report;
use agentvfs::{ErrorKind, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::codebases::{FileCounts, recover_codebases};
use super::disk::DiskUse;
use super::ended::EndedProcesses;
use super::error::{ServiceError, ServiceResult};
use super::exchange::Turns;
use super::pool::WarmPool;
use super::queue::Queue;
use super::rate::RequestRate;
use super::sandbox::Sandbox;
use super::spare::Spare;
use super::threads::{Share, on_a_thread};
use crate::auth::check_tenant;
use crate::clock::{Moment, SteadyMillis};
use crate::metrics::TenantCounters;
use crate::options::{ServerOptions, TenantLimits};
use crate::state::{self, State};

/// The tenant whose store is that of the user who runs the server.
pub const DEFAULT_TENANT: &str = "default";

/// How many long bodies of a tenant are in memory at the same time, and from which length on a body is long.
const LARGE_BODIES: usize = 8;
const SHORT_BODY: u64 = 64 << 10;

/// One tenant. Nothing in it refers to another.
pub struct Tenant {
    /// Its name.
    pub name: String,
    store: Store,
    state: State,
    /// Where uploads wait until they are whole.
    spool: PathBuf,
    options: ServerOptions,
    queue: Queue,
    share: Share,
    /// Places for bodies that are long.
    bodies: Arc<Semaphore>,
    ended: EndedProcesses,
    spare: Spare,
    pool: WarmPool,
    counters: TenantCounters,
    counts: FileCounts,
    turns: Turns,
    rate: RequestRate,
    disk: DiskUse,
    sandboxes: Mutex<BTreeMap<String, Arc<Sandbox>>>,
    /// How many sandboxes are being made.
    making: AtomicUsize,
    /// When the clock was last looked at.
    looked: Mutex<Moment>,
    /// Held in a round of what is done by itself.
    rounds: Mutex<()>,
    /// Sandboxes that are gone, and of which something is left that could not be removed yet.
    uncleared: Mutex<Vec<String>>,
    /// When what was kept for long enough is next removed, on the clock that nobody sets.
    tidy_due: AtomicI64,
    /// Set when the server ends.
    is_ending: AtomicBool,
}

impl Tenant {
    /// Opens the store of a tenant, and finishes what a server that died has begun.
    fn open(options: &ServerOptions, name: &str) -> ServiceResult<Tenant> {
        let home = place(&options.home, name)?;
        let failed = |error| ServiceError::host("opening the tenant's directory", &error);
        state::make_private(&home).map_err(failed)?;
        let store = Store::open_with(&home, options.store.clone())?;
        // What a killed server left mounted is gone before anybody looks.
        store.clear_away_runs();
        store.recover_applies()?;
        let spool = home.join("uploads");
        // Uploads that were not whole when a server died.
        let _ = std::fs::remove_dir_all(&spool);
        state::make_private(&spool).map_err(failed)?;
        let state = match &options.database {
            Some((of, file)) if name == of => State::open_at(file)?,
            _ => State::open(&home)?,
        };
        let now = Moment::now();
        let jump = state.clock().jump(now, &boot())?;
        // On a full disk, a server starts all the same, and the next one finds the same jump.
        let moved = if state.clock().follow(now, &boot(), jump).is_ok() {
            0
        } else {
            jump
        };
        let tenant = Tenant {
            name: name.to_owned(),
            state,
            store,
            spool,
            options: options.clone(),
            queue: Queue::new(options.limits.running, options.limits.waiting),
            share: Share::default(),
            bodies: Arc::new(Semaphore::new(LARGE_BODIES)),
            ended: EndedProcesses::default(),
            spare: Spare::in_directory(&home),
            pool: WarmPool::new(options.limits.warm),
            counters: TenantCounters::default(),
            counts: FileCounts::default(),
            turns: Turns::default(),
            rate: RequestRate::new(options.limits.requests, SteadyMillis::now()),
            disk: DiskUse::default(),
            sandboxes: Mutex::default(),
            making: AtomicUsize::new(0),
            looked: Mutex::new(now),
            rounds: Mutex::default(),
            uncleared: Mutex::default(),
            tidy_due: AtomicI64::new(0),
            is_ending: AtomicBool::new(false),
        };
        tenant.recover(now, moved)?;
        recover_codebases(&tenant)?;
        tenant.look_at_disk();
        tenant.spare.keep();
        Ok(tenant)
    }

    /// Its store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What it may use.
    pub fn limits(&self) -> &TenantLimits {
        &self.options.limits
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// The threads that may work for it.
    pub(crate) fn share(&self) -> Share {
        self.share.clone()
    }

    /// Waits until another long body may be taken into memory. Nothing has to be kept for one that is short.
    pub(crate) async fn large_body(&self, length: Option<u64>) -> Option<OwnedSemaphorePermit> {
        if length.is_some_and(|length| length <= SHORT_BODY) {
            return None;
        }
        // Nobody closes it.
        Arc::clone(&self.bodies).acquire_owned().await.ok()
    }

    pub(super) fn spare(&self) -> &Spare {
        &self.spare
    }

    pub(super) fn pool(&self) -> &WarmPool {
        &self.pool
    }

    /// How many sandboxes are ready that nobody has asked for yet, and how many of those were taken so far.
    pub(crate) fn warm(&self) -> (usize, u64) {
        (self.pool.ready(), self.pool.taken())
    }

    pub(super) fn ended(&self) -> &EndedProcesses {
        &self.ended
    }

    pub(crate) fn counters(&self) -> &TenantCounters {
        &self.counters
    }

    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    pub(super) fn counts(&self) -> &FileCounts {
        &self.counts
    }

    pub(super) fn options(&self) -> &ServerOptions {
        &self.options
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(super) fn spool(&self) -> &Path {
        &self.spool
    }

    pub(super) fn report(&self) -> Report {
        let log = Arc::clone(&self.options.log);
        let tenant = self.name.clone();
        Arc::new(move |line: &str| {
            log(&serde_json::json!({ "tenant": tenant, "mount": line }).to_string());
        })
    }

    pub(super) fn table(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Sandbox>>> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn rounds(&self) -> &Mutex<()> {
        &self.rounds
    }

    pub(super) fn uncleared(&self) -> MutexGuard<'_, Vec<String>> {
        self.uncleared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tidy_due(&self) -> &AtomicI64 {
        &self.tidy_due
    }

    pub(super) fn making(&self) -> &AtomicUsize {
        &self.making
    }

    /// The present moment. If the time of day was set, what expires has moved with it then.
    pub(super) fn now(&self) -> ServiceResult<Moment> {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Moment::now();
        if now.jump_since(*looked).is_some() {
            let jump = self.state.clock().jump(now, &boot())?;
            self.state.clock().follow(now, &boot(), jump)?;
            for sandbox in self.table().values() {
                sandbox.move_expires(jump);
            }
        }
        *looked = now;
        Ok(now)
    }

    /// Refuses work that a server which ends could not finish.
    pub(super) fn check_open(&self) -> ServiceResult<()> {
        if self.is_ending() {
            return Err(ServiceError::ending());
        }
        Ok(())
    }

    /// Refuses what needs more disk than the tenant may use.
    pub(super) fn check_disk(&self) -> ServiceResult<()> {
        self.disk.check(self.limits().total_disk)
    }

    /// Measures what the tenant uses, if that is of interest.
    pub(super) fn look_at_disk(&self) {
        if self.limits().total_disk.is_some()
            && let Ok(home) = place(&self.options.home, &self.name)
        {
            self.disk.look(&home);
        }
    }

    /// What was measured last of the disk that it uses.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.disk.bytes()
    }

    /// Counts a request. Returns whether it may be made.
    pub(crate) fn admit_request(&self) -> bool {
        self.rate.take(SteadyMillis::now())
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    pub(super) fn refuse_more(&self) {
        self.is_ending.store(true, Ordering::Release);
    }
}

/// The name of this run of the machine.
fn boot() -> String {
    // Without one, the clock counts as that of another run.
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    boot.map(|boot| boot.trim().to_owned()).unwrap_or_default()
}

/// The store of a tenant.
fn place(home: &Path, name: &str) -> ServiceResult<PathBuf> {
    if name == DEFAULT_TENANT {
        return Ok(home.to_owned());
    }
    // Tokens have names that were checked; this is the name of a directory all the same.
    check_tenant(name).map_err(|error| ServiceError::invalid(error.to_string()))?;
    Ok(home.join("server/tenants").join(name))
}

type Slot = Arc<Mutex<Option<Arc<Tenant>>>>;

/// The tenants of a server. Each is opened when it is first needed, and stays open.
pub struct Tenants {
    options: ServerOptions,
    open: Mutex<HashMap<String, Slot>>,
}

impl Tenants {
    pub(crate) fn new(options: ServerOptions) -> Tenants {
        Tenants {
            options,
            open: Mutex::default(),
        }
    }

    pub(super) fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// The tenant with this name.
    pub async fn get(self: &Arc<Tenants>, name: &str) -> ServiceResult<Arc<Tenant>> {
        let slot = Arc::clone(self.table().entry(name.to_owned()).or_default());
        // One that is open is not waited for on another thread.
        if let Ok(place) = slot.try_lock()
            && let Some(tenant) = &*place
        {
            return Ok(Arc::clone(tenant));
        }
        let (tenants, name) = (Arc::clone(self), name.to_owned());
        on_a_thread(move || {
            let mut place = slot.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(tenant) = &*place {
                return Ok(Arc::clone(tenant));
            }
            let tenant = Tenant::open(&tenants.options, &name)?;
            Ok(Arc::clone(place.insert(Arc::new(tenant))))
        })
        .await
    }

    /// The tenant with this name, if it has a store.
    pub async fn existing(self: &Arc<Tenants>, name: &str) -> ServiceResult<Arc<Tenant>> {
        let found = place(&self.options.home, name).is_ok_and(|place| place.is_dir());
        if !found {
            let name = avfs_core::printable(name.as_bytes());
            let text = format!("there is no tenant '{name}'");
            return Err(ServiceError::new("unknown-tenant", ErrorKind::NotFound, text));
        }
        self.get(name).await
    }

    /// Those that are open.
    pub(crate) fn all_open(&self) -> Vec<Arc<Tenant>> {
        let slots: Vec<Slot> = self.table().values().cloned().collect();
        // One that is being opened is not waited for.
        let open = |slot: &Slot| slot.try_lock().ok().and_then(|place| place.clone());
        slots.iter().filter_map(open).collect()
    }

    /// The names of all that have a store, the default one first.
    pub(crate) fn names(&self) -> std::io::Result<Vec<String>> {
        let mut names = vec![DEFAULT_TENANT.to_owned()];
        let places = match std::fs::read_dir(self.options.home.join("server/tenants")) {
            Ok(places) => places,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(names),
            Err(error) => return Err(error),
        };
        for place in places {
            let name = place?.file_name();
            if let Some(name) = name.to_str().filter(|name| check_tenant(name).is_ok()) {
                names.push(name.to_owned());
            }
        }
        names[1..].sort();
        Ok(names)
    }

    fn table(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
