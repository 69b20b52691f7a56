//! Merging vaults that other processes have open.

use agentvfs::{MergeConflictKind, MergeOptions, Resolution};

use super::owner::Scene;
use super::support::{name, path, read, write};

#[test]
fn a_merge_is_given_to_the_owner_and_what_it_changed_meanwhile_stays() {
    let mut scene = Scene::new();
    scene.owner_writes("/a", "base");
    let fork = scene.vault.fork(&[name("fork")]).unwrap().remove(0);
    write(&fork, "/a", "theirs");
    write(&fork, "/new", "theirs");
    scene.owner_writes("/b", "ours");
    let report = scene.vault.merge(&[&fork], &MergeOptions::default()).unwrap();
    assert_eq!((report.conflicts.len(), report.saved.is_some()), (0, true));
    for (at, text) in [("/a", "theirs"), ("/new", "theirs"), ("/b", "ours")] {
        assert_eq!(scene.owner_reads(at), text);
    }
    scene.vault.undo().unwrap();
    assert_eq!(
        (scene.owner_reads("/a"), scene.owner_reads("/new")),
        ("base".into(), "not-found".into())
    );
}

#[test]
fn unstored_changes_of_an_owner_are_merged_too() {
    let mut scene = Scene::new();
    scene.owner_writes("/a", "base");
    let fork = scene.vault.fork(&[name("fork")]).unwrap().remove(0);
    scene.owner_writes("/a", "newer");
    fork.merge(&[&scene.vault], &MergeOptions::default()).unwrap();
    assert_eq!(read(&fork, "/a").unwrap(), "newer");
}

#[test]
fn conflicts_of_a_vault_that_is_open_elsewhere_stay_and_are_resolved_there() {
    let mut scene = Scene::new();
    scene.owner_writes("/a", "base");
    let fork = scene.vault.fork(&[name("fork")]).unwrap().remove(0);
    write(&fork, "/a", "theirs");
    scene.owner_writes("/a", "ours");
    scene.vault.merge(&[&fork], &MergeOptions::default()).unwrap();
    scene.owner_writes("/b", "something else");
    let open = scene.vault.conflicts().unwrap();
    assert_eq!(
        open.iter().map(|open| open.conflict.kind).collect::<Vec<_>>(),
        [MergeConflictKind::Text]
    );
    scene.vault.resolve(&path("/a"), &Resolution::Theirs).unwrap();
    assert_eq!(scene.owner_reads("/a"), "theirs");
    scene.owner_writes("/b", "and more");
    assert_eq!(scene.vault.info().unwrap().conflicts, 0);
}
