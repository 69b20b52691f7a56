//! What a run cannot reach, with a vault around it. Each restriction has its control: the same action without
//! it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::process::Stdio;

use serde_json::Value;

use crate::ordinary::User;
use crate::program::end_of;
use crate::runs::{Answer, EVERYTHING, Runs, outside};

#[test]
fn secrets_of_the_vault_are_not_there_through_rules() {
    let runs = Runs::new();
    for (name, text) in [
        (".env", "TOKEN=1"),
        ("secrets/key", "2"),
        ("src/id_rsa", "3"),
        ("src/main.py", "4"),
    ] {
        runs.avfs(&["write", "-p", name, text]);
    }
    let look = "find . -type f | sort; cat .env secrets/key src/id_rsa src/main.py 2>&1; echo x > .env; true";
    let answer = runs.free(&["--preset", "development"], look);
    let missing = |name: &str| format!("cat: {name}: No such file or directory\n");
    let expected = format!(
        "./src/main.py\n{}{}{}4\n",
        missing(".env"),
        missing("secrets/key"),
        missing("src/id_rsa")
    );
    assert_eq!(answer.stdout(), expected);
    assert!(
        answer.stderr().contains(".env: Permission denied"),
        "{}",
        answer.stderr()
    );
    assert_eq!(answer.changes(), [""; 0]);
    let control = runs.prints(&[], "cat .env secrets/key src/id_rsa");
    assert_eq!(control, "TOKEN=1\n2\n3\n");
}

#[test]
fn hooks_and_settings_of_git_are_not_written_and_git_works() {
    let runs = Runs::new();
    let git = "git -c user.name=a -c user.email=a@b";
    let made = format!("git init -q -b main . && echo 1 > f && git add f && {git} commit -qm one");
    assert_eq!(runs.free(&[], &made).status, 0);
    let attack = "for f in .git/hooks/post-commit .git/config .envrc .mcp.json; do echo x >> $f && echo wrote $f; done; true";
    for preset in ["agent-safe", "development"] {
        let answer = runs.free(&["--preset", preset], attack);
        assert_eq!(
            (answer.stdout().as_str(), answer.changes()),
            ("", vec![]),
            "{preset}"
        );
        assert_eq!(
            answer.stderr().matches("Permission denied").count(),
            4,
            "{preset}: {}",
            answer.stderr()
        );
    }
    let commit = format!("echo 2 > f && git add f && {git} commit -qm two && git log --format=%s");
    assert_eq!(runs.prints(&["--preset", "development"], &commit), "two\none\n");
    let control = runs.free(&[], attack);
    assert_eq!(control.stdout().lines().count(), 4, "{:#}", control.value);
}

/// The properties of the sandbox, the same for root and for an ordinary user.
const WALLS: &str = r"
id -un; pwd
grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp:)' /proc/self/status | tr '\t' ' '
cat /etc/shadow /proc/1/environ 2>&1 | sed 's/^/read: /'
ls -A /root /home 2>&1
mknod dev c 1 3 2>&1
mount -t tmpfs x /tmp 2>&1 | head -1
unshare -Ur true 2>&1
ls /dev/fuse /dev/kvm 2>&1
ls /proc/self/fd | wc -l
ls -d /proc/[0-9]* | wc -l | { read n; test $n -lt 12 && echo few processes; }
";

#[track_caller]
fn assert_walls(answer: &Answer) {
    assert_eq!(answer.error_code(), "", "{:#}", answer.value);
    let said = answer.stdout();
    let expected = [
        "agent",
        "/workspace",
        "CapEff: 0000000000000000",
        "NoNewPrivs: 1",
        "Seccomp: 2",
        "read: cat: /etc/shadow: No such file or directory",
        "read: cat: /proc/1/environ: Permission denied",
        "ls: cannot access '/root': No such file or directory",
        "mknod: dev: Operation not permitted",
        "mount: /tmp: must be superuser to use mount.",
        "unshare: unshare failed: Operation not permitted",
        "ls: cannot access '/dev/fuse': No such file or directory",
        "ls: cannot access '/dev/kvm': No such file or directory",
        "4",
        "few processes",
    ];
    for line in expected {
        assert!(
            said.lines().any(|one| one == line),
            "{line:?} is missing in\n{said}"
        );
    }
    assert_eq!(answer.changes(), [""; 0]);
}

