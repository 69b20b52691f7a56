//! Commands change files that programs have open in a mount: both sides immediately see the same contents.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use crate::ground::{Ground, Mount};
use crate::holder::{Answer, Holder};

/// Several pages.
const LENGTH: usize = 20_000;

fn text(with: char, length: usize) -> String {
    String::from(with).repeat(length)
}

/// A mount with a file of `a` that a program has open for reading and writing, and has read.
fn held() -> (Ground, Mount, Holder) {
    let ground = Ground::with_vault("work");
    let mount = ground.mount("work", "place");
    fs::write(mount.path("file"), text('a', LENGTH)).unwrap();
    let mut holder = Holder::start();
    holder.open("file", &mount.path("file"), "O_RDWR");
    holder.open("appending", &mount.path("file"), "O_WRONLY|O_APPEND");
    assert_eq!(holder.tell(&format!("read file 0 {LENGTH}")), text('a', LENGTH));
    (ground, mount, holder)
}

/// The open file, the path and the vault say the same.
#[track_caller]
fn assert_holds(ground: &Ground, mount: &Mount, holder: &mut Holder, expected: &str) {
    let more = expected.len() + 10;
    assert_eq!(
        holder.tell("size file"),
        expected.len().to_string(),
        "the size of the open file"
    );
    assert!(
        holder.tell(&format!("read file 0 {more}")) == expected,
        "the open file has other bytes"
    );
    assert_eq!(
        fs::metadata(mount.path("file")).unwrap().len(),
        expected.len() as u64
    );
    assert!(
        fs::read_to_string(mount.path("file")).unwrap() == expected,
        "the path has other bytes"
    );
    assert!(
        ground.avfs(&["cat", "file"]) == expected,
        "the vault has other bytes"
    );
}

#[test]
fn a_file_that_a_command_grows_and_shrinks_is_right_in_open_files() {
    let (ground, mount, mut holder) = held();
    for (with, length) in [
        ('b', LENGTH * 3),
        ('c', 7),
        ('d', 4096),
        ('e', 4097),
        ('f', 0),
        ('g', LENGTH),
    ] {
        let new = text(with, length);
        ground.avfs_given(&["write", "file"], new.as_bytes());
        assert_holds(&ground, &mount, &mut holder, &new);
    }
}

#[test]
fn appended_lines_of_both_sides_follow_each_other() {
    let (ground, mount, mut holder) = held();
    let mut expected = text('a', LENGTH);
    for round in 0..6 {
        ground.avfs_given(
            &["write", "--append", "file"],
            format!("command-{round}").as_bytes(),
        );
        expected.push_str(&format!("command-{round}"));
        assert_holds(&ground, &mount, &mut holder, &expected);
        holder.tell(&format!("append appending program-{round}"));
        expected.push_str(&format!("program-{round}"));
        assert_holds(&ground, &mount, &mut holder, &expected);
    }
}

/// The kernel caches appended bytes at the place where it believes the end to be.
#[test]
fn blind_append_lands_at_the_end() {
    let (ground, mount, mut holder) = held();
    let mut expected = text('a', LENGTH);
    for round in 0..6 {
        ground.avfs_given(
            &["write", "--append", "file"],
            format!("command-{round}").as_bytes(),
        );
        holder.tell(&format!("append appending program-{round}"));
        expected.push_str(&format!("command-{round}program-{round}"));
        let found = fs::read_to_string(mount.path("file")).unwrap();
        assert!(
            found == expected,
            "{} bytes of {} are right",
            same(&found, &expected),
            expected.len()
        );
    }
    assert_holds(&ground, &mount, &mut holder, &expected);
}

#[test]
fn writes_are_in_the_vault_before_the_program_closes_or_syncs() {
    let (ground, mount, mut holder) = held();
    holder.tell("write file 5000 XYZ");
    let mut expected = text('a', LENGTH);
    expected.replace_range(5000..5003, "XYZ");
    assert_holds(&ground, &mount, &mut holder, &expected);
    holder.tell("truncate file 5002");
    assert_holds(&ground, &mount, &mut holder, &expected[..5002]);
}

