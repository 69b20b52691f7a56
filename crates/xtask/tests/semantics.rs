//! The tests that `docs/semantics.md` names exist.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs;
use std::path::{Path, PathBuf};

/// The short names of directories, as the page introduces them.
const SHORT: &[(&str, &str)] = &[
    ("fuse/", "crates/avfs-fuse/tests/mounted/"),
    ("alone/", "crates/avfs/tests/alone/"),
    ("cli/", "crates/avfs/tests/cli/"),
    ("mount/", "crates/avfs/tests/mount/"),
    ("faults/", "crates/avfs/tests/mount_faults/"),
    ("tree/", "crates/avfs-tree/tests/"),
    ("owners/", "crates/agentvfs/tests/owners/"),
    ("rules/", "crates/avfs/tests/rules/"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn whole(path: &str) -> String {
    let long = SHORT
        .iter()
        .find_map(|(short, long)| Some(format!("{long}{}", path.strip_prefix(short)?)));
    long.unwrap_or_else(|| path.to_owned())
}

/// The pairs of a file and a test in a text: within brackets, a file is followed by the tests in it.
fn named(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for bracket in text
        .split('[')
        .skip(1)
        .filter_map(|rest| rest.split_once(']'))
        .map(|(inside, _)| inside)
    {
        let mut file = None;
        for word in bracket.split('`').skip(1).step_by(2) {
            match (word.ends_with(".rs"), &file) {
                (true, _) => file = Some(whole(word)),
                (false, Some(file)) => pairs.push((file.clone(), word.to_owned())),
                (false, None) => {}
            }
        }
    }
    pairs
}

fn has_test(file: &str, test: &str) -> bool {
    let source = fs::read_to_string(root().join(file)).unwrap_or_default();
    source.contains(&format!("fn {test}("))
}

#[test]
fn every_test_that_the_semantics_name_exists() {
    let page = fs::read_to_string(root().join("docs/semantics.md")).unwrap();
    let named = named(&page);
    assert!(named.len() > 50, "only {} tests are named", named.len());
    let missing: Vec<_> = named
        .iter()
        .filter(|(file, test)| !has_test(file, test))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/semantics.md names tests that are not there: {missing:#?}"
    );
}

#[test]
fn the_short_names_are_those_of_the_page() {
    let page = fs::read_to_string(root().join("docs/semantics.md")).unwrap();
    for (short, long) in SHORT {
        assert!(
            page.contains(&format!("`{short}` is")) && page.contains(&format!("`{long}`")),
            "{short}"
        );
    }
}

#[test]
fn the_check_can_fail() {
    let text = "[`fuse/names.rs` `there`,\n`not_there`] and [a link](x.rs) and `loose.rs` `words`";
    let file = "crates/avfs-fuse/tests/mounted/names.rs".to_owned();
    assert_eq!(
        named(text),
        [(file.clone(), "there".to_owned()), (file, "not_there".to_owned())]
    );
    assert!(has_test("crates/xtask/tests/semantics.rs", "the_check_can_fail"));
    assert!(!has_test("crates/xtask/tests/semantics.rs", "no_such_test"));
    assert!(!has_test("no/such/file.rs", "any"));
}
