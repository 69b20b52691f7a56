//! Questions about all paths below a directory, existing or not, answered on the patterns.
//!
//! Labels: an entry below has the labels that it inherits from the directory in question, and any labels of
//! its own or of directories in between. The joint verdict of several labels is the verdict of one of them
//! ([`joined`] returns one of its arguments), so it is enough to try no label and each label that a rule
//! names.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::CompiledRules;
use super::budget::{BudgetSpent, StepBudget};
use super::decide::{RuleVerdict, joined, level};
use super::level::Level;
use super::machine::{NodeId, NodeKind, NodeSet};
use super::state::{PathState, PlaceQuestion};

/// For one question, in the units of [`StepBudget`].
const QUESTION_BUDGET: usize = 500_000;
/// For an inspection of nearby paths: the nearest paths are inspected first.
const NEARBY_BUDGET: usize = 200_000;

/// A state, and the verdict of the inherited labels.
pub(super) type LabelledState = (Arc<PathState>, Option<RuleVerdict>);

/// The known verdicts of the path rules strictly below a state.
#[derive(Debug, Default)]
pub(super) struct BelowCache(Mutex<FoundVerdicts>);

#[derive(Debug, Default)]
struct FoundVerdicts {
    verdicts: HashSet<Option<RuleVerdict>>,
    /// Whether these are all; an error if that is too complex to determine.
    are_all: Option<Result<(), BudgetSpent>>,
}

impl FoundVerdicts {
    fn answer(&self, wanted: impl Fn(Option<RuleVerdict>) -> bool) -> Option<Result<bool, BudgetSpent>> {
        if self.verdicts.iter().any(|verdict| wanted(*verdict)) {
            return Some(Ok(true));
        }
        Some(self.are_all?.map(|()| false))
    }
}

