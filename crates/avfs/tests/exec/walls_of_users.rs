//! The same walls where an ordinary user starts the run: no root outside, a mount by `fusermount3`, limits by whatever
//! the user may use.

use std::os::unix::net::UnixListener;
use std::process::Command;

use rustix::process::{Pid, Signal};

use crate::ordinary::User;
use crate::program::{LIMIT, await_that, end_of};
use crate::runs::{Answer, EVERYTHING, outside};
use crate::together::{odd_time, processes_with};
use crate::walls::{PROBE, PROBED, server};

struct Runs {
    user: User,
    policy: String,
}

impl Runs {
    fn new() -> Runs {
        let user = User::new();
        let policy = user.write("everything.toml", EVERYTHING);
        Runs { user, policy }
    }

    fn command(&self, flags: &[&str], script: &str) -> Command {
        let words = [
            &["exec", "--json", "--policy", &self.policy],
            flags,
            &["-c", script],
        ]
        .concat();
        self.user.command(&self.user.program(), &words)
    }

    #[track_caller]
    fn run(&self, flags: &[&str], script: &str) -> Answer {
        Answer::of(&end_of(self.command(flags, script), b""))
    }
}

#[test]
fn nothing_of_the_users_environment_and_descriptors_comes_in() {
    let runs = Runs::new();
    let exec = runs.command(&[], "env; ls /proc/self/fd; cat <&7 && echo leaked; true");
    let mut shell = Command::new("/bin/bash");
    shell
        .args(["-c", "exec 7</etc/hostname; exec \"$@\"", "shell"])
        .arg(exec.get_program());
    shell.args(exec.get_args()).current_dir(runs.user.home.path());
    for (name, value) in exec.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    for name in [
        "AWS_SECRET_ACCESS_KEY",
        "SSH_AUTH_SOCK",
        "BASH_ENV",
        "GITHUB_TOKEN",
    ] {
        shell.env(name, "/secret/value");
    }
    let ended = end_of(shell, b"");
    // The shell outside may print messages about the file that BASH_ENV names.
    let answer = Answer::of(&crate::program::Ended {
        err: String::new(),
        ..ended
    });
    assert!(!answer.stdout().contains("secret"), "{}", answer.stdout());
    assert!(!answer.stdout().contains("leaked") && answer.stderr().contains("Bad file descriptor"));
}

#[test]
fn network_and_sockets_of_the_host_are_not_reached() {
    let (runs, port) = (Runs::new(), server().port());
    let direct = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && tail -n 1 <&3"
    );
    assert_eq!(outside(&direct), "hello\n", "the control");
    assert!(runs.run(&[], &direct).stderr().contains("Connection refused"));
    assert_eq!(runs.run(&["--net", "host"], &direct).stdout(), "hello\n");
    let name = format!("avfs-users-{}", std::process::id());
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&name);
    let _abstract = UnixListener::bind_addr(&address.unwrap()).unwrap();
    let connect = format!(
        "/usr/bin/python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}'); print('reached')\""
    );
    assert_eq!(outside(&connect), "reached\n", "the control");
    for net in ["none", "host"] {
        let answer = runs.run(&["--net", net], &connect);
        assert_ne!(answer.status, 0, "{net}: {:#}", answer.value);
    }
}

#[test]
fn calls_that_lead_out_are_refused_to_users_too() {
    let runs = Runs::new();
    let script = format!("cat > /tmp/probe.py <<'END'\n{PROBE}\nEND\n/usr/bin/python3 /tmp/probe.py");
    assert_eq!(runs.run(&[], &script).stdout(), PROBED);
}

