//! Which rules match strictly fewer paths than others.

use std::collections::{HashMap, HashSet};

use super::BadRules;
use super::budget::{BudgetSpent, StepBudget};
use super::machine::{NodeKind, PatternMachine, RuleId};
use super::rule::Rule;
use crate::name::EntryName;

/// For one pair of rules, in the units of `StepBudget`.
pub(super) const PAIR_BUDGET: usize = 500_000;
/// For all pairs of a list together.
const LIST_BUDGET: usize = 5_000_000;
/// The most attempts to match a pattern against the examples of others: rules without a literal name are
/// tried on all.
const TRIES_MAX: usize = 5_000_000;
const PAIRS_MAX: usize = 1_000_000;

/// For each rule, the rules of the same priority and a different level that it strictly refines, ascending.
///
/// Rules with the same level need no comparison: whichever of them loses, the other gives the same level, or
/// loses to a third rule that wins over both.
#[derive(Debug)]
pub(super) struct RuleRefinements(Vec<Vec<RuleId>>);

impl RuleRefinements {
    pub(super) fn new(rules: &[Rule], machine: &PatternMachine) -> Result<RuleRefinements, BadRules> {
        let mut refined = vec![Vec::new(); rules.len()];
        let mut budget = StepBudget::new(LIST_BUDGET);
        let mut pairs = 0;
        for (narrow, wide) in candidates(rules)? {
            let too_complex = || BadRules::TooComplex {
                rule: rules[narrow as usize].clone(),
            };
            let mut part = budget.part(PAIR_BUDGET);
            let is_refined = strictly_refines(machine, narrow, wide, &mut part);
            budget.take_back(part);
            if is_refined.map_err(|BudgetSpent| too_complex())? {
                refined[narrow as usize].push(wide);
                pairs += 1;
            }
            if pairs > PAIRS_MAX {
                return Err(too_complex());
            }
        }
        Ok(RuleRefinements(refined))
    }

    /// The rules over which this one wins, ascending.
    pub(super) fn of(&self, rule: RuleId) -> &[RuleId] {
        self.0.get(rule as usize).map_or(&[], Vec::as_slice)
    }

    pub(super) fn has(&self, narrow: RuleId, wide: RuleId) -> bool {
        self.of(narrow).binary_search(&wide).is_ok()
    }
}

/// Pairs of which the first may refine the second: all that do, and few that do not. A rule can only refine
/// rules that match its examples.
fn candidates(rules: &[Rule]) -> Result<Vec<(RuleId, RuleId)>, BadRules> {
    let index = RuleIndex::new(rules);
    let mut tries = StepBudget::new(TRIES_MAX);
    let mut pairs = Vec::new();
    for (narrow, rule) in rules.iter().enumerate() {
        let examples = examples(rule);
        let Some(first) = examples.first() else { continue };
        let is_comparable = |wide: &RuleId| {
            let wide = &rules[*wide as usize];
            wide.priority == rule.priority && wide.level != rule.level
        };
        let matches_all = |wide: &RuleId| {
            let pattern = rules[*wide as usize].pattern();
            pattern.is_some_and(|pattern| examples.iter().all(|path| pattern.matches_names(path)))
        };
        let tried: Vec<RuleId> = index.may_match(first).into_iter().filter(is_comparable).collect();
        tries
            .spend(tried.len())
            .map_err(|BudgetSpent| BadRules::TooComplex { rule: rule.clone() })?;
        pairs.extend(
            tried
                .into_iter()
                .filter(matches_all)
                .map(|wide| (narrow as RuleId, wide)),
        );
    }
    Ok(pairs)
}

/// Paths that the rule matches, and that others match only if they have wildcards in the same places.
fn examples(rule: &Rule) -> Vec<Vec<EntryName>> {
    let mut examples = Vec::new();
    for alternative in rule
        .pattern()
        .into_iter()
        .flat_map(|pattern| pattern.alternatives())
        .take(4)
    {
        examples.extend(
            [('\u{10fffd}', 0), ('\u{f8ff}', 2)].map(|(filler, depth)| alternative.example(filler, depth)),
        );
    }
    examples
}

/// Rules by a name that is in every path that one of their alternatives matches.
struct RuleIndex<'a> {
    by_name: HashMap<&'a [u8], Vec<RuleId>>,
    /// Rules with an alternative that has wildcards in all names.
    others: Vec<RuleId>,
}

impl<'a> RuleIndex<'a> {
    fn new(rules: &'a [Rule]) -> RuleIndex<'a> {
        let mut index = RuleIndex {
            by_name: HashMap::new(),
            others: Vec::new(),
        };
        for (id, rule) in rules.iter().enumerate() {
            for alternative in rule
                .pattern()
                .into_iter()
                .flat_map(|pattern| pattern.alternatives())
            {
                let place = match alternative.required_name() {
                    Some(name) => index.by_name.entry(name).or_default(),
                    None => &mut index.others,
                };
                place.push(id as RuleId);
            }
        }
        index
    }

    /// All rules that match the path, and possibly others; ascending.
    fn may_match(&self, path: &[EntryName]) -> Vec<RuleId> {
        let named = path.iter().filter_map(|name| self.by_name.get(name.as_bytes()));
        let mut rules: Vec<RuleId> = named.flatten().chain(&self.others).copied().collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}

/// Whether `narrow` matches only paths that `wide` matches, and not all of them.
pub(super) fn strictly_refines(
    machine: &PatternMachine,
    narrow: RuleId,
    wide: RuleId,
    budget: &mut StepBudget,
) -> Result<bool, BudgetSpent> {
    Ok(is_within(machine, narrow, wide, budget)? && !is_within(machine, wide, narrow, budget)?)
}

/// Whether all paths that `narrow` matches are matched by `wide`.
fn is_within(
    machine: &PatternMachine,
    narrow: RuleId,
    wide: RuleId,
    budget: &mut StepBudget,
) -> Result<bool, BudgetSpent> {
    let first = machine.start([narrow.min(wide), narrow.max(wide)]);
    let mut seen = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(nodes) = open.pop() {
        let matching = machine.matching(&nodes);
        if matching.contains(&narrow) && !matching.contains(&wide) {
            return Ok(false);
        }
        let is_alive = nodes.iter().any(|node| machine.rule(*node) == narrow);
        let is_covered = nodes
            .iter()
            .any(|node| machine.rule(*node) == wide && machine.kind(*node) == NodeKind::Rest);
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
