//! The same calls in a mount and in a directory of the host: each has the same answer or error in both, and in
//! the end both look the same.

#[path = "like_the_host/call.rs"]
mod call;
#[path = "like_the_host/place.rs"]
mod place;
#[path = "like_the_host/survey.rs"]
mod survey;

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use self::call::{Call, calls, first_calls};
use self::place::Place;
use self::survey::survey;
use crate::fixture::Mounted;

fn make_in_both(calls: &[Call]) {
    let directory = tempfile::tempdir().unwrap();
    let mut mounted = Mounted::new();
    let (mut here, mut there) = (Place::new(directory.path()), Place::new(mounted.path()));
    for (number, call) in first_calls().iter().chain(calls).enumerate() {
        let (here_answers, there_answers) = (here.perform(call), there.perform(call));
        assert_eq!(there_answers, here_answers, "call {number}, {call:?}: a mount, and the host");
        match call {
            Call::Snapshot => mounted.tree.freeze().unwrap().settle(),
            Call::MountAgain => {
                here.close_all();
                there.close_all();
                mounted = mount_again(mounted);
                there = Place::new(mounted.path());
            }
            _ => {}
        }
    }
    assert_alike(mounted.path(), directory.path());
    here.close_all();
    there.close_all();
    mounted = mount_again(mounted);
    assert_alike(mounted.path(), directory.path());
    assert_eq!(mounted.end(), Vec::<String>::new());
}

fn mount_again(mounted: Mounted) -> Mounted {
    let tree = mounted.tree.clone();
    assert_eq!(mounted.end(), Vec::<String>::new());
    Mounted::of(tree, false)
}

#[track_caller]
fn assert_alike(mounted: &Path, host: &Path) {
    let (mut mounted, host) = (survey(mounted), survey(host));
    for (name, expected) in host {
        let found = mounted.remove(&name);
        assert_eq!(found.as_ref(), Some(&expected), "{}: in a mount, and at the host", name.display());
    }
    assert!(mounted.is_empty(), "only in a mount: {:?}", mounted.keys());
}

/// A soak run asks for more.
fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(200),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn calls_have_the_same_answers_as_at_the_host(calls in calls()) {
        make_in_both(&calls);
    }
}
