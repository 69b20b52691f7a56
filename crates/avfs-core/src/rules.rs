//! Path rules: which operations are allowed on which paths of a vault, as pure functions.
//!
//! A list of [`Rule`]s is compiled into [`Rules`]. A file system walks them along with its directories: a
//! [`RuleState`] is the state at a path, and [`Rules::child`] takes one step down. Patterns are automata, so
//! questions about all paths below a directory are answered without visiting any.
//!
//! `pattern` and `glob` parse and match, `names` and `machine` are the automaton, `refine` and `decide`
//! select the deciding rule, `state` caches steps, `below`, `explain` and `hiding` answer questions.

mod below;
mod budget;
mod decide;
mod explain;
mod glob;
mod hiding;
mod level;
mod machine;
mod names;
mod pattern;
mod presets;
mod refine;
mod rule;
mod state;
#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "budgets are measured, and how many cases there are is a setting"
)]
mod tests;

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub use explain::{OverruledBecause, OverruledRule, RuleExplanation};
pub use hiding::HidingNames;
pub use level::{BadLevel, Level};
pub use pattern::{BadPattern, PATTERN_MAX, Pattern, PatternFault};
pub use presets::{BadPreset, Preset};
pub use rule::{BadRule, Rule, RuleOrigin, RuleSubject};

use crate::TreePath;
use crate::label::{Label, Labels};
use decide::{RulePrecedence, RuleVerdict, joined};
use machine::{NodeSet, PatternMachine};
use refine::RuleRefinements;
use state::{PathState, StateMemory};

/// The most rules in a list.
pub const RULES_MAX: usize = 5000;

/// How many lists [`Rules::shared`] remembers.
const SHARED_MAX: usize = 8;
static SHARED: Mutex<VecDeque<Rules>> = Mutex::new(VecDeque::new());

/// Why a list of rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRules {
    /// It has so many rules, which is more than can be decided quickly.
    #[error("a list has at most {RULES_MAX} rules, this one has {0}")]
    TooMany(usize),
    /// The patterns up to this rule need too many states together.
    #[error("{rule} is too complex to be compared with the other rules: use fewer wildcards")]
    TooComplex {
        /// The rule with which the limit is exceeded.
        rule: Rule,
    },
}

/// A list of rules, ready to decide. Clones share.
#[derive(Clone, Debug)]
pub struct Rules(Arc<CompiledRules>);

#[derive(Debug)]
struct CompiledRules {
    rules: Vec<Rule>,
    machine: PatternMachine,
    precedence: RulePrecedence,
    /// The verdict of the rules for each label that they name, by label.
    labels: Vec<(Label, RuleVerdict)>,
    memory: StateMemory,
    root: OnceLock<Arc<PathState>>,
}

impl Rules {
    /// Compiles a list of rules.
    pub fn new(rules: Vec<Rule>) -> Result<Rules, BadRules> {
        if rules.len() > RULES_MAX {
            return Err(BadRules::TooMany(rules.len()));
        }
        let machine = PatternMachine::new(&rules);
        let precedence = RulePrecedence::new(&rules, &machine, RuleRefinements::new(&rules, &machine)?);
        let labels = verdicts_of_labels(&rules);
        let memory = StateMemory::new();
        let root = OnceLock::new();
        Ok(Rules(Arc::new(CompiledRules {
            rules,
            machine,
            precedence,
            labels,
            memory,
            root,
        })))
    }

    /// As [`Rules::new`], for a list that is compiled in many places: recently used lists are not compiled
    /// again, and their holders share what was computed about paths.
    pub fn shared(rules: Vec<Rule>) -> Result<Rules, BadRules> {
        let lock = || SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().iter().find(|known| known.list() == rules) {
            return Ok(known.clone());
        }
        let made = Rules::new(rules)?;
        let mut shared = lock();
        shared.push_front(made.clone());
        shared.truncate(SHARED_MAX);
        Ok(made)
    }

    /// Rules that allow writing everywhere.
    pub fn unrestricted() -> Rules {
        Rules::new(everything()).expect("one rule is not too complex")
    }

