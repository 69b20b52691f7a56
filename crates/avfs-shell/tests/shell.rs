//! What the shell keeps, refuses and cannot reach.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use avfs_shell::{
    CommandCall, CommandResult, HostBridge, HostCall, OwnCommand, SandboxShell, ShellError, ShellLimits,
    ShellOptions,
};
use avfs_vfs::{NodePolicy, ProvidedNode, Vfs, VisibilityView};

#[track_caller]
fn check(shell: &mut SandboxShell, line: &str, stdout: &str, status: i32) {
    let result = shell.exec(line).unwrap();
    assert_eq!(
        (result.stdout_text().as_ref(), result.exit_code),
        (stdout, status),
        "{line}: {}",
        result.stderr_text()
    );
}

fn with(vfs: &Vfs, options: ShellOptions) -> SandboxShell {
    SandboxShell::with_options(vfs, options).unwrap()
}

fn hello() -> Arc<OwnCommand> {
    Arc::new(|call: &CommandCall| {
        let text = format!(
            "{} in {}: {}",
            call.args.join("+"),
            call.cwd,
            String::from_utf8_lossy(&call.stdin)
        );
        call.vfs.append_file("/calls", "x", None).unwrap();
        CommandResult {
            stdout: text.into_bytes(),
            stderr: b"told\n".to_vec(),
            exit_code: 3,
        }
    })
}

#[test]
fn directory_variables_and_functions_last_from_line_to_line() {
    let vfs = Vfs::new();
    let mut shell = SandboxShell::new(&vfs);
    check(
        &mut shell,
        "mkdir -p /a/b && cd /a/b && x=5 && f() { echo f$1; }",
        "",
        0,
    );
    check(&mut shell, "pwd; echo $x; f 1", "/a/b\n5\nf1\n", 0);
    assert_eq!(
        (shell.cwd(), shell.variable("x")),
        ("/a/b".into(), Some("5".into()))
    );
    shell.set_variable("TOKEN", "t");
    check(&mut shell, "bash -c 'echo $TOKEN'", "t\n", 0);
    check(&mut shell, "exit 4", "", 4);
    check(&mut shell, "pwd", "/a/b\n", 0);
}

#[test]
fn the_shell_and_the_filesystem_are_one() {
    let vfs = Vfs::new();
    vfs.write_file("/in.bin", &b"\xff\x00x"[..], None).unwrap();
    vfs.mount(
        "/now",
        ProvidedNode::computed_file(|_| Ok(b"computed\n".to_vec())),
    )
    .unwrap();
    let mut shell = SandboxShell::new(&vfs);
    check(
        &mut shell,
        "cat /now; echo hi > /out; cp /in.bin /copy.bin",
        "computed\n",
        0,
    );
    assert_eq!(&vfs.read_file("/copy.bin").unwrap()[..], b"\xff\x00x");
    assert_eq!(shell.exec("cat /in.bin").unwrap().stdout, b"\xff\x00x");
    assert_eq!(vfs.stat("/out").unwrap().version, 1);
    check(&mut shell, "echo more >> /out; cat /nowhere", "", 1);
    assert_eq!(vfs.stat("/out").unwrap().version, 2);
    check(&mut shell, "rg -n comp / | head -1", "/now:1:computed\n", 0);
    check(&mut shell, "echo x > /no/such/directory", "", 1);
    assert!(!vfs.exists("/no").unwrap());
    assert_eq!(
        shell.exec_with_input("tr a-z A-Z", b"input").unwrap().stdout,
        b"INPUT"
    );
}

#[test]
fn nothing_of_the_host_can_be_reached() {
    let vfs = Vfs::new();
    let mut shell = SandboxShell::new(&vfs);
    let host = std::env::var("HOME").unwrap();
    for line in [
        "cat /etc/passwd",
        "ls /proc/self",
        "cat ../../../../etc/hostname",
        "ls /usr/bin/env",
        "ls -d /work/main",
    ] {
        assert_ne!(shell.exec(line).unwrap().exit_code, 0, "{line}");
    }
    let seen = shell
        .exec("env; set; echo ~; hostname; whoami; uname -a")
        .unwrap();
    assert!(!seen.stdout_text().contains(&format!("HOME={host}\n")));
    for line in [
        "curl http://localhost/",
        "git status",
        "ssh localhost",
        "gcc x.c",
        "/bin/sh -c 'nosuch'",
    ] {
        assert_ne!(shell.exec(line).unwrap().exit_code, 0, "{line}");
    }
    assert!(vfs.walk("/").unwrap().is_empty());
}

