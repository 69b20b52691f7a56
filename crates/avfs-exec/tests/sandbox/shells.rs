//! Persistent shells, and the effects of commands on them.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use avfs_exec::SandboxPlan;
use avfs_exec::launch::{CommandEnd, RunEvent, StopReason};
use avfs_exec::session::{PipeDirectory, Shell, ShellTurn, TurnAnswer, TurnEnd};

use crate::kit::{Workspace, bubblewrap, is_held, wait_until_free};

struct Session {
    shell: Shell,
    workspace: Workspace,
}

/// The result of one command: status, output and errors.
type Seen = (i32, String, String);

const SHORT: Option<Duration> = Some(Duration::from_millis(300));

impl Session {
    fn start() -> Self {
        Self::in_plan(|plan| plan)
    }

    fn in_plan(change: impl FnOnce(SandboxPlan) -> SandboxPlan) -> Self {
        let workspace = Workspace::new();
        let directory = PipeDirectory::make(&workspace.outside().join("io")).unwrap();
        let shell = Shell::start(bubblewrap(), change(workspace.plan(&[])), directory).unwrap();
        Self { shell, workspace }
    }

    fn answer(&mut self, text: &str, stdin: Option<&[u8]>, timeout: Option<Duration>) -> TurnAnswer {
        let turn = ShellTurn {
            text: text.as_bytes(),
            stdin,
            timeout,
            output_bytes: 1 << 16,
            caller: None,
        };
        self.shell.run(turn, &mut |_| ()).unwrap()
    }

    /// A command after which the shell continues.
    #[track_caller]
    fn run(&mut self, text: &str) -> Seen {
        let answer = self.answer(text, None, Some(Duration::from_secs(60)));
        let stopped = answer.stopped;
        let seen = seen(answer);
        assert_eq!(stopped, None, "{seen:?}");
        seen
    }

    /// The output of a command that ends with 0 and without errors.
    #[track_caller]
    fn good(&mut self, text: &str) -> String {
        let (status, stdout, stderr) = self.run(text);
        assert_eq!((status, stderr.as_str()), (0, ""), "{text}: {stdout}");
        stdout
    }

    /// A command that takes too long, after which the shell continues.
    #[track_caller]
    fn too_long(&mut self, text: &str) -> Seen {
        let answer = self.answer(text, None, SHORT);
        assert_eq!(answer.stopped, Some(StopReason::Timeout));
        seen(answer)
    }

    /// A command that ends the shell.
    #[track_caller]
    fn last(mut self, text: &str) -> (CommandEnd, String) {
        let answer = self.answer(text, None, Some(Duration::from_secs(60)));
        let stdout = String::from_utf8(answer.stdout.bytes()).unwrap();
        match answer.end {
            TurnEnd::Over(outcome) => (outcome.end, stdout),
            TurnEnd::Status(status) => panic!("the shell goes on after {status}"),
        }
    }
}

#[track_caller]
fn seen(answer: TurnAnswer) -> Seen {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match answer.end {
        TurnEnd::Status(status) => (status, text(answer.stdout.bytes()), text(answer.stderr.bytes())),
        TurnEnd::Over(outcome) => panic!("the shell is gone: {:?}", outcome.end),
    }
}

#[test]
fn directory_variables_functions_and_aliases_stay() {
    let mut session = Session::start();
    session.good(
        "mkdir -p a/b && cd a/b; x='two words'; export Y=out; f() { echo \"f:$x:$1\"; }; alias ll='echo L'",
    );
    assert_eq!(
        session.good("pwd; f 1; ll 2; sh -c 'echo $Y'"),
        "/workspace/a/b\nf:two words:1\nL 2\nout\n"
    );
    assert_eq!(session.shell.cwd().unwrap().to_str(), Some("/workspace/a/b"));
    session.good("declare -A map; map[k]=v; arr=(1 2 3); set -- one two; umask 077");
    assert_eq!(
        session.good("echo ${map[k]} ${#arr[@]} $2; umask"),
        "v 3 two\n0077\n"
    );
}

