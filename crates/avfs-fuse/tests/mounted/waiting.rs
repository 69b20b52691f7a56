//! Requests that need data from the store: they wait, and other requests do not.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use avfs_core::EntryName;
use avfs_fuse::Errno;
use avfs_store::MemoryStore;
use avfs_testkit::GatedStore;
use avfs_tree::{BaseTree, EntryPlace, Ino, NewEntry, Objects, SystemClock, WorkTree};
use rustix::mount::UnmountFlags;

use crate::fixture::{Mounted, empty_root};

/// More than there are serving threads, entries of rings, and reading threads.
const COLD: usize = 64;

/// Nothing here takes this long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

type Gate = GatedStore<MemoryStore>;

fn name(number: usize) -> EntryName {
    EntryName::new(format!("{number}").as_bytes()).unwrap()
}

fn contents(number: usize) -> Vec<u8> {
    format!("the contents of file {number}").into_bytes()
}

/// A tree of which only the root is in memory: `files/N`, and `directories/N/N`.
fn cold_tree() -> (Arc<Gate>, Arc<WorkTree>) {
    let gate = Arc::<Gate>::default();
    let open = |base| WorkTree::in_memory(Objects::new(gate.clone()), base, Arc::new(SystemClock)).unwrap();
    let tree = open(BaseTree {
        root: empty_root(),
        inodes: None,
    });
    let directory =
        |parent, name: &EntryName| tree.create(parent, name, NewEntry::directory(0o755)).unwrap().ino;
    let file = |parent, number| {
        let file = tree
            .create(parent, &name(number), NewEntry::file(0o644))
            .unwrap()
            .ino;
        tree.write(file, 0, &contents(number)).unwrap();
    };
    let files = directory(Ino::ROOT, &EntryName::new(b"files").unwrap());
    let directories = directory(Ino::ROOT, &EntryName::new(b"directories").unwrap());
    for number in 0..COLD {
        file(files, number);
        file(directory(directories, &name(number)), number);
    }
    let frozen = tree.freeze().unwrap();
    let base = frozen.base().clone();
    frozen.settle();
    (gate.clone(), Arc::new(open(base)))
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// Callers that need data from the store: half of them names, half of them contents.
fn callers(mounted: &Mounted, gate: &Gate) -> Vec<JoinHandle<std::io::Result<()>>> {
    let names = (0..COLD / 2).map(|number| {
        let path = mounted.at(&format!("directories/{number}/{number}"));
        std::thread::spawn(move || {
            let found = path.symlink_metadata()?;
            assert_eq!(found.len(), contents(number).len() as u64);
            Ok(())
        })
    });
    let files: Vec<File> = (0..COLD / 2)
        .map(|number| File::open(mounted.at(&format!("files/{number}"))).unwrap())
        .collect();
    std::fs::metadata(mounted.at("directories")).unwrap();
    gate.shut();
    let before = mounted.deferred();
    let reads = files.into_iter().enumerate().map(|(number, file)| {
        std::thread::spawn(move || {
            let mut buffer = contents(number);
            buffer.fill(0);
            file.read_exact_at(&mut buffer, 0)?;
            assert_eq!(buffer, contents(number));
            Ok(())
        })
    });
    let callers = names.chain(reads).collect();
    eventually("all requests are put off", || {
        mounted.deferred() - before >= COLD as u64
    });
    callers
}

#[test]
fn requests_that_wait_for_the_store_hold_up_no_others() {
    let (gate, tree) = cold_tree();
    let mounted = Mounted::of(tree, false);
    let callers = callers(&mounted, &gate);
    eventually("some of them are read for", || gate.waiting() > 0);
    for number in 0..100 {
        let path = mounted.at(&format!("new {number}"));
        std::fs::write(&path, "what is written meanwhile").unwrap();
        assert!(!mounted.at(&format!("missing {number}")).exists());
        std::fs::remove_file(path).unwrap();
    }
    assert!(gate.waiting() > 0);
    gate.open();
    callers
        .into_iter()
        .for_each(|caller| caller.join().unwrap().unwrap());
    assert_eq!(mounted.end(), Vec::<String>::new());
}

#[test]
fn a_mount_that_ends_does_not_wait_for_the_store() {
    let (gate, tree) = cold_tree();
    let mut mounted = Mounted::of(tree, false);
    let callers = callers(&mounted, &gate);
    rustix::mount::unmount(mounted.path(), UnmountFlags::FORCE | UnmountFlags::DETACH).unwrap();
    for caller in callers {
        let error = caller.join().unwrap().unwrap_err();
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        assert!(
            matches!(errno, Some(Errno::CONNABORTED | Errno::NOTCONN)),
            "{error}"
        );
    }
    mounted.wait();
    assert!(gate.waiting() > 0);
    // The receiver of these answers is gone.
    gate.open();
}

#[test]
fn a_name_in_preparation_is_found_when_it_is_ready_and_holds_up_no_others() {
    let (_, tree) = cold_tree();
    let mounted = Mounted::of(Arc::clone(&tree), false);
    let ready = EntryName::new(b"ready").unwrap();
    std::fs::write(mounted.at("other"), "there").unwrap();
    let preparing = tree.prepare_name(EntryPlace::new(Ino::ROOT, ready.clone()));
    let before = mounted.deferred();
    let path = mounted.at("ready");
    let reading = std::thread::spawn(move || std::fs::read_to_string(path));
    eventually("it is put off", || mounted.deferred() > before);
    assert_eq!(std::fs::read_to_string(mounted.at("other")).unwrap(), "there");
    let file = tree.create(Ino::ROOT, &ready, NewEntry::file(0o644)).unwrap().ino;
    tree.write(file, 0, b"made meanwhile").unwrap();
    assert!(!reading.is_finished());
    drop(preparing);
    assert_eq!(reading.join().unwrap().unwrap(), "made meanwhile");
    assert_eq!(mounted.end(), Vec::<String>::new());
}

#[test]
fn second_read_is_served_immediately() {
    let (gate, tree) = cold_tree();
    let mounted = Mounted::of(tree, false);
    assert_eq!(std::fs::read(mounted.at("files/7")).unwrap(), contents(7));
    let before = mounted.deferred();
    assert!(before > 0);
    gate.shut();
    for _ in 0..10 {
        assert_eq!(
            std::fs::metadata(mounted.at("files/7")).unwrap().len(),
            contents(7).len() as u64
        );
        assert!(std::fs::metadata(mounted.at("files/8")).is_ok());
        assert!(!mounted.at("files/none").exists());
    }
    assert_eq!(mounted.deferred(), before);
    gate.open();
}

#[test]
fn a_directory_that_is_read_in_parts_has_every_name_once() {
    let (_gate, tree) = cold_tree();
    let mounted = Mounted::of(tree, false);
    for directory in ["files", "directories"] {
        let listed = std::fs::read_dir(mounted.at(directory)).unwrap();
        let mut names: Vec<String> = listed
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_by_key(|name| name.parse::<usize>().unwrap());
        let expected: Vec<String> = (0..COLD).map(|number| number.to_string()).collect();
        assert_eq!(names, expected, "{directory}");
    }
    // Nothing is held twice: everything is released.
    assert_eq!(mounted.end(), Vec::<String>::new());
}
