//! Several processes at a time in one sandbox.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use avfs_exec::launch::{CommandEnd, LaunchError, StopReason};
use avfs_exec::processes::{
    OutputEvent, OutputEvents, ProcessEnd, ProcessError, ProcessInput, ProcessState, SpawnError,
};
use avfs_exec::terminal::TerminalSize;
use avfs_exec::{ProcessSandbox, ProcessSpec, RunLimits, SandboxPlan, SandboxProcess};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::kit::{Workspace, bubblewrap, is_held, launch, wait_until_free};

const LONG: Option<Duration> = Some(Duration::from_secs(60));

struct Open {
    sandbox: ProcessSandbox,
    workspace: Workspace,
}

impl Open {
    fn start() -> Self {
        Self::in_plan(|plan| plan)
    }

    fn in_plan(change: impl FnOnce(SandboxPlan) -> SandboxPlan) -> Self {
        let workspace = Workspace::new();
        let sandbox = ProcessSandbox::start(bubblewrap(), change(workspace.plan(&[]))).unwrap();
        Self { sandbox, workspace }
    }

    fn limited(change: impl FnOnce(&mut RunLimits)) -> Self {
        Self::in_plan(|mut plan| {
            change(&mut plan.limits);
            plan
        })
    }

    fn shell(&self, script: &str) -> SandboxProcess {
        self.sandbox.spawn(shell(script)).unwrap()
    }

    fn with_input(&self, script: &str) -> SandboxProcess {
        let spec = ProcessSpec {
            input: ProcessInput::Pipe,
            ..shell(script)
        };
        self.sandbox.spawn(spec).unwrap()
    }

    fn with_terminal(&self, command: &[&str]) -> SandboxProcess {
        let spec = ProcessSpec {
            input: ProcessInput::Terminal(size(24, 80)),
            ..ProcessSpec::new(command)
        };
        self.sandbox.spawn(spec).unwrap()
    }

    /// The output of a script that must succeed.
    #[track_caller]
    fn prints(&self, script: &str) -> String {
        let process = self.shell(script);
        assert_eq!(ended(&process).end, CommandEnd::Exited(0), "{}", errors(&process));
        output(&process)
    }
}

fn shell(script: &str) -> ProcessSpec {
    ProcessSpec::new(["sh", "-c", script])
}

fn size(rows: u16, columns: u16) -> TerminalSize {
    TerminalSize { rows, columns }
}

#[track_caller]
fn ended(process: &SandboxProcess) -> ProcessEnd {
    process
        .wait(LONG)
        .unwrap_or_else(|| panic!("{process:?} does not end: {:?}", output(process)))
}

fn output(process: &SandboxProcess) -> String {
    String::from_utf8_lossy(&process.output().stdout.bytes()).into_owned()
}

fn errors(process: &SandboxProcess) -> String {
    String::from_utf8_lossy(&process.output().stderr.bytes()).into_owned()
}

/// Listens to a process until it has written a text, on any stream.
struct Listener {
    events: OutputEvents,
    heard: String,
}

impl Listener {
    fn new(process: &SandboxProcess) -> Self {
        let events = process.subscribe();
        let so_far = events.so_far();
        let heard = [so_far.stdout.bytes(), so_far.stderr.bytes()].concat();
        Self {
            heard: String::from_utf8_lossy(&heard).into_owned(),
            events,
        }
    }

    /// Waits until this was written, and drops everything before it.
    #[track_caller]
    fn expect(&mut self, text: &str) {
        while !self.heard.contains(text) {
            match self.events.receive(LONG) {
                Ok(OutputEvent::Stdout(bytes) | OutputEvent::Stderr(bytes)) => {
                    self.heard += &String::from_utf8_lossy(&bytes);
                }
                Ok(OutputEvent::Skipped { .. } | OutputEvent::Ended(_)) => {}
                Err(error) => panic!("{text:?} is not in {:?}: {error}", self.heard),
            }
        }
        let end = self.heard.find(text).unwrap() + text.len();
        self.heard.drain(..end);
    }
}

#[track_caller]
fn expect(process: &SandboxProcess, text: &str) {
    Listener::new(process).expect(text);
}

/// The first program of the only sandbox of this process, by its number on the host.
fn first_program() -> Pid {
    let children = |pid: &str| -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let told = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).unwrap());
        let all: Vec<String> = told.collect();
        all.concat().split_whitespace().map(str::to_owned).collect()
    };
    // Bubblewrap was also queried for its version.
    let below: Vec<String> = children("self").iter().flat_map(|pid| children(pid)).collect();
    let [first] = &*below else {
        panic!("not one first program: {below:?}")
    };
    Pid::from_raw(first.parse().unwrap()).unwrap()
}

