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
mod listener;
mod run;
mod signals;
mod spec;

pub(crate) use confine::landlock_abi;
pub(crate) use frame::{Channel, Order, Report};
#[cfg(test)]
pub(crate) use listener::give;
pub(crate) use listener::{PROXY_PORT, receive_listener};
pub(crate) use spec::{Rlimits, Sockets, Spec, Standing};

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
    /// Where the listening socket of the proxy goes, if there is a proxy.
    pub(crate) proxy: Option<RawFd>,
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
        let (text, entrances) = match text.split_once(':') {
            Some((text, entrances)) => (text, numbers(entrances)?),
            None => (text, Vec::new()),
        };
        let (streams, proxy) = match numbers(text)?[..] {
            [control, stdin, stdout, stderr] => ([control, stdin, stdout, stderr], None),
            [control, stdin, stdout, stderr, proxy] => ([control, stdin, stdout, stderr], Some(proxy)),
            _ => return None,
        };
        let [control, stdin, stdout, stderr] = streams;
        Some(Self { control, stdin, stdout, stderr, proxy, entrances })
    }

    /// The argument that [`main`] reads.
    pub(crate) fn argument(&self) -> String {
        let streams = [self.control, self.stdin, self.stdout, self.stderr];
        let mut text = list(streams.into_iter().chain(self.proxy));
        if !self.entrances.is_empty() {
            text = format!("{text}:{}", list(self.entrances.iter().copied()));
        }
        text
    }
}

fn numbers(text: &str) -> Option<Vec<RawFd>> {
    text.split(',').map(|part| part.parse().ok()).collect()
}

fn list(numbers: impl Iterator<Item = RawFd>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

/// The descriptors, owned.
struct Handed {
    control: OwnedFd,
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    proxy: Option<OwnedFd>,
    entrances: Vec<OwnedFd>,
}

impl Handed {
    /// Nothing if a descriptor is not open.
    fn take(numbers: Descriptors) -> Option<Self> {
        Some(Self {
            control: owned(numbers.control)?,
            stdin: owned(numbers.stdin)?,
            stdout: owned(numbers.stdout)?,
            stderr: owned(numbers.stderr)?,
            proxy: match numbers.proxy {
                Some(number) => Some(owned(number)?),
                None => None,
            },
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
        let entrances = Vec::new();
        let four = Descriptors { control: 5, stdin: 6, stdout: 7, stderr: 8, proxy: None, entrances };
        let five = Descriptors { proxy: Some(9), ..four.clone() };
        let all = Descriptors { entrances: vec![10, 11], ..five.clone() };
        for case in [four, five, all] {
            assert_eq!(Descriptors::parse(&case.argument()), Some(case));
        }
        for bad in ["", "5,6,7", "5,6,7,x", "1,2,3,4,5,6", "5,6,7,8:", "5,6,7,8:x"] {
            assert_eq!(Descriptors::parse(bad), None, "{bad:?}");
        }
    }
}
