//! Which of the rules that match decides.

use super::level::Level;
use super::machine::{Machine, NodeId, NodeKind, Nodes, RuleId};
use super::refine::Refinements;
use super::rule::Rule;

/// What the rules that match say together: the level at the highest priority among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Verdict {
    pub(super) priority: i32,
    pub(super) level: Level,
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

/// What a rule alone says.
pub(super) fn verdict_of(rule: &Rule) -> Verdict {
    Verdict { priority: rule.priority, level: rule.level }
}

/// What these rules about paths say; ascending.
pub(super) fn verdict(rules: &[Rule], refinements: &Refinements, matching: &[RuleId]) -> Option<Verdict> {
    let priority = matching.iter().map(|rule| rules[*rule as usize].priority).max()?;
    let top: Vec<RuleId> =
        matching.iter().copied().filter(|rule| rules[*rule as usize].priority == priority).collect();
    let mut beaten: Vec<RuleId> = top.iter().flat_map(|rule| refinements.of(*rule)).copied().collect();
    beaten.sort_unstable();
    let left = top.iter().filter(|rule| beaten.binary_search(rule).is_err());
    let level = left.map(|rule| rules[*rule as usize].level).min()?;
    Some(Verdict { priority, level })
}

/// Drops the nodes of rules that decide nothing from here on. Without this, every pattern that covers whole
/// directories would double the number of sets: it is inside one of its directories or not.
///
/// A rule R that matches everything from here on makes another rule S needless if
/// - S has a lower priority, or R refines S: then R beats S, and whatever S would beat;
/// - or, at the same priority, S is not stricter than R, no rule that refines R is left (so that R stands, and S is
///   never the strictest), and S refines none that is stricter than R (so that beating it changes nothing).
pub(super) fn reduced(rules: &[Rule], refinements: &Refinements, machine: &Machine, nodes: Nodes) -> Nodes {
    let is_rest = |node: &NodeId| machine.kind(*node) == NodeKind::Rest;
    let covering: Vec<RuleId> =
        nodes.iter().filter(|node| is_rest(node)).map(|node| machine.rule(*node)).collect();
    if covering.is_empty() {
        return nodes;
    }
    let mut live: Vec<RuleId> = nodes.iter().map(|node| machine.rule(*node)).collect();
    live.dedup();
    for cover in covering {
        if live.binary_search(&cover).is_ok() {
            drop_needless(rules, refinements, cover, &mut live);
        }
    }
    nodes.iter().copied().filter(|node| live.binary_search(&machine.rule(*node)).is_ok()).collect()
}

fn drop_needless(rules: &[Rule], refinements: &Refinements, cover: RuleId, live: &mut Vec<RuleId>) {
    let rule = |id: RuleId| &rules[id as usize];
    let (priority, level) = (rule(cover).priority, rule(cover).level);
    live.retain(|other| rule(*other).priority >= priority && !refinements.has(cover, *other));
    if live.iter().any(|other| refinements.has(*other, cover)) {
        return;
    }
    let stricter: Vec<RuleId> = live.iter().copied().filter(|other| rule(*other).level < level).collect();
    let beats_stricter = |other: RuleId| stricter.iter().any(|strict| refinements.has(other, *strict));
    live.retain(|other| {
        *other == cover
            || rule(*other).priority > priority
            || rule(*other).level < level
            || beats_stricter(*other)
    });
}
