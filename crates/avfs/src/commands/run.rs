//! `avfs run`: a program on a private fork of the project that one is in.

mod arguments;
mod detached;
mod hidden;
mod local_program;
mod making;
mod summary;
mod surroundings;
mod withdrawing;

use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use agentvfs::apply::Selection;
use agentvfs::exec::sandbox::{RunEvent, Stdin};
use agentvfs::exec::{FinishedProgram, ProgramEnd, RunContext, RunError, RunWatch};
use agentvfs::task_run::{Attachment, EndReason, RunStreams, RunTerminal};
use anyhow::Result;
use rustix::fs::FileType;
use signal_hook::consts::SIGHUP;

pub use arguments::RunArgs;
pub use detached::{name_here, tell_detached};
pub use making::{WantedTask, given_rules};
pub use withdrawing::MadeObjects;

use super::apply::{AppliedPart, MannerArgs, apply};
use super::exec::{HostDoor, OutputStreams, of_error, supervised};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::foreground::{self, Foreground, Releaser, Side, Worker};
use crate::here::working_directory;
use crate::hint;
use crate::printer::Printer;
use crate::terminal::{self, Sharing, SharingEnd};
use crate::unreached;

pub fn run(context: &mut Context<'_>, args: &RunArgs) -> Result<ExitStatus> {
    let is_shared = terminal::is_there() && !args.detach;
    let shared = is_shared.then(UnixStream::pair).transpose()?;
    // Its end means that the user has the terminal again.
    let (is_back, sharing) = io::pipe()?;
    // Before anything is opened or started: only a process with one thread can be split.
    match foreground::split()? {
        Side::Foreground(front) => {
            drop(is_back);
            let stream = shared.map(|(stream, _)| stream);
            wait(context, front, stream, sharing)
        }
        Side::Worker(worker) => {
            drop(sharing);
            let starter = shared.map(|(_, stream)| stream);
            work(context, args, RunWork { worker, is_back }, starter)
        }
    }
}

/// The side that the user sees. With a terminal, it shares that with the program, and may leave.
fn wait(
    context: &mut Context<'_>,
    front: Foreground,
    stream: Option<UnixStream>,
    sharing: io::PipeWriter,
) -> Result<ExitStatus> {
    let Some(stream) = stream else {
        front.hand_on_signals()?;
        // The worker waits for this end of the pipe before it prints anything: see `await_terminal`.
        drop(sharing);
        let worker = front.worker();
        return front.status().map_err(|error| of_task(context, worker, error));
    };
    front.hand_on_signals_but_hangup()?;
    // A failure is reported only after the status: the program may have ended well although its terminal
    // was lost.
    let parting = share(context, stream);
    drop(sharing);
    let worker = front.worker();
    let status = front.status().map_err(|error| of_task(context, worker, error))?;
    if let SharingEnd::Detached(joined) = parting? {
        tell_detached(context, &joined.vault, &joined.run)?;
    }
    Ok(status)
}

/// Names the task whose work was cut short, if the killed process had one.
fn of_task(context: &Context<'_>, worker: u32, error: anyhow::Error) -> anyhow::Error {
    let killed = Failure::of(&error);
    if killed.code != foreground::KILLED {
        return error;
    }
    let name = || -> Result<Option<String>> {
        let store = context.store()?;
        let here = store.projects().here(&working_directory())?;
        for task in store.tasks().list()?.iter().rev() {
            if task.runs().last()?.is_some_and(|run| run.record().pid == worker) {
                return Ok(Some(here.name_of(task)));
            }
        }
        Ok(None)
    };
    match name() {
        Ok(Some(name)) => {
            let text = format!("task {name}: {}", killed.message);
            let hint = format!(
                "`avfs diff {name}` shows what was done until then; `avfs run --task {name}` goes on with it"
            );
            Failure::new(killed.code, killed.status, text)
                .hint(Some(hint))
                .into()
        }
        Ok(None) | Err(_) => error,
    }
}

