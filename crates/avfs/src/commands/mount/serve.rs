//! Serving mounts of a vault until the last one is gone.

use std::sync::Arc;

use agentvfs::Error;
use agentvfs::mount::{MountService, VaultMount};
use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::background::READY;
use super::{MountPlan, report};
use crate::background_log::{BackgroundLog, say};
use crate::context::Context;
use crate::exit::ExitStatus;

/// Serves in a session of its own, which a terminal cannot stop by accident.
pub(super) fn in_background(plan: &MountPlan) -> Result<ExitStatus> {
    // Fails only for the leader of a session, which is one of its own already.
    let _ = rustix::process::setsid();
    let log = BackgroundLog::open(&plan.vault)?;
    // Before the mount exists: a signal in between would end this process and leave a dead mount.
    let signals = ending_signals()?;
    match plan.vault.mount(&plan.dir, &plan.options, log.report())? {
        VaultMount::Here(service) => {
            if let Err(error) = log.detach_from_starter(&ready(std::process::id())) {
                // No process would know of the mounts.
                service.mounts().detach_all();
                serve(*service, signals)?;
                return Err(error);
            }
            serve(*service, signals)
        }
        VaultMount::ByOwner { pid } => {
            say(&ready(pid))?;
            Ok(ExitStatus::Success)
        }
    }
}

/// Serves until the user has enough.
pub(super) fn in_foreground(context: &mut Context<'_>, plan: &MountPlan) -> Result<ExitStatus> {
    let log = BackgroundLog::open(&plan.vault)?;
    let signals = ending_signals()?;
    match plan.vault.mount(&plan.dir, &plan.options, log.report())? {
        VaultMount::Here(service) => {
            report(context, plan, std::process::id())?;
            context.out.talk(format_args!("Ctrl-C unmounts it"));
            serve(*service, signals)
        }
        VaultMount::ByOwner { pid } => {
            report(context, plan, pid)?;
            Ok(ExitStatus::Success)
        }
    }
}

/// Blocked before there is a mount that a signal would leave behind.
fn ending_signals() -> Result<Signals> {
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|source| Error::Host {
        action: "waiting for",
        place: "signals".into(),
        source,
    })?;
    Ok(signals)
}

/// Serves until the last mount is gone. On a signal, or at the request of another process, all mounts end.
fn serve(mut service: MountService, mut signals: Signals) -> Result<ExitStatus> {
    let at_signal = Arc::clone(service.mounts());
    let at_request = Arc::clone(service.mounts());
    // The thread is not joined: it waits for a signal that may never come, and ends with the process.
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            at_signal.detach_all();
        }
    });
    let stop = service.stop_waiter();
    std::thread::spawn(move || {
        stop.wait();
        at_request.detach_all();
    });
    service.await_last();
    service.close()?;
    Ok(ExitStatus::Success)
}

/// The message for which the process that started this one waits: which process serves its mount.
fn ready(pid: u32) -> String {
    format!("{READY} {pid}")
}
