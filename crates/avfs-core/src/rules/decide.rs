//! Selects the deciding rule among those that match.

use super::level::Level;
use super::machine::{NodeId, NodeKind, NodeSet, PatternMachine, RuleId};
use super::refine::RuleRefinements;
use super::rule::Rule;

/// The joint verdict of the matching rules: the level at the highest priority among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RuleVerdict {
    pub(super) priority: i32,
    pub(super) level: Level,
}

impl RuleVerdict {
    /// The verdict of a single rule.
    pub(super) fn of(rule: &Rule) -> RuleVerdict {
        RuleVerdict {
            priority: rule.priority,
            level: rule.level,
        }
    }
}

/// The joint verdict of two sets of rules that do not refine each other: the higher priority, then the
/// stricter level.
///
/// The result is always one of the two, so the joint verdict of any number of labels is the verdict of one of
/// them.
pub(super) fn joined(a: Option<RuleVerdict>, b: Option<RuleVerdict>) -> Option<RuleVerdict> {
    let (Some(first), Some(second)) = (a, b) else {
        return a.or(b);
    };
    let by_rank = |verdict: &RuleVerdict| (verdict.priority, std::cmp::Reverse(verdict.level));
    Some(std::cmp::max_by_key(first, second, by_rank))
}

pub(super) fn level(verdict: Option<RuleVerdict>) -> Level {
    verdict.map_or(Level::None, |verdict| verdict.level)
}

/// Decides among the rules of a machine.
#[derive(Debug)]
pub(super) struct RulePrecedence {
    /// The verdict of each rule, including those that the machine has added.
    says: Vec<RuleVerdict>,
    refinements: RuleRefinements,
}

impl RulePrecedence {
    pub(super) fn new(
        rules: &[Rule],
        machine: &PatternMachine,
        refinements: RuleRefinements,
    ) -> RulePrecedence {
        let says = rules
            .iter()
            .map(RuleVerdict::of)
            .chain(machine.constants().map(|(verdict, _)| verdict));
        RulePrecedence {
            says: says.collect(),
            refinements,
        }
    }

    pub(super) fn says(&self, rule: RuleId) -> RuleVerdict {
        self.says[rule as usize]
    }

    /// Whether the first rule strictly refines the second, which has the same priority and a different level.
    pub(super) fn refines(&self, narrow: RuleId, wide: RuleId) -> bool {
        self.refinements.has(narrow, wide)
    }

    /// The rules of the same priority and a different level that a rule strictly refines.
    pub(super) fn refined_by(&self, narrow: RuleId) -> &[RuleId] {
        self.refinements.of(narrow)
    }

    /// The joint verdict of these path rules, which are ascending.
    fn verdict(&self, matching: &[RuleId]) -> Option<RuleVerdict> {
        let priority = matching.iter().map(|rule| self.says(*rule).priority).max()?;
        let top: Vec<RuleId> = matching
            .iter()
            .copied()
            .filter(|rule| self.says(*rule).priority == priority)
            .collect();
        let mut beaten: Vec<RuleId> = top
            .iter()
            .flat_map(|rule| self.refinements.of(*rule))
            .copied()
            .collect();
        beaten.sort_unstable();
        let left = top.iter().filter(|rule| beaten.binary_search(rule).is_err());
        left.map(|rule| self.says(*rule)).min()
    }

    /// The verdict of the rules at a path, and the nodes that are relevant below it.
    pub(super) fn arrive(
        &self,
        machine: &PatternMachine,
        nodes: &[NodeId],
    ) -> (Option<RuleVerdict>, NodeSet) {
        (
            self.verdict(&machine.matching(nodes)),
            self.reduced(machine, machine.below(nodes)),
        )
    }

    /// Drops the nodes of rules that decide nothing below. Without this, every pattern that covers whole
    /// directories would double the number of sets, because a path is either inside one of its directories or
    /// not.
    fn reduced(&self, machine: &PatternMachine, nodes: NodeSet) -> NodeSet {
        let rule_of = |node: &NodeId| machine.rule(*node);
        let is_rest = |node: &&NodeId| machine.kind(**node) == NodeKind::Rest;
        let covering: Vec<RuleId> = nodes.iter().filter(is_rest).map(rule_of).collect();
        if covering.is_empty() {
            return nodes;
        }
        let mut live: Vec<RuleId> = nodes.iter().map(rule_of).collect();
        live.dedup();
        let mut constants: Vec<NodeId> = Vec::new();
        for cover in covering {
            if live.binary_search(&cover).is_ok() && self.drop_needless(cover, &mut live) {
                constants.push(self.replace_by_constant(machine, cover, &mut live));
            }
        }
        constants.extend(&nodes[..]);
        constants.sort_unstable();
        constants.dedup();
        constants.retain(|node| live.binary_search(&machine.rule(*node)).is_ok());
        constants.into()
    }

    /// A rule R that matches everything below makes another rule S redundant if
    /// - S has a lower priority, or R refines S: then R wins over S and over every rule over which S would
    ///   win;
    /// - or, at the same priority, S is not stricter than R, no rule that refines R is left (so R stands, and
    ///   S is never the strictest), and S refines none that is stricter than R (so S changes nothing by
    ///   winning over it).
    ///
    /// Returns whether no rule that refines R is left.
    fn drop_needless(&self, cover: RuleId, live: &mut Vec<RuleId>) -> bool {
        let RuleVerdict { priority, level } = self.says(cover);
        live.retain(|other| self.says(*other).priority >= priority && !self.refines(cover, *other));
        if live.iter().any(|other| self.refines(*other, cover)) {
            return false;
        }
        let is_stricter = |other: RuleId| self.says(other).level < level;
        let stricter: Vec<RuleId> = live.iter().copied().filter(|other| is_stricter(*other)).collect();
        let beats_stricter = |other: RuleId| stricter.iter().any(|strict| self.refines(other, *strict));
        live.retain(|other| {
            let is_higher = self.says(*other).priority > priority;
            *other == cover || is_higher || is_stricter(*other) || beats_stricter(*other)
        });
        true
    }

    /// A rule that matches everything below, refines none and is refined by none of those left, is equivalent
    /// to any other with the same verdict: one of them represents all, so that equal levels have equal nodes.
    fn replace_by_constant(&self, machine: &PatternMachine, cover: RuleId, live: &mut Vec<RuleId>) -> NodeId {
        let node = machine.constant(self.says(cover));
        live.retain(|rule| *rule != cover);
        if let Err(index) = live.binary_search(&machine.rule(node)) {
            live.insert(index, machine.rule(node));
        }
        node
    }
}
