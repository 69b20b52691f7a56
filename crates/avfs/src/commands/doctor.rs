//! `avfs doctor`: which features this machine supports, and how to enable the others.

mod install;

use std::fs::OpenOptions;
use std::path::Path;

use agentvfs::exec::sandbox::support;
use agentvfs::mount::{MountError, check_device, may_yield_to_callers};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;

/// Check whether this machine supports mounts and sandboxes
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reports each requirement and, if it is not met, how to fix it. Exits with status 1 if a
requirement is not met.

Examples:
  avfs doctor
  avfs doctor --json"
)]
pub struct DoctorArgs {}

#[derive(Serialize)]
struct DoctorBody {
    checks: Vec<Check>,
    /// The command that installs all missing programs.
    install: Option<String>,
}

/// One check.
#[derive(Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    state: String,
    fix: Option<String>,
}

const DEVICE: &str = "/dev/fuse";
const URING_SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
const URING_DENIAL: &str = "/proc/sys/kernel/io_uring_disabled";

pub fn run(context: &mut Context<'_>, _args: &DoctorArgs) -> Result<ExitStatus> {
    let checks = checks(context);
    let works = checks.iter().all(|check| check.ok);
    tell(context, checks)?;
    Ok(if works {
        ExitStatus::Success
    } else {
        ExitStatus::No
    })
}

/// Tells what is missing on this machine, and returns the status to end with; nothing, if it has everything.
pub fn tell_missing(context: &mut Context<'_>) -> Result<Option<ExitStatus>> {
    let checks: Vec<Check> = checks(context).into_iter().filter(|check| !check.ok).collect();
    if checks.is_empty() {
        return Ok(None);
    }
    tell(context, checks)?;
    Ok(Some(ExitStatus::No))
}

fn checks(context: &Context<'_>) -> Vec<Check> {
    let mut checks = vec![device(), helper(), transport(), serving(), place(context)];
    checks.extend(sandbox());
    checks
}

fn tell(context: &mut Context<'_>, checks: Vec<Check>) -> Result<()> {
    let missing: Vec<&str> = checks
        .iter()
        .filter(|check| !check.ok)
        .map(|check| check.name)
        .collect();
    let install = install::command(
        &missing,
        // Root installs packages without `sudo`.
        rustix::process::geteuid().is_root(),
        install::is_installed,
    );
    if context.out.is_json() {
        context.out.object("doctor", &DoctorBody { checks, install })?;
        return Ok(());
    }
    for check in &checks {
        let mark = if check.ok { "ok" } else { "!!" };
        context
            .out
            .line(format_args!("{mark}  {}: {}", check.name, check.state))?;
        if let Some(fix) = &check.fix {
            for line in fix.lines() {
                context.out.line(format_args!("      {line}"))?;
            }
        }
    }
    if let Some(install) = install {
        context
            .out
            .line(format_args!("\nto install what is missing:\n  {install}"))?;
    }
    Ok(())
}

/// The requirements of `avfs exec`. The device and its helper are checked above, by using them.
fn sandbox() -> Vec<Check> {
    let found = support::checks(&support::SystemProbe::look());
    let of_sandboxes = found
        .into_iter()
        .filter(|check| !check.name.starts_with("fuse") && check.name != DEVICE);
    of_sandboxes
        .map(|check| {
            let ok = check.state != support::SupportState::Missing;
            Check {
                name: check.name,
                ok,
                state: check.detail,
                fix: check.fix,
            }
        })
        .collect()
}

fn device() -> Check {
    let name = "fuse device";
    let missing = |state: String, fix: String| Check {
        name,
        ok: false,
        state,
        fix: Some(fix),
    };
    // Something else may have its name, and may even be opened.
    match check_device() {
        Err(MountError::NotTheDevice) => {
            let fix = format!(
                "as root: rm {DEVICE} && mknod -m 666 {DEVICE} c 10 229; in a container: start it with --device {DEVICE}"
            );
            return missing(
                format!("{DEVICE} is not the FUSE device (character device 10:229)"),
                fix,
            );
        }
        Err(MountError::NoDevice) => {
            let fix = format!("as root: modprobe fuse; in a container: start it with --device {DEVICE}");
            return missing(format!("{DEVICE} does not exist"), fix);
        }
        Ok(()) | Err(_) => {}
    }
    match OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(_) => Check {
            name,
            ok: true,
            state: format!("{DEVICE} is usable"),
            fix: None,
        },
        Err(error) => missing(
            format!("{DEVICE}: {error}"),
            format!("as root: chmod 666 {DEVICE}"),
        ),
    }
}

