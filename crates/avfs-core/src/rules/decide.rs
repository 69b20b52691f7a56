//! Which of the rules that match decides.

use super::level::Level;
use super::machine::{Machine, NodeId, NodeKind, Nodes, RuleId};
use super::refine::Refinements;
use super::rule::Rule;

/// What the rules that match say together: the level at the highest priority among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Verdict {
    pub(super) priority: i32,
    pub(super) level: Level,
}

impl Verdict {
    /// What a rule alone says.
    pub(super) fn of(rule: &Rule) -> Verdict {
        Verdict { priority: rule.priority, level: rule.level }
    }
}

/// What two sets of rules say together that do not refine each other: the higher priority, then the stricter level.
///
/// The answer is always one of the two. So what any number of labels says is what one of them says.
pub(super) fn joined(a: Option<Verdict>, b: Option<Verdict>) -> Option<Verdict> {
    let (Some(first), Some(second)) = (a, b) else { return a.or(b) };
    let by_rank = |verdict: &Verdict| (verdict.priority, std::cmp::Reverse(verdict.level));
    Some(std::cmp::max_by_key(first, second, by_rank))
}

pub(super) fn level(verdict: Option<Verdict>) -> Level {
    verdict.map_or(Level::None, |verdict| verdict.level)
}

/// Decides among the rules of a machine.
#[derive(Debug)]
pub(super) struct Judge {
    /// What each rule says, those included that the machine has added.
    says: Vec<Verdict>,
    refinements: Refinements,
}

impl Judge {
    pub(super) fn new(rules: &[Rule], machine: &Machine, refinements: Refinements) -> Judge {
        let says = rules.iter().map(Verdict::of).chain(machine.constants().map(|(verdict, _)| verdict));
        Judge { says: says.collect(), refinements }
    }

    pub(super) fn says(&self, rule: RuleId) -> Verdict {
        self.says[rule as usize]
    }

    /// Whether the first strictly refines the second, which has the same priority and another level.
    pub(super) fn refines(&self, narrow: RuleId, wide: RuleId) -> bool {
        self.refinements.has(narrow, wide)
    }

    /// The rules of its own priority and with another level that a rule strictly refines.
    pub(super) fn refined_by(&self, narrow: RuleId) -> &[RuleId] {
        self.refinements.of(narrow)
    }

    /// What these rules about paths say; ascending.
    fn verdict(&self, matching: &[RuleId]) -> Option<Verdict> {
        let priority = matching.iter().map(|rule| self.says(*rule).priority).max()?;
        let top: Vec<RuleId> =
            matching.iter().copied().filter(|rule| self.says(*rule).priority == priority).collect();
        let mut beaten: Vec<RuleId> =
            top.iter().flat_map(|rule| self.refinements.of(*rule)).copied().collect();
        beaten.sort_unstable();
        let left = top.iter().filter(|rule| beaten.binary_search(rule).is_err());
        left.map(|rule| self.says(*rule)).min()
    }

    /// What the rules say at a path, and what of the nodes matters below it.
    pub(super) fn arrive(&self, machine: &Machine, nodes: &[NodeId]) -> (Option<Verdict>, Nodes) {
        (self.verdict(&machine.matching(nodes)), self.reduced(machine, machine.below(nodes)))
    }

    /// Drops the nodes of rules that decide nothing below. Without this, every pattern that covers whole
    /// directories would double the number of sets: it is inside one of its directories or not.
    fn reduced(&self, machine: &Machine, nodes: Nodes) -> Nodes {
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

    /// A rule R that matches everything below makes another rule S needless if
    /// - S has a lower priority, or R refines S: then R beats S, and whatever S would beat;
    /// - or, at the same priority, S is not stricter than R, no rule that refines R is left (so that R stands, and S
    ///   is never the strictest), and S refines none that is stricter than R (so that beating it changes nothing).
    ///
    /// Returns whether no rule that refines R is left.
    fn drop_needless(&self, cover: RuleId, live: &mut Vec<RuleId>) -> bool {
        let Verdict { priority, level } = self.says(cover);
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

    /// A rule that matches everything below, refines none and is refined by none of those left, is as good as
    /// any other that says the same: one stands for all, so that the same levels have the same nodes.
    fn replace_by_constant(&self, machine: &Machine, cover: RuleId, live: &mut Vec<RuleId>) -> NodeId {
        let node = machine.constant(self.says(cover));
        live.retain(|rule| *rule != cover);
        if let Err(index) = live.binary_search(&machine.rule(node)) {
            live.insert(index, machine.rule(node));
        }
        node
    }
}
