//! Questions about all paths below a directory, existing or not, answered on the patterns.
//!
//! Labels: an entry below has what it inherits from the directory asked about, and any labels of its own or of
//! directories in between. What several labels say together is what one of them says ([`joined`] answers one of its
//! arguments), so it is enough to try no label and each label that a rule names.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::Compiled;
use super::budget::{Budget, Spent};
use super::decide::{Verdict, joined, level};
use super::level::Level;
use super::machine::{NodeId, Nodes};
use super::state::{Question, State};

/// For one question.
const QUESTION_BUDGET: usize = 500_000;
/// For a look at what is near: the nearest paths are looked at first.
const NEARBY_BUDGET: usize = 100_000;

/// A state, and what inherited labels say.
pub(super) type Place = (Arc<State>, Option<Verdict>);

/// What is known of what the rules about paths say strictly below a state.
#[derive(Debug, Default)]
pub(super) struct Below(Mutex<Found>);

#[derive(Debug, Default)]
struct Found {
    verdicts: HashSet<Option<Verdict>>,
    /// Whether these are all; an error if that is too complex to say.
    are_all: Option<Result<(), Spent>>,
}

impl Found {
    fn answer(&self, wanted: impl Fn(Option<Verdict>) -> bool) -> Option<Result<bool, Spent>> {
        if self.verdicts.iter().any(|verdict| wanted(*verdict)) {
            return Some(Ok(true));
        }
        Some(self.are_all?.map(|()| false))
    }
}

impl Compiled {
    /// Whether the rules about paths say something that is wanted anywhere strictly below.
    fn says_below(&self, state: &State, wanted: impl Fn(Option<Verdict>) -> bool) -> Result<bool, Spent> {
        let mut found = state.below.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = found.answer(&wanted) {
            return answer;
        }
        let end = self.look_below(state, &mut found.verdicts, &wanted);
        if end != Ok(true) {
            found.are_all = Some(end.map(|_| ()));
        }
        end
    }

    /// The nearest first, up to what is wanted.
    fn look_below(
        &self,
        state: &State,
        verdicts: &mut HashSet<Option<Verdict>>,
        wanted: impl Fn(Option<Verdict>) -> bool,
    ) -> Result<bool, Spent> {
        let mut budget = Budget::new(QUESTION_BUDGET);
        let mut seen = HashSet::new();
        let mut open: VecDeque<Nodes> = VecDeque::from([state.nodes.clone()]);
        while let Some(nodes) = open.pop_front() {
            for letter in self.machine.letters(&nodes, &mut budget)? {
                budget.spend(nodes.len() + 1)?;
                let (verdict, next) = self.step(&nodes, &letter);
                verdicts.insert(verdict);
                if wanted(verdict) {
                    return Ok(true);
                }
                if seen.insert(next.clone()) {
                    open.push_back(next);
                }
            }
        }
        Ok(false)
    }

    /// Whether the rules about paths give a level to something strictly below, and no inherited label takes it back.
    pub(super) fn is_any_below(&self, state: &State, inherited: Option<Verdict>, least: Level) -> bool {
        let opens =
            |verdict: Option<Verdict>| level(verdict) >= least && level(joined(verdict, inherited)) >= least;
        self.says_below(state, opens).unwrap_or(false)
    }

    pub(super) fn is_all_below(&self, state: &State, inherited: Option<Verdict>, least: Level) -> bool {
        let labels = self.every_label(inherited);
        let is_less =
            |verdict: Option<Verdict>| labels.iter().any(|labels| level(joined(verdict, *labels)) < least);
        least == Level::None || self.says_below(state, is_less).is_ok_and(|is_less| !is_less)
    }

    /// What labels can say below, one way after the other.
    fn every_label(&self, inherited: Option<Verdict>) -> Vec<Option<Verdict>> {
        let own = self.labels.iter().map(|(_, verdict)| Some(*verdict));
        [None].into_iter().chain(own).map(|own| joined(inherited, own)).collect()
    }

    pub(super) fn is_same_below(&self, a: &Place, b: &Place) -> bool {
        let find = || self.find_below(a, b, |a, b| a == b, QUESTION_BUDGET).unwrap_or(false);
        a == b || self.memory.comparison(Question::Same, (a, b), find)
    }

    pub(super) fn is_no_higher_below(&self, a: &Place, b: &Place) -> bool {
        let find = || {
            self.is_only_raised(a, b)
                || self.find_below(a, b, |a, b| a <= b, QUESTION_BUDGET).unwrap_or(false)
        };
        a == b || self.memory.comparison(Question::NoHigher, (a, b), find)
    }

    pub(super) fn is_higher_nearby(&self, a: &Place, b: &Place) -> bool {
        let find = || self.find_below(a, b, |a, b| a <= b, NEARBY_BUDGET) == Ok(false);
        a != b && self.memory.comparison(Question::HigherNearby, (a, b), find)
    }

    /// Whether `b` is `a` and more of rules of the highest level. They beat others or change nothing, so that no path
    /// has to be looked at.
    fn is_only_raised(&self, a: &Place, b: &Place) -> bool {
        let raises = |node: &NodeId| level(Some(self.judge.says(self.machine.rule(*node)))) == Level::Write;
        let (fewer, more) = (&a.0.nodes, &b.0.nodes);
        let both = fewer.iter().chain(more.iter()).copied().collect();
        a.1 == b.1
            && more.iter().all(|node| raises(node) || fewer.contains(node))
            && self.judge.arrive(&self.machine, &self.machine.settled(both)).1 == *more
    }

    /// Whether the levels at every path below both agree in some way. Equal ones always do.
    fn find_below(
        &self,
        a: &Place,
        b: &Place,
        agree: fn(Level, Level) -> bool,
        budget: usize,
    ) -> Result<bool, Spent> {
        let mut budget = Budget::new(budget);
        let labels: Vec<_> = self.every_label(a.1).into_iter().zip(self.every_label(b.1)).collect();
        let differ =
            |one, other| labels.iter().any(|(a, b)| !agree(level(joined(one, *a)), level(joined(other, *b))));
        let mut seen = HashSet::new();
        let mut open = VecDeque::from([(a.0.nodes.clone(), b.0.nodes.clone())]);
        while let Some((a, b)) = open.pop_front() {
            let both: Nodes = a.iter().chain(b.iter()).copied().collect();
            for letter in self.machine.letters(&both, &mut budget)? {
                budget.spend(both.len() + labels.len() + 1)?;
                let (one, next_a) = self.step(&a, &letter);
                let (other, next_b) = self.step(&b, &letter);
                if differ(one, other) {
                    return Ok(false);
                }
                let is_settled = next_a == next_b && a_and_b_agree(&labels);
                if !is_settled && seen.insert((next_a.clone(), next_b.clone())) {
                    open.push_back((next_a, next_b));
                }
            }
        }
        Ok(true)
    }
}

/// Whether labels say the same at both: then equal nodes have equal levels from there on.
fn a_and_b_agree(labels: &[(Option<Verdict>, Option<Verdict>)]) -> bool {
    labels.iter().all(|(a, b)| a == b)
}
