//! A child that runs in the memory of its parent until it becomes another program. The thread that starts it stands
//! still meanwhile; other threads go on.

use std::convert::Infallible;
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, WaitOptions};

use super::{ChildStart, is_root};

/// For the calls of a child, which are not deep.
const STACK_BYTES: usize = 256 << 10;
/// Below the stack, so that a child that needs more is killed instead of writing elsewhere.
const GUARD_BYTES: usize = 64 << 10;

/// The size of the kernel's set of signals.
const SIGNAL_SET_BYTES: usize = 8;
const ALL_SIGNALS: u64 = u64::MAX;
const LAST_SIGNAL: c_int = 64;

/// A process that was started, and is to be waited for.
#[derive(Debug)]
pub(in crate::launch) struct StartedChild(Pid);

impl StartedChild {
    pub(in crate::launch) fn pid(&self) -> Pid {
        self.0
    }

    /// Waits for its end.
    pub(in crate::launch) fn wait(&self) -> io::Result<()> {
        loop {
            match rustix::process::waitpid(Some(self.0), WaitOptions::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                waited => return Ok(waited.map(drop)?),
            }
        }
    }
}

/// A start, with everything that the child needs.
pub(super) struct SharedStart {
    start: ChildStart,
    program: CString,
    /// Owns what `argument_pointers` points to.
    _arguments: Vec<CString>,
    /// Ends with a null pointer.
    argument_pointers: Vec<*const c_char>,
    /// For standard input and output: no lower number than 3.
    nothing: OwnedFd,
    talk: OwnedFd,
    parent: Pid,
    drop_root: bool,
    signals_before: u64,
    failed: Option<io::Error>,
}

impl SharedStart {
    pub(super) fn new(start: ChildStart) -> io::Result<SharedStart> {
        let program = CString::new(start.program.clone().into_os_string().into_vec())?;
        let mut arguments = vec![program.clone()];
        for argument in &start.arguments {
            arguments.push(CString::new(argument.clone().into_vec())?);
        }
        let pointers = arguments.iter().map(|argument| argument.as_ptr());
        let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(SharedStart {
            argument_pointers: pointers.chain([ptr::null()]).collect(),
            program,
            _arguments: arguments,
            nothing: rustix::io::fcntl_dupfd_cloexec(nothing, 3)?,
            talk: rustix::io::fcntl_dupfd_cloexec(&start.talk, 3)?,
            parent: rustix::process::getpid(),
            drop_root: is_root(),
            signals_before: 0,
            failed: None,
            start,
        })
    }

    pub(super) fn carry_out(mut self) -> io::Result<StartedChild> {
        let stack = Stack::new()?;
        let unprivileged = self.drop_root.then(UnprivilegedChild::begin);
        // A handler of this process must not run in the child, whose memory this is.
        self.signals_before = set_signal_mask(ALL_SIGNALS);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the child has a stack of its own. This thread stands still until the child has become the program or
        // ended, so nothing else uses `self` meanwhile, and `become_program` never returns to here.
        let pid = unsafe {
            libc::clone(
                become_program,
                stack.top(),
                flags,
                ptr::from_mut(&mut self).cast::<c_void>(),
            )
        };
        let error = io::Error::last_os_error();
        set_signal_mask(self.signals_before);
        drop(unprivileged);
        // Minus one if there is no child, which is no number of a process.
        let child = StartedChild(Pid::from_raw(pid.max(0)).ok_or(error)?);
        match self.failed.take() {
            None => Ok(child),
            Some(error) => {
                child.wait()?;
                Err(error)
            }
        }
    }

    /// In the child.
    fn start(&mut self) -> io::Result<Infallible> {
        reset_handlers();
        for (from, to) in [(&self.nothing, 0), (&self.nothing, 1), (&self.talk, 2)] {
            // SAFETY: numbers of this child's own table.
            if unsafe { libc::dup2(from.as_raw_fd(), to) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        rustix::process::chdir(c"/")?;
        self.start.prepare(self.parent, self.drop_root)?;
        set_signal_mask(0);
        let no_variables: [*const c_char; 1] = [ptr::null()];
        // SAFETY: both lists end with a null pointer, and their texts live as long as `self`.
        unsafe {
            libc::execve(
                self.program.as_ptr(),
                self.argument_pointers.as_ptr(),
                no_variables.as_ptr(),
            )
        };
        Err(io::Error::last_os_error())
    }
}

/// The child.
extern "C" fn become_program(start: *mut c_void) -> c_int {
    // SAFETY: the parent gave it, and does not touch it before this process is gone or another program.
    let start = unsafe { &mut *start.cast::<SharedStart>() };
    let Err(error) = start.start();
    start.failed = Some(error);
    // SAFETY: ends this process only, and runs nothing of the parent's.
    unsafe { libc::_exit(127) }
}

/// The calls of the C library leave out signals of its own, whose handlers must not run in the child either.
fn set_signal_mask(mask: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: both sets are as large as is said.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            ptr::from_ref(&mask),
            ptr::from_mut(&mut before),
            SIGNAL_SET_BYTES,
        )
    };
    before
}

