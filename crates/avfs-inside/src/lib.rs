//! The first program in a sandbox, which is ours ("the stage"). It receives orders over a socket, confines
//! and starts the command, reaps all other processes, and reports how the command ended. It has one thread,
//! and no privileges from the start. In a sandbox that stays open, it starts and signals any number of
//! processes, as ordered.
//!
//! `avfs --inside-sandbox FDS` and the program `avfs-inside` of this crate's tests only call [`main`].
#![warn(missing_docs, unnameable_types, unreachable_pub)]

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

mod children;
mod codec;
mod confine;
mod frame;
mod handing;
mod identity;
mod outpost;
mod run;
mod signals;
mod sockets;
mod sparing;
mod spawn;
mod spawner;
mod spec;
mod syscalls;
mod terminal;

pub use confine::landlock_abi;
pub use frame::{StageChannel, StageOrder, StageReport};
pub use handing::{TakenMessage, give, send_part, take, tell};
pub use identity::StageIdentity;
pub use outpost::{FETCHED, OUTPOST_ROOT, OUTPOST_SOCKET};
pub use sockets::{answer, ask_for_socket, receive_listeners};
pub use spawn::{ProcessReport, SignalOrder, SignalTarget, SpawnOrder, SpawnStep};
pub use spec::{PathAccess, ProcessLimits, SocketKinds, StageRole, StageSpec, StageWork};
pub use terminal::{GO_ON, STOPPED, TerminalSize};

/// The argument that turns a program of ours into the stage.
pub const ARGUMENT: &str = "--inside-sandbox";

/// The exit status of the stage if it could not even report.
const LOST: i32 = 125;

/// The descriptors with which the stage is started, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageDescriptors {
    /// The socket of the [`StageChannel`].
    pub control: RawFd,
    /// The standard input of the command.
    pub stdin: RawFd,
    /// The standard output of the command.
    pub stdout: RawFd,
    /// The standard error of the command.
    pub stderr: RawFd,
    /// Over which sockets of the sandbox's network are sent, if it has a network of its own.
    pub network: Option<RawFd>,
    /// Over which the outer side of the command's terminal is sent, if it has one.
    pub terminal: Option<RawFd>,
    /// With which it enters its control groups, if it does so itself.
    pub entrances: Vec<RawFd>,
    /// The user that it becomes, if the builder of the sandbox cannot start it as that user.
    pub identity: Option<StageIdentity>,
}

