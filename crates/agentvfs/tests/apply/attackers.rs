//! Another program swaps directories for symbolic links while changes are applied: nothing outside is
//! touched.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::scene::{Scene, survey};

#[test]
fn a_directory_that_becomes_a_link_leads_nowhere() {
    let scene = Scene::new(&[("dir/a", "x"), ("dir/gone", "x"), ("dir/sub/b", "x")]);
    let outside = scene.place().join("outside");
    for name in ["a", "gone", "sub/b"] {
        crate::scene::put(&outside, name, b"precious");
    }
    scene.task_writes("dir/a", "task");
    scene.task_writes("dir/sub/b", "task");
    scene.task_writes("dir/new", "task");
    scene.task_removes("dir/gone");
    let before = survey(&outside);
    let (dir, away) = (scene.project.join("dir"), scene.project.join("away"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let attacker = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::fs::rename(&dir, &away).unwrap();
                symlink(&outside, &dir).unwrap();
                std::thread::yield_now();
                std::fs::remove_file(&dir).unwrap();
                std::fs::rename(&away, &dir).unwrap();
                std::thread::yield_now();
            }
        });
        for _ in 0..150 {
            let planned = scene.plan_with(&Default::default(), &Default::default());
            if let Some(id) = planned
                .and_then(|plan| plan.carry_out())
                .ok()
                .and_then(|applied| applied.id)
            {
                let _ = scene.store.undo_apply(id, true);
            }
            assert_eq!(survey(&outside), before);
        }
        stop.store(true, Ordering::Relaxed);
        attacker.join().unwrap();
    });
    scene.store.applies().recover().unwrap();
    assert_eq!(survey(&outside), before);
    scene.apply().unwrap();
    assert_eq!(
        (scene.read("dir/a"), scene.read("dir/new")),
        ("task".into(), "task".into())
    );
}
