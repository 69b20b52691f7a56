//! Sandboxes that are ready before anybody asks for them.
//!
//! A tenant keeps some of each kind that was asked for twice lately: the same files, and the same settings. What is asked
//! for once, such as a sandbox with a secret of its own, costs nothing. One that is ready is open, and written down as one that is being made, so that the next server removes what a killed one had. When it is
//! taken, it is written down as any other sandbox, and another one is made in the background.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentvfs::rules::Rule;
use agentvfs::{OpenSandbox, PolicyInForce, Revision, SnapshotId, Vault};

use super::error::ServiceResult;
use super::sandbox::SandboxSpec;
use super::sandboxes::{NewSandbox, fresh_id, sandbox_of, serve_on};
use super::tenant::Tenant;
use crate::clock::SteadyMillis;
use crate::state::SandboxRecord;

/// Of how many kinds some are kept.
const KINDS: usize = 4;
/// How many kinds are remembered.
const REMEMBERED: usize = 64;
/// How often a kind has to be asked for before some are kept.
const WANTED: usize = 2;
/// How long a kind is kept that nobody asks for.
const UNASKED_MS: i64 = 15 * 60 * 1000;

/// Everything in which two sandboxes have to be the same, so that one can be taken for the other. What was asked for is
/// in it, and what that means at this moment.
#[derive(Clone, PartialEq)]
pub(super) struct Kind {
    base: Option<Base>,
    spec: SandboxSpec,
    rules: Option<Vec<Rule>>,
    prefix: Option<&'static str>,
    policy: PolicyInForce,
    /// The state of the image that its system comes from.
    image: Option<SnapshotId>,
}

/// The state of a vault that a sandbox begins with.
#[derive(Clone, PartialEq)]
struct Base {
    name: String,
    vault: u64,
    snapshot: SnapshotId,
    rules: Option<Vec<Rule>>,
}

impl Kind {
    /// The kind of a sandbox that is asked for.
    pub fn of(tenant: &Tenant, new: &NewSandbox, at: Option<(&Revision, &str)>) -> ServiceResult<Kind> {
        let base = at.map(|(at, name)| {
            Ok::<_, agentvfs::Error>(Base {
                name: name.to_owned(),
                vault: at.vault.id().0,
                snapshot: at.snapshot,
                rules: at.vault.rules_for_programs()?,
            })
        });
        let image = new.spec.image.as_deref();
        let image = image.map(|image| tenant.store().images().get(image)?.head());
        Ok(Kind {
            base: base.transpose()?,
            // What a client only wants to find again is no part of what there is.
            spec: SandboxSpec {
                metadata: Default::default(),
                ..new.spec.clone()
            },
            rules: new.rules.clone(),
            prefix: new.prefix,
            policy: match at {
                Some((at, _)) => at.vault.policy_in_force()?,
                None => tenant.store().policy_in_force()?,
            },
            image: image.transpose()?,
        })
    }
}

/// A sandbox that is ready.
pub(super) struct Warm {
    pub id: String,
    pub vault: Vault,
    pub open: OpenSandbox,
}

/// The sandboxes of one kind that are ready.
struct Shelf<W> {
    kind: Arc<Kind>,
    ready: Vec<W>,
    /// How often it was asked for.
    count: usize,
    /// When somebody last asked for one, on the clock that nobody sets.
    asked: i64,
}

/// What a tenant has ready.
pub(super) struct WarmPool<W = Warm> {
    /// How many of each kind.
    size: usize,
    shelves: Mutex<Vec<Shelf<W>>>,
    /// Held by the only thread that makes some.
    filling: Mutex<()>,
    taken: AtomicU64,
}

impl<W> WarmPool<W> {
    pub fn new(size: usize) -> WarmPool<W> {
        WarmPool {
            size,
            shelves: Mutex::default(),
            filling: Mutex::default(),
            taken: AtomicU64::default(),
        }
    }

    /// Whether there is anything to keep.
    pub fn is_on(&self) -> bool {
        self.size > 0
    }

    /// How many are ready.
    pub fn ready(&self) -> usize {
        self.shelves().iter().map(|shelf| shelf.ready.len()).sum()
    }

