//! What patterns and rules mean, case by case.

use crate::rules::*;
use crate::{Labels, TreePath};

pub(super) fn rules(texts: &[&str]) -> Rules {
    Rules::new(texts.iter().map(|text| Rule::parse(text).unwrap()).collect()).unwrap()
}

pub(super) fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

pub(super) fn at(rules: &Rules, text: &str) -> RuleState {
    let root = rules.root(&Labels::default());
    path(text).components().fold(root, |at, name| {
        rules.child(&at, name.as_bytes(), &Labels::default())
    })
}

#[track_caller]
fn check_pattern(pattern: &str, matched: &[&str], others: &[&str]) {
    let parsed = Pattern::parse(pattern).unwrap();
    let rules = rules(&[&format!("{pattern}=read")]);
    for (texts, expected) in [(matched, true), (others, false)] {
        for text in texts {
            assert_eq!(parsed.matches(&path(text)), expected, "{pattern} and {text}");
            assert_eq!(
                at(&rules, text).level() == Level::Read,
                expected,
                "{pattern} and {text}, walking"
            );
        }
    }
}

#[test]
fn a_pattern_without_wildcards_is_one_path() {
    check_pattern("/a/b", &["/a/b"], &["/", "/a", "/a/b/c", "/x/a/b", "/a/B"]);
    check_pattern("a/b", &["/a/b"], &["/a", "/x/a/b"]);
    check_pattern("label", &["/label"], &["/"]);
}

#[test]
fn a_slash_at_the_end_covers_what_is_below() {
    for pattern in ["a/", "a/**", "/a/**/", "a/**/**"] {
        check_pattern(pattern, &["/a", "/a/b", "/a/b/c"], &["/", "/ab", "/b/a"]);
    }
    for pattern in ["/", "**", "/**", "**/"] {
        check_pattern(pattern, &["/", "/a", "/a/b"], &[]);
    }
    check_pattern("a/*/", &["/a/b", "/a/b/c"], &["/a", "/"]);
}

#[test]
fn stars_stay_within_names_and_double_stars_do_not() {
    check_pattern("*.rs", &["/a.rs", "/.rs"], &["/src/a.rs", "/a.rs/b", "/a.rsx"]);
    check_pattern("**/*.rs", &["/a.rs", "/src/x/a.rs"], &["/a.rs/b"]);
    check_pattern(
        "a/**/z",
        &["/a/z", "/a/b/z", "/a/b/c/z", "/a/z/z"],
        &["/z", "/a", "/a/z/b"],
    );
    check_pattern(
        "**/a/**/b/**",
        &["/a/b", "/x/a/y/b/z", "/a/a/b"],
        &["/b/a", "/a", "/b"],
    );
    check_pattern("a*b*c", &["/abc", "/a1b2c", "/abcbc"], &["/ab", "/acb"]);
}

#[test]
fn single_characters_and_classes_match_characters_and_not_bytes() {
    check_pattern("?", &["/a", "/é", "/🦀"], &["/ab", "/"]);
    check_pattern("[a-cx]", &["/a", "/b", "/x"], &["/d", "/ab"]);
    check_pattern("[!a-c]", &["/d", "/é"], &["/a"]);
    check_pattern("[^a]", &["/b"], &["/a"]);
    check_pattern("[]a-]", &["/]", "/a", "/-"], &["/b"]);
    check_pattern("[\\]\\-x]", &["/]", "/-", "/x"], &["/a"]);
    check_pattern("[à-ü]", &["/é"], &["/e"]);
    let no_text = TreePath::parse(b"/\xff").unwrap();
    assert!(Pattern::parse("*").unwrap().matches(&no_text));
    assert!(!Pattern::parse("?").unwrap().matches(&no_text));
    assert!(!Pattern::parse("[!a]").unwrap().matches(&no_text));
}

#[test]
fn braces_stand_for_each_of_their_alternatives() {
    check_pattern("{a,b}.txt", &["/a.txt", "/b.txt"], &["/c.txt", "/a"]);
    check_pattern("a{,.bak}", &["/a", "/a.bak"], &["/a.", "/.bak"]);
    check_pattern(
        "{src/{a,b},doc}/*.md",
        &["/src/a/x.md", "/src/b/x.md", "/doc/x.md"],
        &["/src/x.md"],
    );
    check_pattern("{a/,b}", &["/a", "/a/x", "/b"], &["/b/x"]);
    check_pattern("x{*,a}*", &["/x", "/xyz"], &["/y/x"]);
}