impl CompiledRules {
    /// Whether the path rules have a matching verdict anywhere strictly below.
    pub(super) fn says_below(
        &self,
        state: &PathState,
        wanted: impl Fn(Option<RuleVerdict>) -> bool,
    ) -> Result<bool, BudgetSpent> {
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

    /// Searches the nearest paths first, until a verdict matches.
    fn look_below(
        &self,
        state: &PathState,
        verdicts: &mut HashSet<Option<RuleVerdict>>,
        wanted: impl Fn(Option<RuleVerdict>) -> bool,
    ) -> Result<bool, BudgetSpent> {
        let mut budget = StepBudget::new(QUESTION_BUDGET);
        let mut seen = HashSet::new();
        let mut open: VecDeque<NodeSet> = VecDeque::from([state.nodes.clone()]);
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

    /// Whether the path rules give a level to anything strictly below that no inherited label revokes.
    pub(super) fn is_any_below(
        &self,
        state: &PathState,
        inherited: Option<RuleVerdict>,
        least: Level,
    ) -> bool {
        let opens = |verdict: Option<RuleVerdict>| {
            level(verdict) >= least && level(joined(verdict, inherited)) >= least
        };
        !self.is_closed_below(state, opens) && self.says_below(state, opens).unwrap_or(false)
    }

    /// Whether a rule that matches everything below keeps all others from opening anything there, so that no
    /// path needs to be inspected. Among rules of the same priority, the strictest one that no other rule
    /// refines decides: only a rule with a higher priority, or one that refines this rule, can open something
    /// in spite of it.
    fn is_closed_below(&self, state: &PathState, opens: impl Fn(Option<RuleVerdict>) -> bool) -> bool {
        let says = |node: &NodeId| self.precedence.says(self.machine.rule(*node));
        let openers: Vec<NodeId> = state
            .nodes
            .iter()
            .copied()
            .filter(|node| opens(Some(says(node))))
            .collect();
        let prevails = |opener: &NodeId, cover: &NodeId| {
            says(opener).priority > says(cover).priority
                || self
                    .precedence
                    .refines(self.machine.rule(*opener), self.machine.rule(*cover))
        };
        let is_cover = |node: &&NodeId| self.machine.kind(**node) == NodeKind::Rest;
        let mut covers = state
            .nodes
            .iter()
            .filter(is_cover)
            .filter(|cover| !opens(Some(says(cover))));
        !opens(None) && covers.any(|cover| !openers.iter().any(|opener| prevails(opener, cover)))
    }

    pub(super) fn is_all_below(
        &self,
        state: &PathState,
        inherited: Option<RuleVerdict>,
        least: Level,
    ) -> bool {
        let labels = self.every_label(inherited);
        let is_less = |verdict: Option<RuleVerdict>| {
            labels
                .iter()
                .any(|labels| level(joined(verdict, *labels)) < least)
        };
        least == Level::None || self.says_below(state, is_less).is_ok_and(|is_less| !is_less)
    }

    /// The verdicts that labels can have below.
    fn every_label(&self, inherited: Option<RuleVerdict>) -> Vec<Option<RuleVerdict>> {
        let own = self.labels.iter().map(|(_, verdict)| Some(*verdict));
        [None]
            .into_iter()
            .chain(own)
            .map(|own| joined(inherited, own))
            .collect()
    }

    pub(super) fn is_same_below(&self, a: &LabelledState, b: &LabelledState) -> bool {
        let find = || {
            self.find_below(a, b, |a, b| a == b, QUESTION_BUDGET)
                .unwrap_or(false)
        };
        a == b || self.memory.comparison(PlaceQuestion::Same, (a, b), find)
    }

    pub(super) fn is_no_higher_below(&self, a: &LabelledState, b: &LabelledState) -> bool {
        let find = || {
            self.is_only_raised(a, b)
                || self
                    .find_below(a, b, |a, b| a <= b, QUESTION_BUDGET)
                    .unwrap_or(false)
        };
        a == b || self.memory.comparison(PlaceQuestion::NoHigher, (a, b), find)
    }

    pub(super) fn is_higher_nearby(&self, a: &LabelledState, b: &LabelledState) -> bool {
        let find = || self.find_below(a, b, |a, b| a <= b, NEARBY_BUDGET) == Ok(false);
        a != b && self.memory.comparison(PlaceQuestion::HigherNearby, (a, b), find)
    }

    /// Whether `b` is `a` plus rules of the highest level. These win over others or change nothing, so no
    /// path needs to be inspected.
    fn is_only_raised(&self, a: &LabelledState, b: &LabelledState) -> bool {
        let raises =
            |node: &NodeId| level(Some(self.precedence.says(self.machine.rule(*node)))) == Level::Write;
        let fewer = &a.0.nodes;
        let more = &b.0.nodes;
        let both = fewer.iter().chain(more.iter()).copied().collect();
        a.1 == b.1
            && more.iter().all(|node| raises(node) || fewer.contains(node))
            && self
                .precedence
                .arrive(&self.machine, &self.machine.reduced(both))
                .1
                == *more
    }

    /// Whether `agree` holds for the levels of every path below the two. It must hold for equal levels: equal
    /// states are not descended into.
    fn find_below(
        &self,
        a: &LabelledState,
        b: &LabelledState,
        agree: fn(Level, Level) -> bool,
        budget: usize,
    ) -> Result<bool, BudgetSpent> {
        let mut budget = StepBudget::new(budget);
        let labels: Vec<_> = self
            .every_label(a.1)
            .into_iter()
            .zip(self.every_label(b.1))
            .collect();
        let differ = |one, other| {
            labels
                .iter()
                .any(|(a, b)| !agree(level(joined(one, *a)), level(joined(other, *b))))
        };
        let mut seen = HashSet::new();
        let mut open = VecDeque::from([(a.0.nodes.clone(), b.0.nodes.clone())]);
        while let Some((a, b)) = open.pop_front() {
            let both: NodeSet = a.iter().chain(b.iter()).copied().collect();
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

/// Whether the verdict of labels is the same at both: then equal nodes have equal levels from there on.
fn a_and_b_agree(labels: &[(Option<RuleVerdict>, Option<RuleVerdict>)]) -> bool {
    labels.iter().all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::super::{Preset, RuleState, Rules};
    use super::*;
    use crate::label::Labels;

    fn looked_at(standing: &RuleState) -> usize {
        standing.state.below.0.lock().unwrap().verdicts.len()
    }

    #[test]
    fn directory_closed_as_a_whole_is_not_walked() {
        let rules = Rules::new(Preset::Development.rules()).unwrap();
        let step = |at: RuleState, name: &[u8]| rules.child(&at, name, &Labels::default());
        let hooks = [&b".git"[..], b"hooks"]
            .into_iter()
            .fold(rules.root(&Labels::default()), step);
        assert_eq!(hooks.level(), Level::Read);
        assert!(!rules.is_any_below(&hooks, Level::Append));
        assert_eq!(looked_at(&hooks), 0);
        assert!(rules.is_any_below(&hooks, Level::Read));
        assert!(looked_at(&hooks) > 0);
    }
}
