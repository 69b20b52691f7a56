//! `avfs exec`: a command in the sandbox, on a vault.

mod arguments;
mod door;
mod telling;

use std::cell::RefCell;
use std::io::{self, Read, Stderr, Stdout, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use agentvfs::apply::Selection;
use agentvfs::approvals::ApprovalId;
use agentvfs::exec::boundary::launch::{Inside, Outlets};
use agentvfs::exec::boundary::limits::memory_gap;
use agentvfs::exec::boundary::{Cancel, Event};
use agentvfs::exec::{Asking, Envelope, Lingering, PublishedBody, Running};
use agentvfs::{Error, Store};
use anyhow::Result;

pub use arguments::{ExecArgs, checkpoint_mode, isolation, policy, policy_text};
pub use door::{HostDoor, through_door};
pub use telling::{Manner, Telling};

use crate::commands::apply::{MannerArgs, Part, apply};
use crate::commands::approvals::in_place;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::of_library;
use crate::front::{self, Side, Worker};
use crate::unreached::{self, Unreached};

pub fn run(context: &mut Context<'_>, args: &ExecArgs) -> Result<ExitStatus> {
    match front::split()? {
        Side::Front(front) => front.wait(),
        Side::Worker(worker) => work(context, args, worker),
    }
}

fn work(context: &mut Context<'_>, args: &ExecArgs, worker: Worker) -> Result<ExitStatus> {
    let vault = context.whole_vault()?;
    let mut request = args.request(context, &vault)?;
    // Whether it can be applied is found out before anything runs.
    let task = args.apply_on_success.then(|| vault.store().task(vault.name()?.as_str())).transpose()?;
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
    let asks_here = manner == Manner::Through && args.may_ask_here() && in_place::is_possible(context.out);
    if asks_here && request.asking == Asking::Ask {
        // By the time that it waits, the user has answered or does not want to.
        request.asking = Asking::Wait(Some(Duration::ZERO));
    }
    // Of the usual limit, which nobody asked for, the envelope says it.
    if manner == Manner::Through
        && args.memory.is_some()
        && let Some(gap) = memory_gap(&request.limits)
    {
        context.out.talk(gap);
    }
    let undo = context.undo_command(&vault)?;
    let published: Vec<PublishedBody> = request.published.iter().map(PublishedBody::from).collect();
    let telling = RefCell::new(Telling::new(context.out, manner, undo.clone()));
    let door = HostDoor { home, vault: vault.name()?.to_string(), rules: request.rules.clone() };
    let mut lingering = Lingering::default();
    let envelope = supervised(
        &worker,
        Some(&door),
        Some(&Outputs::of(manner != Manner::Through)),
        |running| vault.exec(&request, running),
        &mut |event| {
            if let Event::Started = event {
                telling.borrow_mut().announce(&published);
            }
            telling.borrow_mut().event(event);
        },
        &mut |id, cancel| match asks_here {
            true => asked_here(vault.store(), id, cancel),
            false => telling.borrow_mut().waiting(id),
        },
        &mut lingering,
    )?;
    let told = telling.into_inner().told();
    if let Some(result) = envelope.result.as_ref().filter(|_| manner == Manner::Through) {
        let refusals: Vec<Unreached<'_>> = result.network_refusals.iter().map(Unreached::from).collect();
        let lines = unreached::lines(&refusals, |net| args.again(&door.vault, net));
        lines.into_iter().for_each(|line| context.out.talk(line));
    }
    let applied = task.filter(|_| told.is_ok() && matches!(status(&envelope), ExitStatus::OfCommand(0)));
    let part = applied.as_ref().filter(|_| manner != Manner::Through).map(|task| Part::of(context, task));
    let ended = told.and_then(|()| Telling::new(context.out, manner, undo).end(&envelope, part.as_ref()));
    let status = match (ended, part, &applied) {
        (Err(error), ..) => crate::report(context.out, &error),
        (Ok(()), Some(part), _) => part.status,
        (Ok(()), None, Some(task)) => apply(context, task, &Selection::default(), &MannerArgs::unasked())?,
        (Ok(()), None, None) => status(&envelope),
    };
    context.out.flush()?;
    // What is left to be done is nothing that anybody waits for.
    worker.release(status);
    lingering.wait();
    Ok(status)
}

/// Asks the user at this terminal. A question that could not be asked stays open, and the command says so.
fn asked_here(store: &Store, id: &ApprovalId, cancel: &Cancel) {
    if let Err(error) = in_place::ask(store, id, &|time| cancel.wait(time)) {
        let _ = writeln!(std::io::stderr(), "the question could not be asked: {error:#}");
    }
}

/// Where the output of a command goes: to the streams of the same names, or, as JSON, all of it to standard output.
pub struct Outputs {
    stdout: Stdout,
    stderr: Option<Stderr>,
}

impl Outputs {
    pub fn of(is_json: bool) -> Outputs {
        Outputs { stdout: io::stdout(), stderr: (!is_json).then(io::stderr) }
    }

    fn outlets(&self) -> Outlets<'_> {
        let stdout = self.stdout.as_fd();
        Outlets { stdout: Some(stdout), stderr: Some(self.stderr.as_ref().map_or(stdout, Stderr::as_fd)) }
    }
}

/// Runs something; whoever ends us ends it.
pub fn supervised<T>(
    worker: &Worker,
    door: Option<&HostDoor>,
    outputs: Option<&Outputs>,
    run: impl FnOnce(Running<'_>) -> T,
    events: &mut dyn FnMut(Event<'_>),
    asked: &mut dyn FnMut(&ApprovalId, &Cancel),
    lingering: &mut Lingering,
) -> Result<T> {
    let cancel = Cancel::new()?;
    worker.cancels(&cancel)?;
    let program = std::env::current_exe().map_err(|source| Error::Host {
        action: "finding",
        place: "our own program".into(),
        source,
    })?;
    let (inside, report) = (Inside::new(program), Arc::new(|_: &str| {}));
    let mut asked = |id: &ApprovalId| asked(id, &cancel);
    Ok(run(Running {
        inside,
        cancel: &cancel,
        events,
        outlets: outputs.map(Outputs::outlets).unwrap_or_default(),
        door: door.map(|door| door as _),
        report,
        asked: Some(&mut asked),
        lingering,
    }))
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
pub fn of_error(code: &str) -> ExitStatus {
    let shared = || agentvfs::CODES.iter().find(|(known, _)| *known == code);
    match code {
        "denied_by_policy" | "approval_denied" => ExitStatus::PolicyDenies,
        "approval_required" => ExitStatus::ApprovalNeeded,
        "cannot_isolate" => ExitStatus::CannotIsolate,
        "no_such_directory" => ExitStatus::NotFound,
        "bad_plan" => ExitStatus::BadInput,
        _ => shared().map_or(ExitStatus::Refused, |(code, kind)| of_library(code, *kind)),
    }
}
