//! The process that a session lives in.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use agentvfs::exec::boundary::LaunchError;
use agentvfs::exec::boundary::launch::Inside;
use agentvfs::mount::Report;
use agentvfs::session::{SessionError, SessionHost, SessionRequest};
use agentvfs::{Error, Vault};
use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::commands::exec::{HostDoor, of_error};
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// What the process says, with the id of the session, before it lets go of whoever started it.
pub const READY: &str = "ready ";

/// Hosts a session in a session of the system's own, which nobody at a terminal can stop by accident.
pub fn in_background(vault: &Vault, request: SessionRequest, door: HostDoor) -> Result<ExitStatus> {
    // Fails only for the leader of a session, which is one of its own already.
    let _ = rustix::process::setsid();
    let host = |action, place: &str, source| Error::Host { action, place: place.into(), source };
    let program = std::env::current_exe().map_err(|source| host("finding", "our own program", source))?;
    let log = log_file(vault)?;
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|source| host("waiting for", "signals", source))?;
    let (inside, door) = (Inside::new(program), Some(Arc::new(door) as _));
    let session = SessionHost::start(vault, request, inside, door, report_to(&log)).map_err(told)?;
    let stopper = session.stopper();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            stopper.stop();
        }
    });
    if let Err(error) = detach_from_starter(&session.record().id, &log) {
        // Nobody would know of it.
        session.stopper().stop();
        session.serve()?;
        return Err(error);
    }
    session.serve()?;
    Ok(ExitStatus::Success)
}

fn told(error: SessionError) -> anyhow::Error {
    match error {
        SessionError::Library(error) => error.into(),
        SessionError::Refused(body) => {
            Failure::new(refusal_code(&body.code), of_error(&body.code), body.message).hint(body.hint).into()
        }
        SessionError::Launch(error) => {
            let status = match error {
                LaunchError::NoBubblewrap { .. } | LaunchError::CannotIsolate { .. } => {
                    ExitStatus::CannotIsolate
                }
                LaunchError::NoDirectory { .. } => ExitStatus::NotFound,
                LaunchError::Plan(_) => ExitStatus::BadInput,
                LaunchError::Workspace { .. }
                | LaunchError::Withdrawn
                | LaunchError::Limits(_)
                | LaunchError::System { .. } => ExitStatus::Refused,
            };
            let text = avfs_core::with_causes(&error);
            Failure::new(error.code(), status, text).hint(error.hint().map(str::to_owned)).into()
        }
    }
}

/// The codes with which what a session asks for is not granted.
fn refusal_code(code: &str) -> &'static str {
    match code {
        "approval_required" => "approval_required",
        "approval_denied" => "approval_denied",
        _ => "denied_by_policy",
    }
}

/// Sessions of a vault write where its mounts do.
fn log_file(vault: &Vault) -> Result<Arc<Mutex<File>>> {
    let home = vault.store().home().ok_or(Error::NoPlaceForRuns)?;
    let place = home.join("work").join(vault.id().to_string()).join("log");
    let host = |source| Error::Host { action: "opening", place: place.display().to_string(), source };
    if let Some(directory) = place.parent() {
        std::fs::create_dir_all(directory).map_err(host)?;
    }
    let file = File::options().create(true).append(true).open(&place).map_err(host)?;
    Ok(Arc::new(Mutex::new(file)))
}

fn report_to(log: &Arc<Mutex<File>>) -> Report {
    let file = Arc::clone(log);
    Arc::new(move |line| {
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        // A log that cannot be written has nobody to tell.
        let _ = writeln!(file, "{} {line}", jiff::Timestamp::now());
    })
}

/// Says that all is well and lets go of the streams of the one who started us: he waits for their end.
fn detach_from_starter(id: &str, log: &Mutex<File>) -> Result<()> {
    let host = |source| Error::Host { action: "letting go of", place: "the terminal".into(), source };
    let mut output = std::io::stdout().lock();
    writeln!(output, "{READY}{id}").and_then(|()| output.flush()).map_err(host)?;
    let nowhere = File::options().read(true).write(true).open("/dev/null").map_err(host)?;
    let file = log.lock().unwrap_or_else(PoisonError::into_inner);
    rustix::stdio::dup2_stdout(&nowhere).map_err(|errno| host(errno.into()))?;
    rustix::stdio::dup2_stderr(&*file).map_err(|errno| host(errno.into()))?;
    // The directory that we were started in may be unmounted or removed one day.
    std::env::set_current_dir("/").map_err(host)?;
    Ok(())
}
