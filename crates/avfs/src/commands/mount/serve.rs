//! Owning a vault and serving its mounts, until the last one is gone.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentvfs::mount::{MountHost, Mounts, Report, connect};
use agentvfs::{Error, OpenVault, Rhythm, ServedVault, TakingAhead};
use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::background::READY;
use super::{Plan, ask_owner, report};
use crate::context::Context;
use crate::exit::ExitStatus;

/// A log is started anew when it is this long.
const LOG_MAX: u64 = 1 << 20;

/// How long an owner that is about to end may take to store what it has.
const ENDING: Duration = Duration::from_secs(60);

/// Serves as a process in a session of its own, which nobody at a terminal can stop by accident.
pub(super) fn in_background(plan: &Plan) -> Result<ExitStatus> {
    // Fails only for the leader of a session, which is one of its own already.
    let _ = rustix::process::setsid();
    let log = Log::open(plan)?;
    match Owner::start(plan, log.report())? {
        Start::Owner(owner) => {
            if let Err(error) = detach_from_starter(&log) {
                // Nobody would know of it.
                owner.mounts.detach_all();
                owner.serve()?;
                return Err(error);
            }
            owner.serve()
        }
        Start::ServedBy(pid) => {
            say_ready(pid)?;
            Ok(ExitStatus::Success)
        }
    }
}

/// Serves until the user has enough.
pub(super) fn in_foreground(context: &mut Context<'_>, plan: &Plan) -> Result<ExitStatus> {
    match Owner::start(plan, Log::open(plan)?.report())? {
        Start::Owner(owner) => {
            report(context, plan, std::process::id())?;
            context.out.talk(format_args!("Ctrl-C unmounts it"));
            owner.serve()
        }
        Start::ServedBy(pid) => {
            report(context, plan, pid)?;
            Ok(ExitStatus::Success)
        }
    }
}

struct Owner {
    /// Ends before what it reads is closed.
    ahead: TakingAhead,
    signals: Signals,
    mounts: Arc<Mounts>,
    served: ServedVault,
}

/// Who serves a mount.
enum Start {
    Owner(Box<Owner>),
    /// The process that owns the vault already.
    ServedBy(u32),
}

/// Becomes the owner of the vault, or has the one that it has serve the mount. Between the two there is one that
/// is about to end, and several that start at once.
fn open_or_ask(plan: &Plan) -> Result<Result<OpenVault, u32>> {
    let start = Instant::now();
    loop {
        let opened = match plan.options.is_read_only() {
            true => plan.vault.open_to_read(),
            false => plan.vault.open(),
        };
        let busy = match opened {
            Ok(open) => return Ok(Ok(open)),
            Err(busy @ Error::Busy { .. }) => busy,
            Err(error) => return Err(error.into()),
        };
        if let Some(pid) = ask_owner(plan)? {
            return Ok(Err(pid));
        }
        if start.elapsed() > ENDING {
            return Err(busy.into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Owner {
    fn start(plan: &Plan, report: Report) -> Result<Start> {
        let open = match open_or_ask(plan)? {
            Ok(open) => Arc::new(open),
            Err(pid) => return Ok(Start::ServedBy(pid)),
        };
        let ahead = TakingAhead::start(open.vault(), plan.options.rules.clone(), Duration::ZERO);
        let mounts = Mounts::new(Arc::clone(&open), Arc::clone(&report));
        let log = Arc::new(move |error: &Error| report(&avfs_core::with_causes(error)));
        let host = Arc::new(MountHost(Arc::clone(&mounts)));
        let served = ServedVault::start(open, host, Rhythm::default(), log)?;
        // Before there is a mount that a signal would leave behind.
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|source| Error::Host {
            action: "waiting for",
            place: "signals".into(),
            source,
        })?;
        let connection = connect(plan.vault.name()?.as_str(), &plan.dir, &plan.options)?;
        if let Err(error) = served.mount(&plan.dir, &plan.options.words(), Some(connection)) {
            // Nobody serves it.
            agentvfs::mount::detach(&plan.dir);
            return Err(error.into());
        }
        Ok(Start::Owner(Box::new(Owner { ahead, signals, mounts, served })))
    }

    fn serve(self) -> Result<ExitStatus> {
        let served = Arc::new(self.served);
        end_at_signals(self.signals, &self.mounts, &served);
        self.mounts.await_last();
        drop(self.ahead);
        match Arc::try_unwrap(served) {
            Ok(served) => served.close()?,
            // The thread that waits for signals has it too, and nothing is lost by a snapshot less at the end.
            Err(served) => served.open().save("unmount", "")?,
        };
        Ok(ExitStatus::Success)
    }
}

/// At a signal, or when another process asks for it, all mounts end.
fn end_at_signals(mut signals: Signals, mounts: &Arc<Mounts>, served: &Arc<ServedVault>) {
    let (at_signal, at_request) = (Arc::clone(mounts), Arc::clone(mounts));
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            at_signal.detach_all();
        }
    });
    let stop = served.stop_waiter();
    std::thread::spawn(move || {
        stop.wait();
        at_request.detach_all();
    });
}

/// Where the owner of a vault writes what an operator should know.
struct Log {
    file: Arc<Mutex<File>>,
}

impl Log {
    fn open(plan: &Plan) -> Result<Log> {
        let place = match plan.vault.store().is_read_only() {
            true => PathBuf::from("/dev/null"),
            false => log_place(plan),
        };
        let host = |source| Error::Host { action: "opening", place: place.display().to_string(), source };
        if std::fs::metadata(&place).is_ok_and(|log| log.len() > LOG_MAX) {
            std::fs::remove_file(&place).map_err(host)?;
        }
        if let Some(directory) = place.parent() {
            std::fs::create_dir_all(directory).map_err(host)?;
        }
        let file = File::options().create(true).append(true).open(&place).map_err(host)?;
        Ok(Log { file: Arc::new(Mutex::new(file)) })
    }

    fn report(&self) -> Report {
        let file = Arc::clone(&self.file);
        Arc::new(move |line| {
            let mut file = file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // A log that cannot be written has nobody to tell.
            let _ = writeln!(file, "{} {line}", jiff::Timestamp::now());
        })
    }
}

fn log_place(plan: &Plan) -> PathBuf {
    let home = plan.vault.store().home().map(PathBuf::from).unwrap_or_default();
    home.join("work").join(plan.vault.id().to_string()).join("log")
}

/// Says that all is well and lets go of the streams of the one who started us: he may wait for their end.
fn detach_from_starter(log: &Log) -> Result<()> {
    say_ready(std::process::id())?;
    let host = |source| Error::Host { action: "letting go of", place: "the terminal".into(), source };
    let nowhere = File::options().read(true).write(true).open("/dev/null").map_err(host)?;
    let file = log.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    rustix::stdio::dup2_stdout(&nowhere).map_err(|errno| host(errno.into()))?;
    rustix::stdio::dup2_stderr(&*file).map_err(|errno| host(errno.into()))?;
    // The directory that we were started in may be unmounted or removed one day.
    std::env::set_current_dir("/").map_err(host)?;
    Ok(())
}

fn say_ready(pid: u32) -> Result<()> {
    let host = |source| Error::Host { action: "talking to", place: "the terminal".into(), source };
    let mut output = std::io::stdout().lock();
    Ok(writeln!(output, "{READY} {pid}").and_then(|()| output.flush()).map_err(host)?)
}
