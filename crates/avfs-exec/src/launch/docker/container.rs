//! What a daemon is asked to make.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::launch::child::is_root;
use crate::launch::{InnerProgram, LaunchError, LaunchHint};
use crate::plan::{INSIDE, Layout, LayoutStep, SandboxPlan, UNPRIVILEGED};
use avfs_inside::{OUTPOST_ROOT, OUTPOST_SOCKET};

/// The image of all containers: nothing is in it.
pub(super) const IMAGE: &str = "avfs-empty:1";

/// Our own program beside the tree, where the daemon starts it.
const PROGRAM: &str = "/avfs/inside";

/// Where systems have their libraries.
const LIBRARIES: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// An archive without entries: two blocks of zeros.
pub(super) fn empty_archive() -> Vec<u8> {
    vec![0; 1024]
}

/// The request for a container.
pub(super) struct ContainerBody<'a> {
    inside: &'a InnerProgram,
    mounts: Vec<Value>,
    /// Empty file systems in memory, by their places.
    memory: Map<String, Value>,
    /// Directories of the tree that nothing can be made in.
    sealed: Vec<String>,
    is_shared: fn(&Path) -> bool,
}

impl<'a> ContainerBody<'a> {
    pub(super) fn new(inside: &'a InnerProgram, meeting: &Path) -> Self {
        let mut body = Self {
            inside,
            mounts: Vec::new(),
            memory: Map::new(),
            sealed: Vec::new(),
            is_shared,
        };
        body.bind(&inside.program, Path::new(PROGRAM), true);
        let socket = Path::new(OUTPOST_SOCKET).parent().unwrap_or(Path::new("/"));
        body.bind(meeting, socket, true);
        body
    }

    pub(super) fn add(&mut self, tree: &Layout) -> Result<(), LaunchError> {
        for step in &tree.steps {
            match step {
                LayoutStep::System { from, at } | LayoutStep::ReadOnly { from, at } => {
                    self.bind(from, &below(at), true);
                }
                LayoutStep::Writable { from, at } => self.bind(from, &below(at), false),
                LayoutStep::Symlink { to, at } if to == Path::new(INSIDE) => {
                    let program = self.inside.program.clone();
                    self.bind(&program, &below(at), true);
                }
                LayoutStep::Private { at, mode, bytes } => self.private(at, *mode, *bytes),
                // The container has them, and the stage shows them in the tree.
                LayoutStep::Proc { .. } | LayoutStep::Devices { .. } => {}
                LayoutStep::Seal { at } if at == Path::new("/dev") => {}
                LayoutStep::Seal { at } => self.sealed.push(text(&below(at))),
                LayoutStep::Symlink { at, .. }
                | LayoutStep::File { at, .. }
                | LayoutStep::Cover { at, .. } => {
                    return Err(LaunchError::CannotIsolate {
                        reason: format!("a container cannot be given a file of ours at {}", at.display()),
                        hint: LaunchHint::UseBubblewrap,
                    });
                }
            }
        }
        Ok(())
    }

    fn bind(&mut self, from: &Path, at: &Path, read_only: bool) {
        // What the owner of a mount does to it arrives in the container, and nothing of the container outside. A daemon
        // refuses that where the machine does not share its mounts.
        let propagation = if (self.is_shared)(from) {
            "rslave"
        } else {
            "rprivate"
        };
        self.mounts.push(json!({
            "Type": "bind", "Source": text(from), "Target": text(at), "ReadOnly": read_only,
            "BindOptions": {"Propagation": propagation},
        }));
    }

    /// The words that start our own program. One that is linked dynamically finds its libraries in the tree.
    fn program(&self) -> Vec<String> {
        let program = PROGRAM.to_owned();
        let Some(loader) = self.inside.loader() else {
            return vec![program];
        };
        let places = LIBRARIES.map(|place| text(&below(Path::new(place)))).join(":");
        vec![
            text(&below(&loader)),
            "--library-path".to_owned(),
            places,
            program,
        ]
    }

    /// Below `/dev`, the container has its own.
    fn private(&mut self, at: &Path, mode: u32, bytes: u64) {
        if at.starts_with("/dev") {
            return;
        }
        let (uid, gid) = outside();
        let options = format!("rw,exec,nosuid,nodev,size={bytes},mode={mode:o},uid={uid},gid={gid}");
        self.memory.insert(text(&below(at)), options.into());
    }

    pub(super) fn json(self, plan: &SandboxPlan, argument: &str) -> Value {
        let mut words = self.program();
        words.extend(self.inside.arguments.iter().map(|word| text(Path::new(word))));
        words.push(argument.to_owned());
        let shm = plan.limits.private_bytes;
        let (uid, gid) = outside();
        let usual = [
            "/proc/bus",
            "/proc/fs",
            "/proc/irq",
            "/proc/sys",
            "/proc/sysrq-trigger",
        ];
        let read_only: Vec<String> = usual.map(str::to_owned).into_iter().chain(self.sealed).collect();
        json!({
            "Image": IMAGE,
            "Entrypoint": words,
            "Cmd": [],
            "Env": [],
            "User": format!("{uid}:{gid}"),
            "WorkingDir": "/",
            "Hostname": if plan.network.is_host() { "" } else { "sandbox" },
            "Labels": {"avfs": "sandbox"},
            "HostConfig": {
                "Mounts": self.mounts,
                "Tmpfs": self.memory,
                "NetworkMode": if plan.network.is_host() { "host" } else { "none" },
                "ReadonlyRootfs": true,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges", "seccomp=unconfined", "apparmor=unconfined"],
                "ReadonlyPaths": read_only,
                "IpcMode": "private",
                "ShmSize": shm,
                "AutoRemove": true,
                "LogConfig": {"Type": "none"},
            },
        })
    }
}

/// A path of the tree, as the container has it.
fn below(at: &Path) -> PathBuf {
    match at.strip_prefix("/") {
        Ok(rest) if rest.as_os_str().is_empty() => PathBuf::from(OUTPOST_ROOT),
        Ok(rest) => Path::new(OUTPOST_ROOT).join(rest),
        Err(_) => at.to_owned(),
    }
}

/// The user of the host that all processes are.
fn outside() -> (u32, u32) {
    if is_root() {
        return (UNPRIVILEGED, UNPRIVILEGED);
    }
    let gid = rustix::process::getegid();
    (rustix::process::geteuid().as_raw(), gid.as_raw())
}

/// Whether the mount that has this path passes its changes on.
fn is_shared(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounts = table.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let at = PathBuf::from(fields.nth(4)?);
        // Fields without a fixed number stand between the options and a hyphen.
        let shares = fields
            .skip(1)
            .take_while(|field| *field != "-")
            .any(|field| field.starts_with("shared:") || field.starts_with("master:"));
        path.starts_with(&at).then(|| (at.components().count(), shares))
    });
    // Of several at one place, the last lies on top.
    mounts
        .fold(
            (0, false),
            |deepest, mount| if mount.0 >= deepest.0 { mount } else { deepest },
        )
        .1
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_below_a_directory_of_its_own() {
        for (at, expected) in [
            ("/", "/avfs/root"),
            ("/workspace", "/avfs/root/workspace"),
            ("/run/avfs/door", "/avfs/root/run/avfs/door"),
        ] {
            assert_eq!(below(Path::new(at)), Path::new(expected));
        }
    }
}
