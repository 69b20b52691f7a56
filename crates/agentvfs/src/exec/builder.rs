//! What builds the sandboxes of a run: bubblewrap, or a container runtime.

use avfs_exec::launch::{ContainerRuntime, InnerProgram, LaunchHint};
use avfs_exec::{Bubblewrap, Container, Docker, LaunchError, SandboxBuilder};

use super::workspace::MountedVault;
use super::{ImageRoot, IsolationChoice, RunSpec};
use crate::vault::Vault;

/// Below the store: which versions of these programs were found last.
const BUBBLEWRAP: &str = "bubblewrap";
const RUNTIME: &str = "container-runtime";

/// Names the socket of a daemon.
const DOCKER_HOST: &str = "DOCKER_HOST";

/// Bubblewrap as the system has it.
pub(crate) fn bubblewrap(vault: &Vault, inside: InnerProgram) -> Bubblewrap {
    let bubblewrap = Bubblewrap::new(inside);
    match vault.store().work().existing() {
        Some(home) => bubblewrap.remembering(home.join(BUBBLEWRAP)),
        None => bubblewrap,
    }
}

/// What builds a sandbox with namespaces of its own, around these mounts.
pub(crate) fn sandbox_builder(
    vault: &Vault,
    spec: &RunSpec,
    inside: InnerProgram,
    (workspace, root): (Option<&MountedVault>, Option<&ImageRoot>),
) -> Result<SandboxBuilder, LaunchError> {
    let builder: SandboxBuilder = match spec.isolation {
        IsolationChoice::Bubblewrap => bubblewrap(vault, inside).into(),
        IsolationChoice::Oci => {
            let runtime = match spec.container_runtime.as_deref() {
                Some(name) => ContainerRuntime::named(name)?,
                None => ContainerRuntime::find()?,
            };
            container(vault, runtime, inside, root).into()
        }
        IsolationChoice::Docker => {
            let host = spec.caller_env.iter().find(|(name, _)| name == DOCKER_HOST);
            let host = host.map(|(_, value)| value.to_string_lossy());
            let docker = Docker::new(Docker::find(host.as_deref())?, inside);
            match root {
                Some(root) => docker.with_sockets_in(root.bundles()).into(),
                None => docker.into(),
            }
        }
        IsolationChoice::Landlock => {
            return Err(LaunchError::CannotIsolate {
                reason: "a sandbox that stays open needs namespaces, and Landlock alone has none".to_owned(),
                hint: LaunchHint::UseBubblewrap,
            });
        }
    };
    let servers = workspace.and_then(MountedVault::server);
    let servers = servers.into_iter().chain(root.and_then(ImageRoot::server));
    Ok(builder.served_by(servers))
}

fn container(
    vault: &Vault,
    runtime: ContainerRuntime,
    inside: InnerProgram,
    root: Option<&ImageRoot>,
) -> Container {
    let mut container = Container::new(runtime, inside);
    if let Some(home) = vault.store().work().existing() {
        container = container.remembering(home.join(RUNTIME));
    }
    match root {
        Some(root) => container.with_bundles_in(root.bundles()),
        None => container,
    }
}
