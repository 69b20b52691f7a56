use super::*;
use crate::fixture::{FixtureItem, FixtureTree, memory, path};

fn sample() -> FixtureTree {
    FixtureTree::of_items(
        &memory(),
        &[
            ("src/main.rs", FixtureItem::file("fn main() {}")),
            ("src/Lib.RS", FixtureItem::file(vec![b'x'; 5000])),
            ("src/empty.rs", FixtureItem::file("")),
            ("bin/run", FixtureItem::program("#!/bin/sh\n")),
            ("link", FixtureItem::Symlink(b"src/main.rs".to_vec())),
            ("pipe", FixtureItem::Fifo),
            ("void", FixtureItem::EmptyDirectory),
            (".hidden/x", FixtureItem::file("h")),
        ],
    )
}

fn found(start: &str, criteria: &Criteria) -> Vec<String> {
    let tree = sample();
    let everything = WalkSelection::everything();
    let visits = find(&tree.reader, &path(start), &everything, criteria).unwrap();
    visits.map(|visit| visit.unwrap().path.to_string()).collect()
}

#[track_caller]
fn check(tests: Vec<FindTest>, expected: &[&str]) {
    assert_eq!(found("/", &Criteria::new(tests.clone())), expected, "{tests:?}");
}

#[test]
fn each_test_finds_what_it_names() {
    check(
        vec![FindTest::name("*.rs", false).unwrap()],
        &["/src/empty.rs", "/src/main.rs"],
    );
    check(
        vec![FindTest::name("*.rs", true).unwrap()],
        &["/src/Lib.RS", "/src/empty.rs", "/src/main.rs"],
    );
    check(
        vec![FindTest::path("src/*", false).unwrap()],
        &["/src/Lib.RS", "/src/empty.rs", "/src/main.rs"],
    );
    check(vec![FindTest::path("/**/x", false).unwrap()], &["/.hidden/x"]);
    check(
        vec![FindTest::regex(r"^/(bin|src)/[mr]").unwrap()],
        &["/bin/run", "/src/main.rs"],
    );
    check(
        vec![FindTest::Kind(vec![EntrySort::Directory])],
        &["/", "/.hidden", "/bin", "/src", "/void"],
    );
    check(
        vec![FindTest::Kind(vec![EntrySort::Symlink, EntrySort::Fifo])],
        &["/link", "/pipe"],
    );
    check(vec![FindTest::Size(SizeTest::Above(4096))], &["/src/Lib.RS"]);
    check(vec![FindTest::Size(SizeTest::Exactly(12))], &["/src/main.rs"]);
    check(vec![FindTest::Empty], &["/src/empty.rs", "/void"]);
    check(vec![FindTest::Executable], &["/bin/run"]);
}

#[test]
fn tests_are_joined_by_and_and_can_be_turned_round() {
    let files = || FindTest::Kind(vec![EntrySort::File]);
    let rust = || FindTest::name("*.rs", false).unwrap();
    check(
        vec![files(), rust(), FindTest::Empty.negated()],
        &["/src/main.rs"],
    );
    check(
        vec![files(), rust().negated()],
        &["/.hidden/x", "/bin/run", "/src/Lib.RS"],
    );
}

#[test]
fn age_is_compared_with_a_moment() {
    let made = Timestamp {
        seconds: 1_700_000_000,
        nanos: 0,
    };
    let away = |seconds: i64| Timestamp {
        seconds: made.seconds + seconds,
        nanos: 0,
    };
    let files = FindTest::Kind(vec![EntrySort::File]);
    let count = |test: FindTest| found("/", &Criteria::new(vec![files.clone(), test])).len();
    assert_eq!(count(FindTest::Newer(away(-3600))), 5);
    assert_eq!(count(FindTest::Newer(away(1800))), 0);
    assert_eq!(count(FindTest::Older(away(1800))), 5);
    assert_eq!(
        count(FindTest::Older(made)),
        0,
        "the moment itself is neither newer nor older"
    );
}

#[test]
fn depth_is_limited_on_both_sides() {
    let mut criteria = Criteria {
        max_depth: Some(0),
        ..Criteria::default()
    };
    assert_eq!(found("src", &criteria), ["/src"]);
    criteria.max_depth = Some(1);
    assert_eq!(found("bin", &criteria), ["/bin", "/bin/run"]);
    criteria.min_depth = 1;
    assert_eq!(found("/", &criteria).len(), 6);
}

#[test]
fn a_bad_regular_expression_is_refused() {
    assert!(matches!(FindTest::regex("("), Err(BadTest::Regex { .. })));
}
