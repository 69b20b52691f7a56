//! Path rules: what may be done with which paths of a vault, as pure functions.
//!
//! A list of [`Rule`]s is compiled into [`Rules`]. A filesystem walks them along with its directories: a
//! [`Standing`] is where a path stands, [`Rules::child`] takes one step down. Patterns are automata, so questions
//! about all paths below a directory are answered without looking at any.
//!
//! `pattern` and `glob` say what is written and matched, `names` and `machine` are the automaton, `refine` and
//! `decide` say which rule decides, `state` remembers steps, `below`, `explain` and `hiding` answer questions.

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
mod tests;

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

pub use explain::{Beaten, Explanation, Why};
pub use hiding::HidingNames;
pub use level::{BadLevel, Level};
pub use pattern::{BadPattern, PATTERN_MAX, Pattern, PatternFault};
pub use presets::{BadPreset, Preset};
pub use rule::{BadRule, Origin, Rule, Subject};

use crate::label::{Label, Labels};
use decide::{Judge, Verdict, joined};
use machine::{Machine, Nodes};
use refine::Refinements;
use state::{Memory, State};

/// The most rules in a list.
pub const RULES_MAX: usize = 5000;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRules {
    #[error("a list has at most {RULES_MAX} rules, this one has {0}")]
    TooMany(usize),
    #[error("{rule} is too complex to be compared with the other rules: use fewer wildcards")]
    TooComplex { rule: Rule },
}

/// A list of rules, ready to decide. Clones share.
#[derive(Clone, Debug)]
pub struct Rules(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    rules: Vec<Rule>,
    machine: Machine,
    judge: Judge,
    /// What the rules say about each label that they name, by label.
    labels: Vec<(Label, Verdict)>,
    memory: Memory,
    root: OnceLock<Arc<State>>,
}

impl Rules {
    pub fn new(rules: Vec<Rule>) -> Result<Rules, BadRules> {
        if rules.len() > RULES_MAX {
            return Err(BadRules::TooMany(rules.len()));
        }
        let machine = Machine::new(&rules);
        let judge = Judge::new(&rules, &machine, Refinements::new(&rules, &machine)?);
        let labels = verdicts_of_labels(&rules);
        let (memory, root) = (Memory::new(), OnceLock::new());
        Ok(Rules(Arc::new(Compiled { rules, machine, judge, labels, memory, root })))
    }

    /// Everything may be written.
    pub fn unrestricted() -> Rules {
        let everything = Pattern::parse("/**").expect("this is a pattern");
        Rules::new(vec![Rule::new(everything, Level::Write)]).expect("one rule is not too complex")
    }

    pub fn list(&self) -> &[Rule] {
        &self.0.rules
    }

    /// Where the root stands, with the labels that it has itself.
    pub fn root(&self, labels: &Labels) -> Standing {
        let compiled = &self.0;
        let state = compiled.root.get_or_init(|| compiled.state(&compiled.machine.start_of_all()));
        Standing::new(Arc::clone(state), compiled.verdict_of_labels(labels))
    }

    /// Where an entry of a directory stands, with the labels that the entry has itself.
    pub fn child(&self, at: &Standing, name: &[u8], labels: &Labels) -> Standing {
        let compiled = &self.0;
        let state = compiled.memory.recent(&at.state, name, || compiled.child(&at.state, name));
        Standing::new(state, joined(at.labels, compiled.verdict_of_labels(labels)))
    }

    /// Whether the rules about paths allow anything strictly below. Labels can close that, and never open it.
    pub fn is_passable(&self, at: &Standing) -> bool {
        self.is_any_below(at, Level::View)
    }

    /// Whether the rules about paths give this level to anything strictly below. Labels can take it back, and never
    /// give it.
    pub fn is_any_below(&self, at: &Standing, level: Level) -> bool {
        self.0.is_any_below(&at.state, at.labels, level)
    }

    /// Whether every path strictly below has the same level at both, whatever labels it has of its own.
    pub fn is_same_below(&self, a: &Standing, b: &Standing) -> bool {
        self.0.is_same_below(&a.place(), &b.place())
    }

    /// Whether no path strictly below has a higher level at `a` than at `b`, whatever labels it has of its own.
    pub fn is_no_higher_below(&self, a: &Standing, b: &Standing) -> bool {
        self.0.is_no_higher_below(&a.place(), &b.place())
    }

    /// Whether a path near below has a higher level at `a` than at `b`. One that is far may be missed, where the rules
    /// are too complex to look at everything.
    pub fn is_higher_nearby(&self, a: &Standing, b: &Standing) -> bool {
        self.0.is_higher_nearby(&a.place(), &b.place())
    }

    /// Whether every path strictly below has at least this level, whatever labels it has of its own.
    pub fn is_all_below(&self, at: &Standing, level: Level) -> bool {
        self.0.is_all_below(&at.state, at.labels, level)
    }
}

impl Compiled {
    fn child(&self, from: &State, name: &[u8]) -> Arc<State> {
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

    /// Where a path stands that has come this far in all patterns.
    fn state(&self, reached: &[machine::NodeId]) -> Arc<State> {
        let (verdict, nodes) = self.judge.arrive(&self.machine, reached);
        self.memory.state(verdict, nodes, |nodes| self.machine.globs(nodes))
    }

    /// What the rules about paths say one step down, and the nodes that matter below.
    fn step(&self, nodes: &[machine::NodeId], matched: &[names::GlobId]) -> (Option<Verdict>, Nodes) {
        self.judge.arrive(&self.machine, &self.machine.step(nodes, matched))
    }

    fn verdict_of_labels(&self, labels: &Labels) -> Option<Verdict> {
        let verdict = |label: &Label| {
            let index = self.labels.binary_search_by(|(known, _)| known.cmp(label)).ok()?;
            Some(self.labels[index].1)
        };
        labels.iter().map(verdict).fold(None, joined)
    }
}

fn verdicts_of_labels(rules: &[Rule]) -> Vec<(Label, Verdict)> {
    let mut verdicts = std::collections::BTreeMap::new();
    for rule in rules {
        if let Some(label) = rule.label() {
            let known = verdicts.entry(label.clone()).or_insert(Verdict::of(rule));
            *known = joined(Some(*known), Some(Verdict::of(rule))).unwrap_or(*known);
        }
    }
    verdicts.into_iter().collect()
}

/// Where a path stands among the rules. It means something to the [`Rules`] that gave it only. Equal ones decide
/// alike, here and at everything below.
#[derive(Clone, Debug)]
pub struct Standing {
    state: Arc<State>,
    /// What the labels say that the path has or inherits.
    labels: Option<Verdict>,
    level: Level,
}

impl Standing {
    fn new(state: Arc<State>, labels: Option<Verdict>) -> Standing {
        let level = decide::level(joined(state.verdict, labels));
        Standing { state, labels, level }
    }

    fn place(&self) -> below::Place {
        (Arc::clone(&self.state), self.labels)
    }

    pub fn level(&self) -> Level {
        self.level
    }
}

impl PartialEq for Standing {
    fn eq(&self, other: &Standing) -> bool {
        self.labels == other.labels && self.state == other.state
    }
}

impl Eq for Standing {}

impl Hash for Standing {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.state.hash(hasher);
        self.labels.hash(hasher);
    }
}
