//! The process that a session lives in.

use std::sync::Arc;

use agentvfs::exec::sandbox::LaunchError;
use agentvfs::exec::sandbox::launch::InnerProgram;
use agentvfs::session::{SessionHost, SessionRequest, SessionStartError};
use agentvfs::{Error, Vault};
use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::background_log::BackgroundLog;
use crate::commands::exec::{HostDoor, of_error};
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::hint;

/// The message of the process, followed by the id of the session, before it detaches from the process that
/// started it.
pub const READY: &str = "ready ";

/// Hosts a session in a process session of its own, which a terminal cannot stop by accident.
pub fn in_background(vault: &Vault, request: SessionRequest, door: HostDoor) -> Result<ExitStatus> {
    // Fails only for the leader of a session, which is one of its own already.
    let _ = rustix::process::setsid();
    let host = |action, place: &str, source| Error::Host {
        action,
        place: place.into(),
        source,
    };
    let program = std::env::current_exe().map_err(|source| host("finding", "our own program", source))?;
    // Sessions of a vault write where its mounts do.
    let log = BackgroundLog::open(vault)?;
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|source| host("waiting for", "signals", source))?;
    let (inside, door) = (InnerProgram::new(program), Some(Arc::new(door) as _));
    let session = SessionHost::start(vault, request, inside, door, log.report()).map_err(told)?;
    let stopper = session.stopper();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            stopper.stop();
        }
    });
    if let Err(error) = log.detach_from_starter(&format!("{READY}{}", session.record().id)) {
        // No process would know of the session.
        session.stopper().stop();
        session.serve()?;
        return Err(error);
    }
    session.serve()?;
    Ok(ExitStatus::Success)
}

fn told(error: SessionStartError) -> anyhow::Error {
    match error {
        SessionStartError::Library(error) => error.into(),
        SessionStartError::Refused(body) => {
            Failure::new(refusal_code(&body.code), of_error(&body.code), body.message)
                .hint(body.hint.as_ref().map(hint::words))
                .into()
        }
        SessionStartError::Launch(error) => {
            let status = match error {
                LaunchError::NoBubblewrap { .. }
                | LaunchError::NoRuntime { .. }
                | LaunchError::CannotIsolate { .. } => ExitStatus::CannotIsolate,
                LaunchError::NoDirectory { .. } => ExitStatus::NotFound,
                LaunchError::Plan(_) => ExitStatus::BadInput,
                LaunchError::Workspace { .. }
                | LaunchError::Withdrawn
                | LaunchError::Limits(_)
                | LaunchError::System { .. } => ExitStatus::Refused,
            };
            let text = avfs_core::with_causes(&error);
            let hint = error.hint().map(|hint| hint::of_launch(hint).to_owned());
            Failure::new(error.code(), status, text).hint(hint).into()
        }
    }
}

/// The codes of refused session requests.
fn refusal_code(code: &str) -> &'static str {
    match code {
        "approval_required" => "approval_required",
        "approval_denied" => "approval_denied",
        _ => "denied_by_policy",
    }
}
