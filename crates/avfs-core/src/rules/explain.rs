//! Why a path has its level.

use std::fmt;

use super::budget::Budget;
use super::level::Level;
use super::machine::RuleId;
use super::refine::{PAIR_BUDGET, strictly_refines};
use super::rule::{Rule, Subject};
use super::{Compiled, Rules};
use crate::label::Labels;
use crate::name::TreePath;

/// Which rule decides about a path, and which others are about it too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub path: TreePath,
    pub level: Level,
    /// `None` if no rule is about the path.
    pub deciding: Option<Rule>,
    /// Which of its alternatives matches, if the braces of its pattern stand for several.
    pub through: Option<String>,
    pub beaten: Vec<Beaten>,
}

/// A rule that is about the path and does not decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beaten {
    pub rule: Rule,
    pub why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    LowerPriority,
    /// Another rule is about some of its paths only.
    Refined,
    LessStrict,
    /// It decides as well: its level is the same.
    SameLevel,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::LowerPriority => "its priority is lower",
            Why::Refined => "it is about more paths",
            Why::LessStrict => "it is less strict",
            Why::SameLevel => "it says the same",
        })
    }
}

impl Rules {
    /// Why a path has its level. `labels` gives the labels that an entry has itself; it is asked for the path and
    /// everything above it.
    pub fn explain(&self, path: &TreePath, labels: impl Fn(&TreePath) -> Labels) -> Explanation {
        let matching = self.0.matching(path, &inherited(path, labels));
        let Some(deciding) = self.0.deciding(&matching) else {
            return Explanation {
                path: path.clone(),
                level: Level::None,
                deciding: None,
                through: None,
                beaten: Vec::new(),
            };
        };
        let beaten = matching.iter().filter(|rule| **rule != deciding);
        let rule = self.0.rule(deciding);
        Explanation {
            path: path.clone(),
            level: rule.level,
            deciding: Some(rule.clone()),
            through: through(rule, path),
            beaten: beaten.map(|beaten| self.0.beaten(*beaten, deciding, &matching)).collect(),
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

fn through(rule: &Rule, path: &TreePath) -> Option<String> {
    let pattern = rule.pattern().filter(|pattern| pattern.has_alternatives())?;
    pattern.matching_alternative(path).map(str::to_owned)
}

impl Compiled {
    fn rule(&self, id: RuleId) -> &Rule {
        &self.rules[id as usize]
    }

    fn matching(&self, path: &TreePath, labels: &Labels) -> Vec<RuleId> {
        let is_about = |rule: &Rule| match &rule.subject {
            Subject::Paths(pattern) => pattern.matches(path),
            Subject::Label(label) => labels.contains(label),
        };
        (0..self.rules.len() as RuleId).filter(|id| is_about(self.rule(*id))).collect()
    }

    /// The first by text among those that decide, so that the order of the list does not matter here either.
    fn deciding(&self, matching: &[RuleId]) -> Option<RuleId> {
        let priority = matching.iter().map(|id| self.rule(*id).priority).max()?;
        let stands = |id: &&RuleId| {
            self.rule(**id).priority == priority
                && !matching.iter().any(|other| self.judge.refines(*other, **id))
        };
        let rank = |id: &&RuleId| (self.rule(**id).level, self.rule(**id).to_string());
        matching.iter().filter(stands).min_by_key(rank).copied()
    }

    fn beaten(&self, id: RuleId, deciding: RuleId, matching: &[RuleId]) -> Beaten {
        let rule = self.rule(id);
        let why = if rule.priority < self.rule(deciding).priority {
            Why::LowerPriority
        } else if matching.iter().any(|other| self.is_refined(id, *other)) {
            Why::Refined
        } else if rule.level > self.rule(deciding).level {
            Why::LessStrict
        } else {
            Why::SameLevel
        };
        Beaten { rule: rule.clone(), why }
    }

    /// Also between rules with the same level, which need not be compared to decide.
    fn is_refined(&self, wide: RuleId, narrow: RuleId) -> bool {
        let (wide_rule, narrow_rule) = (self.rule(wide), self.rule(narrow));
        if wide_rule.priority != narrow_rule.priority || wide == narrow {
            return false;
        }
        if wide_rule.level != narrow_rule.level {
            return self.judge.refines(narrow, wide);
        }
        let are_patterns = wide_rule.pattern().is_some() && narrow_rule.pattern().is_some();
        are_patterns
            && strictly_refines(&self.machine, narrow, wide, &mut Budget::new(PAIR_BUDGET)).unwrap_or(false)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.level)?;
        let Some(deciding) = &self.deciding else {
            return write!(f, "\nno rule is about it");
        };
        write!(f, "\ndecided by {}", WithOrigin(deciding))?;
        if let Some(alternative) = &self.through {
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