#[test]
fn the_walls_stand_when_root_starts_it() {
    let runs = Runs::new();
    assert_walls(&runs.free(&[], WALLS));
    assert!(outside("head -c 5 /etc/shadow; tr '\\0' '\\n' < /proc/1/environ | wc -l").starts_with("root:"));
}

#[test]
fn the_walls_stand_when_an_ordinary_user_starts_it() {
    let user = User::new();
    let policy = user.write("everything.toml", EVERYTHING);
    let answer = |script: &str| {
        let words = ["exec", "--json", "--policy", &policy, "-c", script];
        Answer::of(&end_of(user.command(&user.program(), &words), b""))
    };
    assert_walls(&answer(WALLS));
    let answer = answer("echo 1 > file; stat -c %U file; cat /etc/passwd | wc -l; exit 4");
    assert_eq!(
        (answer.status, answer.changes()),
        (4, vec!["added /file".to_owned()])
    );
    assert!(answer.stdout().starts_with("agent\n"), "{}", answer.stdout());
    assert_eq!(user.avfs(&["cat", "file"]), "1\n");
    user.avfs(&["undo"]);
    assert_eq!(user.avfs(&["ls"]), "");
}

#[test]
fn nothing_of_the_callers_environment_and_descriptors_comes_in() {
    let runs = Runs::new();
    let policy = runs.path("everything.toml").display().to_string();
    let script = "env; ls /proc/self/fd; cat <&7 && echo leaked; true";
    let exec = runs.command(&["--policy", &policy, "-c", script]);
    // A shell opens descriptors that `avfs` inherits.
    let mut shell = std::process::Command::new("/bin/bash");
    shell.args([
        "-c",
        "exec 7</etc/hostname 200</etc/hostname; exec \"$@\"",
        "shell",
    ]);
    shell.arg(exec.get_program()).args(exec.get_args());
    shell
        .env("AVFS_HOME", runs.ground.home())
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env_remove("AVFS_VAULT");
    for name in [
        "AWS_SECRET_ACCESS_KEY",
        "SSH_AUTH_SOCK",
        "LD_PRELOAD_X",
        "BASH_ENV",
        "GITHUB_TOKEN",
    ] {
        shell.env(name, "/secret/value");
    }
    let answer = Answer::of(&end_of(shell, b""));
    assert!(!answer.stdout().contains("secret"), "{}", answer.stdout());
    assert!(!answer.stdout().contains("leaked") && answer.stderr().contains("Bad file descriptor"));
    let said = answer.stdout();
    let numbers: Vec<&str> = said.lines().filter(|line| line.parse::<u32>().is_ok()).collect();
    assert_eq!(numbers, ["0", "1", "2", "3"], "3 is the listing itself");
}

/// A web server on this machine that answers `hello`.
pub fn server() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            if is_asked(&mut stream) {
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";
                stream.write_all(answer).ok();
            }
        }
    });
    address
}

/// Reads a request to its end: closing a connection with unread bytes resets it, and the answer is lost.
fn is_asked(stream: &mut TcpStream) -> bool {
    let mut request = Vec::new();
    let mut piece = [0_u8; 4096];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece) {
            // A client that closes early only probed the port.
            Ok(0) | Err(_) => return false,
            Ok(count) => request.extend_from_slice(&piece[..count]),
        }
    }
    true
}