#[test]
fn processes_run_side_by_side_and_share_private_places() {
    let open = Open::start();
    open.prints("mkfifo /tmp/to /tmp/from");
    // Neither process can end without the other.
    let one = open.shell("read line </tmp/to; echo one heard $line; echo back >/tmp/from");
    let other = open.shell("echo hello >/tmp/to; read line </tmp/from; echo other heard $line");
    assert_eq!((ended(&one).status(), ended(&other).status()), (0, 0));
    assert_eq!(output(&one), "one heard hello\n");
    assert_eq!(output(&other), "other heard back\n");
    assert_ne!(one.id(), other.id());
    assert_ne!(one.pid(), other.pid());
}

#[test]
fn streams_of_each_process_are_kept_apart_with_limits_of_their_own() {
    let open = Open::start();
    let loud = open.shell("echo out; echo err >&2");
    let spec = ProcessSpec {
        output_bytes: Some(8),
        ..shell("printf abcdefghijk; printf 12345678 >&2")
    };
    let short = open.sandbox.spawn(spec).unwrap();
    ended(&loud);
    ended(&short);
    assert_eq!(
        (output(&loud).as_str(), errors(&loud).as_str()),
        ("out\n", "err\n")
    );
    let kept = short.output();
    assert_eq!((kept.stdout.total, kept.stdout.truncated()), (11, true));
    assert_eq!(
        (&*kept.stdout.head, &*kept.stdout.tail),
        (&b"abcd"[..], &b"hijk"[..])
    );
    assert_eq!(kept.stderr.bytes(), b"12345678");
}

#[test]
fn input_is_written_piece_by_piece_and_closed() {
    let open = Open::start();
    let cat = open.with_input("cat; echo over");
    let mut heard = Listener::new(&cat);
    for line in ["one\n", "two\n"] {
        cat.write_stdin(line.as_bytes(), LONG).unwrap();
        heard.expect(line);
    }
    assert_eq!(cat.state(), ProcessState::Running);
    cat.close_stdin();
    assert_eq!(ended(&cat).end, CommandEnd::Exited(0));
    assert_eq!(output(&cat), "one\ntwo\nover\n");
    let error = cat.write_stdin(b"more", LONG).unwrap_err();
    assert!(matches!(error, ProcessError::InputClosed), "{error}");
    // The end of input comes after the earlier bytes.
    let count = open.with_input("wc -c");
    count.write_stdin(&vec![b'x'; 3_000_000], LONG).unwrap();
    count.close_stdin();
    ended(&count);
    assert_eq!(output(&count), "3000000\n");
}

#[test]
fn input_of_a_process_that_does_not_read_has_a_bound() {
    let open = Open::start();
    let deaf = open.with_input("exec sleep 1000");
    let error = deaf.write_stdin(&vec![b'x'; 4 << 20], Some(Duration::from_millis(50)));
    assert!(matches!(error, Err(ProcessError::InputFull)), "{error:?}");
    assert_eq!(deaf.try_write_stdin(b"more").unwrap(), 0);
    // A caller that waits for room is notified when there will be none.
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| deaf.write_stdin(b"more", None));
        deaf.kill_group().unwrap();
        let error = writer.join().unwrap();
        assert!(matches!(error, Err(ProcessError::InputClosed)), "{error:?}");
    });
    let nothing = open.shell("cat; echo end");
    assert_eq!(
        (ended(&nothing).status(), output(&nothing).as_str()),
        (0, "end\n")
    );
}

#[test]
fn signals_reach_the_process_or_its_group() {
    let open = Open::start();
    let trap = open.shell("trap 'echo got usr1; exit 5' USR1; echo ready; while :; do sleep 0.05; done");
    expect(&trap, "ready");
    trap.signal(libc::SIGUSR1).unwrap();
    assert_eq!(ended(&trap).end, CommandEnd::Exited(5));
    assert!(output(&trap).ends_with("got usr1\n"));
    let error = trap.signal(libc::SIGUSR1).unwrap_err();
    assert!(matches!(error, ProcessError::Ended), "{error}");

    let held = open.workspace.fifo("held");
    let script = "exec 3>held; (trap '' INT; echo ready; exec sleep 1000) & wait";
    let group = open.shell(script);
    expect(&group, "ready");
    group.signal_group(libc::SIGINT).unwrap();
    assert_eq!(ended(&group).end, CommandEnd::Signaled(libc::SIGINT));
    assert!(is_held(&held), "a process that ignores a signal continues");
    group.signal_group(libc::SIGTERM).unwrap();
    wait_until_free(&held);

    let realtime = open.shell("exec sleep 1000");
    realtime.signal(64).unwrap();
    assert_eq!(ended(&realtime).end, CommandEnd::Signaled(64));
    for signal in [0, -1, 65] {
        let error = realtime.signal_group(signal).unwrap_err();
        assert!(matches!(error, ProcessError::NoSignal { .. }), "{error}");
    }
}

