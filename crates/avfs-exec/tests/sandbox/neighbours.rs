//! Under Landlock alone, a run shares its process table with processes of the host, some of them of the same
//! user.
#![cfg(target_arch = "x86_64")]

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use avfs_exec::launch::CommandEnd;
use avfs_exec::plan::UNPRIVILEGED;

use crate::kit::{Workspace, is_root, landlocked, launch_by, stderr, stdout};

const PYTHON: &str = "/usr/bin/python3";

/// Shares memory, a semaphore and two queues with all processes of the same user, prints their numbers, and
/// waits.
const NEIGHBOUR: &str = r"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
key = 0x5aa50000 | os.getpid() & 0xffff
memory = libc.shmget(key, 4096, 0o1600)
ctypes.memmove(libc.shmat(memory, None, 0), b'hush-hush', 9)
semaphore = libc.semget(key, 1, 0o1600)
queue = libc.msgget(key, 0o1600)
name = b'/avfs-neighbour-%d' % os.getpid()
class Attributes(ctypes.Structure):
    _fields_ = [('flags', ctypes.c_long), ('most', ctypes.c_long), ('size', ctypes.c_long), ('rest', ctypes.c_long * 5)]
assert libc.syscall(240, name[1:], os.O_CREAT | os.O_RDWR, 0o600, ctypes.byref(Attributes(0, 4, 64))) >= 0
print(os.getpid(), memory, semaphore, queue, name[1:].decode(), flush=True)
sys.stdin.read()
libc.shmctl(memory, 0, None)
libc.semctl(semaphore, 0, 0)
libc.msgctl(queue, 0, None)
libc.syscall(241, name[1:])
";