/// Only ordinary users need it.
fn helper() -> Check {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths)
        .map(|dir| dir.join("fusermount3"))
        .find(|path| path.exists());
    let is_root = rustix::process::geteuid().is_root();
    let (state, fix) = match (&found, is_root) {
        (Some(path), _) => (path.display().to_string(), None),
        (None, true) => ("not installed; root does not need it".to_owned(), None),
        (None, false) => (
            "not installed; users other than root need it to mount".to_owned(),
            Some("install the fuse3 package".to_owned()),
        ),
    };
    Check {
        name: "fusermount3",
        ok: found.is_some() || is_root,
        state,
        fix,
    }
}

/// The setting that lets the threads that serve mounts yield over io_uring too.
const NICE_FIX: &str =
    "for faster mounts, allow nice level 0: set LimitNICE=+0 (systemd), or add `USER - nice 0` to
/etc/security/limits.conf";

fn transport() -> Check {
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    let denied = read(URING_DENIAL).is_some_and(|level| level != "0");
    transport_chosen(read(URING_SWITCH).as_deref(), denied, may_yield_to_callers())
}

/// The transport of mounts by default. A lack of io_uring is not an error: mounts are slower without it.
fn transport_chosen(switch: Option<&str>, denied: bool, may_yield: bool) -> Check {
    let (state, fix) = match switch {
        Some("Y") if denied => {
            let fix = "as root: sysctl kernel.io_uring_disabled=0".to_owned();
            ("/dev/fuse; io_uring is disabled on this machine", Some(fix))
        }
        Some("Y") if !may_yield => (
            "/dev/fuse; io_uring works only with --transport uring, because the nice limit of this user keeps the threads that \
             serve mounts from yielding over it",
            Some(NICE_FIX.to_owned()),
        ),
        Some("Y") => ("io_uring", None),
        Some(_) => {
            let fix = format!("for faster mounts, as root: echo Y > {URING_SWITCH}");
            ("/dev/fuse; io_uring is turned off for FUSE", Some(fix))
        }
        None => {
            let fix = "for faster mounts, use Linux 6.14 or later".to_owned();
            (
                "/dev/fuse; this kernel does not support FUSE over io_uring",
                Some(fix),
            )
        }
    };
    Check {
        name: "transport",
        ok: true,
        state: state.to_owned(),
        fix,
    }
}

/// Not an error either: requests only take longer.
fn serving() -> Check {
    let (state, fix) = if may_yield_to_callers() {
        ("threads that serve mounts let their callers go first", None)
    } else {
        (
            "threads that serve mounts yield to the programs that use them over /dev/fuse, but not over io_uring, because of \
             the nice limit of this user",
            Some(NICE_FIX.to_owned()),
        )
    };
    Check {
        name: "serving",
        ok: true,
        state: state.to_owned(),
        fix,
    }
}

fn place(context: &Context<'_>) -> Check {
    let name = "store";
    match context.store() {
        Ok(store) => {
            let home = store.home().unwrap_or(Path::new("")).display().to_string();
            Check {
                name,
                ok: true,
                state: home,
                fix: None,
            }
        }
        Err(error) => Check {
            name,
            ok: false,
            state: format!("{error:#}"),
            fix: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transport_is_the_one_that_mounts_use() {
        let state = |switch, denied, may_yield| transport_chosen(switch, denied, may_yield).state;
        assert_eq!(state(Some("Y"), false, true), "io_uring");
        for (switch, denied, may_yield) in [
            (Some("Y"), false, false),
            (Some("Y"), true, true),
            (Some("N"), false, true),
            (None, false, false),
        ] {
            let check = transport_chosen(switch, denied, may_yield);
            assert!(
                check.ok && check.state.starts_with("/dev/fuse; "),
                "{}",
                check.state
            );
            assert!(check.fix.is_some(), "{}", check.state);
        }
        assert!(state(Some("Y"), false, false).contains("the nice limit of this user"));
    }
}
