//! Limits for git on data from a stranger: few bytes can require much memory and time.

use std::process::Command;

/// How long git may take, and how much it may write.
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
        Bounds {
            objects: 2 << 30,
            memory: 4 << 30,
            seconds: 120,
            output: 256 << 20,
        }
    }
}

/// The address space is limited: git must not use it for large repositories of the user, or for many threads.
pub(super) const SPARING: [&str; 3] = [
    "core.packedGitWindowSize=32m",
    "core.packedGitLimit=256m",
    "pack.threads=4",
];

/// Sets the limits and becomes the program. A limit that is tighter already stays.
const HOLD: &str = r#"
    { ulimit -v "$1"; ulimit -S -t "$2"; ulimit -H -t "$3"; ulimit -c 0; } 2>/dev/null
    shift 3
    exec "$@"
"#;

impl Bounds {
    /// The same command, held from its first instruction, with everything that it starts. A limit that was set on a
    /// running process would come too late for one that is fast.
    pub(super) fn hold(&self, command: &Command) -> Command {
        let mut held = Command::new("/bin/sh");
        held.args(["-c", HOLD, "sh"]);
        // At the first time limit the program is asked to end, at the second it is killed.
        held.args([self.memory / 1024, self.seconds, self.seconds + 1].map(|limit| limit.to_string()));
        held.arg(command.get_program())
            .args(command.get_args())
            .env_clear();
        held.envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        if let Some(directory) = command.get_current_dir() {
            held.current_dir(directory);
        }
        held
    }
}
