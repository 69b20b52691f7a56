//! Sandboxes made by a daemon with the Engine API: Docker, or Podman.
//!
//! The container has an empty image of ours, which shows nothing but the tree of the plan below a directory of its own.
//! The stage makes that tree its root directory, in a user and a mount namespace within those of the container, and takes
//! the number of the plan's user there ([`avfs_inside::StageIdentity`]). Nothing can be passed to a container of a daemon,
//! so the stage fetches its descriptors from a socket. From there on, everything is as in other sandboxes.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use tempfile::TempDir;

use super::builder::BuilderTies;
use super::built::{BuilderProcess, BuiltRun, ExtraDescriptors, run_built};
use super::child::is_root;
use super::ending::group_for;
use super::error::LaunchHint;
use super::pipes::StageEnds;
use super::processes::ProcessTable;
use super::{InnerProgram, Isolation, LaunchError, LaunchOutcome, LaunchRequest, Launcher};
use crate::limits::{ControlGroup, LimitsBy, private_bytes};
use crate::plan::{SandboxPlan, UNPRIVILEGED, layout};
use avfs_inside::{StageDescriptors, StageIdentity, StageWork};

mod client;
mod container;

pub use client::DockerSocket;
use container::ContainerBody;

/// How long a container may take from its start to its first program.
const STARTING: Duration = Duration::from_secs(60);
/// How often a container that starts is looked at.
const LOOKING: Duration = Duration::from_millis(200);

/// How long a daemon may take to remove a container, and how often that is looked at.
const REMOVING: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Where daemons have their sockets, the first that is there being used.
const SOCKETS: [&str; 3] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/podman/podman.sock",
];

/// Runs commands in containers of a daemon.
#[derive(Debug)]
pub struct Docker {
    socket: DockerSocket,
    inside: InnerProgram,
    place: Option<PathBuf>,
    ties: BuilderTies,
}

impl Docker {
    /// Containers by the daemon at this socket. `inside` is our own program.
    pub fn new(socket: DockerSocket, inside: InnerProgram) -> Docker {
        Docker {
            socket,
            inside,
            place: None,
            ties: BuilderTies::default(),
        }
    }

    /// The socket that the value of `DOCKER_HOST` names, or one in its usual place.
    pub fn find(host: Option<&str>) -> Result<DockerSocket, LaunchError> {
        let none = |reason: String| LaunchError::CannotIsolate {
            reason,
            hint: LaunchHint::StartDaemon,
        };
        match host.filter(|host| !host.is_empty()) {
            Some(host) => match host.strip_prefix("unix://") {
                Some(place) => Ok(DockerSocket::at(place)),
                // Its containers would not be on this machine, where the files are.
                None => Err(none(format!(
                    "DOCKER_HOST is {host}, and not the unix:// socket of this machine"
                ))),
            },
            None => SOCKETS
                .iter()
                .map(Path::new)
                .find(|place| place.exists())
                .map(DockerSocket::at)
                .ok_or_else(|| none("there is no socket of Docker or Podman in its usual place".to_owned())),
        }
    }

    /// Makes the directories of its sockets in this one.
    #[must_use]
    pub fn with_sockets_in(self, place: PathBuf) -> Self {
        Self {
            place: Some(place),
            ..self
        }
    }

    pub(super) fn ties(&self) -> &BuilderTies {
        &self.ties
    }

    pub(super) fn ties_mut(&mut self) -> &mut BuilderTies {
        &mut self.ties
    }

    pub(super) fn isolation(&self) -> Result<Isolation, LaunchError> {
        let reply = self
            .socket
            .get("/version")
            .map_err(|source| self.silent(&source))?;
        let told = reply.json();
        let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
        let is_podman = told["Components"][0]["Name"]
            .as_str()
            .is_some_and(|name| name.contains("Podman"));
        Ok(Isolation::Container {
            runtime: if is_podman { "podman" } else { "docker" }.to_owned(),
            version: text("Version"),
        })
    }

    /// Builds the sandbox of a run and keeps it open for these processes; the command of its plan is ignored.
    pub(super) fn keep_open(
        &self,
        run: LaunchRequest<'_>,
        processes: &ProcessTable,
    ) -> Result<LaunchOutcome, LaunchError> {
        run.plan.check_sandbox()?;
        self.carry_out(run, StageWork::Orders, Some(processes))
    }

