//! Which state two vaults have in common.

use agentvfs::error::MergeError;
use agentvfs::{Error, MergeOptions, Store};

use crate::support::{change, name, path, read, write};
use crate::{clean, make, merge, pair};

#[test]
fn forks_of_one_vault_merge_with_each_other_and_with_their_forks() {
    let (main, fork) = pair(|open| make(open, "/f", "1\n2\n3\n"));
    let sibling = main.fork(&[name("sibling")]).unwrap().remove(0);
    let child = fork.fork(&[name("child")]).unwrap().remove(0);
    write(&child, "/child", "x");
    write(&sibling, "/sibling", "x");
    write(&fork, "/fork", "x");
    clean(&sibling, &child);
    clean(&fork, &sibling);
    for at in ["/child", "/sibling", "/fork"] {
        assert_eq!(read(&fork, at).unwrap(), "x");
    }
}

#[test]
fn merging_back_and_forth_never_meets_itself() {
    let (main, fork) = pair(|open| make(open, "/f", "0\n"));
    for round in 1..5 {
        write(&fork, "/f", format!("fork {round}\n"));
        clean(&main, &fork);
        write(&main, "/f", format!("main {round}\n"));
        clean(&fork, &main);
        assert_eq!(read(&fork, "/f").unwrap(), format!("main {round}\n"));
    }
    assert_eq!(merge(&main, &fork).sources[0].changed, 0);
}

#[test]
fn vaults_that_never_were_one_are_not_merged() {
    let store = Store::in_memory();
    let (one, other) = (
        store.create_vault(&name("one")).unwrap(),
        store.create_vault(&name("other")).unwrap(),
    );
    let merged = one.merge(&[&other], &MergeOptions::default());
    assert!(
        matches!(merged, Err(Error::Merge(MergeError::NotRelated { .. }))),
        "{merged:?}"
    );
    let merged = one.merge(&[&one], &MergeOptions::default());
    assert!(
        matches!(merged, Err(Error::Merge(MergeError::WithItself { .. }))),
        "{merged:?}"
    );
}

#[test]
fn a_merged_fork_is_not_in_the_way_of_deleting_its_parent() {
    let (main, fork) = pair(|open| make(open, "/f", "0\n"));
    write(&fork, "/f", "1\n");
    assert_eq!(main.unmerged_forks().unwrap(), [name("fork")]);
    clean(&main, &fork);
    assert_eq!(main.unmerged_forks().unwrap(), []);
    change(&fork, |open| open.remove(&path("/f"), false).unwrap());
    assert_eq!(main.unmerged_forks().unwrap(), [name("fork")]);
}
