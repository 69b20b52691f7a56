//! Another program edits the directory while changes are applied: no version that it wrote is lost.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use agentvfs::Error;
use agentvfs::apply::{ApplyError, ApplyOptions, ApplyWatch, KeptCopy, Moment, OnConflict, Selection};
use avfs_testkit::Dice;

use crate::scene::{Scene, path};

fn kept_of(outcome: agentvfs::Result<agentvfs::apply::Applied>) -> Vec<KeptCopy> {
    match outcome {
        Ok(applied) => applied.kept,
        Err(Error::Apply(ApplyError::Overtaken { kept, .. })) => kept,
        Err(error) => panic!("{error}"),
    }
}

/// An editor that saves at moments in the middle of an apply: in place, or through a file that it had open
/// since an earlier moment, or as a new file.
struct Editor<'a> {
    project: &'a Path,
    dice: RefCell<Dice>,
    /// How many moments in ten it uses.
    zeal: usize,
    saved: Cell<usize>,
    open: RefCell<Option<std::fs::File>>,
}

impl ApplyWatch for Editor<'_> {
    fn passed(&self, _: Moment) {
        if self.dice.borrow_mut().below(10) >= self.zeal {
            return;
        }
        let target = self.project.join("a");
        let number = self.saved.get();
        let text = format!("user {number}\n");
        let manner = self.dice.borrow_mut().below(4);
        match manner {
            // Opened now, written to later.
            0 => {
                *self.open.borrow_mut() = std::fs::File::options().append(true).open(&target).ok();
                return;
            }
            1 => {
                let Some(mut file) = self.open.borrow_mut().take() else {
                    return;
                };
                file.write_all(text.as_bytes()).unwrap();
            }
            2 => {
                // It has now replaced the file that it had open.
                self.open.take();
                let draft = self.project.join("draft");
                let earlier = std::fs::read_to_string(&target).unwrap_or_default();
                std::fs::write(&draft, earlier + &text).unwrap();
                std::fs::rename(&draft, &target).unwrap();
            }
            _ => {
                let file = std::fs::File::options().append(true).create(true).open(&target);
                file.unwrap().write_all(text.as_bytes()).unwrap();
            }
        }
        self.saved.set(number + 1);
    }
}

/// The lines of the file, under both its names, and of every copy that is kept.
fn lines(scene: &Scene) -> BTreeSet<String> {
    let read = |at| std::fs::read_to_string(scene.project.join(at)).unwrap_or_default();
    let mut text = read("a") + &read("b");
    let applies = scene.place().join("store/applies");
    for folder in std::fs::read_dir(applies)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        for part in ["kept", "aside"] {
            for kept in std::fs::read_dir(folder.join(part)).into_iter().flatten() {
                text.push_str(&std::fs::read_to_string(kept.unwrap().path()).unwrap());
            }
        }
    }
    text.split_inclusive('\n').map(str::to_owned).collect()
}

/// Far more applies than the random choices need for the conditions that a test awaits.
const MOST_ROUNDS: usize = 5_000;

#[test]
fn an_editor_that_saves_in_the_middle_of_hundreds_of_applies_loses_no_version() {
    let seed = Dice::fresh_seed();
    println!("AVFS_FUZZ_SEED={seed}");
    let scene = Scene::new(&[("a", "")]);
    let editor = Editor {
        project: &scene.project,
        dice: RefCell::new(Dice::new(seed)),
        zeal: 2,
        saved: Cell::new(0),
        open: RefCell::default(),
    };
    let options = ApplyOptions {
        conflicts: OnConflict::Theirs,
        ..ApplyOptions::default()
    };
    let mut found = BTreeSet::new();
    for round in 0..MOST_ROUNDS {
        if round >= 120 && editor.saved.get() > 100 {
            break;
        }
        scene.task_writes("a", &format!("task {round}\n"));
        let plan = scene.plan_with(&Selection::default(), &options).unwrap();
        for copy in kept_of(plan.carry_out_watched(&editor)) {
            assert!(copy.kept.exists(), "{copy:?} is named");
        }
        // The oldest are removed: their contents are recorded before.
        found.append(&mut lines(&scene));
    }
    let lost: Vec<usize> = (0..editor.saved.get())
        .filter(|number| !found.contains(&format!("user {number}\n")))
        .collect();
    assert!(lost.is_empty(), "lost {lost:?} of {}", editor.saved.get());
    assert!(editor.saved.get() > 100, "{} versions", editor.saved.get());
}

#[test]
fn an_editor_that_saves_while_its_file_is_renamed_loses_no_version() {
    let seed = Dice::fresh_seed();
    println!("AVFS_FUZZ_SEED={seed}");
    let scene = Scene::new(&[("a", "start\n")]);
    scene.task_does(|open| drop(open.rename(&path("a"), &path("b")).unwrap()));
    let editor = Editor {
        project: &scene.project,
        dice: RefCell::new(Dice::new(seed)),
        zeal: 3,
        saved: Cell::new(0),
        open: RefCell::default(),
    };
    let (mut found, mut renamed) = (BTreeSet::new(), 0);
    for round in 0..MOST_ROUNDS {
        if round >= 150 && editor.saved.get() > 50 && renamed > 50 {
            break;
        }
        scene.user_writes("a", "start\n");
        let _ = std::fs::remove_file(scene.project.join("b"));
        editor.open.take();
        let outcome = scene.plan().carry_out_watched(&editor);
        renamed += usize::from(outcome.is_ok() && scene.has("b"));
        for copy in outcome.into_iter().flat_map(|applied| applied.kept) {
            assert!(copy.kept.exists(), "{copy:?} is named");
        }
        found.append(&mut lines(&scene));
    }
    let lost: Vec<usize> = (0..editor.saved.get())
        .filter(|number| !found.contains(&format!("user {number}\n")))
        .collect();
    assert!(lost.is_empty(), "lost {lost:?} of {}", editor.saved.get());
    assert!(
        editor.saved.get() > 50 && renamed > 50,
        "{} versions, {renamed} renamed",
        editor.saved.get()
    );
}

/// Saves versions by renaming until stopped.
fn save_by_renaming(project: &Path, stop: &AtomicBool) {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let draft = project.join("draft");
        std::fs::write(&draft, format!("user {number}\n")).unwrap();
        std::fs::rename(&draft, project.join("a")).unwrap();
        std::thread::yield_now();
    }
}

#[test]
fn renaming_writer_never_finds_its_file_replaced_by_the_tasks() {
    let scene = Scene::new(&[("a", "")]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| save_by_renaming(&scene.project, &stop));
        for round in 0..100 {
            scene.task_writes("a", &format!("task {round}\n"));
            kept_of(scene.apply_with(OnConflict::Ours));
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
    assert!(scene.read("a").starts_with("user "), "the user's side was chosen");
    let left: Vec<_> = std::fs::read_dir(&scene.project)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".avfs"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