    /// These rules restricted to one directory: nothing outside of it can be seen or changed. Without rules,
    /// everything in the directory can be written. `None` if the path of the directory is not text.
    pub fn confined(rules: Option<Vec<Rule>>, top: &TreePath) -> Option<Vec<Rule>> {
        if top.is_root() {
            return Some(rules.unwrap_or_else(everything));
        }
        let mut rules = rules.unwrap_or_else(everything);
        // The added rule has a priority of its own. The relative order of the others is unchanged.
        let mut priorities: Vec<i32> = rules.iter().map(|rule| rule.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        if priorities.last() == Some(&i32::MAX) {
            for rule in &mut rules {
                let rank = priorities.partition_point(|other| *other < rule.priority);
                rule.priority = i32::try_from(rank).expect("there are fewer rules");
            }
        }
        let outside = Rule::new(Pattern::outside_of(top)?, Level::None);
        rules.push(
            outside
                .with_priority(i32::MAX)
                .with_origin(RuleOrigin::new("the directory that the run was given")),
        );
        Some(rules)
    }

    /// The rules, as they were given.
    pub fn list(&self) -> &[Rule] {
        &self.0.rules
    }

    /// The state of the root, whose own labels are `labels`.
    pub fn root(&self, labels: &Labels) -> RuleState {
        let compiled = &self.0;
        let state = compiled
            .root
            .get_or_init(|| compiled.state(&compiled.machine.start_of_all()));
        RuleState::new(Arc::clone(state), compiled.verdict_of_labels(labels))
    }

    /// The state of an entry of a directory; `labels` are the entry's own labels.
    pub fn child(&self, at: &RuleState, name: &[u8], labels: &Labels) -> RuleState {
        let compiled = &self.0;
        let state = compiled
            .memory
            .recent(&at.state, name, || compiled.child(&at.state, name));
        RuleState::new(state, joined(at.labels, compiled.verdict_of_labels(labels)))
    }

    /// Whether the path rules allow anything strictly below. Labels can only restrict that further.
    pub fn is_passable(&self, at: &RuleState) -> bool {
        self.is_any_below(at, Level::View)
    }

    /// Whether the path rules give this level to anything strictly below. Labels can revoke it, and never
    /// grant it.
    pub fn is_any_below(&self, at: &RuleState, level: Level) -> bool {
        self.0.is_any_below(&at.state, at.labels, level)
    }

    /// Whether every path strictly below has the same level at both, regardless of its own labels.
    pub fn is_same_below(&self, a: &RuleState, b: &RuleState) -> bool {
        self.0.is_same_below(&a.place(), &b.place())
    }

    /// Whether no path strictly below has a higher level at `a` than at `b`, regardless of its own labels.
    pub fn is_no_higher_below(&self, a: &RuleState, b: &RuleState) -> bool {
        self.0.is_no_higher_below(&a.place(), &b.place())
    }

    /// Whether a path a few levels below has a higher level at `a` than at `b`. A deeper one may be missed if
    /// the rules are too complex to inspect everything.
    pub fn is_higher_nearby(&self, a: &RuleState, b: &RuleState) -> bool {
        self.0.is_higher_nearby(&a.place(), &b.place())
    }

    /// Whether every path strictly below has at least this level, regardless of its own labels.
    pub fn is_all_below(&self, at: &RuleState, level: Level) -> bool {
        self.0.is_all_below(&at.state, at.labels, level)
    }
}

fn everything() -> Vec<Rule> {
    let everything = Pattern::parse("/**").expect("this is a pattern");
    vec![Rule::new(everything, Level::Write)]
}

impl CompiledRules {
    fn child(&self, from: &PathState, name: &[u8]) -> Arc<PathState> {
        let matched = self.machine.matched(&from.literal, &from.wild, name);
        match self.memory.known_step(from, matched) {
            Ok(state) => state,
            Err(matched) => {
                let state = self.state(&self.machine.step(&from.nodes, &matched));
                self.memory.remember_step(from, matched, &state);
                state
            }
        }
    }

    /// The state of a path that has reached these nodes in all patterns.
    fn state(&self, reached: &[machine::NodeId]) -> Arc<PathState> {
        let (verdict, nodes) = self.precedence.arrive(&self.machine, reached);
        self.memory
            .state(verdict, nodes, |nodes| self.machine.globs(nodes))
    }

    /// The verdict of the path rules one step down, and the nodes that are relevant below.
    fn step(&self, nodes: &[machine::NodeId], matched: &[names::GlobId]) -> (Option<RuleVerdict>, NodeSet) {
        self.precedence
            .arrive(&self.machine, &self.machine.step(nodes, matched))
    }

    fn verdict_of_labels(&self, labels: &Labels) -> Option<RuleVerdict> {
        let verdict = |label: &Label| {
            let index = self.labels.binary_search_by(|(known, _)| known.cmp(label)).ok()?;
            Some(self.labels[index].1)
        };
        labels.iter().map(verdict).fold(None, joined)
    }
}

fn verdicts_of_labels(rules: &[Rule]) -> Vec<(Label, RuleVerdict)> {
    let mut verdicts = std::collections::BTreeMap::new();
    for rule in rules {
        if let Some(label) = rule.label() {
            let known = verdicts.entry(label.clone()).or_insert(RuleVerdict::of(rule));
            *known = joined(Some(*known), Some(RuleVerdict::of(rule))).unwrap_or(*known);
        }
    }
    verdicts.into_iter().collect()
}

/// The state of a path under the rules. It is valid only for the [`Rules`] that created it. Equal states
/// decide alike, here and at everything below.
#[derive(Clone, Debug)]
pub struct RuleState {
    state: Arc<PathState>,
    /// The verdict for the labels that the path has or inherits.
    labels: Option<RuleVerdict>,
    level: Level,
}

impl RuleState {
    fn new(state: Arc<PathState>, labels: Option<RuleVerdict>) -> RuleState {
        let level = decide::level(joined(state.verdict, labels));
        RuleState { state, labels, level }
    }

    fn place(&self) -> below::LabelledState {
        (Arc::clone(&self.state), self.labels)
    }

    /// The level at this path.
    pub fn level(&self) -> Level {
        self.level
    }
}

impl PartialEq for RuleState {
    fn eq(&self, other: &RuleState) -> bool {
        self.labels == other.labels && self.state == other.state
    }
}

impl Eq for RuleState {}

impl Hash for RuleState {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.state.hash(hasher);
        self.labels.hash(hasher);
    }
}
