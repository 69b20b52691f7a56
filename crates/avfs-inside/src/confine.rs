//! The confinements that are applied between fork and exec, one after the other: limits, Landlock, system
//! calls.
//!
//! Everything is prepared before the fork, and applied by the child to itself.

use std::io;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::BpfProgram;

use super::spec::{ProcessLimits, StageRole, StageSpec};
use crate::spec::PathAccess;
use crate::syscalls;

/// The newest version of Landlock for which the rules here were written. Older kernels get the part that they
/// support.
const NEWEST: ABI = ABI::V9;

/// Older versions of Landlock refuse to move files between directories, which builds need.
const FIRST_WITH_RENAMES: u32 = 2;

/// Everything that confines the command.
pub(super) struct Confinement {
    rlimits: ProcessLimits,
    files: Option<RulesetCreated>,
    calls: Vec<BpfProgram>,
}

impl Confinement {
    pub(super) fn new(spec: &StageSpec) -> io::Result<Self> {
        let files = match spec.standing {
            // Its mounts are the boundary; Landlock is the second one.
            StageRole::Init if landlock_abi() < FIRST_WITH_RENAMES => None,
            StageRole::Init | StageRole::Keeper => Some(files(spec).map_err(io::Error::other)?),
        };
        let calls = syscalls::filters(spec.sockets, spec.standing).map_err(io::Error::other)?;
        Ok(Self {
            rlimits: spec.rlimits,
            files,
            calls,
        })
    }

    /// Applies Landlock to this process already, for all processes that it will start. Processes with
    /// separate domains could neither signal one another nor communicate over abstract sockets.
    pub(super) fn share_files(&mut self) -> io::Result<()> {
        match self.files.take() {
            Some(files) => files.restrict_self().map(drop).map_err(io::Error::other),
            None => Ok(()),
        }
    }

    /// The part that each process must apply to itself, once Landlock is shared.
    pub(super) fn of_each(&self) -> Self {
        Self {
            rlimits: self.rlimits,
            files: None,
            calls: self.calls.clone(),
        }
    }

    /// Confines this process and all processes that it will start, permanently.
    pub(super) fn apply(self) -> io::Result<()> {
        limit(self.rlimits).map_err(refused)?;
        rustix::thread::set_no_new_privs(true).map_err(refused)?;
        if let Some(files) = self.files {
            files.restrict_self().map_err(refused)?;
        }
        self.calls
            .iter()
            .try_for_each(|program| seccompiler::apply_filter(program).map_err(refused))
    }
}

/// A child can only report an error number to its parent: exec never returns this one.
pub(super) const REFUSED: i32 = libc::EOWNERDEAD;

fn refused<E>(_: E) -> io::Error {
    io::Error::from_raw_os_error(REFUSED)
}

/// The version of Landlock in this kernel; zero without Landlock.
#[allow(unsafe_code, reason = "no library asks for the number itself")]
pub fn landlock_abi() -> u32 {
    const VERSION: u32 = 1;
    // SAFETY: asking for the version takes no memory.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            VERSION,
        )
    };
    u32::try_from(answer).unwrap_or(0)
}

fn files(spec: &StageSpec) -> Result<RulesetCreated, landlock::RulesetError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    let ruleset = ruleset
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    let mut created = ruleset.create()?;
    for (path, access) in &spec.access {
        // A missing path needs no rule: without one, nothing can be created there.
        if let Ok(fd) = PathFd::new(path) {
            created = created.add_rule(PathBeneath::new(fd, rights(*access)))?;
        }
    }
    Ok(created)
}

fn rights(access: PathAccess) -> BitFlags<AccessFs> {
    match access {
        PathAccess::Read => AccessFs::from_read(NEWEST),
        PathAccess::Use => {
            AccessFs::from_read(NEWEST) | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
        }
        // Devices are also refused by the system call filter.
        PathAccess::Write => AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock),
    }
}

fn limit(limits: ProcessLimits) -> io::Result<()> {
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

/// Lowers a limit; a lower existing limit is kept.
fn set(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let now = rustix::process::getrlimit(resource);
    let maximum = now.maximum.map_or(maximum, |own| own.min(maximum));
    Ok(setrlimit(
        resource,
        Rlimit {
            current: Some(current.min(maximum)),
            maximum: Some(maximum),
        },
    )?)
}