fn share(context: &Context<'_>, stream: UnixStream) -> io::Result<SharingEnd> {
    let keys = context.settings.detach_keys();
    let sharing = Sharing {
        keys,
        output: None,
        // The other signals belong to the program: it gets them through its terminal.
        leaving: &[SIGHUP],
        awaits_end: false,
    };
    match Attachment::join(stream, terminal::size()) {
        Ok(attachment) => terminal::share(attachment, sharing),
        // The worker has ended and reported the reason.
        Err(_) => Ok(SharingEnd::Ended(None)),
    }
}

/// The side that does everything.
struct RunWork {
    worker: Worker,
    is_back: PipeReader,
}

impl RunWork {
    /// Until the user's terminal can be written to.
    fn await_terminal(&self) {
        let mut byte = [0];
        // Nothing is ever written: only the end of the pipe counts.
        while (&self.is_back).read(&mut byte).is_ok_and(|count| count > 0) {}
    }
}

fn work(
    context: &mut Context<'_>,
    args: &RunArgs,
    work: RunWork,
    starter: Option<UnixStream>,
) -> Result<ExitStatus> {
    let releaser = work.worker.releaser()?;
    let is_piped = starter.is_none() && !args.detach;
    let streams = streams(args, starter, work.worker.releaser()?)?;
    let start = args.start(context)?;
    start.announce(context.out);
    let hidden = hidden::HiddenSearch::tell(context.out, &start);
    // The inner door shows the vault through the same rules as the sandbox.
    let rules = start.program.rules.clone();
    let door = HostDoor {
        home: context.home()?.to_owned(),
        vault: start.task.vault_name().to_string(),
        rules,
    };
    // A program that continues without its terminal does not depend on a reader here.
    let outputs = is_piped.then(|| OutputStreams::of(context.out.is_json()));
    let mut watch = ProgramWatch {
        context: &mut *context,
        is_piped,
        id: String::new(),
        has_begun: false,
        detached: args.detach.then_some((&start, &releaser)),
    };
    let supervised = supervised(
        &work.worker,
        Some(&door),
        outputs.as_ref(),
        &mut (),
        |running| -> Result<_, agentvfs::Error> {
            let mut run = start.task.runs().begin(&start.program, streams, running.cancel)?;
            watch.id = run.id().to_owned();
            let finished = run.execute(
                &start.program,
                RunContext {
                    watch: &mut watch,
                    ..running
                },
            );
            Ok((run, finished))
        },
    );
    let has_begun = watch.has_begun;
    let (run, FinishedProgram { ended, after }) = match supervised {
        Ok(Ok(ended)) => ended,
        Ok(Err(error)) => {
            start.withdraw();
            return Err(error.into());
        }
        Err(error) => {
            start.withdraw();
            return Err(error);
        }
    };
    let mut lingering = after;
    // From here on messages are printed, and the program's screen must not be overwritten.
    work.await_terminal();
    let end = match &ended {
        Ok(end) => end,
        Err(error) => {
            let failure = failure(error);
            run.finish(&ended, None);
            // Its writes are in the task, stored or not.
            if !has_begun {
                start.withdraw();
            }
            return Err(failure.into());
        }
    };
    if args.detach && !releaser.is_released() {
        detached::tell_why_not_started(context.out, &start, end)?;
    }
    let is_applied = args.apply_on_success && end.process.status() == 0;
    let part = (is_applied && context.out.is_json()).then(|| AppliedPart::of(context, &start.task));
    // A user who left may want to see how it ended.
    let is_seen = !releaser.is_released();
    let is_spent =
        is_seen && start.made.is_some() && (!end.process.has_started() || start.task.is_spent()?);
    summary::tell(context.out, args, &start, end, hidden, part.as_ref(), is_spent)?;
    let status = match part {
        Some(part) => part.status,
        None if is_applied => apply(
            context,
            &start.task,
            &Selection::default(),
            &MannerArgs::unasked(),
        )
        .unwrap_or_else(|error| crate::report(context.out, &error)),
        None => status(end),
    };
    let is_refused = is_applied && status != ExitStatus::Success;
    let note = is_refused.then(|| "what it changed could not be applied".to_owned());
    if is_seen {
        start.discard_older(context.out)?;
    }
    // Unflushed output would be lost then.
    let flushed = context.out.flush();
    // The record of the run is complete before the task may go with it.
    run.finish(&ended, note);
    match is_spent {
        true if end.process.has_started() => drop(start.task.clone().discard_at_end(&mut lingering)),
        true => start.withdraw(),
        false => {}
    }
    flushed?;
    // The caller's shell continues here. What follows delays nobody.
    work.worker.release(status);
    lingering.wait();
    Ok(status)
}

