//! How much work git may have with what a stranger made: few bytes can ask for much memory and time.

use std::process::Child;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The bytes of all object files that were added.
    pub objects: u64,
    /// The memory of one call, in bytes.
    pub memory: u64,
    /// The processor time of one call, in seconds.
    pub seconds: u64,
    /// The bytes that one call may print.
    pub output: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { objects: 2 << 30, memory: 4 << 30, seconds: 120, output: 256 << 20 }
    }
}

/// Address space is what is bounded: git shall not take it for large repositories of the user, or for many threads.
pub(super) const SPARING: [&str; 3] =
    ["core.packedGitWindowSize=32m", "core.packedGitLimit=256m", "pack.threads=4"];

impl Bounds {
    /// Holds a process that has just begun, with those that it starts.
    pub(super) fn hold(&self, child: &Child) {
        let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
        let limits = [
            (Resource::As, self.memory, self.memory),
            // At the first one it is told, at the second killed.
            (Resource::Cpu, self.seconds, self.seconds + 1),
            (Resource::Core, 0, 0),
        ];
        for (resource, current, maximum) in limits {
            // It fails for a process that has ended, or that is held tighter already.
            let _ = prlimit(Some(pid), resource, Rlimit { current: Some(current), maximum: Some(maximum) });
        }
    }
}
