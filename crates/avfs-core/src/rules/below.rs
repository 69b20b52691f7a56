//! Questions about all paths below a directory, existing or not, answered on the patterns.
//!
//! Labels: an entry below has what it inherits from the directory asked about, and any labels of its own or of
//! directories in between. What several labels say together is what one of them says ([`joined`] answers one of its
//! arguments), so it is enough to try no label and each label that a rule names.

use std::collections::HashSet;
use std::sync::Arc;

use super::Compiled;
use super::budget::{Budget, Spent};
use super::decide::{Verdict, joined, level};
use super::level::Level;
use super::machine::{NodeId, Nodes};
use super::state::State;

/// For one question.
const QUESTION_BUDGET: usize = 3_000_000;

/// What the rules about paths say at the paths strictly below, each answer once; `None` if that is too complex.
#[derive(Debug)]
pub(super) struct Below(Option<Vec<Option<Verdict>>>);

impl Compiled {
    fn verdicts_below<'a>(&self, state: &'a State) -> Option<&'a [Option<Verdict>]> {
        let below = state.below.get_or_init(|| Below(self.find_verdicts_below(state).ok()));
        below.0.as_deref()
    }

    fn find_verdicts_below(&self, state: &State) -> Result<Vec<Option<Verdict>>, Spent> {
        let mut budget = Budget::new(QUESTION_BUDGET);
        let mut verdicts = HashSet::new();
        let mut seen = HashSet::new();
        let mut open: Vec<Nodes> = vec![state.nodes.clone()];
        while let Some(nodes) = open.pop() {
            for letter in self.machine.letters(&nodes, &mut budget)? {
                budget.spend(nodes.len() + 1)?;
                let next = self.step(&nodes, &letter);
                if seen.insert(next.clone()) {
                    verdicts.insert(self.verdict(&next));
                    open.push(next);
                }
            }
        }
        Ok(verdicts.into_iter().collect())
    }

    /// Whether the rules about paths give a level to something strictly below, and no inherited label takes it back.
    pub(super) fn is_any_below(&self, state: &State, inherited: Option<Verdict>, least: Level) -> bool {
        let opens = |verdict: &Option<Verdict>| {
            level(*verdict) >= least && level(joined(*verdict, inherited)) >= least
        };
        self.verdicts_below(state).is_some_and(|verdicts| verdicts.iter().any(opens))
    }

    pub(super) fn is_all_below(&self, state: &State, inherited: Option<Verdict>, least: Level) -> bool {
        let Some(verdicts) = self.verdicts_below(state) else { return false };
        self.every_label(inherited)
            .iter()
            .all(|labels| verdicts.iter().all(|verdict| level(joined(*verdict, *labels)) >= least))
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
