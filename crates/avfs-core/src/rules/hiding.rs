//! Which paths a list of rules hides, for many paths at a time, and for programs that do not know rules.

use super::glob::Glob;
use super::level::Level;
use super::machine::RuleId;
use super::pattern::{PatternAlternative, PatternComponent};
use super::rule::Rule;
use super::{CompiledRules, Rules};

/// A quick test for paths that cannot be hidden: each rule that hides requires a certain name in the path.
/// Labels are not considered.
#[derive(Debug)]
pub struct HidingNames {
    /// By the first byte: patterns with a literal prefix.
    by_first: Vec<Vec<PatternShape>>,
    /// By the last byte: patterns with only a literal suffix.
    by_last: Vec<Vec<PatternShape>>,
    /// Any path may be hidden.
    is_any: bool,
}

/// The shape of a name.
#[derive(Debug)]
struct PatternShape {
    start: Box<[u8]>,
    end: Box<[u8]>,
    /// The name equals `start`.
    is_literal: bool,
}

impl PatternShape {
    fn of(glob: &Glob) -> PatternShape {
        let (start, end) = affixes(glob);
        PatternShape {
            start,
            end,
            is_literal: glob.literal().is_some(),
        }
    }

    fn matches(&self, name: &[u8]) -> bool {
        if self.is_literal {
            name == &self.start[..]
        } else {
            name.starts_with(&self.start) && name.ends_with(&self.end)
        }
    }

    /// How selective the shape is, as a rank.
    fn rank(&self) -> usize {
        if self.is_literal {
            usize::MAX
        } else {
            self.start.len() + self.end.len()
        }
    }
}

impl HidingNames {
    /// The names of a list of rules.
    pub fn of(rules: &[Rule]) -> HidingNames {
        let none = || (0..256).map(|_| Vec::new()).collect();
        let mut names = HidingNames {
            by_first: none(),
            by_last: none(),
            is_any: !is_about_everything(rules),
        };
        for rule in rules.iter().filter(|rule| rule.level == Level::None) {
            let alternatives = rule
                .pattern()
                .into_iter()
                .flat_map(|pattern| pattern.alternatives());
            alternatives.for_each(|one| names.add(one));
        }
        names
    }

    /// Whether a path that contains this name may be hidden because of it. A path without such a name is not
    /// hidden.
    pub fn may_hide(&self, name: &[u8]) -> bool {
        let (Some(first), Some(last)) = (name.first(), name.last()) else {
            return self.is_any;
        };
        let matches = |shape: &PatternShape| shape.matches(name);
        self.is_any
            || self.by_first[usize::from(*first)].iter().any(matches)
            || self.by_last[usize::from(*last)].iter().any(matches)
    }

    fn add(&mut self, alternative: &PatternAlternative) {
        let shapes = alternative
            .components
            .iter()
            .filter_map(|component| match component {
                PatternComponent::Deep => None,
                PatternComponent::Name(glob) => Some(PatternShape::of(glob)),
            });
        let Some(best) = shapes.max_by_key(PatternShape::rank) else {
            self.is_any = true;
            return;
        };
        match (best.start.first().copied(), best.end.last().copied()) {
            (Some(first), _) => self.by_first[usize::from(first)].push(best),
            (None, Some(last)) => self.by_last[usize::from(last)].push(best),
            (None, None) => self.is_any = true,
        }
    }
}

/// Whether a rule that does not hide matches every path.
fn is_about_everything(rules: &[Rule]) -> bool {
    let is_everything = |one: &PatternAlternative| one.components == [PatternComponent::Deep];
    let mut open = rules.iter().filter(|rule| rule.level > Level::None);
    open.any(|rule| {
        rule.pattern()
            .is_some_and(|pattern| pattern.alternatives().iter().any(is_everything))
    })
}

/// The literal text before the first wildcard of a glob, and after the last one.
fn affixes(glob: &Glob) -> (Box<[u8]>, Box<[u8]>) {
    use super::glob::GlobToken;
    let text = |token: &GlobToken| match token {
        GlobToken::Char(c) => Some(*c),
        GlobToken::Any | GlobToken::Class(_) | GlobToken::Star => None,
    };
    let start: String = glob.tokens().iter().map_while(text).collect();
    let mut end: Vec<char> = glob.tokens().iter().rev().map_while(text).collect();
    end.reverse();
    (
        start.into_bytes().into(),
        end.into_iter().collect::<String>().into_bytes().into(),
    )
}

