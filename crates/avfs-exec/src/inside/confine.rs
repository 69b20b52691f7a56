//! The doors that are locked between fork and exec, one behind the other: limits, Landlock, system calls.
//!
//! All of it is prepared before the fork, and applied by the child to itself.

use std::io;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::BpfProgram;

use super::spec::{Rlimits, Spec, Standing};
use crate::plan::Access;
use crate::syscalls;

/// The newest interface of Landlock that the rules here were written for. Older kernels get what they know of it.
const NEWEST: ABI = ABI::V9;

/// Before this, Landlock refuses to move files between directories, which builds need.
const FIRST_WITH_RENAMES: u32 = 2;

/// Everything that the command is put under.
pub(super) struct Confinement {
    rlimits: Rlimits,
    files: Option<RulesetCreated>,
    calls: [BpfProgram; 2],
}

impl Confinement {
    pub(super) fn new(spec: &Spec) -> io::Result<Self> {
        let files = match spec.standing {
            // Its mounts are the boundary, Landlock the second one.
            Standing::Init if landlock_abi() < FIRST_WITH_RENAMES => None,
            Standing::Init | Standing::Keeper => Some(files(spec).map_err(io::Error::other)?),
        };
        let calls = syscalls::filters(spec.sockets, spec.standing).map_err(io::Error::other)?;
        Ok(Self { rlimits: spec.rlimits, files, calls })
    }

    /// Confines this process and all that it will start, for good.
    pub(super) fn apply(self) -> io::Result<()> {
        limit(self.rlimits).map_err(refused)?;
        rustix::thread::set_no_new_privs(true).map_err(refused)?;
        if let Some(files) = self.files {
            files.restrict_self().map_err(refused)?;
        }
        self.calls.iter().try_for_each(|program| seccompiler::apply_filter(program).map_err(refused))
    }
}

/// All that a child can tell its parent is an error number: this one is never the answer of exec.
pub(super) const REFUSED: i32 = libc::EOWNERDEAD;

fn refused<E>(_: E) -> io::Error {
    io::Error::from_raw_os_error(REFUSED)
}

/// The version of Landlock's interface that this kernel has; zero without Landlock.
#[allow(unsafe_code, reason = "no library asks for the number itself")]
pub(crate) fn landlock_abi() -> u32 {
    const VERSION: u32 = 1;
    // SAFETY: asking for the version takes no memory.
    let answer =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION) };
    u32::try_from(answer).unwrap_or(0)
}

fn files(spec: &Spec) -> Result<RulesetCreated, landlock::RulesetError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    let ruleset = ruleset.handle_access(AccessFs::from_all(NEWEST))?.scope(Scope::from_all(NEWEST))?;
    let mut created = ruleset.create()?;
    for (path, access) in &spec.access {
        // What is not there needs no rule: without one, nothing can be made there.
        if let Ok(fd) = PathFd::new(path) {
            created = created.add_rule(PathBeneath::new(fd, rights(*access)))?;
        }
    }
    Ok(created)
}

fn rights(access: Access) -> BitFlags<AccessFs> {
    match access {
        Access::Read => AccessFs::from_read(NEWEST),
        Access::Use => {
            AccessFs::from_read(NEWEST) | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
        }
        // Devices are refused by their calls, too.
        Access::Write => AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock),
    }
}

fn limit(limits: Rlimits) -> io::Result<()> {
    set(Resource::Core, 0, 0)?;
    if let Some(seconds) = limits.cpu_seconds {
        // The first limit can be caught, the second one cannot.
        set(Resource::Cpu, seconds, seconds.saturating_add(5))?;
    }
    if let Some(processes) = limits.processes {
        set(Resource::Nproc, processes, processes)?;
    }
    match limits.data {
        Some(bytes) => set(Resource::Data, bytes, bytes),
        None => Ok(()),
    }
}

/// Lowers a limit; one that is lower already stays.
fn set(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let now = rustix::process::getrlimit(resource);
    let maximum = now.maximum.map_or(maximum, |own| own.min(maximum));
    Ok(setrlimit(resource, Rlimit { current: Some(current.min(maximum)), maximum: Some(maximum) })?)
}