#[test]
fn the_network_is_none_or_what_is_listed_or_the_hosts() {
    let (runs, address) = (Runs::new(), server());
    let port = address.port();
    let direct = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && tail -n 1 <&3"
    );
    assert_eq!(outside(&direct), "hello\n", "the control");
    let none = runs.free(&[], &direct);
    assert!(
        none.status != 0 && none.stderr().contains("Connection refused"),
        "{:#}",
        none.value
    );
    assert_eq!(runs.prints(&["--net", "host"], &direct), "hello\n");
    let asking = |url: &str| {
        format!(
            "/usr/bin/python3 -c \"import os, urllib.request as r; os.environ['no_proxy'] = os.environ['NO_PROXY'] = ''; \
             print(r.urlopen('{url}').read().decode(), end='')\""
        )
    };
    let listed = ["--net", &address.to_string()];
    assert_eq!(
        runs.prints(&listed, &asking(&format!("http://{address}/"))),
        "hello\n"
    );
    assert_eq!(
        runs.prints(&listed, &direct),
        "hello\n",
        "it is there under its own address"
    );
    let unlisted = server().port().to_string();
    let around = runs.free(&listed, &direct.replace(&port.to_string(), &unlisted));
    assert!(
        around.stderr().contains("Connection refused"),
        "nothing else is: {:#}",
        around.value
    );
    let other = runs.free(&listed, &asking("http://other.example/"));
    assert_ne!(other.status, 0);
    let refusals = other.result("network_refusals");
    assert_eq!(refusals[0]["reason"], "host_not_listed", "{refusals:#}");
    assert_eq!(refusals[0]["target"], "other.example:80");
    // A read-only command has no network, whatever was requested.
    let reading = runs.exec(&["--net", "host", "--", "cat", "/proc/net/dev"]);
    assert_eq!(reading.result("decision")["class"], "read_only");
    assert_eq!(
        reading.stdout().lines().filter(|line| line.contains(':')).count(),
        1,
        "{}",
        reading.stdout()
    );
}

#[test]
fn sockets_of_the_host_are_not_reached() {
    let runs = Runs::new();
    let place = runs.path("host.sock");
    let _listener = UnixListener::bind(&place).unwrap();
    let connect = |to: &str| {
        format!(
            "/usr/bin/python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect({to}); print('reached')\""
        )
    };
    let (path, shown) = (place.display().to_string(), format!("'{}'", place.display()));
    assert_eq!(outside(&connect(&shown)), "reached\n");
    for net in ["none", "host"] {
        let answer = runs.free(&["--net", net], &connect(&shown));
        assert!(
            answer.stderr().contains("FileNotFoundError"),
            "{path}: {:#}",
            answer.value
        );
    }
    let name = format!("avfs-test-{}", std::process::id());
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&name);
    let _abstract = UnixListener::bind_addr(&address.unwrap()).unwrap();
    let abstracted = connect(&format!("'\\0{name}'"));
    assert_eq!(outside(&abstracted), "reached\n");
    for net in ["none", "host"] {
        let answer = runs.free(&["--net", net], &abstracted);
        assert_ne!(answer.status, 0, "{net}: {:#}", answer.value);
    }
}

/// System calls that ordinary programs do not make, with the result of each.
pub const PROBE: &str = r"
import ctypes, errno, fcntl, os, termios
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    answer = libc.syscall(*[ctypes.c_long(one) for one in arguments])
    print(name, errno.errorcode[ctypes.get_errno()] if answer == -1 else 'ok')
call('io_uring_setup', 425, 1, 0)
call('keyctl', 250, 0, -3, 1)
call('ptrace', 101, 0, 0, 0, 0)
leader, follower = os.openpty()
try: fcntl.ioctl(follower, termios.TIOCSTI, b'x'); print('TIOCSTI ok')
except OSError as error: print('TIOCSTI', errno.errorcode[error.errno])
";
pub const PROBED: &str = "io_uring_setup EPERM\nkeyctl EPERM\nptrace EPERM\nTIOCSTI EPERM\n";