#[test]
fn a_mapping_shows_what_a_command_wrote() {
    let (ground, mount, mut holder) = held();
    holder.tell("map file");
    assert_eq!(holder.tell("peek file 0 4"), "aaaa");
    for with in ['b', 'c'] {
        ground.avfs_given(&["write", "file"], text(with, LENGTH).as_bytes());
        let last = LENGTH - 4;
        assert_eq!(holder.tell("peek file 0 4"), text(with, 4));
        assert_eq!(holder.tell(&format!("peek file {last} 4")), text(with, 4));
    }
    holder.tell("poke file 0 mapped");
    holder.tell("push file");
    let expected = format!("mapped{}", text('c', LENGTH - 6));
    assert_holds(&ground, &mount, &mut holder, &expected);
}

#[test]
fn a_mapping_ends_where_a_command_cut_the_file() {
    let (ground, mount, mut holder) = held();
    holder.tell("map file");
    assert_eq!(holder.tell("peek file 16000 4"), "aaaa");
    ground.avfs_given(&["write", "file"], b"short");
    assert_eq!(holder.tell("peek file 0 8"), "short\0\0\0");
    assert_eq!(holder.ask("peek file 16000 4"), Answer::Bus);
    assert_eq!(fs::read_to_string(mount.path("file")).unwrap(), "short");
}

#[test]
fn open_file_outlives_its_removal_by_a_command() {
    let (ground, mount, mut holder) = held();
    ground.avfs(&["rm", "file"]);
    assert_missing(&mount, "file");
    assert_eq!(holder.tell("read file 0 4"), "aaaa");
    holder.tell("write file 0 unseen");
    assert_eq!(holder.tell("read file 0 6"), "unseen");
    ground.avfs_given(&["write", "file"], b"another one");
    assert_eq!(fs::read_to_string(mount.path("file")).unwrap(), "another one");
    assert_eq!(
        holder.tell("read file 0 6"),
        "unseen",
        "the old one is no other one"
    );
}

#[test]
fn a_file_that_a_command_renames_stays_open() {
    let (ground, mount, mut holder) = held();
    assert_missing(&mount, "renamed");
    let number = inode(&mount.path("file"));
    ground.avfs(&["mv", "file", "renamed"]);
    assert_missing(&mount, "file");
    assert_eq!(inode(&mount.path("renamed")), number);
    holder.tell("write file 0 still");
    assert!(
        fs::read_to_string(mount.path("renamed"))
            .unwrap()
            .starts_with("stilla")
    );
    assert!(ground.avfs(&["cat", "renamed"]).starts_with("stilla"));
    assert_eq!(names(&mount.dir), ["renamed"]);
}

#[test]
fn a_renamed_file_stays_open_while_others_write() {
    let (ground, mount, mut holder) = held();
    fs::create_dir(mount.path("dir")).unwrap();
    fs::write(mount.path("dir/there"), "in the way").unwrap();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Acquire) {
                fs::write(mount.path("other"), text('o', 100)).unwrap();
            }
        });
        ground.avfs(&["mv", "file", "dir/there"]);
        over.store(true, std::sync::atomic::Ordering::Release);
    });
    assert_missing(&mount, "file");
    holder.tell("append appending late");
    assert_eq!(
        fs::read_to_string(mount.path("dir/there")).unwrap(),
        text('a', LENGTH) + "late"
    );
    assert_eq!(ground.avfs(&["cat", "dir/there"]), text('a', LENGTH) + "late");
}

