//! Hooks and events.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::sync::{Arc, Mutex};

use avfs_vfs::{HookTime, PathEvent, ProvidedNode, Vfs, VfsError, WriteEvent};

type Lines = Arc<Mutex<Vec<String>>>;

fn line(event: &PathEvent) -> String {
    let content = event.content.as_ref().map_or("-".into(), |content| {
        String::from_utf8_lossy(content).into_owned()
    });
    let from = event
        .from
        .as_ref()
        .map_or(String::new(), |from| format!(" from {from}"));
    format!(
        "{} {} {content} v{}{from}",
        event.event.as_str(),
        event.path,
        event.version
    )
}

/// Records everything at or below a prefix.
fn record(vfs: &Vfs, prefix: &str) -> Lines {
    let lines = Lines::default();
    let copy = Arc::clone(&lines);
    let hook = move |event: &PathEvent| {
        copy.lock().unwrap().push(line(event));
        Ok(())
    };
    vfs.register_path_hook(prefix, Arc::new(hook)).unwrap();
    lines
}

fn taken(lines: &Lines) -> Vec<String> {
    std::mem::take(&mut lines.lock().unwrap())
}

#[test]
fn every_way_of_change_is_told_in_order() {
    let vfs = Vfs::new();
    let lines = record(&vfs, "/");
    vfs.write_file("/d/a", "1", None).unwrap();
    vfs.append_file("/d/a", "2", None).unwrap();
    vfs.touch("/d/b").unwrap();
    vfs.symlink("a", "/d/l").unwrap();
    assert_eq!(
        taken(&lines),
        [
            "create /d/a 1 v1",
            "update /d/a 12 v2",
            "create /d/b  v1",
            "create /d/l - v0"
        ]
    );
    let before = vfs.snapshot().unwrap();
    vfs.move_to("/d", "/e", false).unwrap();
    assert_eq!(
        taken(&lines),
        [
            "move /e/a 12 v3 from /d/a",
            "move /e/b  v2 from /d/b",
            "move /e/l - v0 from /d/l"
        ]
    );
    vfs.copy("/e/a", "/c", false).unwrap();
    vfs.rename("/e/b", "/c").unwrap();
    assert_eq!(taken(&lines), ["create /c 12 v1", "move /c  v3 from /e/b"]);
    vfs.remove("/e", true).unwrap();
    assert_eq!(taken(&lines), ["delete /e/a - v3", "delete /e/l - v0"]);
    vfs.restore(&before).unwrap();
    assert_eq!(
        taken(&lines),
        [
            "delete /c - v3",
            "create /d/a 12 v3",
            "create /d/b  v2",
            "create /d/l - v0"
        ]
    );
    vfs.set_mode("/d/a", 0o600).unwrap();
    vfs.mkdir("/x", false, false).unwrap();
    assert_eq!(taken(&lines), Vec::<String>::new());
}

#[test]
fn hooks_hear_of_their_prefix_only_and_of_moves_on_both_sides() {
    let vfs = Vfs::new();
    let lines = record(&vfs, "/in");
    vfs.write_file("/in/a", "", None).unwrap();
    vfs.write_file("/inside", "", None).unwrap();
    vfs.rename("/in/a", "/out").unwrap();
    vfs.rename("/out", "/in/b").unwrap();
    vfs.rename("/inside", "/outside").unwrap();
    assert_eq!(
        taken(&lines),
        [
            "create /in/a  v1",
            "move /out  v2 from /in/a",
            "move /in/b  v3 from /out"
        ]
    );
}

#[test]
fn a_hook_before_a_write_can_stop_every_way_of_writing() {
    let vfs = Vfs::new();
    vfs.write_file("/src", "bad", None).unwrap();
    vfs.write_file("/guarded/old", "good", None).unwrap();
    let hook = |event: &WriteEvent| {
        if event.content.starts_with(b"bad") {
            return Err("refused".into());
        }
        Ok(())
    };
    let id = vfs
        .register_write_hook("/guarded", HookTime::Before, Arc::new(hook))
        .unwrap();
    let before = vfs.snapshot().unwrap();
    let attempts: [&dyn Fn() -> Result<(), VfsError>; 5] = [
        &|| vfs.write_file("/guarded/new/deep", "bad", None).map(drop),
        &|| vfs.write_file("/guarded/old", "bad", None).map(drop),
        &|| vfs.copy("/src", "/guarded/c", false).map(drop),
        &|| vfs.move_to("/src", "/guarded", false).map(drop),
        &|| vfs.rename("/src", "/guarded/old"),
    ];
    for attempt in attempts {
        assert_eq!(attempt().unwrap_err().code(), "stopped-by-hook");
        assert!(vfs.changes(&before).unwrap().is_empty());
    }
    vfs.write_file("/guarded/old", "fine", None).unwrap();
    assert!(vfs.unregister_hook(id).unwrap());
    assert!(!vfs.unregister_hook(id).unwrap());
    vfs.write_file("/guarded/old", "bad", None).unwrap();
}

