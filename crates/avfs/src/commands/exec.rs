//! `avfs exec`: a command in the sandbox, on a vault.

mod arguments;
mod telling;

use std::io::Read;
use std::sync::Arc;

use agentvfs::exec::boundary::launch::Inside;
use agentvfs::exec::boundary::{Cancel, Event};
use agentvfs::exec::{Envelope, ExecRequest, Lingering, Running};
use agentvfs::{Error, Vault};
use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

pub use arguments::{ExecArgs, policy};
use telling::{Manner, Telling};

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::of_library;

pub fn run(context: &mut Context<'_>, args: &ExecArgs) -> Result<ExitStatus> {
    let vault = context.whole_vault()?;
    let mut request = args.request(context, &vault)?;
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
    let mut telling = Telling::new(context.out, manner);
    let mut lingering = Lingering::default();
    let envelope = execute(&vault, &request, &mut |event| telling.event(event), &mut lingering)?;
    // Told at once: it may be long until nobody needs us any more.
    let told = telling.end(&envelope);
    if lingering.is_needed() {
        context.out.talk("waiting for another run or mount of this vault, which this process serves");
    }
    lingering.wait();
    told.map(|()| status(&envelope))
}

/// Runs the command; whoever ends us ends it.
fn execute(
    vault: &Vault,
    request: &ExecRequest,
    events: &mut dyn FnMut(Event<'_>),
    lingering: &mut Lingering,
) -> Result<Envelope> {
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
    let running = Running { inside, cancel: &cancel, events, report, lingering };
    let envelope = vault.exec(request, running);
    handle.close();
    // It ends with its signals.
    let _ = listening.join();
    Ok(envelope)
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
    let shared = || agentvfs::CODES.into_iter().find(|(known, _)| *known == code);
    match code {
        "denied_by_policy" => ExitStatus::PolicyDenies,
        "approval_required" => ExitStatus::ApprovalNeeded,
        "cannot_isolate" => ExitStatus::CannotIsolate,
        "no_such_directory" => ExitStatus::NotFound,
        "bad_plan" => ExitStatus::BadInput,
        _ => shared().map_or(ExitStatus::Refused, |(_, kind)| of_library(kind)),
    }
}