#[test]
fn process_in_a_directory_that_a_command_moves_continues_there() {
    let (ground, mount, mut holder) = held();
    fs::create_dir_all(mount.path("one/below")).unwrap();
    fs::create_dir(mount.path("two")).unwrap();
    holder.open(
        "inside",
        &mount.path("one/below/log"),
        "O_WRONLY|O_APPEND|O_CREAT",
    );
    holder.tell("append inside before-");
    let inside = fs::File::open(mount.path("one")).unwrap();
    ground.avfs(&["mv", "one", "two/moved"]);
    holder.tell("append inside after");
    rustix::fs::mkdirat(&inside, "made", rustix::fs::Mode::RWXU).unwrap();
    drop(inside);
    assert_missing(&mount, "one");
    assert_eq!(
        fs::read_to_string(mount.path("two/moved/below/log")).unwrap(),
        "before-after"
    );
    assert_eq!(names(&mount.path("two/moved")), ["below", "made"]);
    assert_eq!(ground.avfs(&["cat", "two/moved/below/log"]), "before-after");
    drop(holder);
    ground.unmount(mount);
    assert_eq!(ground.avfs(&["cat", "two/moved/below/log"]), "before-after");
    ground.assert_sound();
}

#[test]
fn a_file_that_a_command_copies_over_another_shows_at_once() {
    let (ground, mount, mut holder) = held();
    assert_missing(&mount, "copy");
    ground.avfs(&["cp", "file", "copy"]);
    assert_eq!(fs::read_to_string(mount.path("copy")).unwrap(), text('a', LENGTH));
    fs::write(mount.path("other"), "other").unwrap();
    ground.avfs(&["cp", "other", "file"]);
    assert_eq!(fs::read_to_string(mount.path("file")).unwrap(), "other");
    holder.tell("write file 0 again");
    assert_eq!(
        fs::read_to_string(mount.path("copy")).unwrap(),
        text('a', LENGTH),
        "copies are apart"
    );
}

#[test]
fn listings_and_missing_names_follow_commands() {
    let ground = Ground::with_vault("work");
    let mount = ground.mount("work", "place");
    fs::create_dir(mount.path("dir")).unwrap();
    for round in 0..10 {
        let (made, inside) = (format!("made-{round}"), format!("dir/inside-{round}"));
        assert_missing(&mount, &made);
        assert_missing(&mount, &inside);
        (0..2).for_each(|_| drop((names(&mount.dir), names(&mount.path("dir")))));
        ground.avfs_given(&["write", &made], b"1");
        ground.avfs_given(&["write", &inside], b"2");
        assert_eq!(fs::read_to_string(mount.path(&made)).unwrap(), "1");
        assert!(names(&mount.dir).contains(&made));
        assert_eq!(names(&mount.path("dir")), [format!("inside-{round}")]);
        ground.avfs(&["rm", &made, &inside]);
        assert_eq!(names(&mount.dir), ["dir"]);
        assert!(names(&mount.path("dir")).is_empty());
    }
}

#[test]
fn a_program_that_follows_a_log_gets_every_line_once() {
    let ground = Ground::with_vault("work");
    let mount = ground.mount("work", "place");
    let path = mount.path("log");
    fs::write(&path, "").unwrap();
    let mut log = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let mut follower = fs::File::open(&path).unwrap();
    let (mut written, mut read) = (String::new(), String::new());
    for round in 0..20 {
        let line = format!("line {round} {}\n", text('x', round * 211));
        if round % 2 == 0 {
            ground.avfs_given(&["write", "--append", "log"], line.as_bytes());
        } else {
            log.write_all(line.as_bytes()).unwrap();
        }
        written.push_str(&line);
        std::io::Read::read_to_string(&mut follower, &mut read).unwrap();
        assert!(
            read == written,
            "after {round}: {} of {} bytes are right",
            same(&read, &written),
            written.len()
        );
    }
}

fn same(one: &str, other: &str) -> usize {
    one.bytes()
        .zip(other.bytes())
        .take_while(|(one, other)| one == other)
        .count()
}

#[track_caller]
fn assert_missing(mount: &Mount, name: &str) {
    assert_eq!(
        fs::metadata(mount.path(name)).unwrap_err().kind(),
        ErrorKind::NotFound,
        "{name}"
    );
}

fn inode(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap())
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}
