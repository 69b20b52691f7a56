//! The bundle of a container: a plan in the words of the OCI specification.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::launch::child::{StagedPaths, is_root};
use crate::launch::{InnerProgram, LaunchError};
use crate::plan::{INSIDE, Layout, LayoutStep, SandboxPlan, UNPRIVILEGED};
use avfs_inside::StageDescriptors;

/// Nothing of the machine, and nothing that can be changed there.
const MASKED: [&str; 4] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
];
const READ_ONLY: [&str; 4] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"];

/// A bundle that is being written.
pub(super) struct ContainerBundle<'a> {
    staged: &'a mut Option<StagedPaths>,
    inside: &'a InnerProgram,
    root: (PathBuf, bool),
    mounts: Vec<Value>,
    /// Directories that nothing can be made in, once everything is mounted.
    sealed: Vec<String>,
}

impl<'a> ContainerBundle<'a> {
    pub(super) fn new(staged: &'a mut Option<StagedPaths>, inside: &'a InnerProgram) -> Self {
        Self {
            staged,
            inside,
            root: (PathBuf::new(), true),
            mounts: Vec::new(),
            sealed: Vec::new(),
        }
    }

    /// The path by which the user of the runtime reaches a path of the host.
    pub(super) fn reach(&mut self, from: &Path) -> Result<PathBuf, LaunchError> {
        match &mut self.staged {
            Some(staged) => staged.add(from).map_err(|source| LaunchError::Workspace {
                path: from.to_owned(),
                source,
            }),
            None => Ok(from.to_owned()),
        }
    }

    pub(super) fn add(&mut self, tree: &Layout) -> Result<(), LaunchError> {
        tree.steps.iter().try_for_each(|step| self.add_step(step))
    }

    fn add_step(&mut self, step: &LayoutStep) -> Result<(), LaunchError> {
        match step {
            LayoutStep::Writable { from, at } if at == Path::new("/") => {
                self.root = (self.reach(from)?, false);
            }
            LayoutStep::ReadOnly { from, at } if at == Path::new("/") => {
                self.root = (self.reach(from)?, true);
            }
            LayoutStep::System { from, at } | LayoutStep::ReadOnly { from, at } => {
                self.bind(from, at, "ro")?;
            }
            LayoutStep::Writable { from, at } => self.bind(from, at, "rw")?,
            // Links lead to our own program alone, which can have a second name as well.
            LayoutStep::Symlink { to, at } if to == Path::new(INSIDE) => {
                let program = self.inside.program.clone();
                self.bind(&program, at, "ro")?;
            }
            LayoutStep::Private { at, mode, bytes } => self.mounts.push(private(at, *mode, *bytes)),
            LayoutStep::Proc { at } => self.mounts.push(json!({
                "destination": text(at), "type": "proc", "source": "proc",
                "options": ["nosuid", "noexec", "nodev"],
            })),
            LayoutStep::Devices { at } => self.mounts.extend(devices(at)),
            LayoutStep::Seal { at } => self.sealed.push(text(at)),
            LayoutStep::Symlink { at, .. } | LayoutStep::File { at, .. } | LayoutStep::Cover { at, .. } => {
                return Err(LaunchError::CannotIsolate {
                    reason: format!("a container cannot be given a file of ours at {}", at.display()),
                    hint: crate::launch::LaunchHint::UseBubblewrap,
                });
            }
        }
        Ok(())
    }

    fn bind(&mut self, from: &Path, at: &Path, access: &str) -> Result<(), LaunchError> {
        let from = self.reach(from)?;
        self.mounts.push(json!({
            "destination": text(at), "type": "none", "source": text(&from),
            // What the owner of a mount does to it arrives in the container, and nothing of the container outside.
            "options": ["bind", "rslave", "nosuid", "nodev", access],
        }));
        Ok(())
    }

    /// The file `config.json`.
    pub(super) fn config(self, plan: &SandboxPlan, descriptors: &StageDescriptors) -> Value {
        let mut words = vec![INSIDE.to_owned()];
        words.extend(self.inside.arguments.iter().map(|word| text(Path::new(word))));
        words.push(descriptors.argument());
        let (uid, gid) = outside();
        let mapped = |outside: u32| json!([{"containerID": 0, "hostID": outside, "size": 1}]);
        let mut namespaces = vec!["user", "mount", "pid", "ipc", "uts"];
        if !plan.network.is_host() {
            namespaces.push("network");
        }
        let namespaces: Vec<Value> = namespaces.iter().map(|kind| json!({"type": kind})).collect();
        let sealed = self.sealed.into_iter();
        let read_only: Vec<String> = READ_ONLY.map(str::to_owned).into_iter().chain(sealed).collect();
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false,
                "user": {"uid": 0, "gid": 0},
                "args": words,
                "env": [],
                "cwd": "/",
                "noNewPrivileges": true,
                "capabilities": capabilities(descriptors),
            },
            "root": {"path": text(&self.root.0), "readonly": self.root.1},
            "hostname": "sandbox",
            "mounts": self.mounts,
            "linux": {
                "uidMappings": mapped(uid),
                "gidMappings": mapped(gid),
                "namespaces": namespaces,
                "maskedPaths": MASKED,
                "readonlyPaths": read_only,
            },
        })
    }
}

/// None, except that the kernel lets only those who could give files capabilities map root of their own namespace into
/// another one. The stage does that first, and has nothing afterwards.
fn capabilities(descriptors: &StageDescriptors) -> Value {
    match descriptors.identity {
        Some(_) => {
            let one = json!(["CAP_SETFCAP"]);
            json!({"bounding": one, "permitted": one, "effective": one})
        }
        None => json!({}),
    }
}

/// The user of the host who is root in a container.
fn outside() -> (u32, u32) {
    if is_root() {
        return (UNPRIVILEGED, UNPRIVILEGED);
    }
    let gid = rustix::process::getegid();
    (rustix::process::geteuid().as_raw(), gid.as_raw())
}

fn private(at: &Path, mode: u32, bytes: u64) -> Value {
    json!({
        "destination": text(at), "type": "tmpfs", "source": "tmpfs",
        "options": ["nosuid", "nodev", format!("mode={mode:o}"), format!("size={bytes}")],
    })
}

fn devices(at: &Path) -> [Value; 2] {
    let terminals = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"];
    [
        json!({
            "destination": text(at), "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "strictatime", "mode=755", "size=65536k"],
        }),
        json!({
            "destination": text(&at.join("pts")), "type": "devpts", "source": "devpts", "options": terminals,
        }),
    ]
}

/// Paths in a bundle are JSON, which holds text alone. Ours are text: only the user's own temporary directory could be
/// something else, and is then not found.
fn text(path: &Path) -> String {
    String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned()
}