impl Rules {
    /// The path rules that hide, and those that make exceptions to them, in an order in which the last rule
    /// that matches a path decides; where no rule matches, a path is hidden unless some rule matches
    /// everything. Each rule comes with the brace-free patterns that it stands for.
    pub fn hiding_order(&self) -> Vec<(&Rule, Vec<&str>)> {
        let compiled = &*self.0;
        let is_exception = |id: RuleId| {
            let refined = compiled.precedence.refined_by(id);
            refined
                .iter()
                .any(|wide| compiled.rules[*wide as usize].level == Level::None)
        };
        let is_open = is_about_everything(&compiled.rules);
        let all = 0..compiled.rules.len() as RuleId;
        let is_needed = |id: &RuleId| {
            let rule = &compiled.rules[*id as usize];
            rule.level == Level::None || rule.priority > 0 || !is_open || is_exception(*id)
        };
        let mut ids: Vec<RuleId> = all.filter(is_needed).collect();
        ids.sort_by_key(|id| {
            let rule = &compiled.rules[*id as usize];
            (rule.priority, compiled.depth(*id), rule.level == Level::None)
        });
        let rules = ids.into_iter().map(|id| &compiled.rules[id as usize]);
        rules
            .filter_map(|rule| Some((rule, rule.pattern()?.texts())))
            .collect()
    }
}

impl CompiledRules {
    /// The length of the longest chain of rules that refine each other, up to this one.
    fn depth(&self, rule: RuleId) -> usize {
        // Refinement is strict, so this ends.
        self.precedence
            .refined_by(rule)
            .iter()
            .map(|wide| 1 + self.depth(*wide))
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::*;
    use crate::TreePath;
    use crate::label::Labels;

    fn rules(lines: &[&str]) -> Rules {
        Rules::new(lines.iter().map(|line| Rule::parse(line).unwrap()).collect()).unwrap()
    }

    fn level(rules: &Rules, path: &str) -> Level {
        rules
            .explain(&TreePath::parse(path.as_bytes()).unwrap(), |_| Labels::default())
            .level
    }

    #[test]
    fn no_path_is_hidden_without_one_of_the_names() {
        let development = Rules::new(Preset::Development.rules()).unwrap();
        let lists = [
            development.clone(),
            rules(&["/**=write", "/docs/*/x?y*.md=none", "a/b/=none", "**/c=none"]),
            rules(&["/src/=write"]),
        ];
        let paths = [
            "src/main.rs",
            "src/credentials.rs",
            ".env",
            "a/.env.d/x",
            "certs/server.pem",
            "docs/z/x1y.md",
            "docs/z/y.md",
            "a/b/z",
            "q/c",
            ".docker/config.json",
            "config.json",
            "secrets/a/b",
        ];
        for rules in &lists {
            let names = HidingNames::of(rules.list());
            for path in paths {
                let suspected = path.split('/').any(|name| names.may_hide(name.as_bytes()));
                assert!(suspected || level(rules, path) > Level::None, "{path} {rules:?}");
            }
        }
        let names = HidingNames::of(development.list());
        for ordinary in ["src", "main.rs", "README.md", "package.json", "environment.ts"] {
            assert!(!names.may_hide(ordinary.as_bytes()), "{ordinary}");
        }
    }

    #[test]
    fn a_thousand_exceptions_for_single_paths_are_not_too_complex() {
        let mut rules = Preset::Development.rules();
        let path =
            |at: usize| TreePath::parse(format!("certs/a b/{}/c-{at}.pem", at % 7).as_bytes()).unwrap();
        let open = |at| Rule::new(super::super::Pattern::exactly(&path(at)).unwrap(), Level::Write);
        rules.extend((0..1000).map(open));
        let rules = Rules::new(rules).unwrap();
        for (at, expected) in [(0, Level::Write), (999, Level::Write), (1000, Level::None)] {
            assert_eq!(
                level(&rules, std::str::from_utf8(path(at).as_bytes()).unwrap()),
                expected
            );
        }
        for odd in ["a*b?[c]{d,e}\\f.pem", ".env \u{e9}", "x/!y#.key"] {
            let path = TreePath::parse(odd.as_bytes()).unwrap();
            let pattern = super::super::Pattern::exactly(&path).unwrap();
            assert!(pattern.matches(&path), "{pattern}");
            assert!(!pattern.matches(&TreePath::parse(b"aXb.pem").unwrap()));
        }
    }

    #[test]
    fn exceptions_come_after_what_they_are_exceptions_to() {
        let rules = rules(&[
            "a/b/*.x=none",
            "/**=write",
            "a/=none",
            "/docs/=read",
            "a/b/=read",
            "z=write@1",
        ]);
        let order = rules.hiding_order();
        let texts: Vec<String> = order.iter().map(|(rule, _)| rule.to_string()).collect();
        assert_eq!(texts, ["a/=none", "a/b/=read", "a/b/*.x=none", "z=write@1"]);
        assert_eq!(order[0].1, ["a/"]);
    }
}