    /// How many were taken so far.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes one of a kind, and notes that the kind was asked for. What is ready of kinds that make room for it is returned
    /// too.
    fn ask(&self, kind: &Kind, now: i64) -> (Option<W>, Vec<W>) {
        let mut shelves = self.shelves();
        let at = shelves.iter().position(|shelf| *shelf.kind == *kind);
        // The one that was asked for last is the first.
        let mut shelf = match at {
            Some(at) => shelves.remove(at),
            None => Shelf {
                kind: Arc::new(kind.clone()),
                ready: Vec::new(),
                count: 0,
                asked: now,
            },
        };
        shelf.asked = now;
        shelf.count += 1;
        let taken = shelf.ready.pop();
        self.taken.fetch_add(taken.is_some().into(), Ordering::Relaxed);
        shelves.insert(0, shelf);
        shelves.truncate(REMEMBERED);
        let wanted = shelves.iter_mut().filter(|shelf| shelf.count >= WANTED);
        let gone = wanted.skip(KINDS).flat_map(|shelf| {
            shelf.count = 0;
            std::mem::take(&mut shelf.ready)
        });
        (taken, gone.collect())
    }

    /// The kind of which one is to be made next: that which was asked for last.
    fn lacking(&self) -> Option<Arc<Kind>> {
        let shelves = self.shelves();
        let mut wanted = shelves.iter().filter(|shelf| shelf.count >= WANTED);
        let next = wanted.find(|shelf| shelf.ready.len() < self.size)?;
        Some(Arc::clone(&next.kind))
    }

    /// Keeps one that was made; returns it, if nobody wants that kind any more.
    fn keep(&self, kind: &Kind, made: W) -> Option<W> {
        let mut shelves = self.shelves();
        match shelves.iter_mut().find(|shelf| *shelf.kind == *kind) {
            Some(shelf) if shelf.count >= WANTED && shelf.ready.len() < self.size => {
                shelf.ready.push(made);
                None
            }
            Some(_) | None => Some(made),
        }
    }

    /// Gives up the kinds of which this is so, and returns what was ready of them.
    fn give_up(&self, is_over: impl Fn(&Kind, i64) -> bool) -> Vec<W> {
        let mut gone = Vec::new();
        self.shelves().retain_mut(|shelf| {
            let is_over = is_over(&shelf.kind, shelf.asked);
            if is_over {
                gone.append(&mut shelf.ready);
            }
            !is_over
        });
        gone
    }

    fn shelves(&self) -> MutexGuard<'_, Vec<Shelf<W>>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that is ready, for a sandbox of this kind; nothing, if it has to be made.
pub(super) fn take(tenant: &Tenant, kind: &Kind) -> Option<Warm> {
    let (warm, gone) = tenant.pool().ask(kind, SteadyMillis::now().0);
    gone.into_iter().for_each(|warm| discard(tenant, warm));
    warm
}

/// Makes what the pool lacks, in the background.
pub(super) fn fill(tenant: &Arc<Tenant>) {
    if tenant.pool().lacking().is_none() {
        return;
    }
    let filled = Arc::clone(tenant);
    let thread = std::thread::Builder::new().name("warming".into());
    // Without a thread, it is tried again in the next round.
    drop(thread.spawn(move || fill_up(&filled)));
}

fn fill_up(tenant: &Tenant) {
    let pool = tenant.pool();
    let Ok(_only) = pool.filling.try_lock() else {
        return;
    };
    while let Some(kind) = pool.lacking() {
        match make(tenant, &kind) {
            Ok(warm) => {
                if let Some(unwanted) = pool.keep(&kind, warm) {
                    discard(tenant, unwanted);
                }
            }
            // Whoever asks for one is told why there is none.
            Err(error) => {
                if !tenant.is_ending() {
                    tenant.complain("making a sandbox ready", None, Err(error));
                }
                let gone = pool.give_up(|known, _| *known == *kind);
                gone.into_iter().for_each(|warm| discard(tenant, warm));
            }
        }
    }
}

fn make(tenant: &Tenant, kind: &Kind) -> ServiceResult<Warm> {
    tenant.check_open()?;
    tenant.check_disk()?;
    let at = match &kind.base {
        Some(base) => {
            let vault = tenant.store().vault(&base.name)?;
            Some(vault.alone().revision(&base.snapshot.to_string())?)
        }
        None => None,
    };
    let id = fresh_id(kind.prefix)?;
    let from = kind.base.as_ref().zip(at.as_ref());
    let from = from.map(|(base, at)| (at, base.name.as_str()));
    let (record, vault) = tenant.begin_making(&id, from, kind.rules.as_deref(), &kind.spec)?;
    match open(tenant, kind, &record, &vault) {
        Ok(open) => Ok(Warm { id, vault, open }),
        Err(error) => {
            tenant.clear_later(id);
            Err(error)
        }
    }
}

fn open(tenant: &Tenant, kind: &Kind, record: &SandboxRecord, vault: &Vault) -> ServiceResult<OpenSandbox> {
    let sandbox = sandbox_of(record, kind.spec.clone(), vault.clone(), tenant.now()?);
    sandbox.open_alone(tenant)
}

/// Ends what nobody will take.
fn discard(tenant: &Tenant, warm: Warm) {
    let ended = warm.open.end().map(serve_on);
    tenant.complain("ending a sandbox", Some(&warm.id), ended.map_err(Into::into));
    tenant.clear_later(warm.id);
}

/// Ends what nobody has asked for in a while.
pub(super) fn thin_out(tenant: &Tenant) {
    let now = SteadyMillis::now().0;
    let gone = tenant.pool().give_up(|_, asked| now - asked >= UNASKED_MS);
    gone.into_iter().for_each(|warm| discard(tenant, warm));
}

/// Ends everything that is ready. Nothing is made any more when this returns, if the tenant takes no more work.
pub(super) fn drain(tenant: &Tenant) {
    let pool = tenant.pool();
    let _only = pool.filling.lock().unwrap_or_else(PoisonError::into_inner);
    let gone = pool.give_up(|_, _| true);
    gone.into_iter().for_each(|warm| discard(tenant, warm));
}

#[cfg(test)]
mod tests {
    use agentvfs::Store;

