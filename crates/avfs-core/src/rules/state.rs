//! Where paths stand among the patterns: sets of nodes, each made once, and the steps between them.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::below::{Below, Place};
use super::decide::Verdict;
use super::machine::Nodes;
use super::names::GlobId;

/// Beyond this many nodes in all sets together the memory is emptied.
const NODES_MAX: usize = 1 << 20;
const STATES_MAX: usize = 1 << 14;
const STEPS_MAX: usize = 1 << 16;
const RECENT_NAMES: usize = 1 << 13;
const COMPARISONS_MAX: usize = 1 << 12;

/// How far a path has come in all patterns, without the rules that decide nothing from here on.
#[derive(Debug)]
pub(super) struct State {
    /// Never used twice in one [`Memory`].
    id: u64,
    /// What the rules about paths say here.
    pub(super) verdict: Option<Verdict>,
    /// What matters below.
    pub(super) nodes: Nodes,
    pub(super) literal: Vec<GlobId>,
    pub(super) wild: Vec<GlobId>,
    /// What they say below, once somebody has asked.
    pub(super) below: Below,
}

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        self.id == other.id || self.verdict == other.verdict && self.nodes == other.nodes
    }
}

impl Eq for State {}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.verdict.hash(hasher);
        self.nodes.hash(hasher);
    }
}

/// What was found out lately. States that it has forgotten live on with whoever holds them.
#[derive(Debug)]
pub(super) struct Memory {
    table: RwLock<Table>,
    recent: Box<[Mutex<Option<Recent>>]>,
    comparisons: Mutex<HashMap<Comparison, bool>>,
}

#[derive(Debug, Default)]
struct Table {
    next_id: u64,
    nodes: usize,
    states: HashMap<(Option<Verdict>, Nodes), Arc<State>>,
    steps: HashMap<Step, Arc<State>>,
}

/// From the state with this id, to names that match these globs.
type Step = (u64, Vec<GlobId>);

/// What can be asked of two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Question {
    Same,
    NoHigher,
    HigherNearby,
}

/// A question about two states by their ids, and what labels say at each.
type Comparison = (Question, [(u64, Option<Verdict>); 2]);

#[derive(Debug)]
struct Recent {
    from: u64,
    name: Box<[u8]>,
    to: Arc<State>,
}

impl Memory {
    pub(super) fn new() -> Memory {
        let recent = (0..RECENT_NAMES).map(|_| Mutex::new(None)).collect();
        Memory { table: RwLock::default(), recent, comparisons: Mutex::default() }
    }

    pub(super) fn state(
        &self,
        verdict: Option<Verdict>,
        nodes: Nodes,
        globs: impl FnOnce(&Nodes) -> (Vec<GlobId>, Vec<GlobId>),
    ) -> Arc<State> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let key = (verdict, nodes);
        if let Some(state) = table.states.get(&key) {
            return Arc::clone(state);
        }
        self.forget_if_full(&mut table);
        table.next_id += 1;
        table.nodes += key.1.len();
        let (literal, wild) = globs(&key.1);
        let (id, nodes, below) = (table.next_id, key.1.clone(), Below::default());
        let state = Arc::new(State { id, verdict, nodes, literal, wild, below });
        table.states.insert(key, Arc::clone(&state));
        state
    }

    /// The state after a step that was taken before.
    pub(super) fn known_step(&self, from: &State, matched: Vec<GlobId>) -> Result<Arc<State>, Vec<GlobId>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let key = (from.id, matched);
        table.steps.get(&key).cloned().ok_or(key.1)
    }

    pub(super) fn remember_step(&self, from: &State, matched: Vec<GlobId>, to: &Arc<State>) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        self.forget_if_full(&mut table);
        table.nodes += matched.len();
        table.steps.insert((from.id, matched), Arc::clone(to));
    }

    /// The answer to a question about two places, as it was found before or is found now.
    pub(super) fn comparison(
        &self,
        question: Question,
        (a, b): (&Place, &Place),
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

    fn forget_if_full(&self, table: &mut Table) {
        if !table.is_full() {
            return;
        }
        *table = Table { next_id: table.next_id, ..Table::default() };
        for slot in &self.recent {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// The state behind a name, if it was asked lately; otherwise what `find` finds.
    pub(super) fn recent(&self, from: &State, name: &[u8], find: impl FnOnce() -> Arc<State>) -> Arc<State> {
        let slot = &self.recent[slot_of(from.id, name)];
        let lock = || slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().as_ref().filter(|known| known.from == from.id && &known.name[..] == name)
        {
            return Arc::clone(&known.to);
        }
        let to = find();
        *lock() = Some(Recent { from: from.id, name: name.into(), to: Arc::clone(&to) });
        to
    }
}

/// Any spread will do: names that share a place only drive each other out.
fn slot_of(from: u64, name: &[u8]) -> usize {
    let mix = |sum: u64, part: u64| (sum.rotate_left(5) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (words, rest) = name.as_chunks::<8>();
    let sum = words.iter().fold(from, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    let last = rest.iter().fold(name.len() as u64, |last, byte| last << 8 | u64::from(*byte));
    (mix(sum, last) >> 32) as usize % RECENT_NAMES
}

impl Table {
    fn is_full(&self) -> bool {
        self.nodes > NODES_MAX || self.states.len() > STATES_MAX || self.steps.len() > STEPS_MAX
    }
}
