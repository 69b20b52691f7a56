use crate::rules::*;
use crate::{Labels, TreePath};

pub(super) fn rules(texts: &[&str]) -> Rules {
    Rules::new(texts.iter().map(|text| Rule::parse(text).unwrap()).collect()).unwrap()
}

pub(super) fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

pub(super) fn at(rules: &Rules, text: &str) -> Standing {
    let root = rules.root(&Labels::default());
    path(text).components().fold(root, |at, name| rules.child(&at, name.as_bytes(), &Labels::default()))
}

#[test]
fn a_secret_is_closed_and_the_rest_is_open() {
    let rules = rules(&["/**=write", "**/.env*/=none"]);
    assert_eq!(at(&rules, "/a/.env/x").level(), Level::None);
    assert_eq!(at(&rules, "/a/b").level(), Level::Write);
}

#[test]
fn timing() {
    use std::time::Instant;
    for preset in Preset::ALL {
        let start = Instant::now();
        let rules = Rules::new(preset.rules()).unwrap();
        println!("{preset}: {} rules in {:?}", rules.list().len(), start.elapsed());
        let root = rules.root(&Labels::default());
        let start = Instant::now();
        println!("passable {} in {:?}", rules.is_passable(&root), start.elapsed());
        let start = Instant::now();
        println!("all below read {} in {:?}", rules.is_all_below(&root, Level::None), start.elapsed());
        let start = Instant::now();
        println!("same {} in {:?}", rules.is_same_below(&root, &at(&rules, "/src")), start.elapsed());
        let start = Instant::now();
        println!(
            "same {} in {:?}",
            rules.is_same_below(&at(&rules, "/a/.git"), &at(&rules, "/src")),
            start.elapsed()
        );
        let start = Instant::now();
        println!(
            "same {} in {:?}",
            rules.is_same_below(&at(&rules, "/a/.git"), &at(&rules, "/.git")),
            start.elapsed()
        );
        let start = Instant::now();
        println!(
            "same {} in {:?}",
            rules.is_same_below(&at(&rules, "/a/node_modules"), &at(&rules, "/a/node_modules/b")),
            start.elapsed()
        );
    }
}
