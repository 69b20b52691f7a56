//! The specification for the stage: the work, and its confinement.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::codec::{SpecDecoder, SpecEncoder};

/// Everything that the stage needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageSpec {
    /// The role of the stage among the processes of the run.
    pub standing: StageRole,
    /// What it starts.
    pub work: StageWork,
    /// The environment, all of it.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub cwd: PathBuf,
    /// Paths and the access below them; empty where mounts enforce it alone.
    pub access: Vec<(PathBuf, PathAccess)>,
    /// The sockets that programs can create.
    pub sockets: SocketKinds,
    /// The addresses of listening sockets that are served outside.
    pub listens: Vec<SocketAddr>,
    /// The limits of each process.
    pub rlimits: ProcessLimits,
}

/// The work of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageWork {
    /// One command, whose end is the end of the run.
    Command(Vec<OsString>),
    /// Processes as ordered, while the launcher is there.
    Orders,
}

impl StageWork {
    /// No command is encoded as an empty one, which is invalid.
    fn words(&self) -> &[OsString] {
        match self {
            Self::Command(words) => words,
            Self::Orders => &[],
        }
    }

    fn of_words(words: Vec<OsString>) -> Self {
        if words.is_empty() {
            Self::Orders
        } else {
            Self::Command(words)
        }
    }
}

/// The role of the stage among the processes of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageRole {
    /// The first process of a namespace: when it ends, the kernel ends all others.
    Init,
    /// A process of the host, which must find and end the others itself.
    Keeper,
}

/// The access below a path, for launchers that enforce it again (Landlock).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathAccess {
    /// Files can be read and executed.
    Read,
    /// Files can be read, changed, created and removed.
    Write,
    /// Existing files can be written, and devices used, but nothing created.
    Use,
}

/// The kinds of sockets that can be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKinds {
    /// Local and internet sockets: the network is the sandbox's own, or meant to be reachable.
    All,
    /// Internet sockets, and pairs. Local addresses could lead to services of the host.
    Internet,
    /// Pairs only.
    Pairs,
}

/// Limits of single processes. Limits of the whole run are set by control groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Seconds of processor time.
    pub cpu_seconds: Option<u64>,
    /// How many processes their user may have.
    pub processes: Option<u64>,
    /// Writable private memory of each process. Never its address space, of which some runtimes reserve
    /// terabytes.
    pub data: Option<u64>,
}

/// Increased whenever the meaning of orders or reports changes: the first program may come from another build
/// than its launcher.
pub(crate) const PROTOCOL: u64 = 3;

impl StageSpec {
    /// Whether these bytes are from a launcher that uses the same protocol version.
    pub fn is_understood(bytes: &[u8]) -> bool {
        SpecDecoder::new(bytes).number() == Some(PROTOCOL)
    }

    /// The bytes of the first order.
    pub fn encode(&self) -> Vec<u8> {
        SpecEncoder::default()
            .number(PROTOCOL)
            .number(self.standing as u64)
            .list(self.work.words(), |out, word| out.bytes(word.as_bytes()))
            .list(&self.env, |out, (name, value)| {
                out.bytes(name.as_bytes()).bytes(value.as_bytes())
            })
            .bytes(self.cwd.as_os_str().as_bytes())
            .list(&self.access, |out, (path, access)| {
                out.bytes(path.as_os_str().as_bytes()).number(*access as u64)
            })
            .number(self.sockets as u64)
            .list(&self.listens, |out, address| {
                out.bytes(address.to_string().as_bytes())
            })
            .maybe(self.rlimits.cpu_seconds)
            .maybe(self.rlimits.processes)
            .maybe(self.rlimits.data)
            .finish()
    }

    /// Reads what [`StageSpec::encode`] wrote; `None` for other bytes, and for those of another protocol version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = SpecDecoder::new(bytes);
        from.number().filter(|version| *version == PROTOCOL)?;
        let spec = Self {
            standing: one_of(&mut from, &[StageRole::Init, StageRole::Keeper])?,
            work: StageWork::of_words(from.list(text)?),
            env: from.list(|from| Some((text(from)?, text(from)?)))?,
            cwd: text(&mut from)?.into(),
            access: from.list(|from| {
                Some((
                    text(from)?.into(),
                    one_of(from, &[PathAccess::Read, PathAccess::Write, PathAccess::Use])?,
                ))
            })?,
            sockets: one_of(
                &mut from,
                &[SocketKinds::All, SocketKinds::Internet, SocketKinds::Pairs],
            )?,
            listens: from.list(|from| text(from)?.to_str()?.parse().ok())?,
            rlimits: ProcessLimits {
                cpu_seconds: from.maybe()?,
                processes: from.maybe()?,
                data: from.maybe()?,
            },
        };
        from.end(spec)
    }
}

pub(super) fn text(from: &mut SpecDecoder<'_>) -> Option<OsString> {
    from.bytes().map(OsString::from_vec)
}

/// The value at the encoded index; the order is that of the type.
pub(super) fn one_of<T: Copy>(from: &mut SpecDecoder<'_>, values: &[T]) -> Option<T> {
    values.get(usize::try_from(from.number()?).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> StageSpec {
        StageSpec {
            standing: StageRole::Keeper,
            work: StageWork::Command(vec!["sh".into(), OsString::from_vec(vec![0xff, b'\n'])]),
            env: vec![("A".into(), "".into())],
            cwd: "/workspace".into(),
            access: vec![("/".into(), PathAccess::Read), ("/dev".into(), PathAccess::Use)],
            sockets: SocketKinds::Pairs,
            listens: vec!["127.0.0.1:3128".parse().unwrap(), "[::1]:80".parse().unwrap()],
            rlimits: ProcessLimits {
                cpu_seconds: Some(0),
                processes: None,
                data: Some(1 << 40),
            },
        }
    }

    #[test]
    fn a_spec_survives_the_way() {
        let open = StageSpec {
            work: StageWork::Orders,
            ..spec()
        };
        for spec in [spec(), open] {
            assert!(StageSpec::is_understood(&spec.encode()));
            assert_eq!(StageSpec::decode(&spec.encode()), Some(spec));
        }
    }

    #[test]
    fn spec_that_is_truncated_or_too_long_is_refused() {
        let bytes = spec().encode();
        for end in 0..bytes.len() {
            assert_eq!(StageSpec::decode(&bytes[..end]), None, "cut at {end}");
        }
        assert_eq!(StageSpec::decode(&[bytes, vec![0]].concat()), None);
    }
}