/// Tells the user of a program while it runs.
struct ProgramWatch<'a, 'c> {
    context: &'a mut Context<'c>,
    is_piped: bool,
    /// The run, once it has begun.
    id: String,
    has_begun: bool,
    /// Releases the command line when the program has started, if it continues in the background.
    detached: Option<(&'a arguments::Start, &'a Releaser)>,
}

impl RunWatch for ProgramWatch<'_, '_> {
    fn event(&mut self, event: RunEvent<'_>) {
        match event {
            RunEvent::Started => {
                self.has_begun = true;
                if let Some((start, releaser)) = self.detached {
                    detached::let_go(self.context, start, &self.id, releaser);
                }
            }
            // If a program has the terminal, refusals are reported when it ends.
            RunEvent::Refused(_) if !self.is_piped => {}
            event => show(self.context.out, event),
        }
    }
}

/// The streams of the program: a terminal of its own if the user has one, or will come back with one.
fn streams(args: &RunArgs, starter: Option<UnixStream>, releaser: Releaser) -> io::Result<RunStreams> {
    if starter.is_none() && !args.detach {
        return Ok(RunStreams::Pipes(plain_stdin()?));
    }
    let left = starter
        .is_some()
        .then(|| -> Box<dyn FnOnce() + Send> { Box::new(move || releaser.release(ExitStatus::Success)) });
    let (settings, size) = (terminal::settings(), terminal::size());
    Ok(RunStreams::Terminal(RunTerminal {
        settings,
        size,
        starter,
        left,
    }))
}

fn status(end: &ProgramEnd) -> ExitStatus {
    match EndReason::of(end) {
        EndReason::TimeLimit => ExitStatus::TimedOut,
        _ => ExitStatus::OfCommand(u8::try_from(end.process.status()).unwrap_or(u8::MAX)),
    }
}

fn failure(error: &RunError) -> Failure {
    let body = error.body();
    Failure::new(error.code(), of_error(&body.code), body.message).hint(body.hint.as_ref().map(hint::words))
}

/// The input of a program without a terminal: a file or a pipe, unchanged. Never the user's terminal, which
/// the program could control, nor a directory, which would give access to files.
fn plain_stdin() -> io::Result<Stdin> {
    let stdin = io::stdin();
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&stdin)?.st_mode);
    let leads_nowhere = matches!(kind, FileType::RegularFile | FileType::Fifo | FileType::Socket);
    if leads_nowhere && !stdin.is_terminal() {
        Ok(Stdin::File(File::from(stdin.as_fd().try_clone_to_owned()?)))
    } else {
        Ok(Stdin::Nothing)
    }
}

/// Output of a program without a terminal. Under `--json`, standard output is ours.
fn show(out: &mut Printer, event: RunEvent<'_>) {
    // A reader that is gone misses the message.
    let _ = match event {
        RunEvent::Stdout(bytes) if !out.is_json() => out.pass_on(bytes),
        RunEvent::Stdout(bytes) | RunEvent::Stderr(bytes) => {
            io::stderr().write_all(bytes).map_err(Into::into)
        }
        RunEvent::Refused(refusal) => {
            out.talk(unreached::frequent(refusal));
            Ok(())
        }
        RunEvent::Started | RunEvent::Stopping(_) => Ok(()),
    };
}