/// Tries everything that a user may do to a process of the same user and to its shared objects. Prints what
/// succeeded.
const PROBE: &str = r"
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid, memory, semaphore, queue = map(int, sys.argv[1:5])
key = 0x5aa50000 | pid & 0xffff
name = ctypes.create_string_buffer(sys.argv[5].encode())
limits = (ctypes.c_ulong * 2)(64, 64)
cpus = (ctypes.c_ulong * 16)(1)
zero = ctypes.c_int(0)
attributes = ctypes.create_string_buffer(bytes([48]) + bytes(47), 48)
at, room = ctypes.c_void_p(), ctypes.c_size_t()
bytes_of = lambda what: ctypes.addressof(what)
def call(what, number, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(number, *[ctypes.c_long(one) for one in arguments])
    print(what, errno.errorcode[ctypes.get_errno()] if answer == -1 else 'done')
for who, on in [('neighbour', pid), ('oneself', 0)]:
    call(who + ' prlimit64', 302, on, 7, 0, bytes_of(limits))
    call(who + ' sched_setaffinity', 203, on, 128, bytes_of(cpus))
    call(who + ' sched_setscheduler', 144, on, 0, bytes_of(zero))
    call(who + ' sched_setparam', 142, on, bytes_of(zero))
    call(who + ' sched_setattr', 314, on, bytes_of(attributes), 0)
    call(who + ' setpriority', 141, 0, on, 1)
    call(who + ' ioprio_set', 251, 1, on, (2 << 13) | 5)
    call(who + ' get_robust_list', 274, on, bytes_of(at), bytes_of(room))
# Outside, this would be done to everything of the user.
if 'inside' in sys.argv:
    call('user setpriority', 141, 2, 0, 2)
    call('user ioprio_set', 251, 3, 0, (2 << 13) | 6)
call('kill', 62, pid, 18)
descriptor = libc.syscall(434, pid, 0)
call('pidfd_send_signal', 424, descriptor, 18, 0, 0)
call('process_vm_readv', 310, pid, 0, 0, 0, 0, 0)
call('kcmp', 312, pid, pid, 0, 0, 0)
call('shmat', 30, memory, 0, 0)
call('shmctl', 31, memory, 2, bytes_of(ctypes.create_string_buffer(256)))
call('shmget', 29, key, 4096, 0)
call('semctl', 66, semaphore, 0, 12, 0)
call('semget', 64, key, 1, 0)
call('msgget', 68, key, 0)
call('msgsnd', 69, queue, bytes_of(ctypes.create_string_buffer(b'\1' + bytes(15))), 1, 0o4000)
call('msgctl', 71, queue, 2, bytes_of(ctypes.create_string_buffer(256)))
call('mq_open', 240, bytes_of(name), 2, 0, 0)
call('mq_unlink', 241, bytes_of(name))
call('inotify_init1', 294, 0)
path = ctypes.create_string_buffer(sys.argv[6].encode())
attribute, value = ctypes.create_string_buffer(b'user.x'), ctypes.create_string_buffer(b'y')
for kind, make, remove in [('', 188, 197), ('l', 189, 198)]:
    call(kind + 'setxattr', make, bytes_of(path), bytes_of(attribute), bytes_of(value), 1, 0)
    call(kind + 'removexattr', remove, bytes_of(path), bytes_of(attribute))
libc.setxattr(path, attribute, value, 1, 0)
room = ctypes.create_string_buffer(64)
for kind, get, names in [('', 191, 194), ('l', 192, 195)]:
    call(kind + 'getxattr', get, bytes_of(path), bytes_of(attribute), bytes_of(room), 64)
    call(kind + 'listxattr', names, bytes_of(path), bytes_of(room), 64)
call('chown', 92, bytes_of(path), -1, -1)
call('lchown', 94, bytes_of(path), -1, -1)
call('fchownat', 260, -100, bytes_of(path), -1, -1, 0)
call('own affinity', 204, 0, 128, bytes_of(cpus))
call('own priority', 140, 0, 0)
";

/// A process of the user of runs that does not belong to a run.
struct Neighbour {
    process: Child,
    numbers: Vec<String>,
}

impl Neighbour {
    fn new() -> Self {
        let mut command = Command::new(PYTHON);
        command
            .args(["-c", NEIGHBOUR])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .current_dir("/");
        if is_root() {
            command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        }
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let numbers: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        assert_eq!(numbers.len(), 5, "{line}");
        Self { process, numbers }
    }

    fn probe<'a>(&'a self, file: &'a str) -> Vec<&'a str> {
        let numbers = self.numbers.iter().map(String::as_str);
        [PYTHON, "-c", PROBE]
            .into_iter()
            .chain(numbers)
            .chain([file])
            .collect()
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It ends when its input is closed.
        drop(self.process.stdin.take());
        self.process.wait().ok();
    }
}

fn outside_as_user_of_runs(words: &[&str]) -> String {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir("/");
    if is_root() {
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

fn on_oneself(line: &str) -> bool {
    line.starts_with("oneself") || line.starts_with("own")
}

#[test]
fn processes_of_the_host_and_what_they_share_are_out_of_reach() {
    let neighbour = Neighbour::new();
    let workspace = Workspace::reachable();
    workspace.write("file", "");
    let file = workspace.path().join("file").display().to_string();
    let inside = [&neighbour.probe(&file)[..], &["inside"]].concat();
    let outcome = launch_by(&landlocked(), &workspace.plan(&inside)).unwrap();
    let said = stdout(&outcome);
    assert_eq!(outcome.end, CommandEnd::Exited(0), "{said}{}", stderr(&outcome));
    for line in said.lines() {
        let expected = match line.contains("xattr") {
            true if line.contains("getxattr") || line.contains("listxattr") => " ENOTSUP",
            true => " ENOSYS",
            false if on_oneself(line) => " done",
            false => " EPERM",
        };
        assert!(line.ends_with(expected), "{line}\n{said}");
    }
    assert_eq!(said.lines().count(), 46, "{said}");
    // Without a sandbox, everything succeeds, except for what the system's own settings refuse.
    let control = outside_as_user_of_runs(&neighbour.probe(&file));
    for line in control
        .lines()
        .filter(|line| !line.starts_with("process_vm_readv"))
    {
        assert!(line.ends_with(" done"), "outside: {line}\n{control}");
    }
}

#[test]
fn programs_that_change_limits_priorities_and_files_of_their_own_work() {
    let workspace = Workspace::reachable();
    workspace.write("Makefile", "all: a b c d\na b c d:\n\techo $@ > $@\n");
    let script = "ulimit -n 64 && nice -n 5 true && taskset 1 true && ionice -c 3 true && make -sj4 all && cat a b c d && \
                  /usr/bin/python3 -c 'import concurrent.futures as f; print(sum(f.ThreadPoolExecutor(4).map(int, [1, 2])))' && \
                  node -e 'new (require(\"worker_threads\").Worker)(\"console.log(8)\", {eval: true})' && \
                  git init -q r && cd r && git -c user.name=n -c user.email=e commit -qm x --allow-empty && git gc -q && cd .. && \
                  mkdir -p t/e && echo x >t/e/f && ln -s e t/l && chmod 700 t/e/f && cp -a t copy && touch -d yesterday copy/e/f && \
                  tar cf t.tar t && mkdir out && tar xf t.tar -C out && cat copy/l/f out/t/e/f && echo fine";
    let outcome = launch_by(&landlocked(), &workspace.shell(script)).unwrap();
    assert_eq!(
        stdout(&outcome),
        "a\nb\nc\nd\n3\n8\nx\nx\nfine\n",
        "{}",
        stderr(&outcome)
    );
}
