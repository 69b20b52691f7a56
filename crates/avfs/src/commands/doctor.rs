//! `avfs doctor`: what this machine can do, and how to make it do the rest.

use std::fs::OpenOptions;
use std::path::Path;

use agentvfs::exec::boundary::support;
use agentvfs::mount::{MountError, check_device};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;

/// Check what mounts and sandboxes need on this machine
#[derive(Debug, clap::Args)]
#[command(after_help = "Says for each thing whether it is there, and if not, how to get it.

Examples:
  avfs doctor
  avfs doctor --json")]
pub struct DoctorArgs {}

#[derive(Serialize)]
struct DoctorBody {
    checks: Vec<Check>,
}

/// One thing that was looked at.
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
    let mut checks = vec![device(), helper(), transport(), serving(), place(context)];
    checks.extend(sandbox());
    let works = checks.iter().all(|check| check.ok);
    if context.out.is_json() {
        context.out.object("doctor", &DoctorBody { checks })?;
    } else {
        for check in &checks {
            let mark = if check.ok { "ok" } else { "!!" };
            context.out.line(format_args!("{mark}  {}: {}", check.name, check.state))?;
            if let Some(fix) = &check.fix {
                for line in fix.lines() {
                    context.out.line(format_args!("      {line}"))?;
                }
            }
        }
    }
    Ok(if works { ExitStatus::Success } else { ExitStatus::No })
}

/// What `avfs exec` needs. The device and its helper are looked at above, by using them.
fn sandbox() -> Vec<Check> {
    let found = support::checks(&support::System::look());
    let of_sandboxes =
        found.into_iter().filter(|check| !check.name.starts_with("fuse") && check.name != DEVICE);
    of_sandboxes
        .map(|check| {
            let ok = check.state != support::State::Missing;
            Check { name: check.name, ok, state: check.detail, fix: check.fix }
        })
        .collect()
}

fn device() -> Check {
    let name = "fuse device";
    let missing = |state: String, fix: String| Check { name, ok: false, state, fix: Some(fix) };
    // Something else may have its name, and may even be opened.
    match check_device() {
        Err(MountError::NotTheDevice) => {
            let fix = format!(
                "as root: rm {DEVICE} && mknod -m 666 {DEVICE} c 10 229; in a container: give it --device {DEVICE}"
            );
            return missing(format!("{DEVICE} is something else: no character device 10:229"), fix);
        }
        Err(MountError::NoDevice) => {
            let fix = format!("as root: modprobe fuse; in a container: give it --device {DEVICE}");
            return missing(format!("there is no {DEVICE}"), fix);
        }
        Ok(()) | Err(_) => {}
    }
    match OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(_) => Check { name, ok: true, state: format!("{DEVICE} can be used"), fix: None },
        Err(error) => missing(format!("{DEVICE}: {error}"), format!("as root: chmod 666 {DEVICE}")),
    }
}

/// Only ordinary users need it.
fn helper() -> Check {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|dir| dir.join("fusermount3")).find(|path| path.exists());
    let is_root = rustix::process::geteuid().is_root();
    let (state, fix) = match (&found, is_root) {
        (Some(path), _) => (path.display().to_string(), None),
        (None, true) => ("not there, and root does not need it".to_owned(), None),
        (None, false) => ("not there".to_owned(), Some("install the package fuse3".to_owned())),
    };
    Check { name: "fusermount3", ok: found.is_some() || is_root, state, fix }
}

/// Not having io_uring is no fault: mounts are slower without it.
fn transport() -> Check {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let denied = read(URING_DENIAL).is_some_and(|level| level != "0");
    let (state, fix) = match read(URING_SWITCH) {
        Some(switch) if switch == "Y" && denied => {
            let fix = "as root: sysctl kernel.io_uring_disabled=0".to_owned();
            ("requests come over /dev/fuse: io_uring is denied on this machine".to_owned(), Some(fix))
        }
        Some(switch) if switch == "Y" => ("requests come over io_uring".to_owned(), None),
        Some(_) => {
            let fix = format!("for faster mounts, as root: echo Y > {URING_SWITCH}");
            ("requests come over /dev/fuse: io_uring is switched off".to_owned(), Some(fix))
        }
        None => {
            let fix = "for faster mounts, use a kernel from 6.14 on".to_owned();
            ("requests come over /dev/fuse: this kernel has no other way".to_owned(), Some(fix))
        }
    };
    Check { name: "transport", ok: true, state, fix }
}

/// Nor is this: who asks something of a mount just waits longer for it.
fn serving() -> Check {
    let (state, fix) = match agentvfs::mount::may_give_way() {
        true => ("threads that serve mounts let their callers go first".to_owned(), None),
        false => {
            let fix = "for faster mounts, allow niceness 0: LimitNICE=+0 (systemd), or `USER - nice 0` in
/etc/security/limits.conf";
            let state = "threads that serve mounts let their callers go first over /dev/fuse, and not over io_uring: the \
                         limit on niceness";
            (state.to_owned(), Some(fix.to_owned()))
        }
    };
    Check { name: "serving", ok: true, state, fix }
}

fn place(context: &Context<'_>) -> Check {
    let name = "store";
    match context.store() {
        Ok(store) => {
            let home = store.home().unwrap_or(Path::new("")).display().to_string();
            Check { name, ok: true, state: home, fix: None }
        }
        Err(error) => Check { name, ok: false, state: format!("{error:#}"), fix: None },
    }
}