/// Carries out the orders of a launcher. `descriptors` is the argument after [`ARGUMENT`].
pub fn main(descriptors: Option<&OsStr>) -> i32 {
    let text = descriptors.and_then(OsStr::to_str).unwrap_or_default();
    let (text, is_apart) = match text.strip_prefix(outpost::FETCHED) {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let Some(given) = StageDescriptors::parse(text) else {
        return LOST;
    };
    let identity = given.identity;
    let handed = if is_apart {
        outpost::fetch(given)
    } else {
        OwnedDescriptors::take(given, owned)
    };
    match handed {
        Some(handed) => run::stage(handed, identity, is_apart),
        None => LOST,
    }
}

impl StageDescriptors {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(',');
        let mut next = || parts.next()?.parse().ok();
        let (control, stdin, stdout, stderr) = (next()?, next()?, next()?, next()?);
        let (mut network, mut terminal, mut entrances, mut identity) = (None, None, Vec::new(), None);
        for part in parts {
            let (kind, number) = part.split_at_checked(1)?;
            if kind == IDENTITY {
                if identity.replace(StageIdentity::parse(number)?).is_some() {
                    return None;
                }
                continue;
            }
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
        Some(Self {
            control,
            stdin,
            stdout,
            stderr,
            network,
            terminal,
            entrances,
            identity,
        })
    }

    /// How many there are.
    fn count(&self) -> usize {
        4 + usize::from(self.network.is_some()) + usize::from(self.terminal.is_some()) + self.entrances.len()
    }

    /// The argument that [`main`] reads.
    pub fn argument(&self) -> String {
        let Self {
            control,
            stdin,
            stdout,
            stderr,
            network,
            terminal,
            entrances,
            identity,
        } = self;
        let one = |kind: &str, fd: &RawFd| format!(",{kind}{fd}");
        let more = network
            .iter()
            .map(|fd| one(NETWORK, fd))
            .chain(terminal.iter().map(|fd| one(TERMINAL, fd)));
        let more = more.chain(entrances.iter().map(|fd| one(ENTRANCE, fd)));
        let identity = identity.iter().map(|identity| format!(",{IDENTITY}{identity}"));
        let more: String = more.chain(identity).collect();
        format!("{control},{stdin},{stdout},{stderr}{more}")
    }
}

/// The prefixes of descriptors that not every stage has.
const NETWORK: &str = "n";
const TERMINAL: &str = "t";
const ENTRANCE: &str = "g";
const IDENTITY: &str = "u";

/// The descriptors, owned.
struct OwnedDescriptors {
    control: OwnedFd,
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    network: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
    entrances: Vec<OwnedFd>,
}

impl OwnedDescriptors {
    /// `None` if a descriptor is not there.
    fn take(numbers: StageDescriptors, mut owned: impl FnMut(RawFd) -> Option<OwnedFd>) -> Option<Self> {
        let mut maybe = |number: Option<RawFd>| match number {
            Some(number) => owned(number).map(Some),
            None => Some(None),
        };
        let (network, terminal) = (maybe(numbers.network)?, maybe(numbers.terminal)?);
        Some(Self {
            control: owned(numbers.control)?,
            stdin: owned(numbers.stdin)?,
            stdout: owned(numbers.stdout)?,
            stderr: owned(numbers.stderr)?,
            network,
            terminal,
            entrances: numbers.entrances.into_iter().map(owned).collect::<Option<_>>()?,
        })
    }
}

#[allow(
    unsafe_code,
    reason = "descriptors that were handed over at exec have no owner yet"
)]
fn owned(number: RawFd) -> Option<OwnedFd> {
    if number < 3 {
        return None;
    }
    // SAFETY: borrowed for one call, which answers EBADF if it is not open.
    let open = rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) }).is_ok();
    // SAFETY: open, and this process has just begun: no other code uses it.
    open.then(|| unsafe { OwnedFd::from_raw_fd(number) })
        .filter(|fd| {
            let cloexec = rustix::io::FdFlags::CLOEXEC;
            rustix::io::fcntl_setfd(fd.as_fd(), cloexec).is_ok()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_travel_as_an_argument() {
        let four = StageDescriptors {
            control: 5,
            stdin: 6,
            stdout: 7,
            stderr: 8,
            network: None,
            terminal: None,
            entrances: Vec::new(),
            identity: None,
        };
        let five = StageDescriptors {
            network: Some(9),
            ..four.clone()
        };
        let six = StageDescriptors {
            terminal: Some(10),
            ..five.clone()
        };
        let all = StageDescriptors {
            entrances: vec![11, 12],
            identity: Some(StageIdentity {
                uid: 1000,
                gid: 4_000_000_000,
            }),
            ..six.clone()
        };
        for case in [four, five, six, all] {
            assert_eq!(StageDescriptors::parse(&case.argument()), Some(case));
        }
        for bad in [
            "",
            "5,6,7",
            "5,6,7,x",
            "5,6,7,8,9",
            "5,6,7,8,x9",
            "5,6,7,8,t9,t9",
            "5,6,7,8,g",
            "5,6,7,8,u1000",
            "5,6,7,8,u1000:-1",
            "5,6,7,8,u1:1,u1:1",
        ] {
            assert_eq!(StageDescriptors::parse(bad), None, "{bad:?}");
        }
    }
}