#[test]
fn a_backslash_takes_the_meaning_from_a_character() {
    check_pattern("\\*\\?\\[\\{\\,\\}\\\\", &["/*?[{,}\\"], &["/a"]);
    check_pattern("a\\b", &["/ab"], &["/a\\b"]);
}

#[track_caller]
fn check_refused(pattern: &str, position: usize, reason: PatternFault) {
    assert_eq!(
        Pattern::parse(pattern),
        Err(BadPattern { position, reason }),
        "{pattern}"
    );
}

#[test]
fn a_bad_pattern_is_refused_where_it_is_bad() {
    check_refused("", 0, PatternFault::Empty);
    check_refused("a//b", 2, PatternFault::EmptyComponent);
    check_refused("a/./b", 2, PatternFault::Dots);
    check_refused("/a/..", 3, PatternFault::Dots);
    check_refused("[.]", 0, PatternFault::Dots);
    check_refused("a/b**", 3, PatternFault::DeepWithinName);
    check_refused("***", 0, PatternFault::DeepWithinName);
    check_refused("a[bc", 1, PatternFault::OpenClass);
    check_refused("a[b/c]", 3, PatternFault::SlashInClass);
    check_refused("[z-a]", 1, PatternFault::BackwardRange);
    check_refused("[!\u{1}-\u{10ffff}]", 0, PatternFault::EmptyClass);
    check_refused("a{b,c", 1, PatternFault::OpenBraces);
    check_refused("a}b", 1, PatternFault::StrayBrace);
    check_refused("a{}", 1, PatternFault::EmptyBraces);
    check_refused("/{,a}", 0, PatternFault::EmptyAlternative);
    check_refused("{a,}", 0, PatternFault::EmptyAlternative);
    check_refused("a\\", 1, PatternFault::OpenEscape);
    check_refused("a\\/b", 1, PatternFault::EscapedSlash);
    check_refused("a\0", 1, PatternFault::Nul);
    check_refused(&"a".repeat(4097), 4096, PatternFault::TooLong);
    check_refused(&"{a,b}".repeat(11), 50, PatternFault::TooManyAlternatives);
    check_refused(&"{".repeat(17), 16, PatternFault::DeepBraces);
}

