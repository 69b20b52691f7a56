//! Parts of the host that must not be visible: its files, its processes, its secrets, its sockets.

use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;

use avfs_exec::launch::CommandEnd;
use avfs_exec::plan::UNPRIVILEGED;
use avfs_exec::{Network, SandboxPlan};

use crate::kit::{STAGE, Workspace, is_root, launch, outside, prints, prints_of, run, stderr, stdout};

#[test]
fn the_root_holds_what_was_put_there() {
    let names = prints("ls -A /");
    for name in names.lines() {
        let known = [
            "bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "nix", "proc", "run", "sbin",
        ];
        let more = ["tmp", "usr", "var", "workspace"];
        assert!(
            known.contains(&name) || more.contains(&name),
            "{name} is in the root"
        );
    }
    assert_eq!(
        prints("ls -A /home /home/agent /tmp"),
        "/home:\nagent\n\n/home/agent:\n\n/tmp:\n"
    );
}

#[test]
fn secrets_of_the_system_are_not_there() {
    outside("test -e /etc/shadow && test -d /etc/ssl && test -d /sys");
    for path in [
        "/etc/shadow",
        "/etc/ssl/private",
        "/root",
        "/sys",
        "/boot",
        "/var/lib",
        "/etc/ssh",
        "/dev/fuse",
        "/dev/kvm",
    ] {
        assert_eq!(
            run(&format!("test -e {path}")).end,
            CommandEnd::Exited(1),
            "{path}"
        );
    }
}

#[test]
fn nothing_but_the_workspace_and_private_places_can_be_written() {
    let writable = prints(
        "for d in / /usr /usr/bin /etc /dev /dev/shm /run /run/avfs /var /home /tmp /home/agent /workspace /proc/sys/kernel; do \
         touch $d/probe 2>/dev/null && echo $d; done; true",
    );
    assert_eq!(writable, "/dev/shm\n/tmp\n/home/agent\n/workspace\n");
    assert_ne!(run("echo x >> /run/avfs/inside").end, CommandEnd::Exited(0));
    assert_ne!(
        run("echo 1 > /proc/sys/kernel/core_uses_pid").end,
        CommandEnd::Exited(0)
    );
}

#[test]
fn private_places_are_empty_again_in_the_next_run() {
    let workspace = Workspace::new();
    prints_of(&workspace.shell("touch /tmp/mine /home/agent/mine"));
    assert_eq!(
        prints_of(&workspace.shell("ls -A /tmp /home/agent")),
        "/home/agent:\n\n/tmp:\n"
    );
}

#[test]
fn a_read_only_run_changes_nothing() {
    let workspace = Workspace::new();
    workspace.write("file", "kept");
    let plan = SandboxPlan {
        read_only: true,
        also_at: Some("/srv/app".into()),
        ..workspace.shell(
            "cat file; for f in file /srv/app/file new; do echo x > $f || echo refused; done; rm -f file",
        )
    };
    let outcome = launch(&plan);
    assert_eq!(stdout(&outcome), "keptrefused\nrefused\nrefused\n");
    assert!(
        stderr(&outcome).contains("Read-only file system"),
        "{}",
        stderr(&outcome)
    );
    assert_eq!(workspace.read("file"), "kept");
}

#[test]
fn links_in_the_workspace_lead_nowhere_outside() {
    let workspace = Workspace::new();
    std::fs::write(workspace.outside().join("secret"), "outside").unwrap();
    let target = workspace.outside().join("secret");
    std::os::unix::fs::symlink(&target, workspace.path().join("link")).unwrap();
    std::os::unix::fs::symlink("../secret", workspace.path().join("up")).unwrap();
    assert_eq!(
        std::fs::read_to_string(workspace.path().join("link")).unwrap(),
        "outside"
    );
    let outcome = launch(&workspace.shell("cat link up ../secret; echo x > link; ls -d /workspace/.."));
    assert_eq!(stdout(&outcome), "/workspace/..\n");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "outside");
}

#[test]
fn there_are_no_capabilities_and_no_way_to_get_any() {
    let status = prints("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status");
    let expected =
        ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(|name| format!("{name}:\t0000000000000000\n"));
    assert_eq!(
        status,
        format!("{}NoNewPrivs:\t1\nSeccomp:\t2\n", expected.concat())
    );
}

#[test]
fn run_started_by_root_has_another_user_on_the_host() {
    let workspace = Workspace::new();
    prints_of(&workspace.shell("touch made"));
    use std::os::unix::fs::MetadataExt;
    let owner = std::fs::metadata(workspace.path().join("made")).unwrap().uid();
    let expected = if is_root() {
        UNPRIVILEGED
    } else {
        rustix::process::geteuid().as_raw()
    };
    assert_eq!(owner, expected);
}

