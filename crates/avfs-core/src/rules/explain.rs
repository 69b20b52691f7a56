//! Why a path has its level.

use std::fmt;

use super::budget::StepBudget;
use super::level::Level;
use super::machine::RuleId;
use super::refine::{PAIR_BUDGET, strictly_refines};
use super::rule::{Rule, RuleSubject};
use super::{CompiledRules, Rules};
use crate::label::Labels;
use crate::name::TreePath;

/// The rule that decides about a path, and the other rules that match it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleExplanation {
    /// The path in question.
    pub path: TreePath,
    /// What the rules allow there.
    pub level: Level,
    /// `None` if no rule matches the path.
    pub deciding: Option<Rule>,
    /// The alternative that matches, if the braces of the pattern stand for several.
    pub alternative: Option<String>,
    /// The other rules that match, the closest first.
    pub beaten: Vec<OverruledRule>,
}

/// A rule that matches the path and does not decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverruledRule {
    /// The rule.
    pub rule: Rule,
    /// Why it does not decide.
    pub why: OverruledBecause,
}

/// Why a rule that matches does not decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverruledBecause {
    /// The deciding rule has a higher priority.
    LowerPriority,
    /// Another rule matches only some of its paths.
    Refined,
    /// The deciding rule allows less, and neither is more specific.
    LessStrict,
    /// It would decide the same way: its level is the same.
    SameLevel,
}

impl fmt::Display for OverruledBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OverruledBecause::LowerPriority => "its priority is lower",
            OverruledBecause::Refined => "it is about more paths",
            OverruledBecause::LessStrict => "it is less strict",
            OverruledBecause::SameLevel => "it says the same",
        })
    }
}

impl Rules {
    /// Why a path has its level. `labels` returns the labels that an entry itself has; it is called for the
    /// path and everything above it.
    pub fn explain(&self, path: &TreePath, labels: impl Fn(&TreePath) -> Labels) -> RuleExplanation {
        let matching = self.0.matching(path, &inherited(path, labels));
        let Some(deciding) = self.0.deciding(&matching) else {
            return RuleExplanation {
                path: path.clone(),
                level: Level::None,
                deciding: None,
                alternative: None,
                beaten: Vec::new(),
            };
        };
        let beaten = matching.iter().filter(|rule| **rule != deciding);
        let rule = self.0.rule(deciding);
        RuleExplanation {
            path: path.clone(),
            level: rule.level,
            deciding: Some(rule.clone()),
            alternative: alternative(rule, path),
            beaten: beaten
                .map(|beaten| self.0.beaten(*beaten, deciding, &matching))
                .collect(),
        }
    }
}

fn inherited(path: &TreePath, labels: impl Fn(&TreePath) -> Labels) -> Labels {
    let mut at = TreePath::root();
    let mut all = labels(&at);
    for name in path.components() {
        at.push(&name);
        all = all.union(&labels(&at));
    }
    all
}

fn alternative(rule: &Rule, path: &TreePath) -> Option<String> {
    let pattern = rule.pattern().filter(|pattern| pattern.has_alternatives())?;
    pattern.matching_alternative(path).map(str::to_owned)
}

impl CompiledRules {
    fn rule(&self, id: RuleId) -> &Rule {
        &self.rules[id as usize]
    }

    fn matching(&self, path: &TreePath, labels: &Labels) -> Vec<RuleId> {
        let is_about = |rule: &Rule| match &rule.subject {
            RuleSubject::Paths(pattern) => pattern.matches(path),
            RuleSubject::Label(label) => labels.contains(label),
        };
        (0..self.rules.len() as RuleId)
            .filter(|id| is_about(self.rule(*id)))
            .collect()
    }

    /// The alphabetically first of the deciding rules, so that the order of the list does not matter here
    /// either.
    fn deciding(&self, matching: &[RuleId]) -> Option<RuleId> {
        let priority = matching.iter().map(|id| self.rule(*id).priority).max()?;
        let stands = |id: &&RuleId| {
            self.rule(**id).priority == priority
                && !matching.iter().any(|other| self.precedence.refines(*other, **id))
        };
        let rank = |id: &&RuleId| (self.rule(**id).level, self.rule(**id).to_string());
        matching.iter().filter(stands).min_by_key(rank).copied()
    }

    fn beaten(&self, id: RuleId, deciding: RuleId, matching: &[RuleId]) -> OverruledRule {
        let rule = self.rule(id);
        let why = if rule.priority < self.rule(deciding).priority {
            OverruledBecause::LowerPriority
        } else if matching.iter().any(|other| self.is_refined(id, *other)) {
            OverruledBecause::Refined
        } else if rule.level > self.rule(deciding).level {
            OverruledBecause::LessStrict
        } else {
            OverruledBecause::SameLevel
        };
        OverruledRule {
            rule: rule.clone(),
            why,
        }
    }

    /// Also between rules with the same level, which need no comparison for a decision.
    fn is_refined(&self, wide: RuleId, narrow: RuleId) -> bool {
        let wide_rule = self.rule(wide);
        let narrow_rule = self.rule(narrow);
        if wide_rule.priority != narrow_rule.priority || wide == narrow {
            return false;
        }
        if wide_rule.level != narrow_rule.level {
            return self.precedence.refines(narrow, wide);
        }
        let are_patterns = wide_rule.pattern().is_some() && narrow_rule.pattern().is_some();
        are_patterns
            && strictly_refines(&self.machine, narrow, wide, &mut StepBudget::new(PAIR_BUDGET))
                .unwrap_or(false)
    }
}

impl fmt::Display for RuleExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.level)?;
        let Some(deciding) = &self.deciding else {
            return write!(f, "\nno rule is about it");
        };
        write!(f, "\ndecided by {}", WithOrigin(deciding))?;
        if let Some(alternative) = &self.alternative {
            write!(f, " through {}", crate::printable(alternative.as_bytes()))?;
        }
        for beaten in &self.beaten {
            write!(f, "\nnot by {}: {}", WithOrigin(&beaten.rule), beaten.why)?;
        }
        Ok(())
    }
}

struct WithOrigin<'a>(&'a Rule);

impl fmt::Display for WithOrigin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::printable(self.0.to_string().as_bytes()))?;
        match self.0.origin.as_str() {
            "" => Ok(()),
            origin => write!(f, " ({origin})"),
        }
    }
}