#[test]
fn a_view_holds_for_every_command() {
    let vfs = Vfs::new();
    vfs.write_file("/d/secret.txt", "TODO secret\n", None).unwrap();
    vfs.write_file("/d/plain.txt", "TODO plain\n", None).unwrap();
    let hidden = NodePolicy {
        classification: "secret".into(),
        ..NodePolicy::default()
    };
    vfs.set_policy("/d/secret.txt", Some(hidden)).unwrap();
    let locked = NodePolicy {
        writable: false,
        ..NodePolicy::default()
    };
    vfs.set_policy("/d/plain.txt", Some(locked)).unwrap();
    let before = vfs.snapshot().unwrap();
    let view = VisibilityView {
        classifications: Some(BTreeSet::from(["public".into()])),
        ..VisibilityView::default()
    };
    let mut shell = with(
        &vfs,
        ShellOptions {
            view: Some(view),
            ..ShellOptions::default()
        },
    );
    check(
        &mut shell,
        "ls /d; find /d -type f; grep -rl TODO /",
        "plain.txt\n/d/plain.txt\n/d/plain.txt\n",
        0,
    );
    check(&mut shell, "cat /d/secret.txt", "", 1);
    check(&mut shell, "ln -s /d/secret.txt /l; cat /l; rm /l", "", 0);
    for line in [
        "echo x > /d/secret.txt",
        "echo x > /d/plain.txt",
        "mv /d/plain.txt /x",
        "rm /d/plain.txt",
    ] {
        let result = shell.exec(line).unwrap();
        assert_ne!(result.exit_code, 0, "{line}");
        assert!(!result.stderr.is_empty(), "{line}");
    }
    let _ = shell.exec("rm -rf /d").unwrap();
    assert!(vfs.changes(&before).unwrap().is_empty());
}

#[test]
fn only_allowed_commands_run() {
    let vfs = Vfs::new();
    let allowed_commands = Some(["ls", "cat", "echo"].map(str::to_owned).into());
    let mut shell = with(
        &vfs,
        ShellOptions {
            allowed_commands,
            ..ShellOptions::default()
        },
    );
    check(&mut shell, "for i in 1 2; do echo $i; done | cat", "1\n2\n", 0);
    let result = shell.exec("rm -rf /; echo $?").unwrap();
    assert_eq!(result.stdout_text(), "126\n");
    assert_eq!(result.stderr_text(), "rm: not allowed in this shell\n");
    check(&mut shell, "echo / | xargs rm -rf", "", 126);
}

#[test]
fn own_commands_are_called_with_arguments_input_and_directory() {
    let vfs = Vfs::new();
    let commands = BTreeMap::from([("hello".to_owned(), hello()), ("date".to_owned(), hello())]);
    let mut shell = with(
        &vfs,
        ShellOptions {
            commands,
            cwd: None,
            ..ShellOptions::default()
        },
    );
    check(
        &mut shell,
        "mkdir /d; cd /d; echo in | hello a 'b c'; echo $?",
        "a+b c in /d: in\n3\n",
        0,
    );
    check(&mut shell, "date now", "now in /d: ", 3);
    shell.register_command("later", hello());
    check(&mut shell, "later x | tr a-z A-Z", "X IN /D: ", 0);
    assert_eq!(&vfs.read_file("/calls").unwrap()[..], b"xxx");
}

#[test]
fn too_much_output_is_an_error_and_the_shell_goes_on() {
    let vfs = Vfs::new();
    let mut shell = with(
        &vfs,
        ShellOptions {
            max_output_bytes: Some(100),
            ..ShellOptions::default()
        },
    );
    check(&mut shell, "printf '%0100d' 0", &"0".repeat(100), 0);
    for line in [
        "printf '%0101d' 0",
        "yes | head -100",
        "printf '%060d' 0; printf '%060d' 0 >&2",
    ] {
        assert!(
            matches!(shell.exec(line), Err(ShellError::OutputTooLarge { limit: 100 })),
            "{line}"
        );
    }
    check(&mut shell, "printf '%0200d' 0 > /f; wc -c < /f", "200\n", 0);
}

