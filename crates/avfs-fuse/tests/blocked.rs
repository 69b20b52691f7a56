//! Servers that end while requests wait for their store: callers continue, and the directory can be mounted
//! on again immediately.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[macro_use]
mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use avfs_core::{Entry, EntryName, Meta, Root, Totals};
use avfs_fuse::mounting::{FuseMountOptions, UnmountMode, clean_up, mount, unmount};
use avfs_fuse::null::NullFilesystem;
use avfs_fuse::transport::{FuseServing, ServingOptions, Transport};
use avfs_fuse::{Errno, FuseService, FuseSession, MountAccess, SessionSettings, Skin, SkinOptions};
use avfs_store::MemoryStore;
use avfs_testkit::{GatedStore, TestChild, acknowledge, child_task};
use avfs_tree::{BaseTree, Ino, NewEntry, Objects, SystemClock, WorkTree};
use rustix::mount::UnmountFlags;
use support::{eventually, in_time, switch_on};

over_both_transports! {
    callers_waiting_for_the_store_continue_when_the_server_is_killed,
    callers_waiting_for_the_store_continue_when_the_mount_is_removed,
}

/// More than there are serving threads, entries of rings, and reading threads. Half of the requests are for
/// names, half for contents.
const BLOCKED: usize = 64;

fn file(number: usize) -> EntryName {
    EntryName::new(format!("file {number}").as_bytes()).unwrap()
}

fn directory(number: usize) -> EntryName {
    EntryName::new(format!("directory {number}").as_bytes()).unwrap()
}

/// A tree of which nothing is in memory: files in the root, and directories with one file each.
fn cold_tree(gate: &Arc<GatedStore<MemoryStore>>) -> WorkTree {
    let open = |base| WorkTree::in_memory(Objects::new(gate.clone()), base, Arc::new(SystemClock)).unwrap();
    let empty = Entry::empty_directory(Meta {
        mode: 0o755,
        ..Meta::default()
    });
    let root = Root {
        directory: empty,
        links: None,
        totals: Totals::default(),
    };
    let made = open(BaseTree { root, inodes: None });
    for number in 0..BLOCKED {
        let ino = made
            .create(Ino::ROOT, &file(number), NewEntry::file(0o644))
            .unwrap()
            .ino;
        made.write(ino, 0, &[7; 100]).unwrap();
        let ino = made
            .create(Ino::ROOT, &directory(number), NewEntry::directory(0o755))
            .unwrap()
            .ino;
        made.create(ino, &file(number), NewEntry::file(0o644)).unwrap();
    }
    let frozen = made.freeze().unwrap();
    let tree = open(frozen.base().clone());
    frozen.settle();
    tree
}

fn serve(service: Arc<dyn FuseService>, at: &Path, transport: Transport) -> FuseServing {
    let connection = mount(at, &FuseMountOptions::new("blocked")).unwrap();
    let session = Arc::new(FuseSession::new(service, SessionSettings::default()));
    FuseServing::start(
        session,
        connection,
        ServingOptions {
            transport,
            ..ServingOptions::default()
        },
    )
    .unwrap()
}

/// Not a test itself: the code that children run.
#[test]
fn the_child() {
    let Some((place, script)) = child_task() else {
        return;
    };
    let transport = if script == "uring" {
        Transport::Uring
    } else {
        Transport::Device
    };
    let gate = Arc::<GatedStore<MemoryStore>>::default();
    let tree = cold_tree(&gate);
    let options = SkinOptions {
        access: MountAccess::Everything,
        rules: None,
        owner: None,
        checks_modes: false,
        exclusive: false,
        free_bytes: Arc::new(|| 1 << 40),
        log: Arc::new(|_| {}),
    };
    let skin = Skin::new(&tree, options);
    let serving = serve(skin.clone(), &place, transport);
    acknowledge("mounted");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    gate.shut();
    let before = skin.deferred();
    acknowledge("shut");
    eventually("all requests are put off", || {
        skin.deferred() - before >= BLOCKED as u64
    });
    acknowledge("blocked");
    serving.wait();
    acknowledge("unmounted");
    // Parks forever.
    std::thread::park();
}

type Caller = JoinHandle<std::io::Result<()>>;

/// A server with callers that wait for data which its store does not return.
fn blocked(place: &Path, transport: Transport) -> (TestChild, Vec<Caller>) {
    switch_on(transport);
    let script = if transport == Transport::Uring {
        "uring"
    } else {
        "device"
    };
    let mut server = TestChild::start("the_child", place, script);
    assert_eq!(server.acknowledged().as_deref(), Some("mounted"));
    let path = |name: EntryName| place.join(String::from_utf8(name.as_bytes().to_vec()).unwrap());
    let files: Vec<File> = (0..BLOCKED / 2)
        .map(|number| File::open(path(file(number))).unwrap())
        .collect();
    assert_eq!(server.ask("shut the store"), "shut");
    let names = (0..BLOCKED / 2).map(|number| {
        let path = path(directory(number)).join("nothing");
        std::thread::spawn(move || path.symlink_metadata().map(drop))
    });
    let reads = files
        .into_iter()
        .map(|file| std::thread::spawn(move || file.read_exact_at(&mut [0; 100], 0)));
    let callers = names.chain(reads).collect();
    assert_eq!(server.acknowledged().as_deref(), Some("blocked"));
    (server, callers)
}

/// All of them get an error because the mount is gone.
fn let_go(callers: Vec<Caller>) {
    let ends = in_time("those who waited", || {
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .collect::<Vec<_>>()
    });
    for end in ends {
        let error = end.unwrap_err();
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        assert!(
            matches!(errno, Some(Errno::CONNABORTED | Errno::NOTCONN)),
            "{error}"
        );
    }
}

/// A new mount on the same directory is created, used, and removed.
fn mount_again(place: &Path, transport: Transport) {
    let place = place.to_owned();
    in_time("the next mount", move || {
        let serving = serve(Arc::new(NullFilesystem::default()), &place, transport);
        std::fs::metadata(place.join("file")).unwrap();
        unmount(&place, UnmountMode::IfUnused).unwrap();
        serving.wait();
    });
}

fn callers_waiting_for_the_store_continue_when_the_server_is_killed(transport: Transport) {
    let place = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        let (server, callers) = blocked(place.path(), transport);
        in_time("the death of the server", || drop(server.kill()));
        assert!(clean_up(place.path()).unwrap(), "the mount of the dead is there");
        mount_again(place.path(), transport);
        let_go(callers);
    }
}

fn callers_waiting_for_the_store_continue_when_the_mount_is_removed(transport: Transport) {
    let place = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        let (mut server, callers) = blocked(place.path(), transport);
        rustix::mount::unmount(place.path(), UnmountFlags::FORCE | UnmountFlags::DETACH).unwrap();
        mount_again(place.path(), transport);
        let_go(callers);
        assert_eq!(
            server.acknowledged().as_deref(),
            Some("unmounted"),
            "it does not wait for its store"
        );
    }
}
