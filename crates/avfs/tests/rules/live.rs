//! Rules that change under programs that run: when `avfs rules apply` has returned, whatever is held obeys.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::scene::{Scene, errno_of, names_in, refused, soon, text_of};

const OPEN: &[&str] = &["/**=write"];

impl Scene {
    /// Gives the agent other rules.
    #[track_caller]
    fn apply(&self, rules: &[&str]) {
        let dir = self.agent.dir.display().to_string();
        let flags = rules.iter().flat_map(|rule| ["--rule", rule]);
        let words: Vec<&str> = ["rules", "apply", &dir].into_iter().chain(flags).collect();
        self.ground.avfs(&words);
    }
}

fn open_scene(names: &[&str]) -> Scene {
    Scene::new(names, &["--rule", OPEN[0]])
}

fn read_first(file: &File) -> std::io::Result<usize> {
    file.read_at(&mut [0; 4], 0)
}

#[test]
fn an_open_file_obeys_each_level() {
    let scene = open_scene(&["f"]);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(scene.agent("f"))
        .unwrap();
    let text = text_of("f");
    let end = text.len() as u64;
    let (denied, fine) = (Some(Errno::ACCESS), None);
    let levels = [
        ("none", denied, denied, denied),
        ("view", denied, denied, denied),
        ("read", fine, denied, denied),
        ("append", fine, fine, denied),
        ("write", fine, fine, fine),
    ];
    for (level, reading, adding, overwriting) in levels {
        scene.apply(&["/**=write"]);
        fs::write(scene.host("f"), &text).unwrap();
        scene.apply(&["/**=write", &format!("/f={level}")]);
        assert_eq!(errno_of(read_first(&file)), reading, "reading at {level}");
        assert_eq!(
            errno_of(file.write_at(b"T", 0)),
            overwriting,
            "overwriting at {level}"
        );
        assert_eq!(errno_of(file.write_at(b"more", end)), adding, "adding at {level}");
        assert_eq!(errno_of(file.set_len(1)), overwriting, "truncating at {level}");
    }
    assert_eq!(fs::read(scene.host("f")).unwrap(), b"T");
}

#[test]
fn names_that_the_kernel_knew_are_gone_at_once_and_back_at_once() {
    let scene = open_scene(&["d/f", "d/g"]);
    for _ in 0..5 {
        assert_eq!(names_in(&scene.agent("d")), ["f", "g"]);
        fs::metadata(scene.agent("d/f")).unwrap();
        scene.apply(&["/**=write", "/d/f=none"]);
        refused(fs::metadata(scene.agent("d/f")), Errno::NOENT);
        refused(File::open(scene.agent("d/f")), Errno::NOENT);
        assert_eq!(names_in(&scene.agent("d")), ["g"]);
        scene.apply(OPEN);
    }
}

#[test]
fn a_held_directory_obeys() {
    held_directory_obeys(&open_scene(&["d/f", "d/sub/g"]));
}

/// Directories of such a mount are opened without asking.
#[test]
fn a_held_directory_of_a_mount_that_had_no_rules_obeys() {
    held_directory_obeys(&Scene::new(&["d/f", "d/sub/g"], &[]));
}

#[track_caller]
fn held_directory_obeys(scene: &Scene) {
    let held = File::open(scene.agent("d")).unwrap();
    let list = || Dir::read_from(&held).and_then(|mut entries| entries.try_for_each(|entry| entry.map(drop)));
    let told = |name: &str| rustix::fs::statat(&held, name, AtFlags::empty()).map(drop);
    let make = |name: &str| {
        let flags = OFlags::CREATE | OFlags::WRONLY;
        rustix::fs::openat(&held, name, flags, Mode::from_raw_mode(0o644)).map(drop)
    };
    let held_open: [Result<(), Errno>; 3] = [list(), told("f"), make("new")];
    assert_eq!(held_open, [Ok(()); 3]);
    scene.apply(&["/**=write", "/d/**=read"]);
    assert_eq!(
        [list(), told("f"), make("more")],
        [Ok(()), Ok(()), Err(Errno::ACCESS)]
    );
    scene.apply(&["/**=write", "/d/**=none"]);
    assert_eq!(told("f"), Err(Errno::NOENT));
    assert_eq!(told("sub/g"), Err(Errno::NOENT));
    // A removed directory may be opened by a process that holds it, and is empty.
    let listed = Dir::read_from(&held).map_or(0, |entries| entries.filter(Result::is_ok).count());
    assert!(make("more").is_err() && listed == 0);
    scene.apply(OPEN);
    assert_eq!([list(), told("f"), make("more")], [Ok(()); 3]);
}

/// A program that performs one action for each line that it gets, and answers `ok` or the number of the
/// error.
struct Puppet(Child, BufReader<std::process::ChildStdout>);

impl Puppet {
    fn new(scene: &Scene, script: &str) -> Puppet {
        let mut python = Command::new("python3");
        python.args(["-uc", script]).current_dir(scene.agent("d"));
        python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Puppet(child, said)
    }