#[test]
fn a_rule_is_a_pattern_and_a_level_and_perhaps_a_priority() {
    for text in [
        "/src/=read",
        "a=b=none",
        "**/x=append@-3",
        "label:private=none@7",
        "/label:x=view",
    ] {
        assert_eq!(Rule::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(Rule::parse("a=read@0").unwrap().to_string(), "a=read");
    let position = |text| Rule::parse(text).unwrap_err().position();
    assert_eq!(Rule::parse("a"), Err(BadRule::NoLevel));
    assert_eq!(
        (
            position("ab=wrote"),
            position("a=read@x"),
            position("label:A=read"),
            position("a**=read")
        ),
        (3, 7, 6, 1)
    );
}

#[track_caller]
fn check_level(list: &[&str], cases: &[(&str, Level)]) {
    let rules = rules(list);
    for (text, expected) in cases {
        assert_eq!(at(&rules, text).level(), *expected, "{list:?} at {text}");
        assert_eq!(
            rules.explain(&path(text), |_| Labels::default()).level,
            *expected,
            "{list:?} at {text}, explained"
        );
    }
}

#[test]
fn the_rule_about_fewer_paths_decides_and_then_the_stricter_one() {
    check_level(&[], &[("/", Level::None), ("/a", Level::None)]);
    check_level(
        &["/**=write", "/a/=read"],
        &[("/", Level::Write), ("/a/b", Level::Read), ("/b", Level::Write)],
    );
    check_level(
        &["/**=none", "/a/=write"],
        &[("/a/b", Level::Write), ("/b", Level::None)],
    );
    // Neither matches fewer paths.
    check_level(
        &["/a/=write", "**/*.key=none"],
        &[("/a/x.key", Level::None), ("/a/x", Level::Write)],
    );
    // The same paths, written in two ways.
    check_level(&["{a,b}=write", "[ab]=view"], &[("/a", Level::View)]);
    // One refines the other through a third.
    check_level(
        &["/**=none", "/a/=read", "/a/b/=write"],
        &[("/a/b/c", Level::Write), ("/a/c", Level::Read)],
    );
}

#[test]
fn a_higher_priority_decides_before_everything_else() {
    check_level(&["/a/b=write", "/**=read@1"], &[("/a/b", Level::Read)]);
    check_level(&["/**=write", "/a=none@-1"], &[("/a", Level::Write)]);
}

#[test]
fn a_label_is_inherited_and_neither_refines_nor_is_refined() {
    let rules = rules(&[
        "/**=write",
        "/a/b=write",
        "label:private=view",
        "label:free=append@1",
    ]);
    let set = |name: &str| [crate::Label::new(name).unwrap()].into_iter().collect::<Labels>();
    let none = Labels::default();
    let a = rules.child(&rules.root(&none), b"a", &set("private"));
    assert_eq!(a.level(), Level::View);
    assert_eq!(rules.child(&a, b"b", &none).level(), Level::View);
    assert_eq!(rules.child(&a, b"b", &set("free")).level(), Level::Append);
    assert_eq!(
        rules.child(&rules.root(&none), b"b", &set("unknown")).level(),
        Level::Write
    );
    assert!(
        !rules.is_all_below(&rules.root(&none), Level::Append),
        "an entry may have the label"
    );
    assert!(rules.is_all_below(&rules.root(&none), Level::View));
}

#[test]
fn a_way_to_something_visible_is_passable() {
    let rules = rules(&["/a/b/=read", "/a/b/c=none", "/x/*/=read", "/x/**=none@1"]);
    let is_passable = |text| rules.is_passable(&at(&rules, text));
    assert_eq!(
        ["/", "/a", "/a/b", "/a/c", "/q", "/x", "/x/y"].map(is_passable),
        [true, true, true, false, false, false, false]
    );
}

#[test]
fn a_label_cannot_open_a_way_but_it_can_close_one() {
    let rules = rules(&["/a/b=read", "label:open=write@1", "label:shut=none@1"]);
    let set = |name: &str| [crate::Label::new(name).unwrap()].into_iter().collect::<Labels>();
    let root = rules.root(&Labels::default());
    let passable = |name: &[u8], labels: &Labels| rules.is_passable(&rules.child(&root, name, labels));
    assert!(passable(b"a", &Labels::default()) && passable(b"a", &set("open")));
    assert!(!passable(b"a", &set("shut")) && !passable(b"q", &set("open")));
}

#[track_caller]
fn check_explained(rules: &Rules, text: &str, expected: &str) {
    assert_eq!(
        rules.explain(&path(text), |_| Labels::default()).to_string(),
        expected
    );
}

#[test]
fn an_explanation_names_the_rule_and_what_it_beats() {
    let list = [
        "/**=write",
        "**/{.env*,*.key}/=none",
        "**/x.key/=none",
        "/a/=view@-1",
        "/?/*.key=read",
    ];
    let named = |text: &&str| {
        Rule::parse(text)
            .unwrap()
            .with_origin(RuleOrigin::new("avfs.toml:1"))
    };
    let rules = Rules::new(list.iter().map(named).collect()).unwrap();
    check_explained(&rules, "/b", "/b: write\ndecided by /**=write (avfs.toml:1)");
    check_explained(
        &rules,
        "/a/x.key",
        "/a/x.key: none
decided by **/x.key/=none (avfs.toml:1)
not by /**=write (avfs.toml:1): it is about more paths
not by **/{.env*,*.key}/=none (avfs.toml:1): it is about more paths
not by /a/=view@-1 (avfs.toml:1): its priority is lower
not by /?/*.key=read (avfs.toml:1): it is less strict",
    );
    check_explained(
        &super::meaning::rules(&["{a,b}=read", "/a=read"]),
        "/b",
        "/b: read\ndecided by {a,b}=read through b",
    );
    check_explained(
        &super::meaning::rules(&["a=read"]),
        "/b",
        "/b: none\nno rule is about it",
    );
}

#[test]
fn a_list_that_is_asked_for_again_is_shared() {
    let list = |level| vec![Rule::parse(&format!("/shared-once/**={level}")).unwrap()];
    let first = Rules::shared(list("read")).unwrap();
    let again = Rules::shared(list("read")).unwrap();
    let other = Rules::shared(list("write")).unwrap();
    assert!(std::sync::Arc::ptr_eq(&first.0, &again.0));
    assert!(!std::sync::Arc::ptr_eq(&first.0, &other.0));
    assert_eq!(other.list(), list("write"));
    let bad = vec![Rule::parse("/a=read").unwrap(); RULES_MAX + 1];
    assert_eq!(Rules::shared(bad).unwrap_err(), BadRules::TooMany(RULES_MAX + 1));
}
