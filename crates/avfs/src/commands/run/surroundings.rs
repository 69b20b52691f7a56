//! The parts of this machine that a program gets: programs, variables, and a part of the home.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use agentvfs::exec::HomeShare;
use agentvfs::exec::sandbox::plan::{SandboxUser, Toolchain, toolchains};
use agentvfs::exec::sandbox::profile::{Profile, programs};
use agentvfs::git::{Identity, safe_directories, settings_inside, variables};

/// Names that the sandbox sets itself, whatever a profile says.
const OWN: [&str; 6] = ["HOME", "USER", "LOGNAME", "PATH", "TMPDIR", "AVFS_DOOR"];

pub(super) struct Surroundings {
    pub(super) toolchains: Vec<Toolchain>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) home: Option<HomeShare>,
    pub(super) user: SandboxUser,
}

impl Surroundings {
    pub(super) fn of(profile: &Profile, command: &[OsString], project: &Path) -> Surroundings {
        let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
        let caller: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        let toolchains = home
            .as_deref()
            .map(|home| shown(profile, command, project, home, &caller));
        let mut env = passed(profile);
        // Side by side, because each of them waits for a git process.
        let (identity, safe) = std::thread::scope(|scope| {
            let identity = scope.spawn(|| Identity::of(project));
            let safe = safe_directories(project);
            (identity.join().unwrap_or_default(), safe)
        });
        let mut settings = settings_inside();
        settings.extend(identity.settings());
        settings.extend(safe);
        env.extend(variables(&settings));
        Surroundings {
            toolchains: toolchains.unwrap_or_default(),
            env,
            home: home.map(|home| share(profile, &home, project, &caller)),
            user: user(),
        }
    }
}

/// At a different path than its own, only the state of tools is shared.
fn share(profile: &Profile, home: &Path, project: &Path, caller: &[(OsString, OsString)]) -> HomeShare {
    let mut share = HomeShare::of_tools(home, Some(project), caller);
    if share.at == home {
        share.rules.extend(profile.rules());
        share.copied = profile.copied_files();
    }
    share
}

fn shown(
    profile: &Profile,
    command: &[OsString],
    project: &Path,
    home: &Path,
    caller: &[(OsString, OsString)],
) -> Vec<Toolchain> {
    let mut all = toolchains(home, caller, Some(project));
    let mut seen: Vec<PathBuf> = all.iter().map(|one| one.at.clone()).collect();
    seen.push(project.to_owned());
    let search = std::env::var_os("PATH").unwrap_or_default();
    if let Some(program) = command.first() {
        all.extend(programs(profile, home, program, &search, &seen));
    }
    all
}

fn passed(profile: &Profile) -> Vec<(OsString, OsString)> {
    let is_own = |name: &OsString| name.to_str().is_some_and(|name| OWN.contains(&name));
    std::env::vars_os()
        .filter(|(name, _)| profile.passes(name) && !is_own(name))
        .collect()
}

/// The caller, by the name in `USER` if that is a valid login name other than root.
fn user() -> SandboxUser {
    let usual = SandboxUser::of_caller();
    let name = std::env::var("USER")
        .ok()
        .filter(|name| is_login(name) && name != "root");
    SandboxUser {
        name: name.unwrap_or(usual.name),
        ..usual
    }
}

fn is_login(name: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    name.bytes()
        .next()
        .is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
        && name.len() <= 32
        && name.bytes().all(allowed)
}
