//! A vault is taken back in time while programs have its files open and mapped.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;

use crate::ground::{Ground, Mount};
use crate::holder::{Answer, Holder};
use crate::program::await_that;

/// Several pages, so that some of them are never read before the restore.
const LENGTH: usize = 64 << 10;

fn filled(with: char) -> String {
    String::from(with).repeat(LENGTH)
}

/// A vault with files of `a`, kept as the checkpoint `base`; by now they hold `b`, and another length.
fn changed_since_base() -> (Ground, Mount) {
    let ground = Ground::with_vault("work");
    let mount = ground.mount("work", "place");
    for name in ["same", "changed", "grown", "shrunk", "removed"] {
        fs::write(mount.path(name), filled('a')).unwrap();
    }
    ground.avfs(&["checkpoint", "save", "base"]);
    fs::write(mount.path("changed"), filled('b')).unwrap();
    fs::write(mount.path("grown"), filled('b').repeat(2)).unwrap();
    fs::write(mount.path("shrunk"), "b").unwrap();
    fs::remove_file(mount.path("removed")).unwrap();
    fs::write(mount.path("added"), filled('b')).unwrap();
    (ground, mount)
}

/// The ways back.
const WAYS: [&[&str]; 2] = [&["checkpoint", "restore", "base"], &["undo"]];

/// Makes the state with `b` a single change for `undo`: one command that says so.
fn prepare(ground: &Ground, way: &[&str]) {
    if way == ["undo"] {
        ground.avfs(&["checkpoint", "save", "later"]);
        ground.avfs(&["checkpoint", "restore", "base"]);
        ground.avfs(&["checkpoint", "restore", "later"]);
    }
}

