//! Attempts to bypass the rules: by links, moves of parents, descriptors, and replacements of entries.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::program::{end_of, good};
use crate::scene::{Scene, exchange, names_in, refused, soon, text_of};

/// One name of each level, below two directories that can be written.
const LOCKED: &[&str] = &[
    "--rule",
    "/**=write",
    "--rule",
    "/top/mid/hidden=none",
    "--rule",
    "/top/mid/config=read",
    "--rule",
    "/top/mid/log=append",
    "--rule",
    "/top/mid/seen=view",
];

fn locked() -> Scene {
    let names = ["hidden", "config", "log", "seen", "plain"].map(|name| format!("top/mid/{name}"));
    let names: Vec<&str> = names.iter().map(String::as_str).chain(["free/plain"]).collect();
    Scene::new(&names, LOCKED)
}

/// Asserts that protected files are unchanged, at their place.
#[track_caller]
fn assert_as_it_was(scene: &Scene) {
    for name in ["hidden", "config", "log", "seen"] {
        let name = format!("top/mid/{name}");
        assert_eq!(fs::read_to_string(scene.host(&name)).unwrap(), text_of(&name));
    }
}

#[test]
fn a_protected_file_is_not_linked_to_a_free_name_nor_moved_there() {
    let scene = locked();
    for (name, errno) in [
        ("hidden", Errno::NOENT),
        ("config", Errno::ACCESS),
        ("log", Errno::ACCESS),
    ] {
        let from = scene.agent("top/mid").join(name);
        refused(fs::hard_link(&from, scene.agent("free/new")), errno);
        refused(fs::rename(&from, scene.agent("free/new")), errno);
        refused(fs::rename(&from, scene.agent("free/plain")), errno);
        refused(exchange(&from, &scene.agent("free/plain")), errno);
        refused(exchange(&scene.agent("free/plain"), &from), errno);
    }
    assert_as_it_was(&scene);
    for name in ["hidden", "config", "log"] {
        let from = scene.host("top/mid").join(name);
        fs::hard_link(&from, scene.host("free/new")).unwrap();
        fs::remove_file(scene.host("free/new")).unwrap();
        exchange(&from, &scene.host("free/plain")).unwrap();
        exchange(&from, &scene.host("free/plain")).unwrap();
    }
}

#[test]
fn directory_above_a_protected_file_does_not_move_as_a_whole() {
    let scene = locked();
    scene.only_host(Errno::XDEV, |top| {
        fs::rename(top.join("top/mid"), top.join("free/mid"))
    });
    fs::rename(scene.host("free/mid"), scene.host("top/mid")).unwrap();
    scene.only_host(Errno::XDEV, |top| fs::rename(top.join("top"), top.join("other")));
    fs::rename(scene.host("other"), scene.host("top")).unwrap();
    scene.only_host(Errno::XDEV, |top| exchange(&top.join("top"), &top.join("free")));
    exchange(&scene.host("top"), &scene.host("free")).unwrap();
    scene.only_host(Errno::XDEV, |top| {
        exchange(&top.join("free"), &top.join("top/mid"))
    });
    exchange(&scene.host("free"), &scene.host("top/mid")).unwrap();
    assert_as_it_was(&scene);
}

#[test]
fn mv_of_what_is_above_copies_what_may_be_read_and_leaves_the_rest() {
    let scene = locked();
    let mut mv = Command::new("mv");
    mv.args(["top", "other"]).current_dir(&scene.agent.dir);
    assert!(!end_of(mv, b"").status.success());
    assert_as_it_was(&scene);
    let moved = scene.agent("other/mid");
    assert_eq!(
        fs::read_to_string(moved.join("plain")).unwrap(),
        text_of("top/mid/plain")
    );
    assert!(!moved.join("hidden").exists() && !moved.join("seen").exists());
}

