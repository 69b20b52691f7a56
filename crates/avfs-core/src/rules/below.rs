//! Questions about all paths below a directory, existing or not, answered on the patterns.
//!
//! Labels: an entry below has what it inherits from the directory asked about, and any labels of its own or of
//! directories in between. What several labels say together is what one of them says ([`joined`] answers one of its
//! arguments), so it is enough to try no label and each label that a rule names.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::Compiled;
use super::budget::{Budget, Spent};
use super::decide::{Verdict, joined, level};
use super::level::Level;
use super::machine::{NodeId, Nodes};
use super::state::State;

/// For one question.
const QUESTION_BUDGET: usize = 3_000_000;

/// For what is asked about a directory whenever it is looked at.
const BELOW_BUDGET: usize = 200_000;

/// What the rules about paths say at the paths strictly below, each answer once.
#[derive(Debug)]
pub(super) struct Below {
    verdicts: Vec<Option<Verdict>>,
    /// There may be others if it was too complex: those near the directory are there.
    is_whole: bool,
}

impl Compiled {
    fn below<'a>(&self, state: &'a State) -> &'a Below {
        state.below.get_or_init(|| {
            let mut verdicts = HashSet::new();
            let is_whole = self.find_verdicts_below(state, &mut verdicts).is_ok();
            Below { verdicts: verdicts.into_iter().collect(), is_whole }
        })
    }

    fn find_verdicts_below(
        &self,
        state: &State,
        verdicts: &mut HashSet<Option<Verdict>>,
    ) -> Result<(), Spent> {
        let mut budget = Budget::new(BELOW_BUDGET);
        let mut seen = HashSet::new();
        let mut open: VecDeque<Nodes> = [state.nodes.clone()].into();
        while let Some(nodes) = open.pop_front() {
            for letter in self.machine.letters(&nodes, &mut budget)? {
                budget.spend(nodes.len() + 1)?;
                let next = self.step(&nodes, &letter);
                if seen.insert(next.clone()) {
                    verdicts.insert(self.verdict(&next));
                    open.push_back(next);
                }
            }
        }
        Ok(())
    }

    /// Whether the rules about paths give a level to something strictly below, and no inherited label takes it back.
    pub(super) fn is_any_below(&self, state: &State, inherited: Option<Verdict>, least: Level) -> bool {
        let opens = |verdict: &Option<Verdict>| {
            level(*verdict) >= least && level(joined(*verdict, inherited)) >= least
        };
        self.below(state).verdicts.iter().any(opens)
    }

    pub(super) fn is_all_below(&self, state: &State, inherited: Option<Verdict>, least: Level) -> bool {
        let Below { verdicts, is_whole } = self.below(state);
        let has_level = |labels: &Option<Verdict>| {
            verdicts.iter().all(|verdict| level(joined(*verdict, *labels)) >= least)
        };
        *is_whole && self.every_label(inherited).iter().all(has_level)
    }

    /// What labels can say below, one way after the other.
    fn every_label(&self, inherited: Option<Verdict>) -> Vec<Option<Verdict>> {
        let own = self.labels.iter().map(|(_, verdict)| Some(*verdict));
        [None].into_iter().chain(own).map(|own| joined(inherited, own)).collect()
    }

    pub(super) fn is_same_below(&self, a: &Place, b: &Place) -> bool {
        a == b || self.find_below(a, b, |a, b| a == b).unwrap_or(false)
    }

    pub(super) fn is_no_higher_below(&self, a: &Place, b: &Place) -> bool {
        a == b || self.is_only_raised(a, b) || self.find_below(a, b, |a, b| a <= b).unwrap_or(false)
    }

    /// Whether `b` is `a` and more of rules of the highest level. They beat others or change nothing, so that no path
    /// has to be looked at.
    fn is_only_raised(&self, a: &Place, b: &Place) -> bool {
        let raises = |node: &NodeId| self.rules[self.machine.rule(*node) as usize].level == Level::Write;
        let (fewer, more) = (&a.0.nodes, &b.0.nodes);
        let both = fewer.iter().chain(more.iter()).copied().collect();
        a.1 == b.1
            && more.iter().all(|node| raises(node) || fewer.contains(node))
            && self.reduced(self.machine.settled(both)) == *more
    }

    /// Whether the levels at every path below both agree in some way. Equal ones always do.
    fn find_below(&self, a: &Place, b: &Place, agree: fn(Level, Level) -> bool) -> Result<bool, Spent> {
        let mut budget = Budget::new(QUESTION_BUDGET);
        let labels: Vec<_> = self.every_label(a.1).into_iter().zip(self.every_label(b.1)).collect();
        let mut seen = HashSet::new();
        let mut open = vec![(a.0.nodes.clone(), b.0.nodes.clone())];
        while let Some((a, b)) = open.pop() {
            let both: Nodes = a.iter().chain(b.iter()).copied().collect();
            for letter in self.machine.letters(&both, &mut budget)? {
                budget.spend(both.len() + labels.len() + 1)?;
                let next = (self.step(&a, &letter), self.step(&b, &letter));
                if seen.contains(&next) {
                    continue;
                }
                let verdicts = (self.verdict(&next.0), self.verdict(&next.1));
                let agrees = |(a, b): &(Option<Verdict>, Option<Verdict>)| {
                    agree(level(joined(verdicts.0, *a)), level(joined(verdicts.1, *b)))
                };
                if !labels.iter().all(agrees) {
                    return Ok(false);
                }
                seen.insert(next.clone());
                if next.0 != next.1 || labels.iter().any(|(a, b)| a != b) {
                    open.push(next);
                }
            }
        }
        Ok(true)
    }
}

/// A state, and what inherited labels say.
pub(super) type Place = (Arc<State>, Option<Verdict>);