    fn carry_out(
        &self,
        run: LaunchRequest<'_>,
        work: StageWork,
        processes: Option<&ProcessTable>,
    ) -> Result<LaunchOutcome, LaunchError> {
        let plan = run.plan;
        if plan.root.is_none() {
            return Err(LaunchError::CannotIsolate {
                reason: "a container needs a root directory of its own, and no image is named".to_owned(),
                hint: LaunchHint::NameImage,
            });
        }
        let isolation = self.isolation()?;
        self.make_image()?;
        let meeting = Meeting::open(self.place.as_deref())
            .map_err(LaunchError::system("making a socket for a container"))?;
        let (group, entrances) = group_for(&plan.limits)?;
        let by = group.as_ref().map_or(LimitsBy::Rlimits, ControlGroup::by);
        let tree = layout(plan, Path::new("/"), &self.inside.program);
        let tree = tree.with_private_bytes(private_bytes(&plan.limits, by));
        let mut body = ContainerBody::new(&self.inside, meeting.directory.path());
        body.add(&tree)?;
        let built = BuiltRun {
            run,
            work,
            processes,
            tree,
            group,
            entrances,
            ties: &self.ties,
            name: "the container",
        };
        run_built(
            built,
            |inner, extra| self.start(plan, body, &meeting, inner, extra),
            |container| {
                drop(container);
                Ok(isolation)
            },
        )
    }

    fn start(
        &self,
        plan: &SandboxPlan,
        body: ContainerBody<'_>,
        meeting: &Meeting,
        inner: &StageEnds,
        extra: ExtraDescriptors,
    ) -> Result<(BuilderProcess, DaemonContainer<'_>), LaunchError> {
        let ExtraDescriptors { talk, info, network } = extra;
        drop(talk);
        let argument = argument(plan, inner, network.is_some());
        let container = self.create(&body.json(plan, &argument))?;
        let started = self.socket.post(
            &format!("/containers/{}/start", container.id),
            &serde_json::Value::Null,
        );
        let started = started.map_err(|source| self.silent(&source))?;
        if !started.is_good() {
            return Err(refused(&format!("it cannot be started: {}", started.complaint())));
        }
        let (stage, first) = meeting.await_stage(&container)?;
        let system = LaunchError::system;
        let stage = OwnedFd::from(stage);
        let streams = [&inner.control, &inner.stdin, &inner.stdout, &inner.stderr];
        let all = streams
            .into_iter()
            .chain(&inner.terminal)
            .chain(&inner.entrances)
            .chain(&network);
        all.into_iter()
            .try_for_each(|fd| avfs_inside::give(fd.as_fd(), &stage))
            .map_err(system("passing descriptors to a container"))?;
        let process = pidfd_open(first, PidfdFlags::empty())
            .map_err(io::Error::from)
            .map_err(system("finding the first process of a container"))?;
        let told = format!("{{\"child-pid\": {}}}\n", first.as_raw_pid());
        rustix::io::write(&info, told.as_bytes())
            .map_err(io::Error::from)
            .map_err(system("telling of the first process"))?;
        Ok((BuilderProcess::First(process), container))
    }

    /// Makes the empty image, unless the daemon has it.
    fn make_image(&self) -> Result<(), LaunchError> {
        let name = container::IMAGE;
        let known = self
            .socket
            .get(&format!("/images/{name}/json"))
            .map_err(|source| self.silent(&source))?;
        if known.is_good() {
            return Ok(());
        }
        let (repository, tag) = name.split_once(':').unwrap_or((name, "latest"));
        let path = format!("/images/create?fromSrc=-&repo={repository}&tag={tag}");
        let made = self
            .socket
            .post_archive(&path, &container::empty_archive())
            .map_err(|source| self.silent(&source))?;
        if made.is_good() {
            Ok(())
        } else {
            Err(refused(&format!(
                "its empty image cannot be made: {}",
                made.complaint()
            )))
        }
    }

    fn create(&self, body: &serde_json::Value) -> Result<DaemonContainer<'_>, LaunchError> {
        let reply = self
            .socket
            .post("/containers/create", body)
            .map_err(|source| self.silent(&source))?;
        match reply.json()["Id"].as_str() {
            Some(id) if reply.is_good() => Ok(DaemonContainer {
                socket: &self.socket,
                id: id.to_owned(),
            }),
            _ => Err(refused(&format!("it cannot be made: {}", reply.complaint()))),
        }
    }

    fn silent(&self, source: &io::Error) -> LaunchError {
        LaunchError::CannotIsolate {
            reason: format!(
                "the daemon at {} does not answer: {source}",
                self.socket.place().display()
            ),
            hint: LaunchHint::StartDaemon,
        }
    }
}

