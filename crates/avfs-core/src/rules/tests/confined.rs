//! Rules for the view of one directory of a tree.

use super::meaning::{at, path};
use crate::rules::*;
use crate::{Label, Labels, TreePath};

fn confined(texts: &[&str], top: &str) -> Rules {
    let list = texts.iter().map(|text| Rule::parse(text).unwrap()).collect();
    let list = Rules::confined((!texts.is_empty()).then_some(list), &path(top)).unwrap();
    Rules::new(list).unwrap()
}

#[track_caller]
fn check(texts: &[&str], top: &str, levels: &[(&str, Level)]) {
    let rules = confined(texts, top);
    for (text, expected) in levels {
        assert_eq!(at(&rules, text).level(), *expected, "{texts:?} in {top}: {text}");
    }
}

#[test]
fn nothing_is_seen_outside_of_the_directory() {
    use Level::{None, Write};
    check(
        &[],
        "/sub/in",
        &[
            ("/", None),
            ("/sub", None),
            ("/sub/in", Write),
            ("/sub/in/a/b", Write),
            ("/sub/i", None),
            ("/sub/inn", None),
            ("/sub/inn/a", None),
            ("/sub/im", None),
            ("/su", None),
            ("/su/in", None),
            ("/subs/in", None),
            ("/x/sub/in", None),
            ("/.", None),
            ("/in", None),
            ("/\u{e9}", None),
            ("/sub\u{e9}/in", None),
        ],
    );
    let rules = confined(&[], "/sub/in");
    let none = Labels::default();
    let step = |names: &[&[u8]]| {
        names
            .iter()
            .fold(rules.root(&none), |state, name| rules.child(&state, name, &none))
    };
    for names in [
        &[&b"\xff"[..]][..],
        &[b"sub\xff"],
        &[b"s\xff"],
        &[b"sub", b"\xff"],
        &[b"\xff", b"in"],
    ] {
        assert_eq!(step(names).level(), None, "{names:?}");
        assert!(!rules.is_passable(&step(names)), "{names:?}");
    }
    assert_eq!(step(&[b"sub", b"in", b"\xff"]).level(), Write);
    assert!(rules.is_passable(&step(&[])) && rules.is_passable(&step(&[b"sub"])));
}

#[test]
fn rules_decide_below_the_directory_as_they_did() {
    use Level::{None, Read, Write};
    check(
        &["/**=read", "/sub/a/=write", "/sub/a/key=none", "/other/=write"],
        "/sub",
        &[
            ("/sub/b", Read),
            ("/sub/a/b", Write),
            ("/sub/a/key", None),
            ("/other", None),
            ("/b", None),
        ],
    );
    // Neither refines the other, here and below the directory.
    check(
        &["{b,sub/f}=write", "{a,sub/*}=none"],
        "/sub",
        &[("/sub/f", None)],
    );
    // None of their priorities is higher.
    check(
        &["/**=none", "/**=write@2147483647", "/sub/b=read@2147483646"],
        "/sub",
        &[("/sub/b", Write), ("/b", None), ("/", None)],
    );
    let rules = confined(&["/**=none", "label:open=write@2147483647"], "/sub");
    let mut open = Labels::default();
    open.insert(Label::new("open").unwrap());
    let root = rules.root(&Labels::default());
    assert_eq!(rules.child(&root, b"sub", &open).level(), Write);
    assert_eq!(rules.child(&root, b"b", &open).level(), None);
}

#[test]
fn a_directory_that_no_text_names_is_refused() {
    let top = TreePath::parse(b"a\xff").unwrap();
    assert_eq!(Rules::confined(Option::None, &top), Option::None);
}