#[test]
fn calls_that_lead_out_are_refused() {
    let runs = Runs::new();
    std::fs::write(runs.path("probe.py"), PROBE).unwrap();
    runs.ground.avfs_given(&["write", "probe.py"], PROBE.as_bytes());
    let said = runs.prints(&[], "/usr/bin/python3 probe.py");
    assert_eq!(said, PROBED);
    let control = outside(&format!("/usr/bin/python3 {}", runs.path("probe.py").display()));
    assert!(
        control.contains("keyctl ok") && control.contains("ptrace ok"),
        "{control}"
    );
}

#[test]
fn a_bomb_of_processes_is_bounded() {
    let runs = Runs::new();
    let bomb = "f() { f | f & }; f 2>/dev/null; sleep 0.5; echo over";
    let answer = runs.free(&["--pids", "60", "--timeout", "20000"], bomb);
    assert!(
        answer.status == 0 || answer.status == 124 || answer.status == 254,
        "{:#}",
        answer.value
    );
    assert_eq!(answer.result("limits_hit"), &serde_json::json!(["pids"]));
    assert_eq!(runs.sh("echo on").stdout(), "on\n");
}

#[test]
fn memory_is_bounded_for_all_processes_together() {
    let runs = Runs::new();
    let eat = "/usr/bin/python3 -c 'b = bytearray(200 << 20); print(len(b))'";
    assert_eq!(
        runs.prints(&["--memory", "600M"], eat),
        "209715200\n",
        "the control"
    );
    let answer = runs.free(&["--memory", "100M"], eat);
    assert_eq!(
        (answer.status, answer.result("limits_hit")),
        (137, &serde_json::json!(["memory"])),
        "{:#}",
        answer.value
    );
    let policy = runs.path("everything.toml").display().to_string();
    let words = ["exec", "--policy", &policy, "--memory", "100M", "-c", eat];
    let ended = crate::program::end_of(runs.ground.command(&words), b"");
    assert!(
        ended.err.contains("they used more memory than --memory allows"),
        "{}",
        ended.err
    );
    // Each keeps its share until all of them have theirs, or one is killed.
    let kept = "import glob, os, sys, time
b = bytearray(60 << 20)
open('has' + sys.argv[1], 'w').close()
while len(glob.glob('has*')) < 4 and not os.path.exists('over'): time.sleep(0.05)";
    let several =
        format!("for i in 1 2 3 4; do (/usr/bin/python3 -c \"{kept}\" $i || touch over) & done; wait");
    let answer = runs.free(&["--memory", "150M"], &several);
    assert_eq!(
        answer.result("limits_hit"),
        &serde_json::json!(["memory"]),
        "{:#}",
        answer.value
    );
}

#[test]
fn time_of_the_processor_is_bounded() {
    let answer = Runs::new().free(&["--cpu", "1"], "while :; do :; done");
    assert_eq!(
        answer.result("limits_hit"),
        &serde_json::json!(["cpu"]),
        "{:#}",
        answer.value
    );
    assert_eq!(answer.value["success"], Value::Bool(false));
}

#[test]
fn a_symbolic_link_leads_nowhere_outside() {
    let runs = Runs::new();
    let secret = runs.path("secret");
    std::fs::write(&secret, "of the host\n").unwrap();
    runs.avfs(&["ln", "-s", &secret.display().to_string(), "out"]);
    runs.avfs(&["ln", "-s", "/etc", "etc-link"]);
    let answer = runs.free(&[], "cat out; echo x > out; cat etc-link/shadow; true");
    assert_eq!(answer.stdout(), "");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "of the host\n");
    let through = runs.exec(&["--path", "etc-link", "--", "ls"]);
    assert_ne!(through.value.get("error"), None, "{:#}", through.value);
    let mut control = std::process::Command::new("cat");
    control.arg(&secret).stdout(Stdio::null());
    assert!(control.status().unwrap().success());
}
