//! Sandboxes on images that a container runtime builds: the same as by bubblewrap, and nothing left of them. Needs runc
//! and crun.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::images::with_image;
use crate::ordinary::User;
use crate::program::{LIMIT, await_that, end_of};
use crate::rootfs::rootfs;
use crate::runs::{Answer, EVERYTHING, Runs, outside};
use crate::together::{Going, mounted_runs, odd_time, processes_with, signal};

const IN_CONTAINER: [&str; 4] = ["--isolation", "oci", "--image", "small"];

/// The version in the first line of what a program says.
fn version(program: &str) -> String {
    let said = outside(&format!("{program} --version | head -1"));
    said.trim().rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn a_container_runs_the_same_command_on_the_same_files() {
    let runs = with_image(r#"{"Env":["GREETING=hello","PATH=/bin"]}"#);
    let answer = runs.free(
        &IN_CONTAINER,
        "cat /etc/os-release; id -u; pwd; echo $GREETING; echo text > file; echo 3.0 > /opt; echo aside >&2; exit 7",
    );
    assert_eq!(
        answer.stdout(),
        "ID=small\n0\n/workspace\nhello\n",
        "{:#}",
        answer.value
    );
    assert_eq!((answer.stderr(), answer.status), ("aside\n".to_owned(), 7));
    assert_eq!(answer.changes(), ["added /file"]);
    assert_eq!(answer.text("isolation"), format!("runc {}", version("runc")));
    // What it installed is there for other runs, whatever makes their sandboxes.
    assert_eq!(runs.prints(&["--image", "small"], "cat /opt"), "3.0\n");
}

#[test]
fn another_runtime_is_a_setting() {
    let runs = with_image("{}");
    let with = |runtime: &str| {
        let words = [&IN_CONTAINER[..], &["--", "id", "-u"]].concat();
        let avfs = runs.command(&words);
        // crun does not work where a second hierarchy of control groups lies beside the first.
        let alone = "if grep -q ' /sys/fs/cgroup/unified cgroup2 ' /proc/mounts; then umount /sys/fs/cgroup/unified; fi; \
                     exec \"$@\"";
        let mut command = Command::new("unshare");
        command
            .args(["-m", "sh", "-c", alone, "sh"])
            .arg(avfs.get_program());
        command
            .args(avfs.get_args())
            .current_dir(avfs.get_current_dir().unwrap());
        for (name, value) in avfs.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("AVFS_CONTAINERS_RUNTIME", runtime);
        Answer::of(&end_of(command, b""))
    };
    let answer = with("crun");
    assert_eq!(answer.stdout(), "0\n", "{:#}", answer.value);
    assert_eq!(answer.text("isolation"), format!("crun {}", version("crun")));
    let path = outside("command -v crun");
    assert_eq!(with(path.trim()).stdout(), "0\n");
    let absent = with("no-such-runtime");
    assert_eq!(absent.error_code(), "cannot_isolate");
    let message = absent.value["error"]["message"].as_str().unwrap();
    assert!(message.contains("no-such-runtime"), "{message}");
    let broken = with("/bin/false");
    assert_eq!(broken.error_code(), "cannot_isolate", "{:#}", broken.value);
}

#[test]
fn container_has_an_unprivileged_user_outside_and_no_network() {
    let runs = with_image("{}");
    let map = runs.prints(&IN_CONTAINER, "cat /proc/self/uid_map");
    let ids: Vec<&str> = map.split_whitespace().collect();
    assert_eq!((ids[0], ids[2]), ("0", "1"), "{map}");
    assert_ne!(ids[1], "0", "{map}");
    assert_eq!(
        runs.prints(
            &IN_CONTAINER,
            "while read line; do echo \"${line%%:*}\"; done </proc/net/dev"
        )
        .lines()
        .filter(|line| !line.contains('|'))
        .collect::<Vec<_>>(),
        ["lo"]
    );
    assert_ne!(
        runs.free(
            &["--read-only-root", "--isolation", "oci", "--image", "small"],
            "touch /new"
        )
        .status,
        0
    );
}

#[test]
fn our_files_in_a_container_cannot_be_changed() {
    let runs = with_image("{}");
    let probe = "for at in /run/avfs /dev /proc/sys; do touch $at/new 2>/dev/null && echo $at; done; \
                 touch /run/new /tmp/new /dev/shm/new && echo x >/dev/null && echo own";
    // The control: bubblewrap makes the same.
    for flags in [&["--image", "small"][..], &IN_CONTAINER] {
        assert_eq!(runs.prints(flags, probe), "own\n", "{flags:?}");
    }
    let capabilities = "while read name value; do case $name in Cap???:|NoNewPrivs:) echo $value;; esac; done </proc/self/status";
    let own = runs.prints(&IN_CONTAINER, capabilities);
    let values: Vec<&str> = own.lines().collect();
    assert_eq!(values.len(), 6, "{own}");
    assert_eq!(
        (&values[..4], values[5]),
        (&["0000000000000000"; 4][..], "1"),
        "{own}"
    );
}

#[test]
fn an_image_with_a_user_of_its_own_has_it_in_a_container_too() {
    let runs = with_image(r#"{"User":"app"}"#);
    let script = "id -u; id -g; echo $HOME; touch file && ls -n file | { read a b owner group rest; echo $owner $group; }; \
                  while read name value; do case $name in CapEff:|CapPrm:|CapBnd:) echo $value;; esac; done </proc/self/status";
    let answer = runs.free(&IN_CONTAINER, script);
    assert_eq!(
        answer.stdout(),
        "1234\n5678\n/home/app\n1234 5678\n0000000000000000\n0000000000000000\n0000000000000000\n",
        "{:#}",
        answer.value
    );
    assert_eq!(answer.changes(), ["added /file"]);
}

#[test]
fn a_container_ends_with_its_limits() {
    let runs = with_image("{}");
    let answer = runs.free(
        &[&["--timeout", "1s"][..], &IN_CONTAINER].concat(),
        "while true; do :; done",
    );
    assert_eq!((answer.status, answer.result("timed_out")), (124, &true.into()));
    let answer = runs.free(
        &[&["--memory", "64M"][..], &IN_CONTAINER].concat(),
        "x=0123456789; while true; do x=$x$x; done",
    );
    assert_ne!(answer.status, 0, "{:#}", answer.value);
    let answer = runs.free(
        &[&["--pids", "8"][..], &IN_CONTAINER].concat(),
        "for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done 2>&1; kill %1 %2 2>&1",
    );
    assert!(answer.stdout().contains("fork"), "{:#}", answer.value);
}

#[test]
fn a_container_needs_an_image() {
    let runs = Runs::new();
    let answer = runs.free(&["--isolation", "oci"], "true");
    assert_eq!(answer.error_code(), "cannot_isolate", "{:#}", answer.value);
    let hint = answer.value["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("--image"), "{hint}");
}

#[test]
fn a_session_in_a_container_is_a_shell_that_stays() {
    let runs = with_image(r#"{"User":"app"}"#);
    let policy = runs.path("everything.toml").display().to_string();
    let started = runs.avfs(&[&["session", "start", "--policy", &policy][..], &IN_CONTAINER].concat());
    let id = started.trim();
    let exec = |line: &str| runs.avfs(&["session", "exec", id, "-c", line]);
    assert_eq!(
        exec("cat /etc/os-release; x=kept; cd /srv; id -u"),
        "ID=small\n1234\n"
    );
    assert_eq!(exec("echo $x $PWD; echo 2.0 > /srv/version"), "kept /srv\n");
    let envelope = runs.avfs(&["session", "exec", id, "--json", "-c", "true"]);
    let envelope: Value = serde_json::from_str(&envelope).unwrap();
    assert_eq!(
        envelope["result"]["isolation"],
        format!("runc {}", version("runc"))
    );
    runs.avfs(&["session", "stop", id]);
    assert_eq!(
        runs.avfs(&["cat", "--vault", "work.small", "/srv/version"]),
        "2.0\n"
    );
    assert_nothing_is_left(&runs);
}

#[test]
fn an_ordinary_user_has_containers_without_a_range_of_other_users() {
    let user = User::new();
    let policy = user.write("everything.toml", EVERYTHING);
    let root = rootfs(user.home.path());
    user.avfs(&["image", "import", &root.display().to_string(), "--name", "small"]);
    let script = "id -u; cat /proc/self/uid_map; echo text > file; echo 3.0 > /opt";
    let words = [
        &["exec", "--json", "--policy", &policy][..],
        &IN_CONTAINER,
        &["-c", script],
    ]
    .concat();
    let answer = Answer::of(&end_of(user.command(&user.program(), &words), b""));
    let text = answer.stdout();
    let said: Vec<&str> = text.split_whitespace().collect();
    // Root inside, and the user outside.
    assert_eq!(said, ["0", "0", "65534", "1"], "{:#}", answer.value);
    assert_eq!(answer.changes(), ["added /file"]);
    assert!(
        answer.text("isolation").starts_with("runc "),
        "{:#}",
        answer.value
    );
}

/// Of a run that was killed, once another command has been there.
#[track_caller]
fn assert_nothing_is_left(runs: &Runs) {
    let places = ["runs", "sessions"].map(|kind| runs.ground.home().join(kind));
    let left = || {
        places
            .iter()
            .flat_map(|place| fs::read_dir(place).into_iter().flatten())
            .count()
    };
    assert_eq!(left(), 0);
    assert_eq!(mounted_runs(runs), 0);
}

/// The control groups that a process has made for its runs.
fn groups(worker: i32) -> Vec<String> {
    let listed = outside(&format!(
        "find /sys/fs/cgroup -type d -name 'avfs-run-{worker}-*' 2>/dev/null || true"
    ));
    listed.lines().map(str::to_owned).collect()
}

/// A container in which something goes on.
fn holding_on(runs: &Runs, flags: &[&str], time: &str) -> Going {
    let policy = runs.path("everything.toml").display().to_string();
    let script = format!("echo kept > kept; sync kept; (sleep {time} &) ; sleep {time}");
    let words = [&["--policy", &policy], flags, &["-c", &script]].concat();
    let run = Going::start(runs.command(&words));
    await_that("it runs", LIMIT, || processes_with(time).len() == 2);
    run
}

#[test]
fn a_killed_worker_leaves_no_container() {
    let runs = with_image("{}");
    let time = odd_time(70);
    let run = holding_on(&runs, &IN_CONTAINER, &time);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.pid())).unwrap();
    let worker = children.trim().parse().unwrap();
    assert_ne!(groups(worker), [""; 0], "the control");
    signal(worker, Signal::KILL);
    let ended = run.ended();
    let told: Value = serde_json::from_slice(&ended.out).unwrap();
    assert_eq!(told["error"]["code"], "worker-killed", "{told}");
    await_that("all is gone", LIMIT, || processes_with(&time).is_empty());
    // The next command clears away what is left, and finds what the container wrote.
    assert_eq!(runs.prints(&IN_CONTAINER, "cat kept"), "kept\n");
    assert_eq!(groups(worker), [""; 0]);
    assert_nothing_is_left(&runs);
    runs.ground.assert_sound();
}

#[test]
fn a_sandbox_ends_with_the_process_that_serves_its_files_and_says_so() {
    for (tag, flags) in [(71, &IN_CONTAINER[..]), (72, &[])] {
        let runs = with_image("{}");
        let time = odd_time(tag);
        let mount = runs.ground.mount("work", "mounted");
        let run = holding_on(&runs, flags, &time);
        mount.kill_server();
        let ended = run.ended();
        let told: Value = serde_json::from_slice(&ended.out).unwrap();
        assert_eq!(told["error"]["code"], "owner-gone", "{told:#}");
        let message = told["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("'work'") && message.contains("sandbox"),
            "{message}"
        );
        assert_eq!(told["result"]["signal"], 9, "{told:#}");
        assert_eq!(processes_with(&time), [0; 0]);
        drop(mount);
        assert_eq!(runs.prints(flags, "cat kept"), "kept\n");
        assert_nothing_is_left(&runs);
        runs.ground.assert_sound();
    }
}

#[test]
fn a_session_ends_with_the_process_that_serves_its_files() {
    let runs = with_image("{}");
    let time = odd_time(73);
    let mount = runs.ground.mount("work", "mounted");
    let started = runs.avfs(&[&["session", "start"][..], &IN_CONTAINER].concat());
    let id = started.trim();
    runs.avfs(&["session", "exec", id, "-c", &format!("sleep {time} &")]);
    await_that("it runs", LIMIT, || processes_with(&time).len() == 1);
    mount.kill_server();
    await_that("the container is gone", LIMIT, || {
        processes_with(&time).is_empty()
    });
    await_that("the session is gone", LIMIT, || {
        !runs.avfs(&["session", "list"]).contains(id)
    });
    drop(mount);
    assert_eq!(runs.prints(&IN_CONTAINER, "echo on"), "on\n");
    assert_nothing_is_left(&runs);
}
