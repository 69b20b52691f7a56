//! `avfs exec`: a command in the sandbox, on a vault.

mod arguments;
mod door;
mod telling;

use std::io::Read;
use std::sync::Arc;

use agentvfs::exec::boundary::launch::Inside;
use agentvfs::exec::boundary::{Cancel, Event};
use agentvfs::exec::{Envelope, ExecRequest, Running};
use agentvfs::{Error, Vault};
use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

pub use arguments::{ExecArgs, checkpoint_mode, network, policy, variable};
use door::HostDoor;
pub use door::through_door;
pub use telling::{Manner, Telling};

use crate::context::Context;
use crate::exit::ExitStatus;

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
    let mut telling = Telling::new(context.out, manner);
    let door = HostDoor { home, vault: vault.name()?.to_string(), rules: request.rules.clone() };
    let envelope = execute(&vault, &request, &door, &mut |event| telling.event(event))?;
    telling.end(&envelope)?;
    Ok(status(&envelope))
}

/// Runs the command; whoever ends us ends it.
fn execute(
    vault: &Vault,
    request: &ExecRequest,
    door: &HostDoor,
    events: &mut dyn FnMut(Event<'_>),
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
    let running = Running {
        inside: Inside::new(program),
        cancel: &cancel,
        events,
        door: Some(door),
        report: Arc::new(|_| {}),
    };
    let envelope = vault.exec(request, running);
    handle.close();
    // It ends with its signals.
    let _ = listening.join();
    Ok(envelope)
}

/// The exit status: the command's own, or why it has none.
fn status(envelope: &Envelope) -> ExitStatus {
    if let Some(error) = &envelope.error {
        return match error.code.as_str() {
            "denied_by_policy" => ExitStatus::PolicyDenies,
            "approval_required" => ExitStatus::ApprovalNeeded,
            "cannot_isolate" => ExitStatus::CannotIsolate,
            _ => ExitStatus::Refused,
        };
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
