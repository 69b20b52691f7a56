//! Ways around the rules: by links, moves of what is above, descriptors, and what is put in place of something.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::program::{end_of, good};
use crate::scene::{Scene, names_in, put, refused, soon, text_of};

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

fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// What is protected is as it was, at its place.
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
    for (name, errno) in [("hidden", Errno::NOENT), ("config", Errno::ACCESS), ("log", Errno::ACCESS)] {
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
fn what_is_above_a_protected_file_does_not_move_as_a_whole() {
    let scene = locked();
    scene.only_host(Errno::XDEV, |top| fs::rename(top.join("top/mid"), top.join("free/mid")));
    fs::rename(scene.host("free/mid"), scene.host("top/mid")).unwrap();
    scene.only_host(Errno::XDEV, |top| fs::rename(top.join("top"), top.join("other")));
    fs::rename(scene.host("other"), scene.host("top")).unwrap();
    scene.only_host(Errno::XDEV, |top| exchange(&top.join("top"), &top.join("free")));
    exchange(&scene.host("top"), &scene.host("free")).unwrap();
    scene.only_host(Errno::XDEV, |top| exchange(&top.join("free"), &top.join("top/mid")));
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
    assert_eq!(fs::read_to_string(moved.join("plain")).unwrap(), text_of("top/mid/plain"));
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
    let scene = Scene::new(&["safe/", "work/"], &["--rule", "/**=write", "--rule", "/safe/**=read"]);
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
fn a_descriptor_is_not_opened_anew_for_more_than_its_file_allows() {
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
    refused(OpenOptions::new().write(true).truncate(true).open(own(&config)), Errno::ACCESS);
    let log = OpenOptions::new().append(true).open(scene.agent("top/mid/log")).unwrap();
    refused(OpenOptions::new().write(true).truncate(true).open(own(&log)), Errno::ACCESS);
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
    scene.only_host(Errno::ACCESS, |top| link(&File::open(top.join("top/mid/config"))?, &top.join("free/c")));
    scene.only_host(Errno::ACCESS, |top| {
        let log = OpenOptions::new().append(true).open(top.join("top/mid/log"))?;
        link(&log, &top.join("free/l"))
    });
    assert_as_it_was(&scene);
}

#[test]
fn a_flag_that_is_taken_off_a_descriptor_takes_no_rule_off() {
    let scene = locked();
    let log = OpenOptions::new().append(true).open(scene.agent("top/mid/log")).unwrap();
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
    refused(OpenOptions::new().write(true).open(scene.agent("top/mid/config")), Errno::ACCESS);
    refused(OpenOptions::new().write(true).open(scene.agent("free/other")), Errno::ACCESS);
    refused(fs::rename(scene.agent("top/mid/config"), scene.agent("free/third")), Errno::ACCESS);
    OpenOptions::new().write(true).open(scene.host("free/other")).unwrap();
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
        soon("the host reads through it", || fs::read(scene.host("free").join(name)).is_ok());
    }
    symlink("../top/mid/config", scene.agent("free/config")).unwrap();
    assert_eq!(fs::read_to_string(scene.agent("free/config")).unwrap(), text_of("top/mid/config"));
    refused(fs::write(scene.agent("free/config"), "x"), Errno::ACCESS);
    assert_as_it_was(&scene);
}

/// A preset, and a directory in which it lets files be made.
const PRESETS: [(&str, &str); 2] = [("agent-safe", "output"), ("development", "project")];

/// Files that tools of the host run, and others beside them that can be made.
const RUN: [(&str, &str); 6] = [
    (".vscode", "tasks.json"),
    (".vscode", "settings.json"),
    (".claude", "settings.json"),
    (".cursor", "mcp.json"),
    (".idea", "workspace.xml"),
    (".husky", "pre-commit"),
];

fn with_preset(preset: &str, names: &[&str]) -> Scene {
    Scene::new(names, &["--preset", preset])
}

#[test]
fn what_tools_of_the_host_run_is_not_written_whether_it_exists_or_not() {
    for (preset, place) in PRESETS {
        let names = [".mcp.json", ".vscode/tasks.json"].map(|name| format!("{place}/{name}"));
        let scene = with_preset(preset, &[&names[0], &names[1], &format!("{place}/sub/")]);
        for directory in [place.to_owned(), format!("{place}/sub")] {
            for name in [".mcp.json", ".bashrc", ".gdbinit", ".gitconfig", "x.code-workspace", ".envrc"] {
                let path = format!("{directory}/{name}");
                scene.only_host(Errno::ACCESS, |top| File::create(top.join(&path)));
            }
            fs::create_dir_all(scene.agent(&directory).join(".vscode")).unwrap();
            scene.only_host(Errno::ACCESS, |top| {
                File::create(top.join(&directory).join(".vscode/tasks.json"))
            });
            File::create(scene.agent(&directory).join(".vscode/other.json")).unwrap();
        }
        let existing = scene.agent(place).join(".mcp.json");
        refused(fs::remove_file(&existing), Errno::ACCESS);
        refused(fs::rename(&existing, scene.agent(place).join("free")), Errno::ACCESS);
    }
}

#[test]
fn a_directory_is_not_prepared_elsewhere_and_put_where_tools_look() {
    for (preset, place) in PRESETS {
        let scene = with_preset(preset, &[&format!("{place}/")]);
        for (directory, file) in RUN {
            let at = |name: &str| scene.agent(place).join(name);
            put(&at("x").join(file), "run this");
            let refusal = rustix::fs::rename(at("x"), at(directory));
            let expected = if is_whole(directory) { Errno::ACCESS } else { Errno::XDEV };
            assert_eq!(refusal, Err(expected), "{preset}: {directory}");
            refused(symlink("x", at(directory)), Errno::ACCESS);
            symlink("x", at("link")).unwrap();
            refused(fs::rename(at("link"), at(directory)), Errno::ACCESS);
            refused(fs::hard_link(at("link"), at(directory)), Errno::ACCESS);
            let mut mv = Command::new("mv");
            mv.args(["x", directory]).current_dir(scene.agent(place));
            assert!(!end_of(mv, b"").status.success());
            assert!(!at(directory).join(file).exists());
            refused(fs::hard_link(at("x").join(file), at(directory).join(file)), missing_or_refused(directory));
            fs::remove_dir_all(at("x")).unwrap();
            fs::remove_file(at("link")).unwrap();
        }
        let host = scene.host(place);
        put(&host.join("x/tasks.json"), "run this");
        soon("nothing of the agent's is there", || !host.join("link").exists());
        _ = fs::remove_dir(host.join(".vscode"));
        fs::rename(host.join("x"), host.join(".vscode")).unwrap();
    }
}

/// Everything in these is run, so they cannot be made at all.
fn is_whole(directory: &str) -> bool {
    matches!(directory, ".idea" | ".husky")
}

fn missing_or_refused(directory: &str) -> Errno {
    if is_whole(directory) { Errno::NOENT } else { Errno::ACCESS }
}

#[test]
fn a_directory_that_exists_is_not_exchanged_for_a_prepared_one() {
    for (preset, place) in PRESETS {
        let scene = with_preset(preset, &[&format!("{place}/.vscode/tasks.json")]);
        put(&scene.agent(place).join("x/tasks.json"), "run this");
        soon("the host sees it", || scene.host(place).join("x/tasks.json").exists());
        scene.only_host(Errno::XDEV, |top| exchange(&top.join(place).join("x"), &top.join(place).join(".vscode")));
    }
}

#[test]
fn a_secret_is_hidden_and_its_name_cannot_be_taken() {
    for (preset, place) in PRESETS {
        let names = [".env", ".ssh/id_rsa", "server.key", ".envrc", "secrets/a", ".netrc"];
        let owned = names.map(|name| format!("{place}/{name}"));
        let scene = with_preset(preset, &owned.each_ref().map(String::as_str));
        for name in names {
            let path = format!("{place}/{name}");
            refused(File::open(scene.agent(&path)), Errno::NOENT);
            let below_hidden = name.contains('/');
            let errno = if below_hidden { Errno::NOENT } else { Errno::ACCESS };
            refused(File::create(scene.agent(&path)), errno);
            assert_eq!(fs::read_to_string(scene.host(&path)).unwrap(), text_of(&path));
        }
        assert_eq!(names_in(&scene.agent(place)), Vec::<String>::new());
        File::create(scene.agent(place).join(".env.example")).map(drop).unwrap_or_else(|error| {
            assert_eq!((preset, error.raw_os_error()), ("agent-safe", Some(Errno::ACCESS.raw_os_error())));
        });
    }
}

#[test]
fn a_program_that_may_only_be_seen_is_not_run_by_a_loader_either() {
    let scene = Scene::new(&[], &["--rule", "/**=write", "--rule", "/bin/**=view"]);
    fs::create_dir(scene.host("bin")).unwrap();
    fs::copy("/bin/true", scene.host("bin/true")).unwrap();
    soon("the agent sees it", || scene.agent("bin/true").exists());
    scene.only_host(Errno::ACCESS, |top| Command::new(top.join("bin/true")).status());
    let loader = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
    let loader = loader.into_iter().find(|path| Path::new(path).exists()).expect("there is a loader");
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
    refused(File::create(scene.agent("top//mid/./../mid//config")), Errno::ACCESS);
    let mut text = String::new();
    File::open(scene.agent("top//mid/./../mid//config")).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, text_of("top/mid/config"));
    let newline = CString::new("top/mid/hidden\n").unwrap();
    File::create(scene.agent.dir.join(std::ffi::OsStr::from_bytes(newline.as_bytes()))).unwrap();
    assert_as_it_was(&scene);
}