#[test]
fn resources_of_a_run_by_a_user_are_limited() {
    let runs = Runs::new();
    let eat = "/usr/bin/python3 -c 'b = bytearray(300 << 20); print(len(b))'";
    assert_eq!(
        runs.run(&["--memory", "900M"], eat).stdout(),
        "314572800\n",
        "the control"
    );
    let answer = runs.run(&["--memory", "100M"], eat);
    assert!(
        answer.status != 0 && answer.stdout().is_empty(),
        "{:#}",
        answer.value
    );
    let bomb = "f() { f | f & }; f 2>/dev/null; sleep 0.5; echo over";
    let answer = runs.run(&["--pids", "60", "--timeout", "20000"], bomb);
    assert_eq!(answer.error_code(), "", "{:#}", answer.value);
    assert_eq!(
        runs.run(&["--cpu", "1"], "while :; do :; done").value["success"],
        false
    );
    assert_eq!(runs.run(&[], "echo on").stdout(), "on\n");
    let flood = "head -c 5000000 /dev/zero | tr '\\0' x; head -c 5000000 /dev/zero >&2";
    let flood = runs.run(&["--output-limit", "10000"], flood);
    assert_eq!(flood.result("stdout_bytes"), 5_000_000);
    assert!(flood.stdout().len() < 20_000);
}

#[test]
fn nothing_of_a_users_run_survives() {
    let runs = Runs::new();
    let time = odd_time(40);
    let leaving = format!("setsid nohup sleep {time} >/dev/null 2>&1 & (setsid sleep {time} &)");
    assert_eq!(runs.run(&[], &leaving).status, 0);
    assert_eq!(processes_with(&time), [0; 0], "after its end");
    assert_eq!(
        runs.run(&["--timeout", "3000"], &format!("{leaving}; sleep {time}"))
            .status,
        124
    );
    assert_eq!(processes_with(&time), [0; 0], "after its time");
    let mut command = runs.command(&[], &format!("{leaving}; sleep {time}"));
    let mut front = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    await_that("it runs", LIMIT, || processes_with(&time).len() == 3);
    rustix::process::kill_process(Pid::from_child(&front), Signal::KILL).unwrap();
    front.wait().unwrap();
    await_that("all is gone", LIMIT, || processes_with(&time).is_empty());
    let place = runs.user.home.path().join("store/runs");
    await_that("its mount too", LIMIT, || {
        std::fs::read_dir(&place).unwrap().count() == 0
    });
}

#[test]
fn links_lead_nowhere_and_rules_hold_for_users() {
    let runs = Runs::new();
    let secret = runs.user.write("secret", "of the host\n");
    runs.user.avfs(&["ln", "-s", &secret, "out"]);
    assert_eq!(runs.run(&[], "cat out; echo x > out; true").stdout(), "");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "of the host\n");
    runs.user.avfs(&["write", ".env", "TOKEN=1"]);
    runs.run(&[], "git init -q .");
    let attack =
        "cat .env; for f in .git/hooks/post-commit .git/config .envrc .mcp.json; do echo x > $f; done; true";
    let answer = runs.run(&["--preset", "agent-safe"], attack);
    assert_eq!(
        (answer.stdout().as_str(), answer.changes()),
        ("", Vec::new()),
        "{}",
        answer.stderr()
    );
    assert_eq!(
        runs.run(&[], "cat .env; echo x > .envrc").stdout(),
        "TOKEN=1\n",
        "the control"
    );
}

#[test]
fn what_does_not_hold_of_a_limit_on_memory_is_said_if_one_is_asked_for() {
    let runs = Runs::new();
    let by = runs.run(&[], "true").result("limits_by").clone();
    for (flags, is_asked) in [(vec!["--memory", "1G"], true), (vec![], false)] {
        let words = [vec!["exec", "--policy", &runs.policy], flags, vec!["-c", "true"]].concat();
        let ended = end_of(runs.user.command(&runs.user.program(), &words), b"");
        let lines = ended
            .err
            .lines()
            .filter(|line| line.starts_with("memory is limited per process only"));
        assert_eq!(
            lines.count(),
            usize::from(by == "rlimits" && is_asked),
            "{by}: {}",
            ended.err
        );
    }
}
