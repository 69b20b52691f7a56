//! `avfs exec`: a command in the sandbox, on a vault.

mod arguments;
mod door;
mod reporter;

use std::io::{self, Read, Stderr, Stdout, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use agentvfs::apply::Selection;
use agentvfs::approvals::ApprovalId;
use agentvfs::exec::sandbox::launch::{InnerProgram, LiveOutlets};
use agentvfs::exec::sandbox::limits::memory_gap;
use agentvfs::exec::sandbox::{Cancel, RunEvent};
use agentvfs::exec::{Asking, Envelope, PublishedBody, RunContext, RunWatch};
use agentvfs::{Error, ErrorCode, Store};
use anyhow::Result;

pub use arguments::{ExecCommandArgs, checkpoint_mode, isolation, policy, policy_text};
pub use door::{HostDoor, through_door};
pub use reporter::{RunPrinter, RunReporter};

use crate::commands::apply::{AppliedPart, MannerArgs, apply};
use crate::commands::approvals::in_place;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::of_library;
use crate::foreground::{self, Side, Worker};
use crate::unreached::{self, Unreached};

pub fn run(context: &mut Context<'_>, args: &ExecCommandArgs) -> Result<ExitStatus> {
    // Before the split, so that mistakes in the arguments are reported by the process that was called.
    args.check_command()?;
    match foreground::split()? {
        Side::Foreground(front) => front.wait(),
        Side::Worker(worker) => work(context, args, worker),
    }
}

fn work(context: &mut Context<'_>, args: &ExecCommandArgs, worker: Worker) -> Result<ExitStatus> {
    let vault = context.whole_vault()?;
    let mut request = args.request(context, &vault)?;
    // Whether changes can be applied is checked before anything runs.
    let task = args
        .apply_on_success
        .then(|| vault.store().task(vault.name()?.as_str()))
        .transpose()?;
    let home = context.home()?.to_owned();
    if args.stdin {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes)?;
        request.stdin = Some(bytes);
    }
    // A stream is JSON in any case.
    let output = match (args.stream, context.out.is_json()) {
        (true, _) => RunPrinter::Events,
        (false, true) => RunPrinter::Envelope,
        (false, false) => RunPrinter::Through,
    };
    let asks_here =
        output == RunPrinter::Through && args.may_ask_here() && in_place::is_possible(context.out);
    if asks_here && request.asking == Asking::Ask {
        // By the time that it waits, the user has answered or does not want to.
        request.asking = Asking::Wait(Some(Duration::ZERO));
    }
    // The envelope mentions the default limit, which the user did not set.
    if output == RunPrinter::Through
        && args.memory.is_some()
        && let Some(gap) = memory_gap(&request.limits)
    {
        context
            .out
            .talk(format_args!("{gap}; `avfs doctor` says how to get them"));
    }
    let undo = context.undo_command(&vault)?;
    let published: Vec<PublishedBody> = request.published.iter().map(PublishedBody::from).collect();
    let door = HostDoor {
        home,
        vault: vault.name()?.to_string(),
        rules: request.rules.clone(),
    };
    let mut watch = ExecWatch {
        reporter: RunReporter::new(context.out, output, undo.clone()),
        published: &published,
        asks_at: asks_here.then(|| vault.store()),
    };
    let finished = supervised(
        &worker,
        Some(&door),
        Some(&OutputStreams::of(output != RunPrinter::Through)),
        &mut watch,
        |running| vault.exec(&request, running),
    )?;
    // Kept for later: the run is over, and its result must be reported even if a message could not be
    // printed.
    let told = watch.reporter.told();
    let envelope = finished.envelope();
    if let Some(result) = envelope.result.as_ref().filter(|_| output == RunPrinter::Through) {
        let refusals: Vec<Unreached<'_>> = result.network_refusals.iter().map(Unreached::from).collect();
        let lines = unreached::lines(&refusals, |net| args.again(&door.vault, net));
        lines.into_iter().for_each(|line| context.out.talk(line));
    }
    let applied = task.filter(|_| told.is_ok() && matches!(status(&envelope), ExitStatus::OfCommand(0)));
    let part = applied
        .as_ref()
        .filter(|_| output != RunPrinter::Through)
        .map(|task| AppliedPart::of(context, task));
    let ended = told.and_then(|()| RunReporter::new(context.out, output, undo).end(&envelope, part.as_ref()));
    let status = match (ended, part, &applied) {
        (Err(error), ..) => crate::report(context.out, &error),
        (Ok(()), Some(part), _) => part.status,
        (Ok(()), None, Some(task)) => apply(context, task, &Selection::default(), &MannerArgs::unasked())?,
        (Ok(()), None, None) => status(&envelope),
    };
    context.out.flush()?;
    // The caller does not wait for the remaining work.
    worker.release(status);
    finished.after.wait();
    Ok(status)
}