#[test]
fn only_the_runs_own_processes_are_there_and_the_first_one_is_closed() {
    let processes = prints("ls /proc | grep -c '^[0-9]'");
    assert!(processes.trim().parse::<u32>().unwrap() <= 5, "{processes}");
    for name in ["environ", "mem", "maps", "fd", "cwd", "root", "exe", "auxv"] {
        outside(&format!("ls -L /proc/self/{name} > /dev/null"));
        let outcome = run(&format!("cat /proc/1/{name} 2>&1 || ls /proc/1/{name}/"));
        assert_ne!(outcome.end, CommandEnd::Exited(0), "{name}: {}", stdout(&outcome));
        assert!(
            stdout(&outcome).contains("Permission denied"),
            "{name}: {}",
            stdout(&outcome)
        );
    }
    assert_ne!(
        run("kill -KILL 1 2>/dev/null; kill -0 1").end,
        CommandEnd::Signaled(9)
    );
}

#[test]
fn the_environment_and_the_descriptors_of_the_caller_stay_outside() {
    let workspace = Workspace::new();
    let secret = workspace.outside().join("secret");
    std::fs::write(&secret, "outside").unwrap();
    let names = [
        "AWS_SECRET_ACCESS_KEY",
        "SSH_AUTH_SOCK",
        "BASH_ENV",
        "PYTHONPATH",
        "GIT_DIR",
    ];
    let inside = "env; ls /proc/self/fd; cat <&3; cat <&2048; cat /proc/*/environ";
    let script = r#"exec 3<"$1" 2048<"$1"; test "$(ls /proc/self/fd | grep -c -E '^(3|2048)$')" = 2 || exit 99; exec "$2" bubblewrap "$3" bash -c "$4""#;
    let mut command = Command::new("bash");
    command
        .args(["-c", script, "-"])
        .arg(&secret)
        .arg(STAGE)
        .arg(workspace.path())
        .arg(inside);
    command.envs(names.map(|name| (name, "leaked-value")));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("HOME=/home/agent"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        !said.contains("leaked-value") && !said.contains("outside"),
        "{said}"
    );
    assert!(said.lines().all(|line| line != "2048"), "{said}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("Bad file descriptor"));
}

const CONNECT: &str = "import socket,sys
s=socket.socket(socket.AF_UNIX)
s.settimeout(20)
s.connect(sys.argv[1].replace('@','\\0',1))
print(s.recv(9).decode())";

/// Whether a Python program that connects to a local address gets an answer.
fn connects(plan: impl Fn(&[&str]) -> (bool, String), address: &str) -> (bool, String) {
    plan(&["/usr/bin/python3", "-c", CONNECT, address])
}

fn here(command: &[&str]) -> (bool, String) {
    let output = Command::new(command[0]).args(&command[1..]).output().unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn sockets_of_the_host_cannot_be_reached_by_name() {
    let path = tempfile::tempdir().unwrap();
    let name = format!("avfs-test-{}", std::process::id());
    let listeners = [
        UnixListener::bind(path.path().join("socket")).unwrap(),
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
    ];
    for listener in listeners {
        std::thread::spawn(move || {
            listener
                .incoming()
                .flatten()
                .for_each(|mut s| drop(s.write_all(b"host\n")))
        });
    }
    let workspace = Workspace::new();
    for network in [Network::None, Network::Host] {
        let inside = |command: &[&str]| {
            let outcome = launch(&SandboxPlan {
                network: network.clone(),
                ..workspace.plan(command)
            });
            (outcome.end == CommandEnd::Exited(0), stderr(&outcome))
        };
        for (address, errors) in [
            (
                path.path().join("socket").to_str().unwrap().to_owned(),
                &["FileNotFoundError"][..],
            ),
            (format!("@{name}"), &["ConnectionRefusedError", "PermissionError"]),
        ] {
            assert!(connects(here, &address).0, "the control cannot connect");
            let (connected, said) = connects(inside, &address);
            assert!(
                !connected && errors.iter().any(|error| said.contains(error)),
                "{network:?} {address}: {said}"
            );
        }
    }
}

#[test]
fn devices_cannot_be_made() {
    if is_root() {
        let place = tempfile::tempdir().unwrap();
        outside(&format!("mknod {}/null c 1 3", place.path().display()));
    }
    let outcome = run("mknod null c 1 3 || mknod /tmp/null b 7 0");
    assert_eq!(outcome.end, CommandEnd::Exited(1));
    assert_eq!(
        stderr(&outcome).matches("Operation not permitted").count(),
        2,
        "{}",
        stderr(&outcome)
    );
    assert_eq!(prints("mkfifo pipe && test -p pipe && echo made"), "made\n");
}

#[test]
fn namespaces_and_mounts_cannot_be_made() {
    for command in [
        "unshare -Ur true",
        "unshare -m true",
        "mount -t tmpfs none /tmp",
        "chroot /tmp true",
    ] {
        let outcome = run(command);
        assert_ne!(outcome.end, CommandEnd::Exited(0), "{command}");
        let said = stderr(&outcome);
        assert!(
            said.contains("not permitted") || said.contains("superuser") || said.contains("denied"),
            "{command}: {said}"
        );
    }
    outside("unshare -Ur true");
}