#[test]
fn exit_statuses_and_signals_are_exact() {
    let open = Open::start();
    for code in [0, 1, 2, 126, 127, 255] {
        assert_eq!(
            ended(&open.shell(&format!("exit {code}"))).end,
            CommandEnd::Exited(code)
        );
    }
    for (name, signal) in [("TERM", 15), ("KILL", 9), ("SEGV", 11)] {
        let end = ended(&open.shell(&format!("kill -{name} $$")));
        assert_eq!(
            (end.end, end.status()),
            (CommandEnd::Signaled(signal), 128 + signal)
        );
        assert_eq!(end.stopped, None);
    }
}

#[test]
fn missing_programs_and_directories_are_told_apart() {
    let open = Open::start();
    open.workspace.write("data", "no program");
    let spawn = |spec: ProcessSpec| open.sandbox.spawn(spec).unwrap_err();
    let error = spawn(ProcessSpec::new(["no-such-program"]));
    assert!(matches!(error, SpawnError::NotFound { .. }), "{error}");
    assert_eq!((error.status(), error.code()), (Some(127), "program_not_found"));
    let error = spawn(ProcessSpec::new(["/workspace/data"]));
    assert!(matches!(error, SpawnError::NotExecutable { .. }), "{error}");
    assert_eq!(error.status(), Some(126));
    let error = spawn(ProcessSpec {
        cwd: Some("/workspace/missing".into()),
        ..ProcessSpec::new(["true"])
    });
    assert!(matches!(error, SpawnError::NoDirectory { .. }), "{error}");
    assert!(error.to_string().contains("/workspace/missing"), "{error}");
    assert_eq!(error.status(), None);
    for bad in [
        ProcessSpec::new([""; 0]),
        ProcessSpec::new(["a\0b"]),
        ProcessSpec {
            cwd: Some("relative".into()),
            ..ProcessSpec::new(["true"])
        },
        ProcessSpec {
            env: vec![("A=B".into(), "".into())],
            ..ProcessSpec::new(["true"])
        },
    ] {
        assert_eq!(spawn(bad).code(), "bad_spec");
    }
    // None of them is a process, and the sandbox continues.
    assert_eq!(open.sandbox.processes().len(), 0);
    assert_eq!(open.prints("echo still here"), "still here\n");
}

#[test]
fn each_process_has_its_own_variables_and_directory() {
    let open = Open::in_plan(|plan| SandboxPlan {
        env: vec![
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("BOTH".into(), "plan".into()),
        ],
        network: avfs_exec::Network::Host,
        ..plan
    });
    std::fs::create_dir(open.workspace.path().join("src")).unwrap();
    let spec = ProcessSpec {
        env: vec![("BOTH".into(), "own".into()), ("NEW".into(), "1".into())],
        cwd: Some("/workspace/src".into()),
        ..ProcessSpec::new(["env"])
    };
    let own = open.sandbox.spawn(spec.clone()).unwrap();
    ended(&own);
    assert_eq!(output(&own), "BOTH=own\nNEW=1\nPATH=/usr/bin:/bin\n");
    let usual = open.sandbox.spawn(ProcessSpec::new(["env"])).unwrap();
    ended(&usual);
    assert_eq!(output(&usual), "BOTH=plan\nPATH=/usr/bin:/bin\n");
    let there = ProcessSpec {
        command: vec!["pwd".into()],
        ..spec
    };
    let there = open.sandbox.spawn(there).unwrap();
    ended(&there);
    assert_eq!(output(&there), "/workspace/src\n");
    assert_eq!(open.prints("pwd"), "/workspace\n");
}

#[test]
fn each_process_is_confined_like_a_single_command_and_inherits_nothing() {
    let script = "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp|Seccomp_filters|SigBlk|SigIgn|Groups)' /proc/self/status; \
                  ls /proc/self/fd | tr '\\n' ' '; env | sort; ulimit -a; id; \
                  unshare -U true 2>&1; mkdir /sys/x 2>&1; ls -A /home /tmp; cat /proc/1/environ 2>&1; \
                  set -- $(cat /proc/$$/stat); echo $(($1 - $5)) $(($1 - $6)) $7";
    let workspace = Workspace::new();
    let single = launch(&workspace.shell(script));
    let expected = String::from_utf8(single.stdout.bytes()).unwrap();
    assert!(
        expected.contains("NoNewPrivs:\t1") && expected.contains("Seccomp:\t2"),
        "{expected}"
    );
    let open = Open::start();
    // Beside one whose streams it might have inherited, and one with a terminal.
    let other = open.with_input("cat");
    open.with_terminal(&["cat"]);
    let process = open.shell(script);
    ended(&process);
    assert_eq!(output(&process), expected);
    assert!(output(&process).ends_with("\n0 0 0\n"), "{expected}");
    assert_eq!(other.state(), ProcessState::Running);
}

