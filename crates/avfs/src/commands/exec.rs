//! `avfs exec`: a command in the sandbox, on a vault.

mod arguments;
mod door;
mod telling;

use std::cell::RefCell;
use std::io::Read;
use std::sync::Arc;

use agentvfs::Error;
use agentvfs::approvals::ApprovalId;
use agentvfs::exec::boundary::launch::Inside;
use agentvfs::exec::boundary::{Cancel, Event};
use agentvfs::exec::{Envelope, Lingering, Running};
use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

pub use arguments::{ExecArgs, checkpoint_mode, network, policy, variable};
pub use door::{HostDoor, through_door};
pub use telling::{Manner, Telling};

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::of_library;

pub fn run(context: &mut Context<'_>, args: &ExecArgs) -> Result<ExitStatus> {
    let vault = context.whole_vault()?;
    let mut request = args.request(context, &vault)?;
    let home = context.home()?.to_owned();
    if args.stdin {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes)?;
        request.stdin = Some(bytes);
    }
    let manner = match (args.stream, context.out.is_json()) {
        (true, _) => Manner::Events,
        (false, true) => Manner::Envelope,
        (false, false) => Manner::Through,
    };
    let telling = RefCell::new(Telling::new(context.out, manner));
    let door = HostDoor { home, vault: vault.name()?.to_string(), rules: request.rules.clone() };
    let mut lingering = Lingering::default();
    let envelope = supervised(
        Some(&door),
        |running| vault.exec(&request, running),
        &mut |event| telling.borrow_mut().event(event),
        &mut |id| telling.borrow_mut().waiting(id),
        &mut lingering,
    )?;
    // Told at once: it may be long until nobody needs us any more.
    let told = telling.into_inner().end(&envelope);
    if lingering.is_needed() {
        context.out.talk("waiting for another run or mount of this vault, which this process serves");
    }
    lingering.wait();
    told.map(|()| status(&envelope))
}

/// Runs something; whoever ends us ends it.
pub fn supervised<T>(
    door: Option<&HostDoor>,
    run: impl FnOnce(Running<'_>) -> T,
    events: &mut dyn FnMut(Event<'_>),
    asked: &mut dyn FnMut(&ApprovalId),
    lingering: &mut Lingering,
) -> Result<T> {
    let cancel = Cancel::new()?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let (handle, cancelling) = (signals.handle(), cancel.clone());
    let listening = std::thread::spawn(move || {
        for _ in signals.forever() {
            cancelling.cancel();
        }
    });
    let program = std::env::current_exe().map_err(|source| Error::Host {
        action: "finding",
        place: "our own program".into(),
        source,
    })?;
    let (inside, report) = (Inside::new(program), Arc::new(|_: &str| {}));
    let done = run(Running {
        inside,
        cancel: &cancel,
        events,
        door: door.map(|door| door as _),
        report,
        asked: Some(asked),
        lingering,
    });
    handle.close();
    // It ends with its signals.
    let _ = listening.join();
    Ok(done)
}

/// The exit status: the command's own, or why it has none.
fn status(envelope: &Envelope) -> ExitStatus {
    if let Some(error) = &envelope.error {
        return of_error(&error.code);
    }
    match &envelope.result {
        Some(result) if result.timed_out => ExitStatus::TimedOut,
        Some(result) => {
            let signaled = result.signal.map(|signal| 128 + signal);
            let code = result.exit_code.or(signaled).unwrap_or(0);
            ExitStatus::OfCommand(u8::try_from(code).unwrap_or(u8::MAX))
        }
        None => ExitStatus::Internal,
    }
}

/// Why the command was not run: the boundary's own reasons, or those that all commands share.
fn of_error(code: &str) -> ExitStatus {
    let shared = || agentvfs::CODES.iter().find(|(known, _)| *known == code);
    match code {
        "denied_by_policy" | "approval_denied" => ExitStatus::PolicyDenies,
        "approval_required" => ExitStatus::ApprovalNeeded,
        "cannot_isolate" => ExitStatus::CannotIsolate,
        "no_such_directory" => ExitStatus::NotFound,
        "bad_plan" => ExitStatus::BadInput,
        _ => shared().map_or(ExitStatus::Refused, |(_, kind)| of_library(*kind)),
    }
}