    use super::*;

    const NONE: [u32; 0] = [];

    fn kind(policy: &PolicyInForce, prefix: &'static str) -> Kind {
        Kind {
            base: None,
            spec: SandboxSpec::default(),
            rules: None,
            prefix: Some(prefix),
            policy: policy.clone(),
            image: None,
        }
    }

    /// Asks twice, so that some are kept. Nothing is ready of it before.
    fn want(pool: &WarmPool<u32>, kind: &Kind, now: i64) -> Vec<u32> {
        assert_eq!(pool.ask(kind, now), (None, vec![]));
        let (taken, gone) = pool.ask(kind, now);
        assert_eq!(taken, None);
        gone
    }

    #[test]
    fn what_is_asked_for_once_is_not_kept() {
        let directory = tempfile::tempdir().unwrap();
        let policy = Store::open(directory.path()).unwrap().policy_in_force().unwrap();
        let pool: WarmPool<u32> = WarmPool::new(2);
        let a = kind(&policy, "a");
        assert_eq!(pool.ask(&a, 1), (None, vec![]));
        assert!(pool.lacking().is_none());
        assert_eq!(pool.keep(&a, 1), Some(1));
        // Others that are asked for once push out nothing that is wanted.
        assert_eq!(pool.ask(&a, 2), (None, vec![]));
        assert_eq!(pool.keep(&a, 1), None);
        for prefix in ["b", "c", "d", "e", "f", "g"] {
            assert_eq!(pool.ask(&kind(&policy, prefix), 3), (None, vec![]));
        }
        assert_eq!(pool.ask(&a, 4), (Some(1), vec![]));
    }

    #[test]
    fn each_kind_has_its_own_and_those_that_were_asked_for_last_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let policy = Store::open(directory.path()).unwrap().policy_in_force().unwrap();
        let pool: WarmPool<u32> = WarmPool::new(2);
        let (a, b) = (kind(&policy, "a"), kind(&policy, "b"));
        assert_eq!(want(&pool, &a, 1), NONE);
        assert!(*pool.lacking().unwrap() == a);
        assert_eq!(
            [pool.keep(&a, 1), pool.keep(&a, 2), pool.keep(&a, 3)],
            [None, None, Some(3)]
        );
        assert!(pool.lacking().is_none());
        assert_eq!(want(&pool, &b, 2), NONE);
        assert!(*pool.lacking().unwrap() == b);
        assert_eq!(pool.ask(&a, 3), (Some(2), vec![]));
        assert_eq!((pool.ready(), pool.taken()), (1, 1));
        // Of more kinds than there is room for, that goes which was not asked for the longest.
        for (prefix, now) in [("c", 4), ("d", 5), ("e", 6)] {
            assert_eq!(want(&pool, &kind(&policy, prefix), now), NONE);
        }
        assert_eq!(pool.keep(&b, 9), Some(9));
        assert_eq!(want(&pool, &kind(&policy, "f"), 7), [1]);
        assert!(*pool.lacking().unwrap() == kind(&policy, "f"));
        assert_eq!(pool.keep(&kind(&policy, "c"), 5), None);
        assert_eq!(pool.give_up(|_, asked| asked < 7), [5]);
    }

    #[test]
    fn a_pool_of_no_size_makes_nothing() {
        assert!(!WarmPool::<u32>::new(0).is_on());
        assert!(WarmPool::<u32>::new(0).lacking().is_none());
    }
}