/// Reports to the user during a run.
struct ExecWatch<'a> {
    reporter: RunReporter<'a>,
    published: &'a [PublishedBody],
    /// Where questions are answered that are asked at this terminal; `None`: they are only displayed.
    asks_at: Option<&'a Store>,
}

impl RunWatch for ExecWatch<'_> {
    fn event(&mut self, event: RunEvent<'_>) {
        if let RunEvent::Started = event {
            self.reporter.announce(self.published);
        }
        self.reporter.event(event);
    }

    fn waits_for(&mut self, approval: &ApprovalId, cancel: &Cancel) {
        match self.asks_at {
            Some(store) => asked_here(store, approval, cancel),
            None => self.reporter.waiting(approval),
        }
    }
}

/// Asks the user at this terminal. If that fails, the request stays open, and the command reports it.
fn asked_here(store: &Store, id: &ApprovalId, cancel: &Cancel) {
    if let Err(error) = in_place::ask(store, id, &|time| cancel.wait(time)) {
        // Past the printer: its answer on standard output is still to come.
        let _ = writeln!(std::io::stderr(), "the question could not be asked: {error:#}");
    }
}

/// The destination of a command's output: the streams of the same names, or, as JSON, everything to standard
/// output.
pub struct OutputStreams {
    stdout: Stdout,
    stderr: Option<Stderr>,
}

impl OutputStreams {
    pub fn of(is_json: bool) -> OutputStreams {
        OutputStreams {
            stdout: io::stdout(),
            stderr: (!is_json).then(io::stderr),
        }
    }

    fn outlets(&self) -> LiveOutlets<'_> {
        let stdout = self.stdout.as_fd();
        LiveOutlets {
            stdout: Some(stdout),
            // In JSON both streams end in one object on standard output, so its reader is the one that
            // counts.
            stderr: Some(self.stderr.as_ref().map_or(stdout, Stderr::as_fd)),
        }
    }
}

/// Runs something that ends when this process is asked to end.
pub fn supervised<T>(
    worker: &Worker,
    door: Option<&HostDoor>,
    outputs: Option<&OutputStreams>,
    watch: &mut dyn RunWatch,
    run: impl FnOnce(RunContext<'_>) -> T,
) -> Result<T> {
    let cancel = Cancel::new()?;
    worker.cancels(&cancel)?;
    let program = std::env::current_exe().map_err(|source| Error::Host {
        action: "finding",
        place: "our own program".into(),
        source,
    })?;
    Ok(run(RunContext {
        outlets: outputs.map(OutputStreams::outlets).unwrap_or_default(),
        door: door.map(|door| door as _),
        ..RunContext::new(InnerProgram::new(program), &cancel, watch)
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
            // As shells report it.
            let signaled = result.signal.map(|signal| 128 + signal);
            let code = result.exit_code.or(signaled).unwrap_or(0);
            ExitStatus::OfCommand(u8::try_from(code).unwrap_or(u8::MAX))
        }
        None => ExitStatus::Internal,
    }
}

/// Why the command was not run: the boundary's own reasons, or those that all commands share.
pub fn of_error(code: &str) -> ExitStatus {
    match code {
        "denied_by_policy" | "approval_denied" => ExitStatus::PolicyDenies,
        "approval_required" => ExitStatus::ApprovalNeeded,
        "cannot_isolate" => ExitStatus::CannotIsolate,
        "no_such_directory" => ExitStatus::NotFound,
        "bad_plan" => ExitStatus::BadInput,
        _ => ErrorCode::named(code).map_or(ExitStatus::Refused, of_library),
    }
}