#[track_caller]
fn assert_is_base(ground: &Ground, mount: &Mount) {
    for name in ["same", "changed", "grown", "shrunk", "removed"] {
        assert!(fs::read_to_string(mount.path(name)).unwrap() == filled('a'), "{name} is something else");
        assert_eq!(fs::metadata(mount.path(name)).unwrap().len(), LENGTH as u64, "{name}");
        assert!(ground.avfs(&["cat", name]) == filled('a'), "{name} is something else in the vault");
    }
    assert_eq!(fs::metadata(mount.path("added")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(names(&mount.dir), ["changed", "grown", "removed", "same", "shrunk"]);
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

#[test]
fn after_a_restore_paths_show_the_past_and_nothing_else() {
    for way in WAYS {
        let (ground, mount) = changed_since_base();
        prepare(&ground, way);
        // What the kernel knows: contents, attributes, a name that is missing, a listing.
        for name in ["same", "changed", "grown", "shrunk", "added"] {
            fs::read(mount.path(name)).unwrap();
        }
        assert!(fs::metadata(mount.path("removed")).is_err());
        (0..2).for_each(|_| drop(names(&mount.dir)));
        ground.avfs(way);
        assert_is_base(&ground, &mount);
        ground.unmount(mount);
        assert_is_base(&ground, &ground.mount("work", "place"));
    }
}

#[test]
fn what_was_open_before_a_restore_is_stale() {
    for way in WAYS {
        let (ground, mount) = changed_since_base();
        prepare(&ground, way);
        let mut holder = Holder::start();
        for name in ["changed", "grown", "shrunk", "added"] {
            holder.open(name, &mount.path(name), "O_RDWR");
            holder.tell(&format!("read {name} 0 1"));
        }
        holder.open("appending", &mount.path("grown"), "O_WRONLY|O_APPEND");
        holder.open("same", &mount.path("same"), "O_RDWR");
        ground.avfs(way);
        let stale = Answer::failed("ESTALE");
        for name in ["changed", "grown", "shrunk", "added"] {
            assert_eq!(holder.ask(&format!("write {name} 0 late")), stale, "{way:?} {name}");
            assert_eq!(holder.ask(&format!("write {name} {} late", 2 * LENGTH)), stale, "{way:?} {name}");
            assert_eq!(holder.ask(&format!("truncate {name} 3")), stale, "{way:?} {name}");
            assert_eq!(holder.ask(&format!("read {name} 0 1")), stale, "{way:?} {name}");
        }
        assert_eq!(holder.ask("append appending late"), stale, "{way:?}");
        assert_eq!(holder.ask("read same 0 1"), Answer::done("a"), "{way:?}: what did not change lives on");
        assert_is_base(&ground, &mount);
        holder.tell("write same 0 z");
        assert!(fs::read_to_string(mount.path("same")).unwrap().starts_with("za"));
    }
}

#[test]
fn a_mapping_shows_no_byte_of_what_was_taken_back() {
    for way in WAYS {
        for name in ["changed", "grown", "added"] {
            let (ground, mount) = changed_since_base();
            prepare(&ground, way);
            let mut holder = Holder::start();
            holder.open(name, &mount.path(name), "O_RDWR");
            holder.tell(&format!("map {name}"));
            assert_eq!(holder.tell(&format!("peek {name} 0 1")), "b");
            ground.avfs(way);
            let seen = holder.ask(&format!("peek {name} 0 1"));
            assert!(seen == Answer::Bus || seen == Answer::done("a"), "{way:?} {name}: {seen:?}");
            assert_is_base(&ground, &mount);
        }
    }
}

#[test]
fn a_late_store_to_a_mapping_changes_nothing() {
    for way in WAYS {
        let (ground, mount) = changed_since_base();
        prepare(&ground, way);
        let mut holder = Holder::start();
        holder.open("changed", &mount.path("changed"), "O_RDWR");
        holder.tell("map changed");
        // The page is mapped for writing, and dirty when the restore comes.
        holder.tell("poke changed 0 dirty");
        ground.avfs(way);
        assert_is_base(&ground, &mount);
        if holder.ask("poke changed 8 late") != Answer::Bus {
            holder.ask("push changed");
        }
        drop(holder);
        assert_is_base(&ground, &mount);
        ground.unmount(mount);
        assert_is_base(&ground, &ground.mount("work", "place"));
    }
}

/// Everything that readers and appenders share.
struct Load {
    file: PathBuf,
    /// How many restores have begun and how many have returned, added: odd while one is under way.
    epoch: AtomicU64,
    over: AtomicBool,
    reads: AtomicU64,
    appends: AtomicU64,
    flaws: Mutex<Vec<String>>,
}

impl Load {
    fn flaw(&self, what: String) {
        self.flaws.lock().unwrap().push(what);
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Reads by path.
    fn read_for_ever(&self) {
        while !self.over.load(Ordering::Acquire) {
            let epoch = self.epoch();
            let mut text = String::new();
            match File::open(&self.file).and_then(|mut file| file.read_to_string(&mut text)) {
                Ok(_) => self.judge(&text, epoch),
                // The restore came between opening and reading.
                Err(error) if is_stale(&error) => {}
                Err(error) => self.flaw(format!("reading: {error}")),
            }
            self.reads.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Lines after the first say when their handle was opened.
    fn judge(&self, text: &str, epoch: u64) {
        let mut lines = text.split_inclusive('\n');
        if lines.next() != Some("base\n") {
            self.flaw(format!("not the base: {:?}", text.get(..40)));
        }
        for line in lines {
            let opened = line.strip_suffix('\n').and_then(|line| line.parse().ok());
            if opened.is_none_or(|opened| is_taken_back(opened, epoch)) {
                return self.flaw(format!("at {epoch} there is {line:?}"));
            }
        }
    }

    /// Appends through one handle until it is stale.
    fn append_for_ever(&self) {
        while !self.over.load(Ordering::Acquire) {
            let opened = self.epoch();
            let Ok(mut file) = OpenOptions::new().append(true).open(&self.file) else { continue };
            while !self.over.load(Ordering::Acquire) {
                let epoch = self.epoch();
                match file.write_all(format!("{opened}\n").as_bytes()) {
                    Ok(()) if is_taken_back(opened, epoch) => {
                        self.flaw(format!("appended at {epoch} by a handle of {opened}"));
                    }
                    Ok(()) => drop(self.appends.fetch_add(1, Ordering::AcqRel)),
                    Err(error) if is_stale(&error) => break,
                    Err(error) => return self.flaw(format!("appending: {error}")),
                }
            }
        }
    }
}

/// Whether a handle was surely opened before a restore that has returned. What was opened while one was under
/// way may be of after it.
fn is_taken_back(opened: u64, epoch: u64) -> bool {
    opened + 1 < epoch / 2 * 2
}

fn is_stale(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::STALE.raw_os_error())
}

#[test]
fn under_load_no_byte_from_before_a_restore_is_read_after_it() {
    const RESTORES: u64 = 12;
    let ground = Ground::with_vault("work");
    let mount = ground.mount("work", "place");
    fs::write(mount.path("file"), "base\n").unwrap();
    ground.avfs(&["checkpoint", "save", "base"]);
    let load = Load {
        file: mount.path("file"),
        epoch: AtomicU64::new(0),
        over: AtomicBool::new(false),
        reads: AtomicU64::new(0),
        appends: AtomicU64::new(0),
        flaws: Mutex::default(),
    };
    std::thread::scope(|scope| {
        (0..2).for_each(|_| drop(scope.spawn(|| load.read_for_ever())));
        (0..2).for_each(|_| drop(scope.spawn(|| load.append_for_ever())));
        let _over = Over(&load.over);
        for _ in 0..RESTORES {
            let (reads, appends) = (load.reads.load(Ordering::Acquire), load.appends.load(Ordering::Acquire));
            await_that("everybody has done something", Duration::from_secs(20), || {
                let is_done = load.reads.load(Ordering::Acquire) > reads + 5
                    && load.appends.load(Ordering::Acquire) > appends + 5;
                is_done || !load.flaws.lock().unwrap().is_empty()
            });
            load.epoch.fetch_add(1, Ordering::AcqRel);
            ground.avfs(&["checkpoint", "restore", "base"]);
            load.epoch.fetch_add(1, Ordering::AcqRel);
        }
    });
    let flaws = load.flaws.into_inner().unwrap();
    assert!(flaws.is_empty(), "{} of them: {:#?}", flaws.len(), &flaws[..flaws.len().min(5)]);
    ground.unmount(mount);
    ground.assert_sound();
}

/// Ends the threads of a test also when it fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