#[test]
fn a_status_is_exact_and_seen_by_the_next_command() {
    let mut session = Session::start();
    for status in [0, 1, 2, 42, 126, 127, 128, 130, 255] {
        assert_eq!(session.run(&format!("(exit {status})")).0, status);
        assert_eq!(session.good("echo $?"), format!("{status}\n"));
    }
    let (status, stdout, stderr) = session.run("nosuchprogram");
    assert_eq!((status, stdout.as_str()), (127, ""));
    assert!(stderr.contains("nosuchprogram: command not found"), "{stderr}");
    assert_eq!(
        session.run("sh -c 'kill -9 $$'"),
        (137, String::new(), String::new())
    );
}

#[test]
fn streams_are_apart_and_come_as_they_are() {
    let mut session = Session::start();
    assert_eq!(
        session.run("echo out; echo err >&2"),
        (0, "out\n".into(), "err\n".into())
    );
    assert_eq!(session.good("printf no-newline"), "no-newline");
    assert_eq!(session.good("true"), "");
    let raw = session.answer("printf 'a\\0b\\xff\\xfe\\n\\0'", None, None);
    assert_eq!(raw.stdout.bytes(), b"a\0b\xff\xfe\n\0");
    let flood = session.answer(
        "head -c 3000000 /dev/zero; head -c 200000 /dev/zero >&2; echo end",
        None,
        None,
    );
    assert_eq!((flood.stdout.total, flood.stderr.total), (3_000_004, 200_000));
    assert!(flood.stdout.head.len() + flood.stdout.tail.len() <= 1 << 16);
    assert!(flood.stdout.tail.ends_with(b"end\n"));
    assert_eq!(session.good("echo next"), "next\n");
}

#[test]
fn scripts_of_every_shape_are_read() {
    let mut session = Session::start();
    assert_eq!(session.good("cat <<E\none $((1+1))\n'q'\nE"), "one 2\n'q'\n");
    assert_eq!(session.good("cat <<'E' # comment\n$x `y` \\\nE\n"), "$x `y` \\\n");
    assert_eq!(session.good("echo a # b"), "a\n");
    assert_eq!(session.good("# only a comment"), "");
    assert_eq!(
        session.good("for i in 1 2\ndo\n  echo $i\ndone\n\ng() {\n  echo g\n}\ng"),
        "1\n2\ng\n"
    );
    assert_eq!(session.good("echo 'it'\"'\"'s' \\\n  two"), "it's two\n");
    let long: String = (0..5000).map(|n| format!("echo line {n} >/dev/null\n")).collect();
    assert_eq!(session.good(&(long + "echo done")), "done\n");
}

#[test]
fn a_script_that_cannot_be_read_fails_at_once_and_the_shell_goes_on() {
    let mut session = Session::start();
    session.good("cd /tmp; x=1");
    for bad in [
        "echo \"open",
        "echo 'open",
        "if true; then",
        "f() {",
        "echo $(",
        "for x in",
        ")",
        "echo `",
    ] {
        let (status, _, stderr) = session.run(bad);
        assert!(
            status != 0 && (stderr.contains("unexpected") || stderr.contains("syntax")),
            "{bad}: {stderr}"
        );
        assert_eq!(session.good("echo $x $PWD"), "1 /tmp\n", "after {bad}");
    }
    assert_eq!(session.run("set -u; echo $nope; echo never").1, "");
    assert_eq!(session.run("set +u; : ${nope?why}; echo never").1, "");
    assert_eq!(session.run("break; continue; echo on").1, "on\n");
    assert_eq!(session.run("exec nosuchprogram").0, 127);
    assert_eq!(session.good("echo $x"), "1\n");
}

#[test]
fn commands_read_nothing_or_what_they_are_given() {
    let mut session = Session::start();
    assert_eq!(
        session.run("cat; read line; echo $? [$line]"),
        (0, "1 []\n".into(), String::new())
    );
    let given = session.answer("read first; echo 1:$first; cat", Some(b"one\ntwo\0\xff"), None);
    assert_eq!(given.stdout.bytes(), b"1:one\ntwo\0\xff");
    assert_eq!(session.good("exec </etc/passwd; cat | head -c 0"), "");
    assert_eq!(session.good("cat; cat /dev/stdin; bash -c cat"), "");
}

