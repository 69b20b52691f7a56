//! The network of a run: none, the host's, or a list of hosts behind a proxy.

mod rule;

pub use rule::{BadHostRule, HostRule};

use std::io;
use std::os::fd::OwnedFd;

/// Something that the proxy did not let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {}

pub(crate) struct Proxy {}

impl Proxy {
    pub(crate) fn start(_: Vec<HostRule>, _: OwnedFd) -> io::Result<Self> {
        Ok(Self {})
    }
    pub(crate) fn finish(self) -> Vec<Refusal> {
        Vec::new()
    }
}
