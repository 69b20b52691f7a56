//! Runs under Landlock alone.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixListener;

use avfs_exec::launch::{CommandEnd, Isolation, StopReason};
use avfs_exec::{LaunchOutcome, Launcher, Network, RunLimits, SandboxPlan};

use crate::kit::{
    Workspace, landlocked, launch_and_cancel, launch_by, outside, stderr, stdout, wait_until_free,
};

fn launch(plan: &SandboxPlan) -> LaunchOutcome {
    launch_by(&landlocked(), plan).unwrap()
}

#[track_caller]
fn prints(workspace: &Workspace, script: &str) -> String {
    let outcome = launch(&workspace.shell(script));
    assert_eq!(
        outcome.end,
        CommandEnd::Exited(0),
        "{script}: {}{}",
        stdout(&outcome),
        stderr(&outcome)
    );
    stdout(&outcome)
}

#[test]
fn a_command_works_in_its_directory_and_in_private_places() {
    let workspace = Workspace::reachable();
    let script = "pwd; echo x > made; mkdir d; mv made d/made; touch $HOME/a $TMPDIR/b; cat d/made; env | grep -c avfs-run";
    let said = prints(&workspace, script);
    assert_eq!(said, format!("{}\nx\n2\n", workspace.path().display()));
    let outcome = launch(&workspace.shell("echo $HOME"));
    assert!(
        !std::path::Path::new(stdout(&outcome).trim()).exists(),
        "the private home is still there"
    );
    assert!(matches!(outcome.isolation, Isolation::Landlock { abi } if abi >= 3));
}

#[test]
fn files_of_the_host_can_neither_be_read_nor_written() {
    let workspace = Workspace::reachable();
    let beside = workspace.outside().join("beside");
    std::fs::write(&beside, "outside").unwrap();
    std::fs::set_permissions(&beside, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    std::os::unix::fs::symlink(&beside, workspace.path().join("link")).unwrap();
    let beside = beside.display().to_string();
    outside(&format!("cat {beside} /proc/1/cmdline > /dev/null"));
    for attempt in [
        format!("cat {beside}"),
        "cat link".into(),
        format!("echo x >> {beside}"),
        format!("truncate -s 0 {beside}"),
        format!("ln {beside} hard"),
        format!("mv {beside} ."),
        "ls /tmp".into(),
        "ls /home".into(),
        "cat /proc/1/cmdline".into(),
        "cat /etc/shadow".into(),
        "touch /tmp/probe-of-avfs".into(),
    ] {
        let outcome = launch(&workspace.shell(&attempt));
        assert_ne!(
            outcome.end,
            CommandEnd::Exited(0),
            "{attempt}: {}",
            stdout(&outcome)
        );
    }
    assert_eq!(
        std::fs::read_to_string(workspace.outside().join("beside")).unwrap(),
        "outside"
    );
}

#[test]
fn a_read_only_run_changes_nothing() {
    let workspace = Workspace::reachable();
    workspace.write("file", "kept");
    let outcome = launch(&SandboxPlan {
        read_only: true,
        ..workspace.shell("cat file; echo x > file; touch new; rm -f file")
    });
    assert_eq!(stdout(&outcome), "kept");
    assert_eq!(workspace.read("file"), "kept");
    assert_eq!(std::fs::read_dir(workspace.path()).unwrap().count(), 1);
}

#[test]
fn neither_network_nor_local_sockets_can_be_used() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let place = tempfile::tempdir().unwrap();
    let local = UnixListener::bind(place.path().join("socket")).unwrap();
    std::thread::spawn(move || {
        local
            .incoming()
            .flatten()
            .for_each(|mut stream| drop(stream.write_all(b"x")))
    });
    let program = format!(
        "import socket
def attempt(name, act):
    try:
        act(); print(name, 'went')
    except OSError as error:
        print(name, error.strerror)
attempt('tcp', lambda: socket.create_connection(('127.0.0.1', {}), 20))
attempt('local', lambda: socket.socket(socket.AF_UNIX).connect('{}'))
attempt('pair', lambda: socket.socketpair())
attempt('datagrams', lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))",
        server.local_addr().unwrap().port(),
        place.path().join("socket").display()
    );
    let control = outside(&format!("/usr/bin/python3 -c \"{program}\""));
    assert_eq!(control, "tcp went\nlocal went\npair went\ndatagrams went\n");
    let workspace = Workspace::reachable();
    let plan = workspace.plan(&["/usr/bin/python3", "-c", &program]);
    let refused = "Operation not permitted";
    let said = stdout(&launch(&plan));
    assert_eq!(
        said,
        format!("tcp {refused}\nlocal {refused}\npair went\ndatagrams {refused}\n")
    );
    let said = stdout(&launch(&SandboxPlan {
        network: Network::Host,
        ..plan
    }));
    assert_eq!(
        said,
        format!("tcp went\nlocal {refused}\npair went\ndatagrams {refused}\n")
    );
}

#[test]
fn a_list_of_hosts_needs_a_network_of_its_own() {
    let network = Network::Hosts(vec!["example.com".parse().unwrap()]);
    let workspace = Workspace::reachable();
    let plan = SandboxPlan {
        network,
        ..workspace.plan(&["true"])
    };
    let error = launch_by(&landlocked(), &plan).unwrap_err();
    assert_eq!(error.code(), "cannot_isolate");
}

#[test]
fn processes_that_left_are_ended_with_the_run() {
    let workspace = Workspace::reachable();
    let fifo = workspace.fifo("held");
    let script = "(setsid sh -c 'setsid sleep 999 3>held &' &); exec 3>held; exit 5";
    assert_eq!(launch(&workspace.shell(script)).end, CommandEnd::Exited(5));
    wait_until_free(&fifo);
}

#[test]
fn a_deaf_run_is_killed_with_all_its_processes() {
    let workspace = Workspace::reachable();
    let fifo = workspace.fifo("held");
    let script = "trap '' TERM; (trap '' TERM; setsid sleep 999) 3>held & exec 3>held; echo ready; while :; do sleep 999; done";
    let limits = RunLimits {
        grace: std::time::Duration::from_millis(100),
        ..RunLimits::default()
    };
    let launcher: &dyn Launcher = &landlocked();
    let outcome = launch_and_cancel(
        launcher,
        &SandboxPlan {
            limits,
            ..workspace.shell(script)
        },
    );
    assert_eq!(
        (outcome.end, outcome.stopped),
        (CommandEnd::Signaled(9), Some(StopReason::Cancelled))
    );
    wait_until_free(&fifo);
}

#[test]
fn the_stage_cannot_be_ended_or_read_by_what_it_started() {
    let workspace = Workspace::reachable();
    let outcome = launch(&workspace.shell("kill -KILL $PPID; cat /proc/$PPID/environ; exit 6"));
    assert_eq!(outcome.end, CommandEnd::Exited(6));
    assert!(stderr(&outcome).contains("not permitted"), "{}", stderr(&outcome));
}

#[test]
fn ordinary_tools_work() {
    let workspace = Workspace::reachable();
    let script = "git init -q . && git config user.email a@b && git config user.name n && echo x > f && git add . && \
                  git commit -qm first && git log --oneline | wc -l && /usr/bin/python3 -c 'print(6*7)' && node -e 'console.log(7)'";
    assert_eq!(prints(&workspace, script), "1\n42\n7\n");
}
