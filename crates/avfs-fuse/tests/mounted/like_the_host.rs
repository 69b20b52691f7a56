//! The same calls in a mount and in a directory of the host: each has the same answer or error in both, and
//! in the end both look the same.

#[path = "like_the_host/call.rs"]
pub mod call;
#[path = "like_the_host/place.rs"]
mod place;
#[path = "like_the_host/survey.rs"]
mod survey;

use std::path::Path;
use std::sync::Arc;

use avfs_tree::WorkTree;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use self::call::{Call, calls, first_calls};
use self::place::EntryPlace;
use self::survey::survey;
use crate::fixture::{Mounted, empty_tree};

/// Makes calls on the host and in a tree that is mounted once for each door.
pub fn make_in_both(doors: usize, calls: &[(usize, Call)]) {
    let directory = tempfile::tempdir().unwrap();
    let mut here = EntryPlace::new(vec![directory.path().to_owned(); doors]);
    let (mut mounts, mut there) = mounted(&empty_tree(), doors);
    let first_calls = first_calls().into_iter().map(|call| (0, call));
    for (number, (door, call)) in first_calls.chain(calls.iter().cloned()).enumerate() {
        let here_answers = here.perform(door, &call);
        let there_answers = there.perform(door, &call);
        assert_eq!(
            there_answers, here_answers,
            "call {number}, {call:?}: a mount, and the host"
        );
        match call {
            Call::Snapshot => mounts[0].tree.freeze().unwrap().settle(),
            Call::MountAgain => {
                here.close_all();
                (mounts, there) = mounted_again(mounts, there);
            }
            _ => {}
        }
        mounts.iter().for_each(Mounted::flush);
    }
    assert_alike(&there, directory.path());
    here.close_all();
    (mounts, there) = mounted_again(mounts, there);
    assert_alike(&there, directory.path());
    end(mounts);
}

fn mounted(tree: &WorkTree, doors: usize) -> (Vec<Mounted>, EntryPlace) {
    let mounts: Vec<Mounted> = (0..doors)
        .map(|_| Mounted::of(Arc::new(tree.another_door()), false))
        .collect();
    let place = EntryPlace::new(mounts.iter().map(|mounted| mounted.path().to_owned()).collect());
    (mounts, place)
}

fn mounted_again(mounts: Vec<Mounted>, place: EntryPlace) -> (Vec<Mounted>, EntryPlace) {
    let tree = mounts[0].tree.clone();
    let doors = mounts.len();
    drop(place);
    end(mounts);
    mounted(&tree, doors)
}

fn end(mounts: Vec<Mounted>) {
    for mounted in mounts {
        assert_eq!(mounted.end(), Vec::<String>::new());
    }
}

fn assert_alike(mounted: &EntryPlace, host: &Path) {
    for door in mounted.doors() {
        let mut mounted = survey(door);
        let host = survey(host);
        for (name, expected) in host {
            let found = mounted.remove(&name);
            assert_eq!(
                found.as_ref(),
                Some(&expected),
                "{}: in a mount, and at the host",
                name.display()
            );
        }
        assert!(mounted.is_empty(), "only in a mount: {:?}", mounted.keys());
    }
}

/// A soak run sets a higher number.
pub fn config(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(usual),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource(
            "proptest-regressions",
        ))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn calls_have_the_same_answers_as_at_the_host(calls in calls(1)) {
        make_in_both(1, &calls);
    }
}