#[test]
fn a_rule_at_any_depth_goes_along_with_what_moves() {
    let scene = Scene::new(&["a/b/key"], &["--rule", "/**=write", "--rule", "**/key=none"]);
    let before = fs::metadata(scene.agent("a/b")).unwrap().ino();
    fs::rename(scene.agent("a/b"), scene.agent("c")).unwrap();
    assert_eq!(fs::metadata(scene.agent("c")).unwrap().ino(), before);
    refused(fs::read(scene.agent("c/key")), Errno::NOENT);
    refused(File::create(scene.agent("c/key")), Errno::ACCESS);
    soon("the host sees it there", || scene.host("c/key").exists());
}

#[test]
fn a_held_directory_leads_where_it_is_and_not_where_its_name_now_leads() {
    let scene = Scene::new(
        &["safe/", "work/"],
        &["--rule", "/**=write", "--rule", "/safe/**=read"],
    );
    let held = File::open(scene.agent("work")).unwrap();
    fs::rename(scene.agent("work"), scene.agent("moved")).unwrap();
    symlink("safe", scene.agent("work")).unwrap();
    let make = |name: &str| {
        let flags = OFlags::CREATE | OFlags::WRONLY;
        rustix::fs::openat(&held, name, flags, Mode::from_raw_mode(0o644)).map(drop)
    };
    assert_eq!(make("new"), Ok(()));
    assert!(scene.agent("moved/new").exists());
    assert_eq!(make("../safe/new"), Err(Errno::ACCESS));
    assert_eq!(make("../work/new"), Err(Errno::ACCESS));
    assert_eq!(names_in(&scene.host("safe")), Vec::<String>::new());
    File::create(scene.host("safe/new")).unwrap();
}

#[test]
fn descriptor_is_not_reopened_with_more_access_than_its_file_allows() {
    let scene = locked();
    let own = |file: &File| format!("/proc/self/fd/{}", file.as_raw_fd());
    let only_named = |path: &Path| {
        let path_only = OFlags::PATH.bits() as i32;
        OpenOptions::new().read(true).custom_flags(path_only).open(path)
    };
    let seen = only_named(&scene.agent("top/mid/seen")).unwrap();
    refused(File::open(own(&seen)), Errno::ACCESS);
    let config = File::open(scene.agent("top/mid/config")).unwrap();
    refused(OpenOptions::new().write(true).open(own(&config)), Errno::ACCESS);
    refused(
        OpenOptions::new().write(true).truncate(true).open(own(&config)),
        Errno::ACCESS,
    );
    let log = OpenOptions::new()
        .append(true)
        .open(scene.agent("top/mid/log"))
        .unwrap();
    refused(
        OpenOptions::new().write(true).truncate(true).open(own(&log)),
        Errno::ACCESS,
    );
    refused(only_named(&scene.agent("top/mid/hidden")), Errno::NOENT);
    let host = only_named(&scene.host("top/mid/seen")).unwrap();
    OpenOptions::new().write(true).open(own(&host)).unwrap();
}

#[test]
fn a_descriptor_is_not_given_another_name() {
    let scene = locked();
    let link = |file: &File, to: &Path| {
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(rustix::fs::linkat(CWD, own, CWD, to, AtFlags::SYMLINK_FOLLOW)?)
    };
    scene.only_host(Errno::ACCESS, |top| {
        link(&File::open(top.join("top/mid/config"))?, &top.join("free/c"))
    });
    scene.only_host(Errno::ACCESS, |top| {
        let log = OpenOptions::new().append(true).open(top.join("top/mid/log"))?;
        link(&log, &top.join("free/l"))
    });
    assert_as_it_was(&scene);
}

#[test]
fn a_flag_that_is_taken_off_a_descriptor_takes_no_rule_off() {
    let scene = locked();
    let log = OpenOptions::new()
        .append(true)
        .open(scene.agent("top/mid/log"))
        .unwrap();
    rustix::fs::fcntl_setfl(&log, OFlags::empty()).unwrap();
    assert_eq!(rustix::io::pwrite(&log, b"over", 0), Err(Errno::ACCESS));
    assert_eq!(rustix::fs::ftruncate(&log, 0), Err(Errno::ACCESS));
    rustix::fs::fcntl_setfl(&log, OFlags::APPEND).unwrap();
    (&log).write_all(b"more").unwrap();
    let text = fs::read_to_string(scene.agent("top/mid/log")).unwrap();
    assert_eq!(text, text_of("top/mid/log") + "more");
}

