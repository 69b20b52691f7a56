//! Laws that hold for all rules, compared with lists of all paths of a small world.
//!
//! Where the small world shows no difference and the patterns claim one, a deeper world must show it.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::meaning::path;
use crate::rules::*;
use crate::{EntryName, Label, Labels, TreePath};

/// All paths of up to `depth` names: one that is in most patterns, one that is in some, one that is in none,
/// and one that is not text. The root comes first, then paths of one name, of two …
fn world(depth: usize) -> Vec<TreePath> {
    let names = [&b"a"[..], b"b", b"c", b"\xff"].map(|name| EntryName::new(name).unwrap());
    let mut all = vec![TreePath::root()];
    let mut last = all.clone();
    for _ in 0..depth {
        last = last
            .iter()
            .flat_map(|parent| names.clone().map(|name| parent.join(&name)))
            .collect();
        all.extend(last.clone());
    }
    all
}

static SMALL_WORLD: LazyLock<Vec<TreePath>> = LazyLock::new(|| world(3));
static DEEP_WORLD: LazyLock<Vec<TreePath>> = LazyLock::new(|| world(6));
static NAMES: LazyLock<Vec<TreePath>> = LazyLock::new(many_names);

/// All names of up to four of `a`, `b`, `c`, `.` and a byte that is not part of a character.
fn many_names() -> Vec<TreePath> {
    let mut names = vec![Vec::new()];
    let mut last = names.clone();
    for _ in 0..4 {
        last = last
            .iter()
            .flat_map(|name| b"abc.\xff".map(|byte| [&name[..], &[byte]].concat()))
            .collect();
        names.extend(last.clone());
    }
    let is_name = |name: &&Vec<u8>| !matches!(&name[..], b"" | b"." | b"..");
    names
        .iter()
        .filter(is_name)
        .map(|name| TreePath::parse(name).unwrap())
        .collect()
}

/// About names of one component.
fn name_pattern() -> impl Strategy<Value = String> {
    let token = select(vec![
        "a", "b", "*", "?", "[ab]", "[!a]", "[^.]", "\\.", "{a,}", "{b*,?}",
    ]);
    let parts = vec(token, 1..4).prop_map(|tokens| format!("/{}", tokens.concat()));
    parts.prop_filter("about one name", |text| {
        !text.contains("**") && Pattern::parse(text).is_ok()
    })
}

/// Needs no more than three names to be distinguished from another.
fn path_pattern() -> impl Strategy<Value = String> {
    let simple = || select(vec!["a", "b", "*", "**", "**", "[ab]", "[!a]"]);
    let braces = select(vec!["{a,b/a}", "{b,**/a}", "{a,**}", "{*/b,{a,b}}"]);
    let components = prop_oneof![
        2 => vec(simple(), 1..4),
        1 => (simple(), braces.clone()).prop_map(|(first, second)| vec![first, second]),
        1 => (braces, simple()).prop_map(|(first, second)| vec![first, second]),
    ];
    let parts = (components, select(vec!["", "", "/", "/**"]));
    parts.prop_map(|(components, end)| components.join("/") + end)
}

fn level() -> impl Strategy<Value = Level> {
    select(Level::ALL.to_vec())
}

fn priority() -> impl Strategy<Value = i32> {
    select(vec![0, 0, 0, 1, -1])
}

fn rule() -> impl Strategy<Value = Rule> {
    (path_pattern(), level(), priority())
        .prop_map(|(pattern, level, priority)| Rule::parse(&format!("{pattern}={level}@{priority}")).unwrap())
}

fn label_rule() -> impl Strategy<Value = Rule> {
    (select(vec!["p", "q"]), level(), priority())
        .prop_map(|(name, level, priority)| Rule::parse(&format!("label:{name}={level}@{priority}")).unwrap())
}

fn list_with_labels() -> impl Strategy<Value = Vec<Rule>> {
    vec(prop_oneof![6 => rule(), 1 => label_rule()], 0..6)
}

