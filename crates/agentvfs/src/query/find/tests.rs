use super::*;
use crate::query::fixture::{Item, Tree, memory, path};

fn sample() -> Tree {
    Tree::of_items(
        &memory(),
        &[
            ("src/main.rs", Item::file("fn main() {}")),
            ("src/Lib.RS", Item::file(vec![b'x'; 5000])),
            ("src/empty.rs", Item::file("")),
            ("bin/run", Item::program("#!/bin/sh\n")),
            ("link", Item::Symlink(b"src/main.rs".to_vec())),
            ("pipe", Item::Fifo),
            ("void", Item::EmptyDirectory),
            (".hidden/x", Item::file("h")),
        ],
    )
}

fn found(start: &str, criteria: &Criteria) -> Vec<String> {
    let tree = sample();
    let everything = Selection::everything();
    let visits = find(&tree.reader, &path(start), &everything, criteria).unwrap();
    visits.map(|visit| visit.unwrap().path.to_string()).collect()
}

#[track_caller]
fn check(tests: Vec<Test>, expected: &[&str]) {
    assert_eq!(found("/", &Criteria::new(tests.clone())), expected, "{tests:?}");
}

#[test]
fn each_test_finds_what_it_names() {
    check(vec![Test::name("*.rs", false).unwrap()], &["/src/empty.rs", "/src/main.rs"]);
    check(vec![Test::name("*.rs", true).unwrap()], &["/src/Lib.RS", "/src/empty.rs", "/src/main.rs"]);
    check(vec![Test::path("src/*", false).unwrap()], &["/src/Lib.RS", "/src/empty.rs", "/src/main.rs"]);
    check(vec![Test::path("/**/x", false).unwrap()], &["/.hidden/x"]);
    check(vec![Test::regex(r"^/(bin|src)/[mr]").unwrap()], &["/bin/run", "/src/main.rs"]);
    check(vec![Test::Kind(vec![EntrySort::Directory])], &["/", "/.hidden", "/bin", "/src", "/void"]);
    check(vec![Test::Kind(vec![EntrySort::Symlink, EntrySort::Fifo])], &["/link", "/pipe"]);
    check(vec![Test::Size(SizeTest::Above(4096))], &["/src/Lib.RS"]);
    check(vec![Test::Size(SizeTest::Exactly(12))], &["/src/main.rs"]);
    check(vec![Test::Empty], &["/src/empty.rs", "/void"]);
    check(vec![Test::Executable], &["/bin/run"]);
}

#[test]
fn tests_are_joined_by_and_and_can_be_turned_round() {
    let files = || Test::Kind(vec![EntrySort::File]);
    let rust = || Test::name("*.rs", false).unwrap();
    check(vec![files(), rust(), Test::Empty.negated()], &["/src/main.rs"]);
    check(vec![files(), rust().negated()], &["/.hidden/x", "/bin/run", "/src/Lib.RS"]);
}

#[test]
fn age_is_compared_with_a_moment() {
    let made = Timestamp { seconds: 1_700_000_000, nanos: 0 };
    let away = |seconds: i64| Timestamp { seconds: made.seconds + seconds, nanos: 0 };
    let files = Test::Kind(vec![EntrySort::File]);
    let count = |test: Test| found("/", &Criteria::new(vec![files.clone(), test])).len();
    assert_eq!(count(Test::Newer(away(-3600))), 5);
    assert_eq!(count(Test::Newer(away(1800))), 0);
    assert_eq!(count(Test::Older(away(1800))), 5);
    assert_eq!(count(Test::Older(made)), 0, "the moment itself is neither newer nor older");
}

#[test]
fn depth_is_limited_on_both_sides() {
    let mut criteria = Criteria { max_depth: Some(0), ..Criteria::default() };
    assert_eq!(found("src", &criteria), ["/src"]);
    criteria.max_depth = Some(1);
    assert_eq!(found("bin", &criteria), ["/bin", "/bin/run"]);
    criteria.min_depth = 1;
    assert_eq!(found("/", &criteria).len(), 6);
}

#[test]
fn a_bad_regular_expression_is_refused() {
    assert!(matches!(Test::regex("("), Err(BadTest::Regex { .. })));
}