#[test]
fn a_mapping_does_not_change_what_may_only_be_added_to() {
    let scene = locked();
    let both = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
    let write = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    scene.only_host(Errno::ACCESS, |top| {
        Ok(crate::acts::map(&both(&top.join("top/mid/log"))?, write)?)
    });
    let shown = fs::read(scene.agent("top/mid/log")).unwrap();
    assert_eq!(shown[1..], text_of("top/mid/log").as_bytes()[1..]);
}

#[test]
fn a_file_with_a_protected_name_and_a_free_one_has_the_stricter_level_of_those_that_were_seen() {
    let scene = locked();
    fs::hard_link(scene.host("top/mid/config"), scene.host("free/other")).unwrap();
    soon("both names are seen", || scene.agent("free/other").exists());
    refused(
        OpenOptions::new().write(true).open(scene.agent("top/mid/config")),
        Errno::ACCESS,
    );
    refused(
        OpenOptions::new().write(true).open(scene.agent("free/other")),
        Errno::ACCESS,
    );
    refused(
        fs::rename(scene.agent("top/mid/config"), scene.agent("free/third")),
        Errno::ACCESS,
    );
    OpenOptions::new()
        .write(true)
        .open(scene.host("free/other"))
        .unwrap();
    assert_as_it_was(&scene);
}

#[test]
fn a_symbolic_link_leads_to_what_the_rules_allow_there() {
    let scene = locked();
    for (name, errno) in [("hidden", Errno::NOENT), ("seen", Errno::ACCESS)] {
        let (link, target) = (scene.agent("free").join(name), Path::new("../top/mid").join(name));
        symlink(&target, &link).unwrap();
        refused(fs::read(&link), errno);
        refused(fs::write(&link, "x"), Errno::ACCESS);
        soon("the host reads through it", || {
            fs::read(scene.host("free").join(name)).is_ok()
        });
    }
    symlink("../top/mid/config", scene.agent("free/config")).unwrap();
    assert_eq!(
        fs::read_to_string(scene.agent("free/config")).unwrap(),
        text_of("top/mid/config")
    );
    refused(fs::write(scene.agent("free/config"), "x"), Errno::ACCESS);
    assert_as_it_was(&scene);
}

#[test]
fn a_program_that_may_only_be_seen_is_not_run_by_a_loader_either() {
    let scene = Scene::new(&[], &["--rule", "/**=write", "--rule", "/bin/**=view"]);
    fs::create_dir(scene.host("bin")).unwrap();
    fs::copy("/bin/true", scene.host("bin/true")).unwrap();
    soon("the agent sees it", || scene.agent("bin/true").exists());
    scene.only_host(Errno::ACCESS, |top| Command::new(top.join("bin/true")).status());
    let loader = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
    let loader = loader
        .into_iter()
        .find(|path| Path::new(path).exists())
        .expect("there is a loader");
    let through = |path: &Path| {
        let mut command = Command::new(loader);
        command.arg(path);
        end_of(command, b"").status.success()
    };
    assert!(!through(&scene.agent("bin/true")));
    assert!(through(&scene.host("bin/true")));
    let mut cat = Command::new("cat");
    cat.arg(scene.host("bin/true"));
    assert!(!good(cat, b"").is_empty());
}

#[test]
fn names_that_are_no_names_are_refused_and_make_nothing() {
    let scene = locked();
    let long = "n".repeat(256);
    refused(File::create(scene.agent(&long)), Errno::NAMETOOLONG);
    refused(
        File::create(scene.agent("top//mid/./../mid//config")),
        Errno::ACCESS,
    );
    let mut text = String::new();
    File::open(scene.agent("top//mid/./../mid//config"))
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, text_of("top/mid/config"));
    let newline = CString::new("top/mid/hidden\n").unwrap();
    File::create(
        scene
            .agent
            .dir
            .join(std::ffi::OsStr::from_bytes(newline.as_bytes())),
    )
    .unwrap();
    assert_as_it_was(&scene);
}