/// Signals that this process handles end the child, until it has become the program. What is ignored stays so, except
/// a pipe without readers.
fn reset_handlers() {
    // What the kernel takes: the handler is the first of four words, and all zero is the default.
    type Action = [usize; 4];
    let default: Action = [0; 4];
    let ask = |signal: c_int, new: *const Action, old: *mut Action| {
        // SAFETY: the structure of the kernel is no larger.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, old, SIGNAL_SET_BYTES) }
    };
    for signal in 1..=LAST_SIGNAL {
        let mut now: Action = [0; 4];
        ask(signal, ptr::null(), &mut now);
        let is_handled = now[0] != libc::SIG_DFL && now[0] != libc::SIG_IGN;
        if is_handled || signal == libc::SIGPIPE {
            ask(signal, &default, ptr::null_mut());
        }
    }
}

/// Memory for the stack of a child.
struct Stack(*mut c_void);

impl Stack {
    fn new() -> io::Result<Stack> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let bytes = STACK_BYTES + GUARD_BYTES;
        // SAFETY: new memory.
        let place = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Stack(place);
        // SAFETY: the lowest part of the same memory.
        if unsafe { libc::mprotect(place, GUARD_BYTES, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }

    /// Stacks grow downwards.
    fn top(&self) -> *mut c_void {
        self.0.wrapping_byte_add(STACK_BYTES + GUARD_BYTES)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: its own memory, which nobody uses any longer.
        unsafe { libc::munmap(self.0, STACK_BYTES + GUARD_BYTES) };
    }
}

/// Children that become another user while they share the memory of this process. The kernel protects it from other
/// processes of that user from then on, by the setting that also turns off dumps of memory. The setting is given back
/// when no such child is left, and never before.
struct UnprivilegedChild;

struct UnprivilegedChildren {
    count: usize,
    /// As it was before the first of them.
    was_dumpable: bool,
}

static UNPRIVILEGED_CHILDREN: Mutex<UnprivilegedChildren> = Mutex::new(UnprivilegedChildren {
    count: 0,
    was_dumpable: false,
});

impl UnprivilegedChild {
    fn begin() -> UnprivilegedChild {
        let mut children = UnprivilegedChild::all();
        if children.count == 0 {
            // SAFETY: asks for a number.
            children.was_dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) } == 1;
        }
        children.count += 1;
        UnprivilegedChild
    }

    fn all() -> MutexGuard<'static, UnprivilegedChildren> {
        UNPRIVILEGED_CHILDREN
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnprivilegedChild {
    fn drop(&mut self) {
        let mut children = UnprivilegedChild::all();
        children.count -= 1;
        if children.count == 0 && children.was_dumpable {
            // SAFETY: sets a flag of this process.
            unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::Read;

    use super::*;

    /// Starts a program, waits for it, and returns what it has said.
    fn say(program: &str, arguments: &[&str]) -> io::Result<String> {
        let (mut said, talk) = io::pipe()?;
        let child = ChildStart {
            program: program.into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            keep: Vec::new(),
            held: Vec::new(),
            talk: talk.into(),
            staged: None,
            dies_with_parent: true,
            renumbered_from: None,
        }
        .spawn()?;
        let mut text = String::new();
        said.read_to_string(&mut text)?;
        child.wait()?;
        Ok(text)
    }

    #[test]
    fn a_child_blocks_no_signal_that_its_parent_blocks() {
        let before = set_signal_mask(1 << (libc::SIGUSR2 - 1));
        // One process from beginning to end: a shell blocks signals itself while it starts another.
        let said = say("/bin/sh", &["-c", "exec grep SigBlk /proc/self/status >&2"]);
        assert_eq!(set_signal_mask(before), 1 << (libc::SIGUSR2 - 1));
        let said = said.unwrap();
        assert!(said.contains("SigBlk:\t0000000000000000\n"), "{said}");
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error_of_the_start() {
        let error = say("/nonexistent/program", &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn starting_a_child_changes_nothing_of_its_parent() {
        let state = || {
            // SAFETY: asks for a number.
            let is_dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) };
            (
                is_dumpable,
                std::env::current_dir().unwrap(),
                rustix::process::geteuid(),
            )
        };
        let before = state();
        let said = say("/bin/sh", &["-c", "pwd >&2; env >&2; ls /proc/$$/fd >&2"]).unwrap();
        assert!(said.starts_with("/\n"), "{said}");
        assert!(!said.contains("HOME="), "{said}");
        loop {
            let children = UnprivilegedChild::all();
            // Otherwise, a child of another test is on its way.
            if children.count == 0 {
                assert_eq!(state(), before);
                return;
            }
            drop(children);
            std::thread::yield_now();
        }
    }
}
