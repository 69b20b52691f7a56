//! System calls that ordinary programs do not make, made deliberately.

use avfs_exec::launch::CommandEnd;

use crate::kit::{Workspace, launch, outside, prints_of, stderr};

/// Makes the calls of a table and prints the result of each.
const PROBE: &str = r"
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    child = os.fork()
    if child == 0:
        answer = libc.syscall(*[ctypes.c_long(one) for one in arguments])
        if answer == 0 and name == 'clone': os._exit(0)
        print(name, errno.errorcode[ctypes.get_errno()] if answer == -1 else 'ok', flush=True)
        os._exit(0)
    os.waitpid(child, 0)
call('mount', 165, 0, 0, 0, 0, 0)
call('umount2', 166, 0, 0)
call('pivot_root', 155, 0, 0)
call('unshare', 272, 0x10000000)
call('setns', 308, 0, 0)
call('clone', 56, 0x10000000 | 17, 0, 0, 0, 0)
call('clone3', 435, 0, 0)
call('ptrace', 101, 0, 0, 0, 0)
call('process_vm_readv', 310, os.getpid(), 0, 0, 0, 0, 0)
call('keyctl', 250, 0, -3, 1)
call('bpf', 321, 0, 0, 0)
call('perf_event_open', 298, 0, 0, -1, -1, 0)
call('io_uring_setup', 425, 1, 0)
call('userfaultfd', 323, 0)
call('personality', 135, 0x0400000)
call('open_by_handle_at', 304, -100, 0, 0)
call('fanotify_init', 300, 0, 0)
call('vsock', 41, 40, 1, 0)
call('packet', 41, 17, 3, 0)
call('netlink_audit', 41, 16, 3, 9)
call('x32_getpid', 0x40000000 | 39)
call('unknown', 9999)
call('getpid', 39)
call('personality_same', 135, 0xffffffff)
call('netlink_route', 41, 16, 3, 0)
";

#[cfg(target_arch = "x86_64")]
#[test]
fn dangerous_calls_are_refused_and_unknown_ones_do_not_exist() {
    let workspace = Workspace::new();
    let plan = workspace.plan(&["/usr/bin/python3", "-c", PROBE]);
    let expected = "mount EPERM\numount2 EPERM\npivot_root EPERM\nunshare EPERM\nsetns EPERM\nclone EPERM\nclone3 ENOSYS\n\
        ptrace EPERM\nprocess_vm_readv EPERM\nkeyctl EPERM\nbpf EPERM\nperf_event_open EPERM\nio_uring_setup EPERM\n\
        userfaultfd EPERM\npersonality EPERM\nopen_by_handle_at EPERM\nfanotify_init EPERM\nvsock EPERM\npacket EPERM\n\
        netlink_audit EPERM\nx32_getpid ENOSYS\nunknown ENOSYS\ngetpid ok\npersonality_same ok\nnetlink_route ok\n";
    assert_eq!(prints_of(&plan), expected);
    let control = outside(&format!("/usr/bin/python3 -c \"{PROBE}\""));
    for call in [
        "ptrace ok",
        "personality ok",
        "keyctl ok",
        "io_uring_setup EFAULT",
        "clone3 EINVAL",
    ] {
        assert!(
            control.lines().any(|line| line == call),
            "outside, {call} is expected: {control}"
        );
    }
}

/// Four bytes of machine code: `getpid` through the gate of 32-bit programs.
#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_another_architecture_end_the_process() {
    let probe = r"
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(b'\xb8\x14\x00\x00\x00\xcd\x80\xc3')
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))())
";
    let outcome = launch(&Workspace::new().plan(&["/usr/bin/python3", "-c", probe]));
    // A kernel without that gate faults instead.
    assert!(
        matches!(outcome.end, CommandEnd::Signaled(libc::SIGSYS | libc::SIGSEGV)),
        "{:?}",
        outcome.end
    );
    assert_eq!(outcome.stdout.total, 0);
}

#[test]
fn nothing_can_be_typed_into_a_terminal() {
    let probe = r"
import fcntl, os, termios
leader, follower = os.openpty()
for name, request in [('TIOCSTI', termios.TIOCSTI), ('TIOCLINUX', 0x541C)]:
    for upper in [0, 1 << 32]:
        try:
            import ctypes
            libc = ctypes.CDLL(None, use_errno=True)
            answer = libc.ioctl(follower, ctypes.c_ulong(request | upper), b'x')
            print(name, os.strerror(ctypes.get_errno()) if answer else 'ok')
        except OSError as error:
            print(name, error.strerror)
print('size', os.get_terminal_size(follower).columns)
";
    let workspace = Workspace::new();
    let plan = workspace.plan(&["/usr/bin/python3", "-c", probe]);
    let refused = "Operation not permitted\n";
    let expected =
        format!("TIOCSTI {refused}TIOCSTI {refused}TIOCLINUX {refused}TIOCLINUX {refused}size 0\n");
    assert_eq!(prints_of(&plan), expected);
}

#[test]
fn processes_of_a_run_can_signal_each_other_but_not_the_first() {
    let outcome =
        launch(&Workspace::new().shell("sleep 999 & kill -TERM $! && wait $!; echo $?; kill -TERM 1"));
    assert_eq!(crate::kit::stdout(&outcome), "143\n");
    assert!(stderr(&outcome).contains("not permitted"), "{}", stderr(&outcome));
}
