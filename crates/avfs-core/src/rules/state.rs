//! The states of paths among the patterns: sets of nodes, each created once, and the steps between them.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::below::{BelowCache, LabelledState};
use super::decide::RuleVerdict;
use super::machine::NodeSet;
use super::names::GlobId;

/// When all sets together have more nodes than this, the memory is emptied.
const NODES_MAX: usize = 1 << 20;
const STATES_MAX: usize = 1 << 14;
const STEPS_MAX: usize = 1 << 16;
const RECENT_NAMES: usize = 1 << 13;
const COMPARISONS_MAX: usize = 1 << 12;

/// The progress of a path in all patterns, without the rules that decide nothing from here on.
#[derive(Debug)]
pub(super) struct PathState {
    /// Never used twice in one [`StateMemory`].
    id: u64,
    /// The verdict of the path rules here.
    pub(super) verdict: Option<RuleVerdict>,
    /// The nodes that are relevant below.
    pub(super) nodes: NodeSet,
    pub(super) literal: Vec<GlobId>,
    pub(super) wild: Vec<GlobId>,
    /// The verdicts below, computed on first use.
    pub(super) below: BelowCache,
}

impl PartialEq for PathState {
    fn eq(&self, other: &PathState) -> bool {
        self.id == other.id || self.verdict == other.verdict && self.nodes == other.nodes
    }
}

impl Eq for PathState {}

impl Hash for PathState {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.verdict.hash(hasher);
        self.nodes.hash(hasher);
    }
}

/// Recently computed steps. States that were evicted live on with their holders.
#[derive(Debug)]
pub(super) struct StateMemory {
    table: RwLock<StateTable>,
    recent: Box<[Mutex<Option<RecentStep>>]>,
    comparisons: Mutex<HashMap<PlaceComparison, bool>>,
}

#[derive(Debug, Default)]
struct StateTable {
    next_id: u64,
    nodes: usize,
    states: HashMap<(Option<RuleVerdict>, NodeSet), Arc<PathState>>,
    steps: HashMap<StepKey, Arc<PathState>>,
}

/// From the state with this id, to names that match these globs.
type StepKey = (u64, Vec<GlobId>);

/// A question about two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PlaceQuestion {
    Same,
    NoHigher,
    HigherNearby,
}

/// A question about two states by their ids, and the verdict of the labels at each.
type PlaceComparison = (PlaceQuestion, [(u64, Option<RuleVerdict>); 2]);

#[derive(Debug)]
struct RecentStep {
    from: u64,
    name: Box<[u8]>,
    to: Arc<PathState>,
}

impl StateMemory {
    pub(super) fn new() -> StateMemory {
        let recent = (0..RECENT_NAMES).map(|_| Mutex::new(None)).collect();
        StateMemory {
            table: RwLock::default(),
            recent,
            comparisons: Mutex::default(),
        }
    }

    pub(super) fn state(
        &self,
        verdict: Option<RuleVerdict>,
        nodes: NodeSet,
        globs: impl FnOnce(&NodeSet) -> (Vec<GlobId>, Vec<GlobId>),
    ) -> Arc<PathState> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let key = (verdict, nodes);
        if let Some(state) = table.states.get(&key) {
            return Arc::clone(state);
        }
        self.forget_if_full(&mut table);
        table.next_id += 1;
        table.nodes += key.1.len();
        let (literal, wild) = globs(&key.1);
        let id = table.next_id;
        let nodes = key.1.clone();
        let below = BelowCache::default();
        let state = Arc::new(PathState {
            id,
            verdict,
            nodes,
            literal,
            wild,
            below,
        });
        table.states.insert(key, Arc::clone(&state));
        state
    }

    /// The state after a step that was taken before.
    pub(super) fn known_step(
        &self,
        from: &PathState,
        matched: Vec<GlobId>,
    ) -> Result<Arc<PathState>, Vec<GlobId>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let key = (from.id, matched);
        table.steps.get(&key).cloned().ok_or(key.1)
    }

    pub(super) fn remember_step(&self, from: &PathState, matched: Vec<GlobId>, to: &Arc<PathState>) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        self.forget_if_full(&mut table);
        table.nodes += matched.len();
        table.steps.insert((from.id, matched), Arc::clone(to));
    }

    /// The answer to a question about two states, from memory or computed now.
    pub(super) fn comparison(
        &self,
        question: PlaceQuestion,
        (a, b): (&LabelledState, &LabelledState),
        find: impl FnOnce() -> bool,
    ) -> bool {
        let lock = || self.comparisons.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (question, [(a.0.id, a.1), (b.0.id, b.1)]);
        if let Some(known) = lock().get(&key) {
            return *known;
        }
        let found = find();
        let mut comparisons = lock();
        if comparisons.len() >= COMPARISONS_MAX {
            comparisons.clear();
        }
        comparisons.insert(key, found);
        found
    }

    fn forget_if_full(&self, table: &mut StateTable) {
        if !table.is_full() {
            return;
        }
        *table = StateTable {
            next_id: table.next_id,
            ..StateTable::default()
        };
        for slot in &self.recent {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// The state after a name, if it was requested recently; otherwise the result of `find`.
    pub(super) fn recent(
        &self,
        from: &PathState,
        name: &[u8],
        find: impl FnOnce() -> Arc<PathState>,
    ) -> Arc<PathState> {
        let slot = &self.recent[slot_of(from.id, name)];
        let lock = || slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock()
            .as_ref()
            .filter(|known| known.from == from.id && &known.name[..] == name)
        {
            return Arc::clone(&known.to);
        }
        let to = find();
        *lock() = Some(RecentStep {
            from: from.id,
            name: name.into(),
            to: Arc::clone(&to),
        });
        to
    }
}

/// Any distribution works: names that share a slot only evict each other.
fn slot_of(from: u64, name: &[u8]) -> usize {
    let mix = |sum: u64, part: u64| (sum.rotate_left(5) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (words, rest) = name.as_chunks::<8>();
    let sum = words
        .iter()
        .fold(from, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    let last = rest
        .iter()
        .fold(name.len() as u64, |last, byte| last << 8 | u64::from(*byte));
    (mix(sum, last) >> 32) as usize % RECENT_NAMES
}

impl StateTable {
    fn is_full(&self) -> bool {
        self.nodes > NODES_MAX || self.states.len() > STATES_MAX || self.steps.len() > STEPS_MAX
    }
}
