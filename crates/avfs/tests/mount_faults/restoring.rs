//! A vault is restored to an earlier state while programs have its files open and mapped.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
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

/// Makes the state with `b` a single change for `undo`: one command that restores it.
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
        assert!(
            fs::read_to_string(mount.path(name)).unwrap() == filled('a'),
            "{name} is something else"
        );
        assert_eq!(
            fs::metadata(mount.path(name)).unwrap().len(),
            LENGTH as u64,
            "{name}"
        );
        assert!(
            ground.avfs(&["cat", name]) == filled('a'),
            "{name} is something else in the vault"
        );
    }
    assert_eq!(
        fs::metadata(mount.path("added")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        names(&mount.dir),
        ["changed", "grown", "removed", "same", "shrunk"]
    );
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

#[test]
fn after_a_restore_paths_show_the_past_and_nothing_else() {
    for way in WAYS {
        let (ground, mount) = changed_since_base();
        prepare(&ground, way);
        // The kernel's caches: contents, attributes, a missing name, a listing.
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
fn handle_opened_before_a_restore_is_stale() {
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
            assert_eq!(
                holder.ask(&format!("write {name} 0 late")),
                stale,
                "{way:?} {name}"
            );
            assert_eq!(
                holder.ask(&format!("write {name} {} late", 2 * LENGTH)),
                stale,
                "{way:?} {name}"
            );
            assert_eq!(holder.ask(&format!("truncate {name} 3")), stale, "{way:?} {name}");
            assert_eq!(holder.ask(&format!("read {name} 0 1")), stale, "{way:?} {name}");
        }
        assert_eq!(holder.ask("append appending late"), stale, "{way:?}");
        assert_eq!(
            holder.ask("read same 0 1"),
            Answer::done("a"),
            "{way:?}: what did not change lives on"
        );
        assert_is_base(&ground, &mount);
        holder.tell("write same 0 z");
        assert!(fs::read_to_string(mount.path("same")).unwrap().starts_with("za"));
    }
}

#[test]
fn mapping_shows_no_byte_of_a_reverted_state() {
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
            assert!(
                seen == Answer::Bus || seen == Answer::done("a"),
                "{way:?} {name}: {seen:?}"
            );
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
    /// The number of restores that have begun plus the number that have returned: odd during one.
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
            let Ok(mut file) = OpenOptions::new().append(true).open(&self.file) else {
                continue;
            };
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

/// Whether a handle was certainly opened before a restore that has returned. One that was opened during a
/// restore may belong to the state after it.
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
            let (reads, appends) = (
                load.reads.load(Ordering::Acquire),
                load.appends.load(Ordering::Acquire),
            );
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
    assert!(
        flaws.is_empty(),
        "{} of them: {:#?}",
        flaws.len(),
        &flaws[..flaws.len().min(5)]
    );
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

const NAMES: [&str; 9] = [
    "linked",
    "linked-and-known-by-the-other-name",
    "linked-and-written",
    "linked-and-removed",
    "removed",
    "removed-and-made",
    "replaced",
    "moved",
    "in/a-directory",
];

fn opened(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

/// Performs, between a checkpoint and the restore, the changes that the names of the files say. The returned
/// descriptors stay open.
fn do_to_files(mount: &Mount) -> Vec<File> {
    let path = |name: &str| mount.path(name);
    let link = |name: &str| fs::hard_link(path(name), path(&format!("{name}-too"))).unwrap();
    NAMES
        .iter()
        .filter(|name| name.starts_with("linked"))
        .for_each(|name| link(name));
    fs::write(path("linked-and-written"), "other").unwrap();
    let mut held: Vec<File> = NAMES.iter().map(|name| opened(&path(name))).collect();
    held.push(opened(&path("linked-and-known-by-the-other-name-too")));
    held.push(File::open(path("in")).unwrap());
    for name in [
        "removed",
        "removed-and-made",
        "in/a-directory",
        "linked-and-removed",
        "linked-and-removed-too",
    ] {
        fs::remove_file(path(name)).unwrap();
    }
    fs::remove_dir(path("in")).unwrap();
    fs::write(path("removed-and-made"), "made").unwrap();
    fs::write(path("temporary"), "temporary").unwrap();
    fs::rename(path("temporary"), path("replaced")).unwrap();
    fs::rename(path("moved"), path("moved-away")).unwrap();
    held
}

/// Asserts that a descriptor and a path are the same file, for the mount and for the vault.
#[track_caller]
fn assert_same_file(ground: &Ground, file: &File, mount: &Mount, name: &str, when: &str) {
    let (held, found) = (file.metadata().unwrap(), fs::metadata(mount.path(name)).unwrap());
    assert_eq!(
        (held.ino(), held.nlink()),
        (found.ino(), found.nlink()),
        "{name} {when}"
    );
    let text = format!("{when:7.7}");
    file.write_all_at(text.as_bytes(), 0).unwrap();
    let read = fs::read_to_string(mount.path(name)).unwrap();
    assert!(
        read.starts_with(&text),
        "{name} {when}: bytes written through the descriptor are lost"
    );
    assert!(
        ground.avfs(&["cat", name]).starts_with(&text),
        "{name} {when}: it is lost in the vault"
    );
}

/// An open file that exists again is the same file as long as its contents are the same.
#[track_caller]
fn assert_removed_file_lives_on(held: &[File], mount: &Mount) {
    for (name, file) in NAMES.iter().zip(held) {
        match *name {
            "linked" | "removed" => {
                let found = fs::metadata(mount.path(name)).unwrap();
                assert_eq!(file.metadata().unwrap().ino(), found.ino(), "{name}");
                file.write_all_at(b"BEFORE", 0).unwrap();
                assert_eq!(
                    fs::read(mount.path(name)).unwrap(),
                    b"BEFORE the checkpoint",
                    "{name}"
                );
            }
            "linked-and-written" => {
                let late = file.write_all_at(b"late", 0).unwrap_err();
                assert_eq!(late.raw_os_error(), Some(Errno::STALE.raw_os_error()), "{name}");
            }
            _ => {}
        }
    }
}

#[test]
fn file_that_is_opened_after_a_restore_stays_the_one_at_its_path() {
    for way in WAYS {
        let ground = Ground::with_vault("work");
        let mount = ground.mount("work", "place");
        fs::create_dir(mount.path("in")).unwrap();
        NAMES
            .iter()
            .for_each(|name| fs::write(mount.path(name), "before the checkpoint").unwrap());
        let number = |name: &str| fs::metadata(mount.path(name)).unwrap().ino();
        let numbers = NAMES.map(number);
        ground.avfs(&["checkpoint", "save", "base"]);
        let held = do_to_files(&mount);
        prepare(&ground, way);
        ground.avfs(way);
        for (name, before) in NAMES.iter().zip(numbers) {
            assert_eq!(number(name), before, "{name} has another number after {way:?}");
        }
        if way != ["undo"] {
            assert_removed_file_lives_on(&held, &mount);
        }
        let files = NAMES.map(|name| opened(&mount.path(name)));
        let check_all = |when: &str| {
            for (name, file) in NAMES.iter().zip(&files) {
                assert_same_file(&ground, file, &mount, name, when);
            }
        };
        // Not written to before: then the vault would know the number.
        ground.avfs(&[&["chmod", "640"], &NAMES[..]].concat());
        check_all("chmod");
        NAMES
            .iter()
            .for_each(|name| drop(ground.avfs_given(&["write", "-a", name], b"more")));
        check_all("append");
        NAMES
            .iter()
            .for_each(|name| drop(ground.avfs(&["mv", name, &format!("{name}.2")])));
        for (name, file) in NAMES.iter().zip(&files) {
            assert_same_file(&ground, file, &mount, &format!("{name}.2"), "moved");
        }
        drop((held, files));
        ground.unmount(mount);
        ground.assert_sound();
    }
}

/// The number of a removed file is not free as long as a program has it open; a process that creates a file
/// of the same name elsewhere does not know that.
#[test]
fn file_that_a_command_makes_where_an_open_one_was_removed_stays_the_one_at_its_path() {
    let ground = Ground::with_vault("work");
    let mount = ground.mount("work", "place");
    fs::write(mount.path("a"), "removed").unwrap();
    let removed = opened(&mount.path("a"));
    fs::remove_file(mount.path("a")).unwrap();
    ground.avfs(&["write", "a", "made by a command"]);
    let made = opened(&mount.path("a"));
    ground.avfs(&["chmod", "640", "a"]);
    assert_same_file(&ground, &made, &mount, "a", "chmod");
    ground.avfs(&["mv", "a", "b"]);
    assert_same_file(&ground, &made, &mount, "b", "moved");
    let mut text = [0; 7];
    removed.read_exact_at(&mut text, 0).unwrap();
    assert_eq!(&text, b"removed", "the removed file is unchanged");
    assert_eq!(removed.metadata().unwrap().nlink(), 0);
    drop((removed, made));
    ground.unmount(mount);
    ground.assert_sound();
}
