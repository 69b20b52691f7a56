//! One of several processes in a sandbox: the orders to start or signal it, and the reports of the stage.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::codec::{SpecDecoder, SpecEncoder};
use super::spec::{one_of, text};
use crate::terminal::TerminalSize;

/// A process to start. Its number is chosen by the launcher, which never reuses one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnOrder {
    /// The number that the launcher chose.
    pub id: u64,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Variables that are added to those of the sandbox, or replace them.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub cwd: PathBuf,
    /// If it has a terminal of its own. Otherwise three descriptors come with the order.
    pub terminal: Option<TerminalSize>,
}

/// A signal for a started process, or for its group or session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalOrder {
    /// The number of the process, as in its [`SpawnOrder`].
    pub id: u64,
    /// The number of the signal.
    pub signal: i32,
    /// Which processes get it.
    pub target: SignalTarget,
}

/// Which processes get a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalTarget {
    /// The process alone.
    Process,
    /// Its process group.
    Group,
    /// All groups of its session, including the jobs of a shell with a terminal.
    Session,
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessReport {
    /// It runs, with this number inside. If it has a terminal, the outer side comes with the report.
    Spawned {
        /// The number of its order.
        id: u64,
        /// Its process id inside.
        pid: i32,
        /// Whether it has a terminal.
        has_terminal: bool,
    },
    /// It could not be started.
    SpawnFailed {
        /// The number of its order.
        id: u64,
        /// The step that failed.
        step: SpawnStep,
        /// The error number.
        errno: i32,
    },
    /// It has ended by itself.
    Exited {
        /// The number of its order.
        id: u64,
        /// Its exit status.
        code: i32,
    },
    /// A signal has ended it.
    Signaled {
        /// The number of its order.
        id: u64,
        /// The number of the signal.
        signal: i32,
    },
}

/// The step at which an order failed to become a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnStep {
    /// Making a process.
    Process,
    /// Making its terminal.
    Terminal,
    /// Entering its working directory.
    Directory,
    /// Applying Landlock, limits or the filter of system calls.
    Confinement,
    /// Becoming the program.
    Program,
    /// The sandbox is ending, and starts no processes.
    Leaving,
}

const STEPS: [SpawnStep; 6] = [
    SpawnStep::Process,
    SpawnStep::Terminal,
    SpawnStep::Directory,
    SpawnStep::Confinement,
    SpawnStep::Program,
    SpawnStep::Leaving,
];

impl SpawnStep {
    pub(super) fn of_number(number: u8) -> Option<Self> {
        STEPS.get(usize::from(number)).copied()
    }
}

impl SpawnOrder {
    /// How many descriptors come with it.
    pub fn descriptors(&self) -> usize {
        if self.terminal.is_some() { 0 } else { 3 }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let size = |size: &TerminalSize| (u64::from(size.rows) << 16) | u64::from(size.columns);
        SpecEncoder::default()
            .number(self.id)
            .list(&self.command, |out, word| out.bytes(word.as_bytes()))
            .list(&self.env, |out, (name, value)| {
                out.bytes(name.as_bytes()).bytes(value.as_bytes())
            })
            .bytes(self.cwd.as_os_str().as_bytes())
            .maybe(self.terminal.as_ref().map(size))
            .finish()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = SpecDecoder::new(bytes);
        let order = Self {
            id: from.number()?,
            command: from.list(text)?,
            env: from.list(|from| Some((text(from)?, text(from)?)))?,
            cwd: text(&mut from)?.into(),
            terminal: match from.maybe()? {
                Some(packed) => Some(size_of(packed)?),
                None => None,
            },
        };
        from.end(order).filter(|order| !order.command.is_empty())
    }
}

fn size_of(packed: u64) -> Option<TerminalSize> {
    let rows = u16::try_from(packed >> 16).ok()?;
    let columns = u16::try_from(packed & u64::from(u16::MAX)).ok()?;
    Some(TerminalSize { rows, columns })
}