/// A directory to ask about.
fn base() -> impl Strategy<Value = TreePath> {
    select(vec!["/", "/a", "/b", "/a/b"]).prop_map(path)
}

fn labels() -> impl Strategy<Value = Labels> {
    subsequence(vec!["p", "q"], 0..=2).prop_map(|names| set(&names))
}

fn set(names: &[&str]) -> Labels {
    names.iter().map(|name| Label::new(name).unwrap()).collect()
}

fn every_set() -> [Labels; 4] {
    [set(&[]), set(&["p"]), set(&["q"]), set(&["p", "q"])]
}

/// Whether the first matches only paths of the world that the second matches, and not all of them.
fn refines_in(world: &[TreePath], narrow: &str, wide: &str) -> bool {
    let narrow = Pattern::parse(narrow).unwrap();
    let wide = Pattern::parse(wide).unwrap();
    let is_within = |narrow: &Pattern, wide: &Pattern| {
        world
            .iter()
            .all(|path| !narrow.matches(path) || wide.matches(path))
    };
    is_within(&narrow, &wide) && !is_within(&wide, &narrow)
}

/// The answer of the rules.
fn refines(narrow: &str, wide: &str) -> bool {
    let rule = |text: &str, level| Rule::new(Pattern::parse(text).unwrap(), level);
    let rules = Rules::new(vec![rule(narrow, Level::Read), rule(wide, Level::None)]).unwrap();
    rules.0.precedence.refines(0, 1)
}

/// Selects the deciding rule literally as the documentation defines it.
struct Definition {
    rules: Vec<Rule>,
    /// `refined[a][b]`: the rule b refines a.
    refined: Vec<Vec<bool>>,
}

impl Definition {
    fn new(rules: &[Rule]) -> Definition {
        let is_refined = |wide: &Rule, narrow: &Rule| match (narrow.pattern(), wide.pattern()) {
            (Some(narrow), Some(wide)) => refines(narrow.as_str(), wide.as_str()),
            _ => false,
        };
        let row = |wide| rules.iter().map(|narrow| is_refined(wide, narrow)).collect();
        Definition {
            refined: rules.iter().map(row).collect(),
            rules: rules.to_vec(),
        }
    }

    fn level(&self, path: &TreePath, labels: &Labels) -> Level {
        let is_about = |rule: &Rule| match &rule.subject {
            RuleSubject::Paths(pattern) => pattern.matches(path),
            RuleSubject::Label(label) => labels.contains(label),
        };
        let matching: Vec<usize> = (0..self.rules.len())
            .filter(|index| is_about(&self.rules[*index]))
            .collect();
        let Some(top) = matching.iter().map(|rule| self.rules[*rule].priority).max() else {
            return Level::None;
        };
        let top: Vec<usize> = matching
            .into_iter()
            .filter(|rule| self.rules[*rule].priority == top)
            .collect();
        let stands = |rule: &&usize| !top.iter().any(|other| self.refined[**rule][*other]);
        top.iter()
            .filter(stands)
            .map(|rule| self.rules[*rule].level)
            .min()
            .unwrap()
    }
}

/// Checks an answer that a single path of a world can refute if it is yes: then the small world must not
/// contain one. If it is no, some world must contain one.
fn check_for_all(answer: bool, mut holds: impl FnMut(&TreePath) -> bool) -> Result<(), TestCaseError> {
    if answer {
        let against = SMALL_WORLD[1..].iter().find(|path| !holds(path));
        prop_assert_eq!(against, None, "the answer is yes");
    } else {
        prop_assert!(
            DEEP_WORLD[1..].iter().any(|path| !holds(path)),
            "the answer is no"
        );
    }
    Ok(())
}

/// Walks to a path; each entry on the way has labels of its own.
fn walk(rules: &Rules, path: &TreePath, labels: impl Fn(usize) -> Labels) -> RuleState {
    let root = rules.root(&labels(0));
    let step = |at: RuleState, (depth, name): (usize, EntryName)| {
        rules.child(&at, name.as_bytes(), &labels(depth + 1))
    };
    path.components().enumerate().fold(root, step)
}

