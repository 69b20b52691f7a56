//! The first program in a sandbox: ours. It is told what to do over a socket, confines and starts the command, reaps
//! what is left, and reports how the command ended. It has one thread, and no privileges to begin with.
//!
//! `avfs --inside-sandbox FDS` and the program `avfs-inside` of this crate's tests do nothing but call [`main`].

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

mod children;
mod codec;
mod confine;
mod frame;
mod handing;
mod run;
mod signals;
mod sockets;
mod sparing;
mod spec;
mod terminal;

pub(crate) use confine::landlock_abi;
pub(crate) use frame::{Channel, Order, Report};
#[cfg(test)]
pub(crate) use handing::give;
pub(crate) use handing::{take, tell};
#[cfg(test)]
pub(crate) use sockets::answer as answer_for_socket;
pub(crate) use sockets::{ask_for_socket, receive_listeners};
pub(crate) use spec::{Rlimits, Sockets, Spec, Standing};
pub(crate) use terminal::{GO_ON, STOPPED};

/// The argument that makes a program of ours be this one.
pub const ARGUMENT: &str = "--inside-sandbox";

/// The exit status of the stage when it could not even report.
const LOST: i32 = 125;

/// The descriptors that the stage is started with, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    pub(crate) control: RawFd,
    pub(crate) stdin: RawFd,
    pub(crate) stdout: RawFd,
    pub(crate) stderr: RawFd,
    /// Where sockets of the sandbox's network go, if it has one of its own.
    pub(crate) network: Option<RawFd>,
    /// Where the outer side of the command's terminal goes, if it has one.
    pub(crate) terminal: Option<RawFd>,
    /// Where it enters its control groups, if it does so itself.
    pub(crate) entrances: Vec<RawFd>,
}

/// Does what a launcher wants done inside. `descriptors` is the argument after [`ARGUMENT`].
pub fn main(descriptors: Option<&OsStr>) -> i32 {
    let given = descriptors.and_then(OsStr::to_str).and_then(Descriptors::parse);
    match given.map(Handed::take) {
        Some(Some(handed)) => run::stage(handed),
        Some(None) | None => LOST,
    }
}

impl Descriptors {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(',');
        let mut next = || parts.next()?.parse().ok();
        let (control, stdin, stdout, stderr) = (next()?, next()?, next()?, next()?);
        let (mut network, mut terminal, mut entrances) = (None, None, Vec::new());
        for part in parts {
            let (kind, number) = part.split_at_checked(1)?;
            let number = number.parse().ok()?;
            let is_second = match kind {
                NETWORK => network.replace(number).is_some(),
                TERMINAL => terminal.replace(number).is_some(),
                ENTRANCE => {
                    entrances.push(number);
                    false
                }
                _ => return None,
            };
            if is_second {
                return None;
            }
        }
        Some(Self { control, stdin, stdout, stderr, network, terminal, entrances })
    }

    /// The argument that [`main`] reads.
    pub(crate) fn argument(&self) -> String {
        let Self { control, stdin, stdout, stderr, network, terminal, entrances } = self;
        let one = |kind: &str, fd: &RawFd| format!(",{kind}{fd}");
        let more =
            network.iter().map(|fd| one(NETWORK, fd)).chain(terminal.iter().map(|fd| one(TERMINAL, fd)));
        let more: String = more.chain(entrances.iter().map(|fd| one(ENTRANCE, fd))).collect();
        format!("{control},{stdin},{stdout},{stderr}{more}")
    }
}

/// What stands before the numbers of descriptors that not every stage has.
const NETWORK: &str = "n";
const TERMINAL: &str = "t";
const ENTRANCE: &str = "g";

/// The descriptors, owned.
struct Handed {
    control: OwnedFd,
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    network: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
    entrances: Vec<OwnedFd>,
}

impl Handed {
    /// Nothing if a descriptor is not open.
    fn take(numbers: Descriptors) -> Option<Self> {
        let maybe = |number: Option<RawFd>| match number {
            Some(number) => owned(number).map(Some),
            None => Some(None),
        };
        Some(Self {
            control: owned(numbers.control)?,
            stdin: owned(numbers.stdin)?,
            stdout: owned(numbers.stdout)?,
            stderr: owned(numbers.stderr)?,
            network: maybe(numbers.network)?,
            terminal: maybe(numbers.terminal)?,
            entrances: numbers.entrances.into_iter().map(owned).collect::<Option<_>>()?,
        })
    }
}

#[allow(unsafe_code, reason = "descriptors that were handed over at exec have no owner yet")]
fn owned(number: RawFd) -> Option<OwnedFd> {
    if number < 3 {
        return None;
    }
    // SAFETY: borrowed for one call, which answers EBADF if it is not open.
    let open = rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) }).is_ok();
    // SAFETY: open, and this process has just begun: nothing else knows of it.
    open.then(|| unsafe { OwnedFd::from_raw_fd(number) }).filter(|fd| {
        let cloexec = rustix::io::FdFlags::CLOEXEC;
        rustix::io::fcntl_setfd(fd.as_fd(), cloexec).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_travel_as_an_argument() {
        let four = Descriptors {
            control: 5,
            stdin: 6,
            stdout: 7,
            stderr: 8,
            network: None,
            terminal: None,
            entrances: Vec::new(),
        };
        let five = Descriptors { network: Some(9), ..four.clone() };
        let six = Descriptors { terminal: Some(10), ..five.clone() };
        let all = Descriptors { entrances: vec![11, 12], ..six.clone() };
        for case in [four, five, six, all] {
            assert_eq!(Descriptors::parse(&case.argument()), Some(case));
        }
        for bad in ["", "5,6,7", "5,6,7,x", "5,6,7,8,9", "5,6,7,8,x9", "5,6,7,8,t9,t9", "5,6,7,8,g"] {
            assert_eq!(Descriptors::parse(bad), None, "{bad:?}");
        }
    }
}