impl SignalOrder {
    pub(super) fn encode(self) -> Vec<u8> {
        SpecEncoder::default()
            .number(self.id)
            .number(u64::from(self.signal.unsigned_abs()))
            .number(self.target as u64)
            .finish()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = SpecDecoder::new(bytes);
        let targets = [SignalTarget::Process, SignalTarget::Group, SignalTarget::Session];
        let order = Self {
            id: from.number()?,
            signal: small(&mut from)?,
            target: one_of(&mut from, &targets)?,
        };
        from.end(order)
    }
}

impl ProcessReport {
    pub(super) fn encode(self) -> Vec<u8> {
        let small = |number: i32| u64::from(number.unsigned_abs());
        let (kind, id, rest) = match self {
            Self::Spawned {
                id,
                pid,
                has_terminal,
            } => (0, id, [small(pid), u64::from(has_terminal)]),
            Self::SpawnFailed { id, step, errno } => (1, id, [step as u64, small(errno)]),
            Self::Exited { id, code } => (2, id, [small(code), 0]),
            Self::Signaled { id, signal } => (3, id, [small(signal), 0]),
        };
        let out = SpecEncoder::default().number(kind).number(id);
        rest.into_iter().fold(out, SpecEncoder::number).finish()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = SpecDecoder::new(bytes);
        let (kind, id) = (from.number()?, from.number()?);
        let report = match kind {
            0 => Self::Spawned {
                id,
                pid: small(&mut from)?,
                has_terminal: one_of(&mut from, &[false, true])?,
            },
            1 => Self::SpawnFailed {
                id,
                step: one_of(&mut from, &STEPS)?,
                errno: small(&mut from)?,
            },
            2 => Self::Exited {
                id,
                code: small(&mut from)?,
            },
            3 => Self::Signaled {
                id,
                signal: small(&mut from)?,
            },
            _ => return None,
        };
        if kind > 1 {
            from.number()?;
        }
        from.end(report)
    }
}

fn small(from: &mut SpecDecoder<'_>) -> Option<i32> {
    i32::try_from(from.number()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(terminal: Option<TerminalSize>) -> SpawnOrder {
        SpawnOrder {
            id: u64::MAX,
            command: vec!["sh".into(), "-c".into(), "".into()],
            env: vec![("A".into(), "1".into())],
            cwd: "/workspace".into(),
            terminal,
        }
    }

    #[test]
    fn orders_decode_as_encoded_and_are_refused_when_truncated_or_longer() {
        let size = TerminalSize {
            rows: 24,
            columns: u16::MAX,
        };
        for order in [order(None), order(Some(size))] {
            let bytes = order.encode();
            assert_eq!(SpawnOrder::decode(&bytes), Some(order));
            for end in 0..bytes.len() {
                assert_eq!(SpawnOrder::decode(&bytes[..end]), None, "cut at {end}");
            }
            assert_eq!(SpawnOrder::decode(&[bytes, vec![0]].concat()), None);
        }
        let empty = SpawnOrder {
            command: Vec::new(),
            ..order(None)
        };
        assert_eq!(SpawnOrder::decode(&empty.encode()), None);
        let signal = SignalOrder {
            id: 7,
            signal: 64,
            target: SignalTarget::Session,
        };
        assert_eq!(SignalOrder::decode(&signal.encode()), Some(signal));
        assert_eq!(SignalOrder::decode(&signal.encode()[1..]), None);
    }

    #[test]
    fn reports_decode_as_encoded_and_are_refused_when_truncated_or_longer() {
        let spawned = |has_terminal| ProcessReport::Spawned {
            id: 1,
            pid: i32::MAX,
            has_terminal,
        };
        let failed = STEPS.map(|step| ProcessReport::SpawnFailed {
            id: 2,
            step,
            errno: 13,
        });
        let ended = [
            ProcessReport::Exited { id: 3, code: 255 },
            ProcessReport::Signaled { id: 4, signal: 9 },
            spawned(false),
            spawned(true),
        ];
        for report in failed.into_iter().chain(ended) {
            let bytes = report.encode();
            assert_eq!(ProcessReport::decode(&bytes), Some(report));
            for end in 0..bytes.len() {
                assert_eq!(ProcessReport::decode(&bytes[..end]), None, "cut at {end}");
            }
            assert_eq!(ProcessReport::decode(&[bytes, vec![0]].concat()), None);
        }
    }
}
