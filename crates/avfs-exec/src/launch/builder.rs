//! Launchers that build sandboxes with namespaces of their own, which can stay open for a shell or for processes.

use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use super::processes::ProcessTable;
use super::{Bubblewrap, Container, Docker, Isolation, LaunchError, LaunchOutcome, LaunchRequest, Launcher};
use crate::limits::LimitGauge;
use crate::network::{InnerPorts, Refusals};

/// One of these launchers.
#[derive(Debug)]
pub enum SandboxBuilder {
    /// Bubblewrap.
    Bubblewrap(Bubblewrap),
    /// A container runtime.
    Container(Container),
    /// A daemon with Docker's API.
    Docker(Docker),
}

/// What connects the runs of a launcher with others.
#[derive(Debug, Default)]
pub(crate) struct BuilderTies {
    /// The resource usage of the run, once its group exists.
    gauge: Arc<OnceLock<LimitGauge>>,
    /// The live list of requests that runs were refused.
    refusals: Arc<Refusals>,
    /// The ports of the first run with a network of its own.
    ports: Arc<InnerPorts>,
    /// Of each process that serves files of the sandbox: readable when it has ended.
    servers: Vec<Arc<OwnedFd>>,
}

impl SandboxBuilder {
    /// Ends its sandboxes when one of these processes (pidfds) has ended: it serves files without which nothing inside
    /// can go on.
    #[must_use]
    pub fn served_by(mut self, servers: impl IntoIterator<Item = Arc<OwnedFd>>) -> Self {
        let ties = match &mut self {
            Self::Bubblewrap(bubblewrap) => bubblewrap.ties_mut(),
            Self::Container(container) => container.ties_mut(),
            Self::Docker(docker) => docker.ties_mut(),
        };
        ties.servers.extend(servers);
        self
    }

    /// What builds the sandboxes, with its version.
    pub fn isolation(&self) -> Result<Isolation, LaunchError> {
        match self {
            Self::Bubblewrap(bubblewrap) => bubblewrap.isolation(),
            Self::Container(container) => container.isolation(),
            Self::Docker(docker) => docker.isolation(),
        }
    }

    pub(crate) fn ties(&self) -> &BuilderTies {
        match self {
            Self::Bubblewrap(bubblewrap) => bubblewrap.ties(),
            Self::Container(container) => container.ties(),
            Self::Docker(docker) => docker.ties(),
        }
    }

    /// Builds the sandbox of a run and keeps it open for these processes; the command of its plan is ignored.
    pub(crate) fn keep_open(
        &self,
        run: LaunchRequest<'_>,
        processes: &ProcessTable,
    ) -> Result<LaunchOutcome, LaunchError> {
        match self {
            Self::Bubblewrap(bubblewrap) => bubblewrap.keep_open(run, processes),
            Self::Container(container) => container.keep_open(run, processes),
            Self::Docker(docker) => docker.keep_open(run, processes),
        }
    }
}

impl Launcher for SandboxBuilder {
    fn launch(&self, run: LaunchRequest<'_>) -> Result<LaunchOutcome, LaunchError> {
        match self {
            Self::Bubblewrap(bubblewrap) => bubblewrap.launch(run),
            Self::Container(container) => container.launch(run),
            Self::Docker(docker) => docker.launch(run),
        }
    }
}

impl From<Bubblewrap> for SandboxBuilder {
    fn from(bubblewrap: Bubblewrap) -> Self {
        Self::Bubblewrap(bubblewrap)
    }
}

impl From<Container> for SandboxBuilder {
    fn from(container: Container) -> Self {
        Self::Container(container)
    }
}

impl From<Docker> for SandboxBuilder {
    fn from(docker: Docker) -> Self {
        Self::Docker(docker)
    }
}

impl BuilderTies {
    pub(crate) fn gauge(&self) -> Arc<OnceLock<LimitGauge>> {
        Arc::clone(&self.gauge)
    }

    pub(crate) fn refusals(&self) -> Arc<Refusals> {
        Arc::clone(&self.refusals)
    }

    pub(crate) fn ports(&self) -> Arc<InnerPorts> {
        Arc::clone(&self.ports)
    }

    pub(super) fn servers(&self) -> &[Arc<OwnedFd>] {
        &self.servers
    }
}
