//! Mounts requested by other processes, their list, and the end of an owner. A stand-in serves them.

use std::io::{Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use agentvfs::mount::UnmountMode;
use agentvfs::{LiveOwner, MountRecord, Unmounted};

use super::owner::{Scene, open_store};
use super::support::read;

fn owner_of(scene: &Scene) -> LiveOwner {
    scene.vault.live_owner().unwrap().unwrap()
}

#[test]
fn a_mount_comes_with_its_connection_and_goes_again() {
    let mut scene = Scene::new();
    let mut connection = tempfile::tempfile().unwrap();
    connection.write_all(b"a connection to the kernel").unwrap();
    connection.rewind().unwrap();
    let (dir, options) = (Path::new("/mnt/somewhere"), ["ro".to_owned()]);
    owner_of(&scene)
        .mount(dir, &options, Some(connection.as_fd()))
        .unwrap();
    assert_eq!(scene.owner.ask("descriptor"), "a connection to the kernel");
    let expected = MountRecord {
        dir: dir.into(),
        options: options.to_vec(),
        pid: scene.owner.pid(),
    };
    let mounts = owner_of(&scene).mounts().unwrap();
    assert_eq!(
        mounts.iter().map(|mount| &mount.record).collect::<Vec<_>>(),
        [&expected]
    );
    assert_eq!(scene.vault.mounts().list().unwrap(), [expected]);
    owner_of(&scene).unmount(dir, UnmountMode::IfUnused).unwrap();
    assert_eq!(owner_of(&scene).mounts().unwrap(), []);
    assert_eq!(scene.vault.mounts().list().unwrap(), []);
}

#[test]
fn a_mount_whose_end_takes_long_does_not_keep_others_from_ending() {
    let scene = Scene::new();
    let dirs = [Path::new("/mnt/one"), Path::new("/mnt/two")];
    for dir in dirs {
        owner_of(&scene)
            .mount(dir, &["together".to_owned()], None)
            .unwrap();
    }
    std::thread::scope(|scope| {
        let unmount = |dir| {
            let owner = owner_of(&scene);
            scope.spawn(move || owner.unmount(dir, UnmountMode::IfUnused))
        };
        for unmounted in dirs.map(unmount) {
            assert_eq!(unmounted.join().unwrap().unwrap(), Unmounted::Wholly);
        }
    });
    assert_eq!(scene.vault.mounts().list().unwrap(), []);
}

#[test]
fn a_mount_that_failed_is_not_on_the_list() {
    let scene = Scene::new();
    let refused = owner_of(&scene)
        .mount(Path::new("/mnt/x"), &["impossible".to_owned()], None)
        .unwrap_err();
    assert_eq!(refused.code(), "host-denied");
    assert_eq!(refused.to_string(), "mounting /mnt/x: permission denied");
    assert_eq!(scene.vault.mounts().list().unwrap(), []);
}

#[test]
fn mounts_of_a_dead_owner_are_taken_away() {
    let scene = Scene::new();
    let odd = std::ffi::OsStr::from_bytes(b"/mnt/caf\xe9");
    for dir in [Path::new("/mnt/one"), Path::new(odd)] {
        owner_of(&scene).mount(dir, &[], None).unwrap();
    }
    let store = open_store(&scene.home);
    let known = store.mounts().list().unwrap();
    assert!(
        known.len() == 2
            && known
                .iter()
                .all(|known| known.alive && known.vault.as_str() == "main")
    );
    store
        .mounts()
        .clean_up(&mut |mount| panic!("{mount:?} is in use"))
        .unwrap();
    scene.owner.kill();
    assert!(store.mounts().list().unwrap().iter().all(|known| !known.alive));
    let mut taken = Vec::new();
    let take_away = &mut |mount: &MountRecord| {
        taken.push(mount.dir.clone());
        Ok(())
    };
    store.mounts().clean_up(take_away).unwrap();
    assert_eq!(taken, [Path::new("/mnt/one"), Path::new(odd)]);
    assert_eq!(store.mounts().list().unwrap(), []);
}

#[test]
fn mounts_of_an_owner_that_is_stopped_are_left_alone() {
    let scene = Scene::new();
    owner_of(&scene).mount(Path::new("/mnt/one"), &[], None).unwrap();
    let signal = |signal| {
        let pid = rustix::process::Pid::from_raw(scene.owner.pid() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    };
    signal(rustix::process::Signal::STOP);
    let store = open_store(&scene.home);
    store
        .mounts()
        .clean_up(&mut |mount| panic!("{mount:?} is in use"))
        .unwrap();
    signal(rustix::process::Signal::CONT);
    assert_eq!(scene.vault.mounts().list().unwrap().len(), 1);
}

#[test]
fn an_owner_that_is_asked_to_stop_stores_everything_first() {
    let mut scene = Scene::new();
    scene.owner_writes("/a", "unsaved");
    let stopping = std::thread::scope(|scope| {
        let owner = &mut scene.owner;
        let waiting = scope.spawn(move || owner.ask("await-stop"));
        scene.vault.live_owner().unwrap().unwrap().stop().unwrap();
        waiting.join().unwrap()
    });
    assert_eq!(stopping, "stopping");
    scene.owner.finish();
    assert!(
        !scene
            .home
            .join("work")
            .join(scene.vault.id().to_string())
            .join("control")
            .exists()
    );
    assert!(scene.vault.live_owner().unwrap().is_none());
    assert_eq!(read(&scene.vault, "/a").unwrap(), "unsaved");
    assert_eq!(
        scene.vault.history().entries(None, 1).unwrap()[0].action,
        "unmount",
        "nothing was left to recover"
    );
}
