//! Which rules are about strictly fewer paths than others.

use std::collections::{HashMap, HashSet};

use super::BadRules;
use super::budget::{Budget, Spent};
use super::machine::{Machine, NodeKind, Nodes, RuleId};
use super::names::GlobId;
use super::rule::Rule;

/// For one pair of rules.
pub(super) const PAIR_BUDGET: usize = 2_000_000;
/// For all pairs of a list together.
const LIST_BUDGET: usize = 20_000_000;
const PAIRS_MAX: usize = 1_000_000;

/// For each rule those that it strictly refines, ascending: of its own priority and with another level.
///
/// Rules with the same level need no comparison: whichever of them is beaten, the other gives that level, or is
/// beaten by a third that beats both.
#[derive(Debug)]
pub(super) struct Refinements(Vec<Vec<RuleId>>);

impl Refinements {
    pub(super) fn new(rules: &[Rule], machine: &Machine) -> Result<Refinements, BadRules> {
        let mut refined = vec![Vec::new(); rules.len()];
        let mut budget = Budget::new(LIST_BUDGET);
        let mut pairs = 0;
        for (narrow, wide) in candidates(rules, machine) {
            let too_complex = || BadRules::TooComplex { rule: rules[narrow as usize].clone() };
            if strictly_refines(machine, narrow, wide, &mut budget).map_err(|Spent| too_complex())? {
                refined[narrow as usize].push(wide);
                pairs += 1;
            }
            if pairs > PAIRS_MAX {
                return Err(too_complex());
            }
        }
        Ok(Refinements(refined))
    }

    /// The rules that this one beats, ascending.
    pub(super) fn of(&self, rule: RuleId) -> &[RuleId] {
        self.0.get(rule as usize).map_or(&[], Vec::as_slice)
    }

    pub(super) fn has(&self, narrow: RuleId, wide: RuleId) -> bool {
        self.of(narrow).binary_search(&wide).is_ok()
    }
}

/// Pairs of which the first may refine the second: all that do, and few that do not. A rule refines only those that
/// match its examples, so the pairs are found by walking each example once through all patterns.
fn candidates(rules: &[Rule], machine: &Machine) -> Vec<(RuleId, RuleId)> {
    let mut steps = Steps::new(machine);
    let mut pairs = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let Some(pattern) = rule.pattern() else { continue };
        let mut wider: Option<Vec<RuleId>> = None;
        for alternative in pattern.alternatives().iter().take(4) {
            for (filler, depth) in [('\u{10fffd}', 0), ('\u{f8ff}', 2)] {
                let matching = steps.matching(&Machine::example(alternative, filler, depth));
                let both =
                    |rule: &RuleId| wider.as_ref().is_none_or(|wider| wider.binary_search(rule).is_ok());
                wider = Some(matching.into_iter().filter(both).collect());
            }
        }
        let comparable = |other: &RuleId| {
            let other = &rules[*other as usize];
            other.priority == rule.priority && other.level != rule.level
        };
        pairs.extend(wider.into_iter().flatten().filter(comparable).map(|wide| (index as RuleId, wide)));
    }
    pairs
}

/// Walks whole paths through all patterns, and remembers the steps.
struct Steps<'a> {
    machine: &'a Machine,
    sets: Vec<Set>,
    ids: HashMap<Nodes, usize>,
    next: HashMap<(usize, Vec<GlobId>), usize>,
}

struct Set {
    nodes: Nodes,
    literal: Vec<GlobId>,
    wild: Vec<GlobId>,
}

impl<'a> Steps<'a> {
    fn new(machine: &'a Machine) -> Steps<'a> {
        let mut steps = Steps { machine, sets: Vec::new(), ids: HashMap::new(), next: HashMap::new() };
        steps.intern(machine.start_of_all());
        steps
    }

    fn matching(&mut self, names: &[String]) -> Vec<RuleId> {
        let last = names.iter().fold(0, |set, name| self.step(set, name));
        self.machine.matching(&self.sets[last].nodes)
    }

    fn step(&mut self, from: usize, name: &str) -> usize {
        let set = &self.sets[from];
        let key = (from, self.machine.matched(&set.literal, &set.wild, name.as_bytes()));
        if let Some(to) = self.next.get(&key) {
            return *to;
        }
        let to = self.intern(self.machine.step(&set.nodes, &key.1));
        self.next.insert(key, to);
        to
    }

    fn intern(&mut self, nodes: Nodes) -> usize {
        if let Some(id) = self.ids.get(&nodes) {
            return *id;
        }
        let (literal, wild) = self.machine.globs(&nodes);
        self.sets.push(Set { nodes: nodes.clone(), literal, wild });
        self.ids.insert(nodes, self.sets.len() - 1);
        self.sets.len() - 1
    }
}

/// Whether `narrow` matches only paths that `wide` matches, and not all of them.
pub(super) fn strictly_refines(
    machine: &Machine,
    narrow: RuleId,
    wide: RuleId,
    budget: &mut Budget,
) -> Result<bool, Spent> {
    Ok(is_within(machine, narrow, wide, budget)? && !is_within(machine, wide, narrow, budget)?)
}

/// Whether all paths that `narrow` matches are matched by `wide`.
fn is_within(machine: &Machine, narrow: RuleId, wide: RuleId, budget: &mut Budget) -> Result<bool, Spent> {
    let first = machine.start([narrow.min(wide), narrow.max(wide)]);
    let mut seen = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(nodes) = open.pop() {
        let matching = machine.matching(&nodes);
        if matching.contains(&narrow) && !matching.contains(&wide) {
            return Ok(false);
        }
        let is_alive = nodes.iter().any(|node| machine.rule(*node) == narrow);
        let is_covered =
            nodes.iter().any(|node| machine.rule(*node) == wide && machine.kind(*node) == NodeKind::Rest);
        if !is_alive || is_covered {
            continue;
        }
        for letter in machine.letters(&nodes, budget)? {
            budget.spend(nodes.len() + 1)?;
            let next = machine.step(&nodes, &letter);
            if !seen.contains(&next) {
                seen.insert(next.clone());
                open.push(next);
            }
        }
    }
    Ok(true)
}