    /// Nothing, if it is gone.
    fn does_it(&mut self) -> String {
        _ = self.0.stdin.as_mut().unwrap().write_all(b"\n");
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn a_process_that_is_in_a_directory_obeys() {
    let scene = open_scene(&["d/f"]);
    let script = "
import sys
for _ in sys.stdin:
    try:
        open('f').read(); print('ok')
    except OSError as error:
        print(error.errno)";
    let mut inside = Puppet::new(&scene, script);
    assert_eq!(inside.does_it(), "ok");
    scene.apply(&["/**=write", "/d/**=none"]);
    assert_eq!(inside.does_it(), Errno::NOENT.raw_os_error().to_string());
    scene.apply(&["/**=write", "/d/f=view"]);
    assert_eq!(inside.does_it(), Errno::ACCESS.raw_os_error().to_string());
    scene.apply(OPEN);
    assert_eq!(inside.does_it(), "ok");
}

#[test]
fn mapping_cannot_be_read_after_the_rules_forbid_it() {
    let scene = open_scene(&["d/f"]);
    let script = "
import mmap, sys
file = open('f', 'rb')
mapping = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
for _ in sys.stdin:
    print('ok', mapping[0])";
    let mut reader = Puppet::new(&scene, script);
    assert_eq!(reader.does_it(), "ok 116");
    scene.apply(&["/**=write", "/d/f=read"]);
    assert_eq!(reader.does_it(), "ok 116");
    scene.apply(&["/**=write", "/d/f=view"]);
    assert_eq!(reader.does_it(), "");
    assert_eq!(reader.0.wait().unwrap().signal(), Some(libc::SIGBUS));
}

#[test]
fn store_to_a_read_only_mapping_does_not_land() {
    let scene = open_scene(&["d/f"]);
    let script = "
import mmap, sys
file = open('f', 'r+b')
mapping = mmap.mmap(file.fileno(), 0)
for letter in 'ABC':
    sys.stdin.readline()
    try:
        mapping[0] = ord(letter); mapping.flush(); print('ok')
    except OSError as error:
        print(error.errno)";
    let mut writer = Puppet::new(&scene, script);
    assert_eq!(writer.does_it(), "ok");
    let first = || fs::read(scene.host("d/f")).unwrap()[0];
    soon("the host sees it", || first() == b'A');
    scene.apply(&["/**=write", "/d/f=read"]);
    assert_eq!(writer.does_it(), Errno::ACCESS.raw_os_error().to_string());
    assert_eq!((first(), fs::read(scene.agent("d/f")).unwrap()[0]), (b'A', b'A'));
    scene.apply(OPEN);
    assert_eq!(writer.does_it(), "ok");
    soon("the host sees it", || first() == b'C');
}

/// The endless actions of two threads, and whether they are allowed.
struct Hammer {
    /// Odd while nothing may succeed: set after the command has returned, and reset before the next one
    /// starts.
    phase: AtomicU64,
    is_over: AtomicBool,
}

/// The counts of one thread.
#[derive(Default)]
struct Blows {
    /// The last phase in which it was refused from beginning to end, and the last in which it succeeded.
    refused: AtomicU64,
    succeeded: AtomicU64,
    /// Got through where nothing may.
    wrong: AtomicU64,
}

/// Ends it, also when the test fails.
struct Over<'a>(&'a Hammer);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

impl Hammer {
    fn strike(&self, blows: &Blows, blow: impl Fn() -> bool) {
        while !self.is_over.load(Ordering::SeqCst) {
            let before = self.phase.load(Ordering::SeqCst);
            let succeeded = blow();
            let after = self.phase.load(Ordering::SeqCst);
            let is_shut = before % 2 == 1 && before == after;
            match (is_shut, succeeded) {
                (true, true) => blows.wrong.store(before, Ordering::SeqCst),
                (true, false) => blows.refused.store(before, Ordering::SeqCst),
                (false, true) => blows.succeeded.store(before, Ordering::SeqCst),
                (false, false) => {}
            }
        }
    }
}

/// How often the rules change in the test below: this many times to closed, and as often back.
const CHANGES: u64 = 100;

#[test]
fn hammering_threads_never_succeed_once_the_command_has_returned() {
    let scene = open_scene(&["d/f"]);
    let shutting = ["/d/f=none", "/d/f=view", "/d/**=none", "/**=view"];
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(scene.agent("d/f"))
        .unwrap();
    let hammer = Hammer {
        phase: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    };
    let (reading, writing) = (Blows::default(), Blows::default());
    let path = scene.agent("d/f");
    std::thread::scope(|scope| {
        scope.spawn(|| hammer.strike(&reading, || read_first(&file).is_ok() || fs::read(&path).is_ok()));
        scope.spawn(|| {
            let by_name = || {
                OpenOptions::new()
                    .append(true)
                    .open(&path)
                    .is_ok_and(|mut file| file.write_all(b"x").is_ok())
            };
            hammer.strike(&writing, || file.write_at(b"t", 0).is_ok() || by_name());
        });
        let _over = Over(&hammer);
        for round in 0..CHANGES {
            let shut = shutting[round as usize % shutting.len()];
            scene.apply(&[
                if shut == "/**=view" {
                    "/x=read"
                } else {
                    "/**=write"
                },
                shut,
            ]);
            let phase = hammer.phase.fetch_add(1, Ordering::SeqCst) + 1;
            for blows in [&reading, &writing] {
                soon("it was refused", || {
                    blows.refused.load(Ordering::SeqCst) == phase || blows.is_wrong()
                });
            }
            hammer.phase.fetch_add(1, Ordering::SeqCst);
            scene.apply(OPEN);
            for blows in [&reading, &writing] {
                soon("it goes on", || {
                    blows.succeeded.load(Ordering::SeqCst) == phase + 1
                });
            }
        }
    });
    assert!(!reading.is_wrong(), "read in phase {:?}", reading.wrong);
    assert!(!writing.is_wrong(), "written in phase {:?}", writing.wrong);
}

impl Blows {
    fn is_wrong(&self) -> bool {
        self.wrong.load(Ordering::SeqCst) > 0
    }
}