#[test]
fn changes_of_a_command_to_its_shell_do_not_confuse_the_next_one() {
    let mut session = Session::start();
    for hostile in [
        "PS1='$(echo prompt)'; PS2=x; PROMPT_COMMAND='echo pc; echo pe >&2'; PS4='$(echo p4) '",
        "exec 2>&1",
        "exec >&-; echo lost",
        "exec >&- 2>&- <&-",
        "exec 3>&- 4>&- 255>&-",
        "set -u; set -C; set -f; set -o pipefail",
        "trap 'echo d' DEBUG; trap 'echo e' ERR; trap 'echo r' RETURN",
        "trap 'echo int' INT; trap '' TERM",
        "IFS=0123456789/",
        "builtin() { echo mine; }; eval() { echo mine; }; .() { echo mine; }; exit() { echo mine; }",
        "source() { :; }; command() { :; }; echo() { printf '%s\\n' \"$*\"; }; true() { return 1; }",
        "alias unset=false builtin=false '<>=x' echo=false '.=false'; shopt -s expand_aliases",
        "printf '<>\"/run/avfs/session/0\" <>\"/run/avfs/session/g1\"\\n'; printf 'done 0\\n' >&2",
        "rm -rf /run/avfs/session/* 2>/dev/null; mkdir /run/avfs/session/x 2>/dev/null; :",
        "set -v; set -x",
        "shopt -u sourcepath; shopt -s failglob nullglob; hash -p /bin/false ls",
        "LINENO=7; unset LINENO BASH_SOURCE SECONDS PATH; PATH=/usr/bin:/bin",
        "history -c; set -o history; set -H; fc -l >/dev/null 2>&1; :",
        "set -n; :",
    ] {
        session.run(hostile);
        let (status, stdout, _) = session.run("'printf' '%s' here; /bin/sh -c 'exit 9'");
        let seen: String = stdout.lines().filter(|line| line.contains("here")).collect();
        assert!(
            status == 9 && seen.contains("here"),
            "after {hostile}: {status} {stdout}"
        );
    }
}

#[test]
fn our_own_lines_leave_no_trace_in_the_output() {
    let mut session = Session::start();
    session.run("set -x");
    assert_eq!(session.run("echo 1"), (0, "1\n".into(), "++ echo 1\n".into()));
    session.run("set +x; trap 'echo dbg' DEBUG; set -v");
    let (_, stdout, stderr) = session.run("echo 2");
    assert_eq!(
        (stdout.replace("dbg\n", "").as_str(), stderr.as_str()),
        ("2\n", "echo 2\n")
    );
    session.run("set +v; trap - DEBUG; trap 'echo err' ERR");
    assert_eq!(session.run("false").1, "err\n");
    assert_eq!(session.good("echo 3"), "3\n");
    assert_eq!(
        session.good("sh -c 'ls /proc/self/fd | sort -n | tr \"\\n\" \" \"'"),
        "0 1 2 3 "
    );
}

#[test]
fn exit_ends_the_session_with_its_code_and_its_traps() {
    assert_eq!(
        Session::start().last("echo before; exit 3"),
        (CommandEnd::Exited(3), "before\n".into())
    );
    let mut session = Session::start();
    session.good("trap 'echo bye' EXIT");
    assert_eq!(
        session.last("f() { exit 4; }; f; echo never"),
        (CommandEnd::Exited(4), "bye\n".into())
    );
    let mut session = Session::start();
    session.good("set -e");
    assert_eq!(
        session.last("echo a; (exit 5); echo never"),
        (CommandEnd::Exited(5), "a\n".into())
    );
    assert_eq!(
        Session::start().last("echo x; kill -9 $$"),
        (CommandEnd::Signaled(9), "x\n".into())
    );
    assert_eq!(
        Session::start().last("exec sh -c 'echo other; exit 6'"),
        (CommandEnd::Exited(6), "other\n".into())
    );
}