fn plainly(rules: &Rules, path: &TreePath) -> RuleState {
    walk(rules, path, |_| Labels::default())
}

/// The number of cases, or `PROPTEST_CASES` if that is set.
fn cases(usual: u32) -> ProptestConfig {
    let asked = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() {
        asked.cases
    } else {
        usual
    };
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..asked
    }
}

proptest! {
    #![proptest_config(cases(120))]

    #[test]
    fn refinement_is_exact_on_names(narrow in name_pattern(), wide in name_pattern()) {
        prop_assert_eq!(refines(&narrow, &wide), refines_in(&NAMES, &narrow, &wide));
        prop_assert_eq!(refines(&wide, &narrow), refines_in(&NAMES, &wide, &narrow));
    }

    #[test]
    fn refinement_is_exact_on_paths(narrow in path_pattern(), wide in path_pattern()) {
        prop_assert_eq!(refines(&narrow, &wide), refines_in(&DEEP_WORLD, &narrow, &wide));
    }

    #[test]
    fn walking_decides_as_it_is_defined(list in vec(prop_oneof![5 => rule(), 1 => label_rule()], 0..8), above in labels(), own in labels()) {
        let rules = Rules::new(list.clone()).unwrap();
        let definition = Definition::new(&list);
        for path in SMALL_WORLD.iter() {
            let depth = path.components().count();
            let given = |at: usize| if at == depth { own.clone() } else if at == 1 { above.clone() } else { set(&[]) };
            let expected = definition.level(path, &if depth > 1 { own.union(&above) } else { own.clone() });
            prop_assert_eq!(walk(&rules, path, given).level(), expected, "{}", path);
            let labels = |at: &TreePath| given(at.components().count());
            prop_assert_eq!(rules.explain(path, labels).level, expected, "{}", path);
        }
    }

    #[test]
    fn the_order_of_rules_never_matters(list in vec(rule(), 0..8).prop_flat_map(|list| (Just(list.clone()), Just(list).prop_shuffle()))) {
        let one = Rules::new(list.0).unwrap();
        let other = Rules::new(list.1).unwrap();
        for path in SMALL_WORLD.iter() {
            prop_assert_eq!(plainly(&one, path).level(), plainly(&other, path).level());
            let explain = |rules: &Rules| rules.explain(path, |_| Labels::default()).deciding.map(|rule| rule.to_string());
            prop_assert_eq!(explain(&one), explain(&other));
        }
    }

    #[test]
    fn an_added_rule_opens_nothing_beyond_its_own_level(list in vec(rule(), 0..7), added in rule()) {
        let before = Rules::new(list.clone()).unwrap();
        let after = Rules::new([list, vec![added.clone()]].concat()).unwrap();
        for path in SMALL_WORLD.iter() {
            let before = plainly(&before, path).level();
            let after = plainly(&after, path).level();
            prop_assert!(after <= before.max(added.level), "{path}: {before} became {after}");
            if !added.pattern().unwrap().matches(path) {
                prop_assert_eq!(after, before);
            }
        }
    }

    #[test]
    fn what_everything_below_has_is_exact(list in list_with_labels(), base in base(), inherited in labels(), least in level()) {
        let rules = Rules::new(list.clone()).unwrap();
        let definition = Definition::new(&list);
        let rule_state = walk(&rules, &base, |depth| if depth == 0 { inherited.clone() } else { set(&[]) });
        check_for_all(rules.is_all_below(&rule_state, least), |below| {
            let path = base.join_path(below);
            every_set().iter().all(|own| definition.level(&path, &own.union(&inherited)) >= least)
        })?;
    }

    #[test]
    fn what_is_the_same_below_is_exact(
        list in list_with_labels(), one in (base(), labels()), other in (base(), labels()),
    ) {
        let rules = Rules::new(list.clone()).unwrap();
        let definition = Definition::new(&list);
        let stand = |(base, labels): &(TreePath, Labels)| walk(&rules, base, |depth| if depth == 0 { labels.clone() } else { set(&[]) });
        check_for_all(rules.is_same_below(&stand(&one), &stand(&other)), |below| {
            let level = |(base, labels): &(TreePath, Labels), own: &Labels| definition.level(&base.join_path(below), &own.union(labels));
            every_set().iter().all(|own| level(&one, own) == level(&other, own))
        })?;
    }

    #[test]
    fn what_is_no_higher_below_is_exact(
        list in list_with_labels(), one in (base(), labels()), other in (base(), labels()),
    ) {
        let rules = Rules::new(list.clone()).unwrap();
        let definition = Definition::new(&list);
        let stand = |(base, labels): &(TreePath, Labels)| walk(&rules, base, |depth| if depth == 0 { labels.clone() } else { set(&[]) });
        check_for_all(rules.is_no_higher_below(&stand(&one), &stand(&other)), |below| {
            let level = |(base, labels): &(TreePath, Labels), own: &Labels| definition.level(&base.join_path(below), &own.union(labels));
            every_set().iter().all(|own| level(&one, own) <= level(&other, own))
        })?;
    }

    #[test]
    fn what_is_closed_as_a_whole_opens_nothing(list in vec(rule(), 0..6), base in base()) {
        let rules = Rules::new(list).unwrap();
        let at = plainly(&rules, &base);
        for least in Level::ALL {
            let is_found = rules.0.says_below(&at.state, |verdict| decide::level(verdict) >= least);
            prop_assert_eq!(Ok(rules.is_any_below(&at, least)), is_found);
        }
    }

    #[test]
    fn what_is_passable_is_exact(list in vec(rule(), 0..6), base in base()) {
        let rules = Rules::new(list.clone()).unwrap();
        let definition = Definition::new(&list);
        let is_closed = |below: &TreePath| definition.level(&base.join_path(below), &set(&[])) == Level::None;
        check_for_all(!rules.is_passable(&plainly(&rules, &base)), is_closed)?;
    }

    #[test]
    fn labels_close_a_way_and_never_open_one(list in list_with_labels(), base in base(), inherited in labels()) {
        let rules = Rules::new(list.clone()).unwrap();
        let about_paths = Rules::new(list.iter().filter(|rule| rule.pattern().is_some()).cloned().collect()).unwrap();
        let labelled = walk(&rules, &base, |depth| if depth == 0 { inherited.clone() } else { set(&[]) });
        prop_assert!(!rules.is_passable(&labelled) || about_paths.is_passable(&plainly(&about_paths, &base)));
    }

    #[test]
    fn equal_standings_are_alike_below(list in vec(rule(), 0..8)) {
        let rules = Rules::new(list).unwrap();
        let rule_states: Vec<RuleState> = SMALL_WORLD[..21].iter().map(|path| plainly(&rules, path)).collect();
        for one in &rule_states {
            for other in &rule_states {
                prop_assert!(one != other || rules.is_same_below(one, other) && one.level() == other.level());
            }
        }
    }

    #[test]
    fn a_rule_reads_back_from_its_text(rule in prop_oneof![rule(), label_rule()]) {
        prop_assert_eq!(Rule::parse(&rule.to_string()), Ok(rule));
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn any_text_is_a_pattern_or_is_refused_within_itself(
        text in vec(select(vec!["a", "é", ".", "*", "?", "[", "]", "!", "-", "{", ",", "}", "\\", "/", "\0", "=", "@", "label:", "read"]), 0..14),
    ) {
        let text = text.concat();
        match Pattern::parse(&text) {
            Ok(pattern) => prop_assert_eq!(pattern.to_string(), &text[..]),
            Err(bad) => prop_assert!(bad.position <= text.len(), "{}", bad),
        }
        match Rule::parse(&text) {
            Ok(rule) => prop_assert_eq!(Rule::parse(&rule.to_string()), Ok(rule)),
            Err(bad) => prop_assert!(bad.position() <= text.len(), "{}", bad),
        }
    }
}