#[test]
fn endless_lines_are_stopped_by_a_limit() {
    let vfs = Vfs::new();
    let limits = ShellLimits {
        time: Duration::from_millis(500),
        commands: 1000,
        loop_rounds: 200,
        depth: 8,
    };
    let mut shell = with(
        &vfs,
        ShellOptions {
            limits,
            ..ShellOptions::default()
        },
    );
    for (line, code) in [
        ("while true; do :; done", "shell-limit"),
        ("for i in {1..300}; do :; done", "shell-limit"),
        ("f() { f; }; f", "shell-limit"),
        ("sleep 100", "timeout"),
    ] {
        match shell.exec(line) {
            Err(error) => assert_eq!(error.code(), code, "{line}: {error}"),
            Ok(result) => panic!("{line} ended with {}: {}", result.exit_code, result.stderr_text()),
        }
    }
    check(&mut shell, "echo alive", "alive\n", 0);
}

#[test]
fn a_line_can_be_cancelled_from_another_thread() {
    let vfs = Vfs::new();
    let mut shell = SandboxShell::new(&vfs);
    let canceller = shell.canceller();
    vfs.register_path_hook(
        "/started",
        Arc::new(move |_: &_| {
            canceller.cancel();
            Ok(())
        }),
    )
    .unwrap();
    let outcome = shell.exec("touch /started; while true; do echo x > /x; done");
    assert!(matches!(outcome, Err(ShellError::Cancelled)), "{outcome:?}");
    check(&mut shell, "echo alive", "alive\n", 0);
}

#[test]
fn a_command_that_waits_can_be_cancelled() {
    let mut shell = SandboxShell::new(&Vfs::new());
    let canceller = shell.canceller();
    let started = std::time::Instant::now();
    std::thread::scope(|scope| {
        let (ended, end) = std::sync::mpsc::channel::<()>();
        // A line resets the flag when it starts, so it is set until the line has ended.
        scope.spawn(move || {
            while end.recv_timeout(Duration::from_millis(5))
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                canceller.cancel();
            }
        });
        let outcome = shell.exec("sleep 20");
        drop(ended);
        assert!(matches!(outcome, Err(ShellError::Cancelled)), "{outcome:?}");
    });
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[test]
fn a_command_of_one_shell_may_drop_another_shell() {
    let vfs = Vfs::new();
    let other = Mutex::new(Some(SandboxShell::new(&vfs)));
    let commands: BTreeMap<String, Arc<OwnCommand>> = BTreeMap::from([(
        "drop".to_owned(),
        Arc::new(move |_: &CommandCall| {
            drop(other.lock().unwrap().take());
            CommandResult::ok("dropped\n")
        }) as Arc<OwnCommand>,
    )]);
    let mut shell = with(
        &vfs,
        ShellOptions {
            commands,
            ..ShellOptions::default()
        },
    );
    check(&mut shell, "drop", "dropped\n", 0);
}

#[test]
fn a_syntax_error_is_a_failed_line() {
    let mut shell = SandboxShell::new(&Vfs::new());
    let result = shell.exec("if then fi").unwrap();
    assert_eq!(result.exit_code, 2);
    assert!(result.stderr_text().contains("syntax error"));
}

/// Answers with what it was asked.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl HostBridge for Recorder {
    fn run(&self, call: &HostCall) -> CommandResult {
        let line = format!("{} on {} from {}", call.argv.join(" "), call.tree, call.call.cwd);
        self.0.lock().unwrap().push(line);
        CommandResult::ok("ran\n")
    }
}

#[test]
fn programs_of_the_host_go_through_the_bridge_and_nowhere_else() {
    let vfs = Vfs::new();
    let mut shell = SandboxShell::new(&vfs);
    for line in ["host ls", "python -c 'print(1)'", "python3 x.py"] {
        let result = shell.exec(line).unwrap();
        assert_eq!(result.exit_code, 126, "{line}");
        assert!(result.stderr_text().contains("bubblewrap"));
    }
    check(&mut shell, "cargo test", "", 127);

    let bridge = Arc::new(Recorder::default());
    let options = ShellOptions {
        bridge: Some(bridge.clone()),
        ..ShellOptions::default()
    };
    let mut shell = with(&vfs, options.clone());
    check(
        &mut shell,
        "mkdir /w; cd /w; host -p /w grep -n TODO a; python -c 1; host -p",
        "ran\nran\n",
        2,
    );
    check(&mut shell, "cargo test", "", 127);
    let mut shell = with(
        &vfs,
        ShellOptions {
            host_fallback: true,
            ..options
        },
    );
    check(&mut shell, "cargo test", "ran\n", 0);
    let asked = bridge.0.lock().unwrap();
    assert_eq!(
        asked[..],
        [
            "grep -n TODO a on /w from /w",
            "python -c 1 on / from /w",
            "cargo test on / from /"
        ]
    );
}
