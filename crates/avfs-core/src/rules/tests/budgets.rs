//! Patterns written by users must never stall the program.

use std::time::{Duration, Instant};

use super::meaning::at;
use crate::Labels;
use crate::rules::*;

/// Far above what is needed, so that a loaded machine passes; far below what an exponential algorithm would
/// take.
const PATIENCE: Duration = Duration::from_secs(20);

fn list(pattern: impl Fn(usize) -> String, count: usize) -> Vec<Rule> {
    let rule = |number| Rule::new(Pattern::parse(&pattern(number)).unwrap(), Level::ALL[number % 5]);
    (0..count).map(rule).collect()
}

#[test]
fn a_thousand_rules_are_compiled_soon() {
    let everywhere = list(|number| format!("**/dir{number}/*.x{number}/"), 500);
    let nested = list(|number| format!("/a{}/b{number}/**/c", number % 20), 500);
    let start = Instant::now();
    let rules = Rules::new([everywhere, nested].concat()).unwrap();
    println!("compiled in {:?}", start.elapsed());
    assert_eq!(at(&rules, "/q/dir7/a.x7/z").level(), Level::Read);
    assert_eq!(at(&rules, "/a1/b21/q/c").level(), Level::View);
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[test]
fn too_many_rules_are_refused() {
    let rules = list(|number| format!("/{number}"), 5001);
    assert_eq!(Rules::new(rules).unwrap_err(), BadRules::TooMany(5001));
}

#[test]
fn rules_that_are_too_complex_to_compare_are_refused_by_name() {
    // Whether the first refines the second can be decided only by following an astronomical number of sets of
    // places.
    let anywhere = |end: &str| format!("**/*a{}{end}", "?".repeat(40));
    let rule = |text: String, level| Rule::new(Pattern::parse(&text).unwrap(), level);
    let narrow = rule(anywhere("{b,c,d}"), Level::Read);
    let wide = rule(
        format!("{{{},{}}}", anywhere("[bcd]"), anywhere("?e")),
        Level::None,
    );
    let start = Instant::now();
    assert_eq!(
        Rules::new(vec![narrow.clone(), wide]).unwrap_err(),
        BadRules::TooComplex { rule: narrow }
    );
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[test]
fn a_question_that_is_too_complex_is_answered_on_the_closed_side() {
    let wild = |number: usize| format!("**/*a{}b{number}", "?".repeat(30 + number));
    let mut rules = list(wild, 10);
    rules.retain(|rule| rule.level != Level::Write);
    rules.push(Rule::new(Pattern::parse("/z/**").unwrap(), Level::None));
    rules.push(Rule::new(Pattern::parse("/**").unwrap(), Level::Write));
    let rules = Rules::new(rules).unwrap();
    let start = Instant::now();
    assert!(!rules.is_all_below(&at(&rules, "/x"), Level::View));
    assert!(!rules.is_same_below(&at(&rules, "/x"), &at(&rules, "/z")));
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[test]
fn standings_stay_valid_when_the_memory_is_emptied() {
    let rules = Rules::new(list(|number| format!("**/a{number}/**/z{number}"), 15)).unwrap();
    let before = at(&rules, "/a2/q");
    walk_subsets(&rules, &at(&rules, "/"), 0);
    assert_eq!(at(&rules, "/a2/q"), before);
    assert_eq!(
        rules.child(&before, b"z2", &Labels::default()).level(),
        Level::Read
    );
}

/// Walks to more places than are remembered: below every subset of the directories that the rules name.
fn walk_subsets(rules: &Rules, at: &RuleState, from: usize) {
    if from < 15 {
        walk_subsets(rules, at, from + 1);
        walk_subsets(
            rules,
            &rules.child(at, format!("a{from}").as_bytes(), &Labels::default()),
            from + 1,
        );
    }
}

#[test]
fn deciding_a_name_is_quick() {
    let rules = Rules::new(Preset::Development.rules()).unwrap();
    let names: Vec<String> = (0..500).map(|number| format!("some_file_{number}.rs")).collect();
    let src = at(&rules, "/src");
    for turn in ["at first", "again"] {
        let start = Instant::now();
        for name in &names {
            assert_eq!(
                rules.child(&src, name.as_bytes(), &Labels::default()).level(),
                Level::Write
            );
        }
        println!("{turn}: {:?} for a name", start.elapsed() / 500);
        assert!(start.elapsed() < PATIENCE / 10, "{turn}: {:?}", start.elapsed());
    }
}
