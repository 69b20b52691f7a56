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
    check(vec![Test::kinds("d").unwrap()], &["/", "/.hidden", "/bin", "/src", "/void"]);
    check(vec![Test::kinds("l,p").unwrap()], &["/link", "/pipe"]);
    check(vec![Test::Size(SizeTest::parse("+4k").unwrap())], &["/src/Lib.RS"]);
    check(vec![Test::Size(SizeTest::parse("12").unwrap())], &["/src/main.rs"]);
    check(vec![Test::Empty], &["/src/empty.rs", "/void"]);
    check(vec![Test::Executable], &["/bin/run"]);
}

#[test]
fn tests_are_joined_by_and_and_can_be_turned_round() {
    let files = || Test::kinds("f").unwrap();
    let rust = || Test::name("*.rs", false).unwrap();
    check(vec![files(), rust(), Test::Empty.negated()], &["/src/main.rs"]);
    check(vec![files(), rust().negated()], &["/.hidden/x", "/bin/run", "/src/Lib.RS"]);
}

#[test]
fn age_is_compared_with_a_moment() {
    let made = Timestamp { seconds: 1_700_000_000, nanos: 0 };
    let now = Timestamp { seconds: made.seconds + 3600, nanos: 0 };
    let files = Test::kinds("f").unwrap();
    let count = |test: Test| found("/", &Criteria::new(vec![files.clone(), test])).len();
    assert_eq!(count(Test::Newer(moment_before(now, "2h").unwrap())), 5);
    assert_eq!(count(Test::Newer(moment_before(now, "30m").unwrap())), 0);
    assert_eq!(count(Test::Older(moment_before(now, "30m").unwrap())), 5);
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
fn sizes_and_ages_read_their_units_and_refuse_the_rest() {
    assert_eq!(SizeTest::parse("-2M").unwrap(), SizeTest::Below(2 << 20));
    assert_eq!(SizeTest::parse("0").unwrap(), SizeTest::Exactly(0));
    for bad in ["", "+", "k", "1x", "-1.5k", "99999999999T", "1 k", "é"] {
        assert!(SizeTest::parse(bad).is_err(), "{bad}");
    }
    for bad in ["", "d", "1y", "-1d", "99999999999999999999s"] {
        assert!(moment_before(Timestamp::default(), bad).is_err(), "{bad}");
    }
    assert!(Test::kinds("fx").is_err());
    assert!(Test::regex("(").is_err());
}
