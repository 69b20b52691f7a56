//! What the stage is told: the command, and how it is to be confined.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::codec::{Decoder, Encoder};
use crate::plan::Access;

/// Everything that the stage needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) standing: Standing,
    pub(crate) command: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
    pub(crate) access: Vec<(PathBuf, Access)>,
    pub(crate) sockets: Sockets,
    /// Where sockets listen that are served outside.
    pub(crate) listens: Vec<SocketAddr>,
    pub(crate) rlimits: Rlimits,
}

/// What the stage is among the processes of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The first process of a namespace: when it ends, the kernel ends all others.
    Init,
    /// A process of the host, which has to find and end the others itself.
    Keeper,
}

/// Which kinds of sockets can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sockets {
    /// Local ones and those of the internet: the network is the sandbox's own, or meant to be reached.
    All,
    /// Those of the internet, and pairs. Local addresses could lead to services of the host.
    Internet,
    /// Pairs only.
    Pairs,
}

/// Limits that belong to processes. What belongs to the whole run is a matter of control groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rlimits {
    pub(crate) cpu_seconds: Option<u64>,
    pub(crate) processes: Option<u64>,
    /// Writable private memory of each process. Never its address space, which some runtimes reserve by the terabyte.
    pub(crate) data: Option<u64>,
}

impl Spec {
    pub(crate) fn encode(&self) -> Vec<u8> {
        Encoder::default()
            .number(self.standing as u64)
            .list(&self.command, |out, word| out.bytes(word.as_bytes()))
            .list(&self.env, |out, (name, value)| out.bytes(name.as_bytes()).bytes(value.as_bytes()))
            .bytes(self.cwd.as_os_str().as_bytes())
            .list(&self.access, |out, (path, access)| {
                out.bytes(path.as_os_str().as_bytes()).number(*access as u64)
            })
            .number(self.sockets as u64)
            .list(&self.listens, |out, address| out.bytes(address.to_string().as_bytes()))
            .maybe(self.rlimits.cpu_seconds)
            .maybe(self.rlimits.processes)
            .maybe(self.rlimits.data)
            .finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Decoder::new(bytes);
        let spec = Self {
            standing: one_of(&mut from, &[Standing::Init, Standing::Keeper])?,
            command: from.list(text)?,
            env: from.list(|from| Some((text(from)?, text(from)?)))?,
            cwd: text(&mut from)?.into(),
            access: from.list(|from| {
                Some((text(from)?.into(), one_of(from, &[Access::Read, Access::Write, Access::Use])?))
            })?,
            sockets: one_of(&mut from, &[Sockets::All, Sockets::Internet, Sockets::Pairs])?,
            listens: from.list(|from| text(from)?.to_str()?.parse().ok())?,
            rlimits: Rlimits { cpu_seconds: from.maybe()?, processes: from.maybe()?, data: from.maybe()? },
        };
        from.end(spec)
    }
}

fn text(from: &mut Decoder<'_>) -> Option<OsString> {
    from.bytes().map(OsString::from_vec)
}

/// The value at the place that was written; the order is that of the type.
fn one_of<T: Copy>(from: &mut Decoder<'_>, values: &[T]) -> Option<T> {
    values.get(usize::try_from(from.number()?).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Spec {
        Spec {
            standing: Standing::Keeper,
            command: vec!["sh".into(), OsString::from_vec(vec![0xff, b'\n'])],
            env: vec![("A".into(), "".into())],
            cwd: "/workspace".into(),
            access: vec![("/".into(), Access::Read), ("/dev".into(), Access::Use)],
            sockets: Sockets::Pairs,
            listens: vec!["127.0.0.1:3128".parse().unwrap(), "[::1]:80".parse().unwrap()],
            rlimits: Rlimits { cpu_seconds: Some(0), processes: None, data: Some(1 << 40) },
        }
    }

    #[test]
    fn a_spec_survives_the_way() {
        assert_eq!(Spec::decode(&spec().encode()), Some(spec()));
    }

    #[test]
    fn a_spec_that_was_cut_or_has_more_is_none() {
        let bytes = spec().encode();
        for end in 0..bytes.len() {
            assert_eq!(Spec::decode(&bytes[..end]), None, "cut at {end}");
        }
        assert_eq!(Spec::decode(&[bytes, vec![0]].concat()), None);
    }
}