#[test]
fn a_command_that_takes_too_long_is_interrupted_and_the_shell_goes_on() {
    let mut session = Session::start();
    session.good("cd /tmp; x=kept");
    for slow in [
        "echo begun; sleep 1000; echo never",
        "echo begun; while :; do :; done; echo never",
        "echo begun; for i in 1 2 3; do sleep 1000; done; echo never",
        "echo begun; y=$(sleep 1000); echo never",
        "echo begun; (sleep 1000; sleep 1000); echo never",
    ] {
        assert_eq!(
            session.too_long(slow),
            (130, "begun\n".into(), String::new()),
            "{slow}"
        );
        assert_eq!(session.good("echo $x $PWD"), "kept /tmp\n", "after {slow}");
    }
    let stubborn = "bash -c 'trap \"\" INT TERM; echo begun; while :; do sleep 1000; done'";
    assert_eq!(session.too_long(stubborn).1, "begun\n");
    session.too_long("trap 'echo caught' INT; sleep 1000; sleep 1000");
    assert_eq!(session.good("trap - INT; echo $x"), "kept\n");
}

#[test]
fn a_shell_that_ignores_interrupts_and_never_ends_loses_its_session() {
    let mut session = Session::start();
    let answer = session.answer("trap '' INT; while :; do :; done", None, SHORT);
    assert_eq!(answer.stopped, Some(StopReason::Timeout));
    assert!(matches!(answer.end, TurnEnd::Over(_)));
}

#[test]
fn background_jobs_delay_no_command_and_survive_timeouts() {
    let mut session = Session::start();
    let alive = session.workspace.fifo("alive");
    session.good("(echo up; exec sleep 1000) >alive & job=$!; echo started");
    session.good("until kill -0 $job; do :; done");
    session.too_long("sleep 1000");
    assert!(is_held(&alive));
    assert_eq!(session.good("kill -0 $job && echo alive"), "alive\n");
    assert_eq!(
        session.good("{ until test -e /tmp/go; do sleep 0.01; done; echo late; } & echo now"),
        "now\n"
    );
    assert_eq!(session.good("touch /tmp/go; wait $!; echo then"), "late\nthen\n");
    session.run("yes >&2 & yes | cat & :");
    // The flood may fill all the room that it has.
    assert_eq!(session.run("(exit 8)").0, 8);
    session.shell.end().unwrap();
    wait_until_free(&alive);
}

#[test]
fn caller_that_stops_waiting_stops_the_command_but_not_the_shell() {
    let mut session = Session::start();
    session.good("x=1");
    let (waiting, caller) = UnixStream::pair().unwrap();
    drop(waiting);
    let turn = ShellTurn {
        text: b"sleep 1000",
        stdin: None,
        timeout: None,
        output_bytes: 1 << 10,
        caller: Some(caller.as_fd()),
    };
    let answer = session.shell.run(turn, &mut |_| ()).unwrap();
    assert_eq!(answer.stopped, Some(StopReason::Cancelled));
    assert_eq!(session.good("echo $x"), "1\n");
}

/// The interrupt may hit the shell at any moment between the output and the wait for the next program.
#[test]
fn commands_that_are_stopped_while_a_program_starts_leave_no_child_behind() {
    let mut session = Session::start();
    for round in 0..300 {
        let (waiting, caller) = UnixStream::pair().unwrap();
        let mut waiting = Some(waiting);
        let turn = ShellTurn {
            text: b"echo begun; sleep 1000",
            stdin: None,
            timeout: None,
            output_bytes: 1 << 10,
            caller: Some(caller.as_fd()),
        };
        let stop_at_output = &mut |event: RunEvent<'_>| {
            if matches!(event, RunEvent::Stdout(_)) {
                drop(waiting.take());
            }
        };
        let answer = session.shell.run(turn, stop_at_output).unwrap();
        assert_eq!(answer.stopped, Some(StopReason::Cancelled), "round {round}");
        let turn = ShellTurn {
            text: b"echo next",
            timeout: Some(Duration::from_secs(20)),
            caller: None,
            ..turn
        };
        let next = session.shell.run(turn, &mut |_| ()).unwrap();
        assert_eq!(next.stdout.bytes(), b"next\n", "round {round}");
    }
}

#[test]
fn a_shell_that_cannot_start_says_why() {
    let workspace = Workspace::new();
    let directory = PipeDirectory::make(&workspace.outside().join("io")).unwrap();
    let plan = SandboxPlan {
        cwd: "/workspace/nowhere".into(),
        ..workspace.plan(&[])
    };
    let error = Shell::start(bubblewrap(), plan, directory).unwrap_err();
    assert_eq!(error.code(), "no_such_directory");
    assert!(!workspace.outside().join("io").exists());
}