#[test]
fn write_events_have_all_of_the_new_content() {
    let vfs = Vfs::new();
    let events: Arc<Mutex<Vec<WriteEvent>>> = Arc::default();
    let copy = Arc::clone(&events);
    let hook = move |event: &WriteEvent| {
        copy.lock().unwrap().push(event.clone());
        Ok(())
    };
    vfs.register_write_hook("/", HookTime::After, Arc::new(hook))
        .unwrap();
    vfs.write_file("/a", "1", None).unwrap();
    vfs.append_file("/a", "2", None).unwrap();
    vfs.remove("/a", false).unwrap();
    let events = events.lock().unwrap();
    let seen: Vec<_> = events
        .iter()
        .map(|event| (event.content.to_vec(), event.version, event.append))
        .collect();
    assert_eq!(seen, [(b"1".to_vec(), 1, false), (b"12".to_vec(), 2, true)]);
}

#[test]
fn a_failing_hook_after_a_change_is_reported_and_the_change_stays() {
    let vfs = Vfs::new();
    vfs.register_path_hook("/", Arc::new(|_: &PathEvent| Err("no".into())))
        .unwrap();
    let lines = record(&vfs, "/");
    assert_eq!(vfs.write_file("/a", "x", None).unwrap_err().code(), "hook-failed");
    assert_eq!(taken(&lines), ["create /a x v1"]);
    assert!(vfs.exists("/a").unwrap());
}

#[test]
fn a_hook_after_a_change_may_change_more_and_one_within_it_may_not() {
    let vfs = Vfs::new();
    let lines = record(&vfs, "/");
    let inner = vfs.clone();
    let audit = move |event: &PathEvent| {
        if !event.path.starts_with(&avfs_vfs::parse(b"/log").unwrap()) {
            inner.append_file("/log", format!("{}\n", event.path), None)?;
        }
        Ok(())
    };
    vfs.register_path_hook("/", Arc::new(audit)).unwrap();
    vfs.write_file("/a", "x", None).unwrap();
    assert_eq!(taken(&lines), ["create /a x v1", "create /log /a\n v1"]);

    let inner = vfs.clone();
    let nested = move |_: &WriteEvent| Ok(inner.write_file("/other", "", None).map(drop)?);
    vfs.register_write_hook("/b", HookTime::Before, Arc::new(nested))
        .unwrap();
    let error = vfs.write_file("/b", "", None).unwrap_err();
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.downcast_ref::<VfsError>().unwrap().code(), "within-change");
    assert!(!vfs.exists("/b").unwrap() && !vfs.exists("/other").unwrap());
    vfs.write_file("/still", "works", None).unwrap();
}

#[test]
fn hooks_that_cause_each_other_without_end_are_stopped() {
    let vfs = Vfs::new();
    let inner = vfs.clone();
    let echo = move |_: &PathEvent| Ok(inner.append_file("/echo", "", None).map(drop)?);
    vfs.register_path_hook("/", Arc::new(echo)).unwrap();
    let error = vfs.write_file("/a", "", None).unwrap_err();
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.downcast_ref::<VfsError>().unwrap().code(), "hook-chain");
}

#[test]
fn hooks_see_writes_over_provided_files_as_updates() {
    let vfs = Vfs::new();
    vfs.mount("/now", ProvidedNode::computed_file(|_| Ok(b"computed".to_vec())))
        .unwrap();
    let lines = record(&vfs, "/");
    vfs.append_file("/now", "!", None).unwrap();
    assert_eq!(taken(&lines), ["update /now computed! v1"]);
}
