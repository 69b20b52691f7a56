//! Random trees: applied, they equal the task's; undone, they equal the user's.

use std::collections::BTreeMap;

use agentvfs::TreePath;
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::scene::{Scene, path, survey, survey_contents};

#[derive(Clone, Debug)]
enum Edit {
    Write(usize, String),
    Remove(usize),
    Mode(usize, u32),
    Link(usize, String),
    Directory(usize),
    Move(usize, usize),
}

/// Few names, so that files and directories meet.
const PLACES: [&str; 9] = [
    "a", "b", "d/a", "d/b", "d/e/a", "d/e/b", "f/a", "f/g/h/a", "a/under",
];

fn edits(most: usize) -> impl Strategy<Value = Vec<Edit>> {
    let place = 0..PLACES.len();
    let edit = prop_oneof![
        4 => (place.clone(), "[a-c\n]{0,12}").prop_map(|(place, text)| Edit::Write(place, text)),
        2 => place.clone().prop_map(Edit::Remove),
        1 => (place.clone(), prop_oneof![Just(0o644), Just(0o755), Just(0o600)]).prop_map(|(p, m)| Edit::Mode(p, m)),
        1 => (place.clone(), "[a-c]{1,3}").prop_map(|(place, target)| Edit::Link(place, target)),
        1 => place.clone().prop_map(Edit::Directory),
        2 => (place.clone(), place).prop_map(|(from, to)| Edit::Move(from, to)),
    ];
    proptest::collection::vec(edit, 0..most)
}

/// Makes a place free, whatever is there or above it.
fn clear(open: &agentvfs::OpenVault, at: &TreePath) {
    let mut above = TreePath::root();
    for name in at.components() {
        above.push(&name);
        let is_way = above != *at && open.children(&above).is_ok();
        if open.exists(&above).unwrap_or(false) && !is_way {
            open.remove(&above, true).unwrap();
        }
    }
    if let Some((parent, _)) = at.split_last() {
        open.make_directory(&parent, true).unwrap();
    }
}

fn perform(scene: &Scene, edits: &[Edit]) {
    scene.task_does(|open| edits.iter().for_each(|edit| perform_one(open, edit)));
}

fn perform_one(open: &agentvfs::OpenVault, edit: &Edit) {
    match edit {
        Edit::Write(place, text) => {
            clear(open, &path(PLACES[*place]));
            open.write_bytes(&path(PLACES[*place]), text.as_bytes()).unwrap();
        }
        Edit::Link(place, target) => {
            clear(open, &path(PLACES[*place]));
            open.symlink(target.as_bytes(), &path(PLACES[*place])).unwrap();
        }
        Edit::Directory(place) => {
            clear(open, &path(PLACES[*place]));
            open.make_directory(&path(PLACES[*place]), true).unwrap();
        }
        Edit::Remove(place) => {
            let _ = open.remove(&path(PLACES[*place]), true);
        }
        Edit::Move(from, to) => {
            let (from, to) = (path(PLACES[*from]), path(PLACES[*to]));
            if open.exists(&from).unwrap_or(false) && !to.starts_with(&from) && !from.starts_with(&to) {
                clear(open, &to);
                open.rename(&from, &to).unwrap();
            }
        }
        Edit::Mode(place, mode) => {
            let _ = open.set_mode(&path(PLACES[*place]), *mode);
        }
    }
}

/// The task's tree, as it should be on the host.
fn task_tree(scene: &Scene) -> BTreeMap<std::path::PathBuf, (u32, Vec<u8>)> {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let reader = scene.task.reader().unwrap();
    let options = agentvfs::transfer::DirectoryExport {
        merge: false,
        owners: false,
    };
    agentvfs::transfer::export_directory(&reader, &TreePath::root(), &out, &options, &()).unwrap();
    contents(&out)
}

fn contents(top: &std::path::Path) -> BTreeMap<std::path::PathBuf, (u32, Vec<u8>)> {
    survey(top)
        .into_iter()
        .map(|(path, kept)| (path, (kept.mode, kept.bytes)))
        .collect()
}

fn check(seed: &[Edit], work: &[Edit]) {
    let first = Scene::new(&[]);
    perform(&first, seed);
    let reader = first.task.reader().unwrap();
    let project = first.place().join("seeded");
    let options = agentvfs::transfer::DirectoryExport {
        merge: false,
        owners: false,
    };
    agentvfs::transfer::export_directory(&reader, &TreePath::root(), &project, &options, &()).unwrap();
    let scene = Scene::with_project(&project, &[]);
    perform(&scene, work);
    let before = survey_contents(&scene.project);
    let applied = scene.apply().unwrap();
    assert_eq!(contents(&scene.project), task_tree(&scene));
    assert!(applied.kept.is_empty());
    if let Some(id) = applied.id {
        scene.store.undo_apply(id, false).unwrap();
    }
    assert_eq!(survey_contents(&scene.project), before);
}

proptest! {
    #![proptest_config(Config { cases: 40, failure_persistence: None, ..Config::default() })]
    #[test]
    fn apply_gives_the_task_and_undo_gives_back_bytes_and_modes(seed in edits(12), work in edits(10)) {
        check(&seed, &work);
    }
}