#[test]
fn landlock_keeps_processes_from_what_mounts_do_not_hide() {
    use std::os::linux::net::SocketAddrExt;
    let name = format!("avfs-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _server = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    std::os::unix::net::UnixStream::connect_addr(&address).expect("the control: outside, it is reached");
    // With the network of the host, abstract names are those of the host.
    let open = Open::in_plan(|plan| SandboxPlan {
        network: avfs_exec::Network::Host,
        ..plan
    });
    let program = format!(
        "import socket
try:
    socket.socket(socket.AF_UNIX).connect('\\0{name}')
    print('reached')
except OSError as error:
    print(error.errno)"
    );
    let process = open
        .sandbox
        .spawn(ProcessSpec::new(["/usr/bin/python3", "-c", &program]))
        .unwrap();
    ended(&process);
    assert_eq!(output(&process), "1\n", "{}", errors(&process));
}

#[test]
fn processes_see_and_signal_each_other_and_share_abstract_sockets() {
    let open = Open::start();
    let victim = open.with_input("MARK=here exec cat");
    let pid = victim.pid().unwrap();
    assert_eq!(
        open.prints(&format!(
            "grep -z MARK /proc/{pid}/environ | tr -d '\\0'; kill -TERM {pid}"
        )),
        "MARK=here"
    );
    assert_eq!(ended(&victim).end, CommandEnd::Signaled(libc::SIGTERM));
    let python = |program: &str| {
        let program = format!("import socket\ns = socket.socket(socket.AF_UNIX)\n{program}");
        open.sandbox
            .spawn(ProcessSpec::new(["/usr/bin/python3", "-c", &program]))
            .unwrap()
    };
    let server =
        python("s.bind('\\0name'); s.listen(); print('ready', flush=True); s.accept()[0].send(b'hi')");
    expect(&server, "ready");
    let client = python("s.connect('\\0name'); print(s.recv(9))");
    assert_eq!(
        (ended(&client).status(), output(&client).as_str()),
        (0, "b'hi'\n")
    );
}

#[test]
fn terminal_has_a_size_that_changes() {
    let open = Open::start();
    let script = "tty; stty size; trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done";
    let process = open.with_terminal(&["sh", "-c", script]);
    let mut heard = Listener::new(&process);
    heard.expect("/dev/pts/0\r\n24 80\r\nready\r\n");
    process.resize(size(50, 132)).unwrap();
    heard.expect("50 132\r\n");
    process.write_stdin(&[3], LONG).unwrap();
    assert_eq!(ended(&process).end, CommandEnd::Signaled(libc::SIGINT));
    let error = open.shell("exit 0").resize(size(1, 1)).unwrap_err();
    assert!(matches!(error, ProcessError::NoTerminal), "{error}");
}

#[test]
fn shell_on_a_terminal_has_jobs_and_each_terminal_is_its_own() {
    let open = Open::start();
    let one = open.with_terminal(&["bash", "--norc", "--noprofile"]);
    let other = open.with_terminal(&["sh", "-c", "stty size; read line; echo other: $line"]);
    let mut heard = Listener::new(&one);
    one.write_stdin(b"sh -c 'echo job-$((1 + 1)); exec sleep 1000'\r", LONG)
        .unwrap();
    heard.expect("job-2");
    one.write_stdin(&[26], LONG).unwrap();
    heard.expect("Stopped");
    one.write_stdin(
        b"tty; kill -9 %1; wait %1; echo still-$((2 + 2)); exit 3; exit 3\r",
        LONG,
    )
    .unwrap();
    heard.expect("still-4\r\n");
    assert_eq!(ended(&one).end, CommandEnd::Exited(3));
    // Input is echoed as it is typed.
    expect(&other, "24 80\r\n");
    other.write_stdin(b"typed\r", LONG).unwrap();
    assert_eq!(ended(&other).end, CommandEnd::Exited(0));
    assert_eq!(output(&other), "24 80\r\ntyped\r\nother: typed\r\n");
    let cat = open.with_terminal(&["cat"]);
    cat.close_stdin();
    assert_eq!(ended(&cat).end, CommandEnd::Exited(0));
}

#[test]
fn last_words_on_a_terminal_are_there_when_it_has_ended() {
    let open = Open::start();
    for round in 0..50 {
        let process = open.with_terminal(&["sh", "-c", "printf 'last words'"]);
        ended(&process);
        assert_eq!(output(&process), "last words", "in round {round}");
    }
}

#[test]
fn terminal_that_is_briefly_closed_is_not_lost() {
    let open = Open::start();
    open.prints("mkfifo /tmp/go");
    let script = "exec <&- >&- 2>&-; read line </tmp/go; echo late >/dev/tty";
    let process = open.with_terminal(&["sh", "-c", script]);
    // Answered after everything that the terminal had printed.
    open.prints("echo >/tmp/go");
    assert_eq!(ended(&process).end, CommandEnd::Exited(0));
    assert_eq!(output(&process), "late\r\n");
}

#[test]
fn another_caller_finds_a_process_again_with_its_output() {
    let open = Open::start();
    let id = {
        let process = open.with_input("echo first; read line; echo second; read line; exit 9");
        expect(&process, "first\n");
        process.id()
    };
    let again = open.sandbox.process(id).unwrap();
    assert_eq!(again.command()[0], "sh");
    let (mut one, mut two) = (again.subscribe(), again.subscribe());
    assert_eq!(one.so_far().stdout.bytes(), b"first\n");
    again.write_stdin(b"\n", LONG).unwrap();
    for events in [&mut one, &mut two] {
        let heard = events.receive(LONG);
        assert_eq!(heard, Ok(OutputEvent::Stdout(b"second\n".as_slice().into())));
    }
    drop(one);
    again.close_stdin();
    let rest: Vec<_> = two.collect();
    assert_eq!(rest, [OutputEvent::Ended(ended(&again))]);
    let late = open.sandbox.process(id).unwrap();
    assert_eq!(late.wait(None).unwrap().end, CommandEnd::Exited(9));
    assert_eq!(output(&late), "first\nsecond\n");
    assert_eq!(late.subscribe().collect::<Vec<_>>().len(), 1);
    assert!(open.sandbox.process(id + 1).is_none());
}

#[test]
fn listeners_and_waiters_of_one_process_hear_everything_from_several_threads() {
    let open = Open::start();
    let process = open.with_input("read line; seq 1 20000");
    let expected: String = (1..=20_000).map(|number| format!("{number}\n")).collect();
    std::thread::scope(|scope| {
        let listen = |events: OutputEvents| {
            let mut heard = Vec::new();
            for event in events {
                match event {
                    OutputEvent::Stdout(bytes) => heard.extend_from_slice(&bytes),
                    OutputEvent::Ended(_) => break,
                    other => panic!("{other:?}"),
                }
            }
            heard
        };
        let listeners: Vec<_> = (0..4)
            .map(|_| {
                let events = process.subscribe();
                scope.spawn(move || listen(events))
            })
            .collect();
        let waiter = scope.spawn(|| ended(&process));
        process.write_stdin(b"\n", LONG).unwrap();
        for listener in listeners {
            assert_eq!(String::from_utf8(listener.join().unwrap()).unwrap(), expected);
        }
        assert_eq!(waiter.join().unwrap().end, CommandEnd::Exited(0));
    });
    assert_eq!(output(&process), expected);
}

#[test]
fn timeout_of_one_process_ends_it_with_its_group_and_no_other() {
    let open = Open::limited(|limits| limits.grace = Duration::from_millis(200));
    let held = open.workspace.fifo("held");
    let other = open.with_input("cat");
    let timed = |script: &str| {
        let spec = ProcessSpec {
            timeout: Some(Duration::from_millis(100)),
            ..shell(script)
        };
        open.sandbox.spawn(spec).unwrap()
    };
    let polite = timed("exec 3>held; trap 'echo cleaned; exit 7' TERM; while :; do sleep 0.01; done");
    let end = ended(&polite);
    assert_eq!(
        (end.end, end.stopped),
        (CommandEnd::Exited(7), Some(StopReason::Timeout))
    );
    assert_eq!(output(&polite), "cleaned\n");
    let deaf = timed("exec 3>held; trap '' TERM; sleep 1000 & while :; do sleep 1000; done");
    let end = ended(&deaf);
    assert_eq!(
        (end.end, end.stopped),
        (CommandEnd::Signaled(libc::SIGKILL), Some(StopReason::Timeout))
    );
    wait_until_free(&held);
    assert_eq!(timed("exit 3").wait(LONG).unwrap().stopped, None);
    other.write_stdin(b"alive", LONG).unwrap();
    other.close_stdin();
    assert_eq!(
        (ended(&other).end, output(&other).as_str()),
        (CommandEnd::Exited(0), "alive")
    );
}

#[test]
fn fifty_processes_run_at_once() {
    let open = Open::start();
    let held = open.workspace.fifo("held");
    let all: Vec<SandboxProcess> = (0..50)
        .map(|number| {
            open.with_input(&format!(
                "exec 3>held; echo {number} ready; read line; echo $line; exit {number}"
            ))
        })
        .collect();
    for (number, process) in all.iter().enumerate() {
        expect(process, &format!("{number} ready\n"));
    }
    let running = |process: &SandboxProcess| process.state() == ProcessState::Running;
    let listed = open.sandbox.processes();
    assert!(listed.len() == 50 && listed.iter().all(running));
    let pids: BTreeSet<_> = listed.iter().map(|process| process.pid().unwrap()).collect();
    assert_eq!(pids.len(), 50);
    for (number, process) in all.iter().enumerate() {
        process
            .write_stdin(format!("to {number}\n").as_bytes(), LONG)
            .unwrap();
    }
    for (number, process) in all.iter().enumerate() {
        assert_eq!(
            ended(process).end,
            CommandEnd::Exited(i32::try_from(number).unwrap())
        );
        assert_eq!(output(process), format!("{number} ready\nto {number}\n"));
    }
    wait_until_free(&held);
}

#[test]
fn two_threads_spawn_at_once() {
    let open = Open::start();
    let ids = std::thread::scope(|scope| {
        let threads = [0, 1].map(|thread| {
            let open = &open;
            scope.spawn(move || {
                (0..30)
                    .map(|round| {
                        let word = format!("{thread}-{round}");
                        let process = open.shell(&format!("echo {word}"));
                        assert_eq!(ended(&process).end, CommandEnd::Exited(0));
                        assert_eq!(output(&process), format!("{word}\n"));
                        process.id()
                    })
                    .collect::<Vec<_>>()
            })
        });
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 60);
}

#[test]
fn flood_of_one_process_is_bounded_and_disturbs_no_other() {
    let open = Open::start();
    let floods = ["cat /dev/zero", "cat /dev/zero >&2", "yes"].map(|script| open.shell(script));
    let events = floods[0].subscribe();
    for round in 0..20 {
        assert_eq!(open.prints(&format!("echo {round}")), format!("{round}\n"));
    }
    let much = |process: &SandboxProcess| {
        let output = process.output();
        output.stdout.total.max(output.stderr.total) > 8 << 20
    };
    let deadline = Instant::now() + LONG.unwrap();
    while !floods.iter().all(much) {
        assert!(Instant::now() < deadline, "nothing floods");
        std::thread::yield_now();
    }
    for flood in &floods {
        assert_eq!(flood.state(), ProcessState::Running);
        let output = flood.output();
        for kept in [output.stdout, output.stderr] {
            assert!(kept.head.len() + kept.tail.len() <= RunLimits::default().output_bytes);
        }
        flood.kill_group().unwrap();
        assert_eq!(ended(flood).end, CommandEnd::Signaled(libc::SIGKILL));
    }
    // A listener that has not listened learns how much it missed, and nothing is counted twice.
    let (mut skipped, mut heard) = (0, events.so_far().stdout.total);
    for event in events {
        match event {
            OutputEvent::Skipped { bytes } => skipped += bytes,
            OutputEvent::Stdout(bytes) => heard += bytes.len() as u64,
            OutputEvent::Stderr(_) | OutputEvent::Ended(_) => {}
        }
    }
    assert!(skipped > 0);
    assert_eq!(skipped + heard, floods[0].output().stdout.total);
}

#[test]
fn background_processes_live_on_and_their_output_is_read() {
    let open = Open::start();
    open.prints("mkfifo /tmp/go");
    let process = open.shell("(read line </tmp/go; echo late $line) & echo early; exit 4");
    let mut events = process.subscribe();
    assert_eq!(ended(&process).end, CommandEnd::Exited(4));
    assert_eq!(output(&process), "early\n");
    open.prints("echo word >/tmp/go");
    let mut heard = events.so_far().stdout.bytes();
    for event in &mut events {
        match event {
            OutputEvent::Stdout(bytes) => heard.extend_from_slice(&bytes),
            OutputEvent::Ended(end) => {
                assert_eq!(end.end, CommandEnd::Exited(4));
                heard.extend_from_slice(b"[end]");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(heard, b"early\n[end]late word\n");
    assert_eq!(output(&process), "early\nlate word\n");
}

#[test]
fn group_of_an_ended_process_can_be_killed() {
    let open = Open::start();
    let held = open.workspace.fifo("held");
    let process = open.shell("exec 3>held; trap '' HUP TERM; sleep 1000 & sleep 1000 & exit 0");
    assert_eq!(ended(&process).end, CommandEnd::Exited(0));
    assert!(is_held(&held));
    process.kill_group().unwrap();
    wait_until_free(&held);
    // Jobs of an interactive shell have groups of their own.
    let held = open.workspace.fifo("jobs");
    let bash = open.with_terminal(&["bash", "--norc", "--noprofile"]);
    bash.write_stdin(
        b"exec 3>jobs; trap '' HUP; sleep 1000 & sleep 1000 & exec 3>&-; echo made-$((1 + 1))\r",
        LONG,
    )
    .unwrap();
    expect(&bash, "made-2");
    assert!(is_held(&held));
    bash.kill_group().unwrap();
    assert_eq!(ended(&bash).end, CommandEnd::Signaled(libc::SIGKILL));
    wait_until_free(&held);
    // A number must not refer to a later process.
    process.kill_group().unwrap();
    assert_eq!(open.prints("echo fine"), "fine\n");
}

/// Starts processes that hold the pipe, ignore all signals and have sessions of their own.
fn leave_deaf_processes(open: &Open) -> (File, SandboxProcess) {
    let held = open.workspace.fifo("held");
    let process = open.shell(
        "trap '' HUP TERM INT; setsid nohup sleep 999 3>held >/dev/null 2>&1 & \
         (setsid sh -c 'setsid sleep 999 3>held &' &); exec 3>held; echo ready; sleep 999; sleep 999",
    );
    expect(&process, "ready");
    (held, process)
}

#[test]
fn end_of_the_sandbox_is_the_end_of_everything_in_it() {
    let open = Open::limited(|limits| limits.grace = Duration::from_millis(100));
    let (held, deaf) = leave_deaf_processes(&open);
    let polite = open.shell("trap 'echo cleaned; exit 3' TERM; echo ready; while :; do sleep 0.01; done");
    expect(&polite, "ready");
    let first = pidfd_open(first_program(), PidfdFlags::empty()).unwrap();
    assert!(is_held(&held));
    let Open { sandbox, workspace } = open;
    let outcome = sandbox.end().unwrap();
    assert_eq!(outcome.stopped, Some(StopReason::Cancelled));
    assert!(!is_held(&held), "a process is left");
    // The first program of a namespace ends after all others of it.
    let at_once = Timespec::default();
    let mut fds = [PollFd::new(&first, PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&at_once)), Ok(1));
    assert_eq!(ended(&deaf).end, CommandEnd::Signaled(libc::SIGKILL));
    assert_eq!(ended(&deaf).stopped, Some(StopReason::Cancelled));
    assert_eq!(
        (ended(&polite).end, output(&polite).ends_with("cleaned\n")),
        (CommandEnd::Exited(3), true)
    );
    drop(workspace);
    // Handles outlive the sandbox, and report its end.
    assert!(matches!(deaf.kill_group(), Err(ProcessError::SandboxEnded)));
    assert!(matches!(deaf.signal(9), Err(ProcessError::Ended)));
}

#[test]
fn dropped_sandbox_ends_everything_and_notifies_waiting_callers() {
    let open = Open::start();
    let (held, deaf) = leave_deaf_processes(&open);
    let mut events = deaf.subscribe();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| ended(&deaf));
        drop(open.sandbox);
        assert!(!is_held(&held), "a process is left");
        assert_eq!(waiter.join().unwrap().end, CommandEnd::Signaled(libc::SIGKILL));
    });
    let last = events.by_ref().last();
    assert!(matches!(last, Some(OutputEvent::Ended(_))), "{last:?}");
    assert!(events.next().is_none());
}

#[test]
fn idle_sandbox_ends_without_waiting_for_its_grace() {
    let open = Open::limited(|limits| limits.grace = Duration::from_secs(600));
    open.prints("true");
    open.shell("exec sleep 1000");
    assert_eq!(open.sandbox.end().unwrap().end, CommandEnd::Exited(0));
}

#[test]
fn time_limit_of_the_plan_ends_the_sandbox() {
    let open = Open::limited(|limits| limits.timeout = Some(Duration::from_millis(300)));
    let process = open.shell("exec sleep 1000");
    assert!(open.sandbox.wait(LONG));
    assert_eq!(ended(&process).stopped, Some(StopReason::Timeout));
    let error = open.sandbox.spawn(shell("true")).unwrap_err();
    assert!(matches!(error, SpawnError::SandboxEnded), "{error}");
    assert_eq!(open.sandbox.end().unwrap().stopped, Some(StopReason::Timeout));
}

#[test]
fn cancel_from_elsewhere_ends_the_sandbox() {
    let open = Open::start();
    let process = open.shell("exec sleep 1000");
    open.sandbox.cancel().cancel();
    assert_eq!(ended(&process).end, CommandEnd::Signaled(libc::SIGTERM));
    assert!(open.sandbox.wait(LONG));
    assert!(matches!(
        open.sandbox.processes()[0].state(),
        ProcessState::Ended(_)
    ));
}

#[test]
fn death_of_the_first_program_ends_everything_and_is_reported() {
    let open = Open::start();
    let (held, deaf) = leave_deaf_processes(&open);
    let waiting = open.with_input("cat");
    std::thread::scope(|scope| {
        let waiters = [&deaf, &waiting].map(|process| scope.spawn(|| ended(process)));
        kill_process(first_program(), Signal::KILL).unwrap();
        for waiter in waiters {
            let end = waiter.join().unwrap();
            assert_eq!(
                (end.end, end.stopped),
                (CommandEnd::Signaled(libc::SIGKILL), None)
            );
        }
    });
    assert!(open.sandbox.wait(LONG));
    assert!(!is_held(&held));
    let error = open.sandbox.spawn(shell("true")).unwrap_err();
    assert!(matches!(error, SpawnError::SandboxEnded), "{error}");
    let error = waiting.write_stdin(b"x", LONG).unwrap_err();
    assert!(matches!(error, ProcessError::InputClosed), "{error}");
    assert_eq!(
        open.sandbox.end().unwrap().end,
        CommandEnd::Signaled(libc::SIGKILL)
    );
}

#[test]
fn first_program_is_out_of_reach_for_processes() {
    let open = Open::start();
    let script = "kill -9 1; kill -STOP 1; ls /proc/1/fd 2>&1; kill -9 -1; echo not reached";
    let process = open.shell(script);
    ended(&process);
    assert!(!output(&process).contains("socket"), "{}", output(&process));
    assert_eq!(open.prints("echo fine"), "fine\n");
}

#[test]
fn ended_processes_stay_in_the_list_until_they_are_forgotten() {
    let open = Open::start();
    let (one, two) = (open.shell("exit 1"), open.with_input("cat"));
    ended(&one);
    let states: Vec<_> = open
        .sandbox
        .processes()
        .iter()
        .map(|process| (process.id(), process.state() == ProcessState::Running))
        .collect();
    assert_eq!(states, [(one.id(), false), (two.id(), true)]);
    assert!(!open.sandbox.forget(two.id()), "it runs");
    assert!(open.sandbox.forget(one.id()) && !open.sandbox.forget(one.id()));
    assert!(open.sandbox.process(one.id()).is_none());
    assert_eq!(ended(&one).end, CommandEnd::Exited(1), "who has it still has it");
    for _ in 0..300 {
        ended(&open.sandbox.spawn(ProcessSpec::new(["true"])).unwrap());
    }
    let listed = open.sandbox.processes();
    // The last ones may just have ended.
    assert!(listed.len() < 270, "{}", listed.len());
    assert_eq!(listed[0].id(), two.id(), "what runs is not forgotten");
}

#[test]
fn limits_hold_for_all_processes_together_and_usage_is_reported() {
    let open = Open::limited(|limits| limits.pids = Some(20));
    let script = "i=0; while [ $i -lt 15 ]; do sleep 1000 & i=$((i + 1)); done; echo made; wait";
    let many = open.shell(script);
    expect(&many, "made");
    let mut failed = None;
    let mut others = Vec::new();
    for _ in 0..20 {
        match open.sandbox.spawn(ProcessSpec::new(["sleep", "1000"])) {
            Ok(process) => others.push(process),
            Err(error) => failed = Some(error),
        }
    }
    let error = failed.expect("no limit");
    assert!(matches!(error, SpawnError::System { .. }), "{error}");
    assert!(others.len() < 6);
    many.kill_group().unwrap();
    ended(&many);
    for other in others {
        other.kill_group().unwrap();
        ended(&other);
    }
    assert_eq!(open.prints("echo room"), "room\n");
    if open.sandbox.limits_by() != avfs_exec::limits::LimitsBy::Rlimits {
        assert!(!open.sandbox.limits_hit().is_empty());
        assert!(open.sandbox.usage().memory.is_some_and(|bytes| bytes > 0));
    }
}

#[test]
fn network_refusals_are_reported_while_the_sandbox_is_open() {
    let open = Open::start();
    let process = open.shell("curl -sS -m 20 http://not-listed.example/");
    ended(&process);
    let refusals = open.sandbox.take_refusals();
    assert_eq!(refusals.len(), 1, "{}", errors(&process));
    assert_eq!(refusals[0].target, "not-listed.example:80");
    assert_eq!(open.sandbox.take_refusals(), []);
}

#[test]
fn sandbox_that_cannot_be_made_is_an_error_of_its_start() {
    let workspace = Workspace::new();
    let plan = SandboxPlan {
        cwd: "/workspace/missing".into(),
        ..workspace.plan(&[])
    };
    let error = ProcessSandbox::start(bubblewrap(), plan).unwrap_err();
    assert!(matches!(error, LaunchError::NoDirectory { .. }), "{error}");
    let inside = avfs_exec::launch::InnerProgram::new(crate::kit::STAGE);
    let launcher = avfs_exec::Bubblewrap::at("/nonexistent/bwrap", inside);
    let error = ProcessSandbox::start(launcher, workspace.plan(&[])).unwrap_err();
    assert_eq!(error.code(), "cannot_isolate");
}

#[test]
fn sandbox_and_handles_can_be_shared_between_threads() {
    fn is_shared<T: Send + Sync>(_: &T) {}
    let open = Open::start();
    let process = open.shell("true");
    is_shared(&open.sandbox);
    is_shared(&process);
    is_shared(&process.subscribe());
    is_shared(&Arc::new(open.sandbox));
}