impl Launcher for Docker {
    fn launch(&self, run: LaunchRequest<'_>) -> Result<LaunchOutcome, LaunchError> {
        run.plan.check()?;
        let work = StageWork::Command(run.plan.command.clone());
        self.carry_out(run, work, None)
    }
}

/// A container of the daemon. Nothing is left of it when this is dropped. If this process is killed, the stage notices it
/// and ends, and the daemon removes what is left.
struct DaemonContainer<'a> {
    socket: &'a DockerSocket,
    id: String,
}

impl DaemonContainer<'_> {
    fn is_known(&self) -> bool {
        let reply = self.socket.get(&format!("/containers/{}/json", self.id));
        reply.is_ok_and(|reply| reply.is_good())
    }

    fn has_ended(&self) -> bool {
        match self.socket.get(&format!("/containers/{}/json", self.id)) {
            Ok(reply) => reply.json()["State"]["Running"] != true,
            Err(_) => true,
        }
    }
}

impl Drop for DaemonContainer<'_> {
    fn drop(&mut self) {
        // Whether it worked is seen below: an error may mean that the container is gone already.
        let _ = self
            .socket
            .delete(&format!("/containers/{}?force=true&v=true", self.id));
        // The daemon removes one that has ended by itself, and may be about to.
        let until = Instant::now() + REMOVING;
        while self.is_known() && Instant::now() < until {
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }
}

/// Where a stage fetches its descriptors.
struct Meeting {
    listener: UnixListener,
    directory: TempDir,
}

impl Meeting {
    fn open(place: Option<&Path>) -> io::Result<Meeting> {
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("avfs-").permissions(Permissions::from_mode(0o700));
        let directory = match place {
            Some(place) => {
                std::fs::create_dir_all(place)?;
                builder.tempdir_in(place)?
            }
            None => builder.tempdir()?,
        };
        // By a short name: the one of a socket has a limit, and the directory may be anywhere.
        let opened = std::fs::File::open(directory.path())?;
        let short = format!(
            "/proc/self/fd/{}/socket",
            std::os::fd::AsRawFd::as_raw_fd(&opened)
        );
        let listener = UnixListener::bind(short)?;
        listener.set_nonblocking(true)?;
        if is_root() {
            for path in [directory.path().to_owned(), directory.path().join("socket")] {
                std::os::unix::fs::chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED))?;
            }
        }
        Ok(Meeting { listener, directory })
    }

    /// Waits for the stage. Returns its socket and its number.
    fn await_stage(
        &self,
        container: &DaemonContainer<'_>,
    ) -> Result<(UnixStream, rustix::process::Pid), LaunchError> {
        let system = LaunchError::system;
        let until = Instant::now() + STARTING;
        loop {
            let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
            let timeout = Timespec::try_from(LOOKING).ok();
            // An interruption is handled in the next round.
            let _ = poll(&mut fds, timeout.as_ref());
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let peer = rustix::net::sockopt::socket_peercred(&stream)
                        .map_err(io::Error::from)
                        .map_err(system("asking who has come"))?;
                    return Ok((stream, peer.pid));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(system("waiting for a container")(error)),
            }
            if Instant::now() > until || container.has_ended() {
                return Err(refused("its first program did not start"));
            }
        }
    }
}

fn refused(reason: &str) -> LaunchError {
    LaunchError::CannotIsolate {
        reason: format!("the container of the daemon: {reason}"),
        hint: LaunchHint::CheckMachine,
    }
}

/// The argument of the stage: places of descriptors in the order in which they are passed.
fn argument(plan: &SandboxPlan, inner: &StageEnds, has_network: bool) -> String {
    let mut next = 0..;
    let mut place = || next.next().unwrap_or_default();
    let (control, stdin, stdout, stderr) = (place(), place(), place(), place());
    let terminal = inner.terminal.is_some().then(&mut place);
    let entrances = inner.entrances.iter().map(|_| place()).collect();
    let descriptors = StageDescriptors {
        control,
        stdin,
        stdout,
        stderr,
        terminal,
        entrances,
        network: has_network.then(&mut place),
        identity: Some(StageIdentity {
            uid: plan.user.uid,
            gid: plan.user.gid,
        }),
    };
    format!("{}{}", avfs_inside::FETCHED, descriptors.argument())
}
