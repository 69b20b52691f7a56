//! `avfs run`: a program on a private fork of the project that one is in.

mod arguments;
mod detached;
mod hidden;
mod making;
mod summary;
mod surroundings;
mod withdrawing;

use std::cell::{Cell, OnceCell};
use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use agentvfs::apply::Selection;
use agentvfs::exec::boundary::{Event, Stdin};
use agentvfs::exec::{Lingering, ProgramEnd, ProgramError};
use agentvfs::task_run::{Attachment, EndReason, RunStreams, RunTerminal};
use anyhow::Result;
use rustix::fs::FileType;
use signal_hook::consts::SIGHUP;

pub use arguments::RunArgs;
pub use detached::{name_here, tell_detached};
pub use making::{WantedTask, given_rules};
pub use withdrawing::Made;

use super::apply::{MannerArgs, Part, apply};
use super::exec::{HostDoor, Outputs, of_error, supervised};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::front::{self, Front, Releaser, Side, Worker};
use crate::printer::Printer;
use crate::terminal::{self, Parting, Sharing};
use crate::unreached;

pub fn run(context: &mut Context<'_>, args: &RunArgs) -> Result<ExitStatus> {
    let is_shared = terminal::is_there() && !args.detach;
    let shared = is_shared.then(UnixStream::pair).transpose()?;
    // Its end says that the terminal is the user's again.
    let (is_back, sharing) = io::pipe()?;
    match front::split()? {
        Side::Front(front) => {
            drop(is_back);
            let stream = shared.map(|(stream, _)| stream);
            wait(context, front, stream, sharing)
        }
        Side::Worker(worker) => {
            drop(sharing);
            let starter = shared.map(|(_, stream)| stream);
            work(context, args, Work { worker, is_back }, starter)
        }
    }
}

/// The side that the user sees. With a terminal, it shares that with the program, and may leave.
fn wait(
    context: &mut Context<'_>,
    front: Front,
    stream: Option<UnixStream>,
    sharing: io::PipeWriter,
) -> Result<ExitStatus> {
    let Some(stream) = stream else {
        front.hand_on_signals()?;
        drop(sharing);
        return front.status();
    };
    front.hand_on_signals_but_hangup()?;
    let parting = share(context, stream);
    drop(sharing);
    let status = front.status()?;
    if let Parting::Detached(joined) = parting? {
        tell_detached(context, &joined.vault, &joined.run)?;
    }
    Ok(status)
}

fn share(context: &Context<'_>, stream: UnixStream) -> io::Result<Parting> {
    let keys = context.settings.detach_keys();
    let sharing = Sharing { keys, output: None, leaving: &[SIGHUP], awaits_end: false };
    match Attachment::join(stream, terminal::size()) {
        Ok(attachment) => terminal::share(attachment, sharing),
        // The worker has ended and told why.
        Err(_) => Ok(Parting::Ended(None)),
    }
}

/// The side that does everything.
struct Work {
    worker: Worker,
    is_back: PipeReader,
}

impl Work {
    /// Until the user's terminal can be written to.
    fn await_terminal(&self) {
        let mut byte = [0];
        while (&self.is_back).read(&mut byte).is_ok_and(|count| count > 0) {}
    }
}

fn work(
    context: &mut Context<'_>,
    args: &RunArgs,
    work: Work,
    starter: Option<UnixStream>,
) -> Result<ExitStatus> {
    let releaser = work.worker.releaser()?;
    let is_piped = starter.is_none() && !args.detach;
    let streams = streams(args, starter, work.worker.releaser()?)?;
    let start = args.start(context)?;
    start.announce(context.out);
    let hidden = hidden::Hidden::tell(context.out, &start);
    let rules = start.program.rules.clone();
    let door =
        HostDoor { home: context.home()?.to_owned(), vault: start.task.vault_name().to_string(), rules };
    // A program that goes on without its terminal does not depend on who reads here.
    let outputs = is_piped.then(|| Outputs::of(context.out.is_json()));
    let mut lingering = Lingering::default();
    let (id, has_begun) = (OnceCell::new(), Cell::new(false));
    let supervised = supervised(
        &work.worker,
        Some(&door),
        outputs.as_ref(),
        |running| {
            let mut run = start.task.begin_run(&start.program, streams, running.cancel)?;
            id.get_or_init(|| run.id().to_owned());
            let ended = run.execute(&start.program, running);
            Ok::<_, agentvfs::Error>((run, ended))
        },
        &mut |event| match event {
            Event::Started => {
                has_begun.set(true);
                if args.detach {
                    let id = id.get().map(String::as_str).unwrap_or_default();
                    detached::let_go(context, &start, id, &releaser);
                }
            }
            // A program that has the terminal for itself is told of when it ends.
            Event::Refused(_) if !is_piped => {}
            event => show(context.out, event),
        },
        &mut |_, _| (),
        &mut lingering,
    );
    let (run, ended) = match supervised {
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
    work.await_terminal();
    let end = match &ended {
        Ok(end) => end,
        Err(error) => {
            let failure = failure(error);
            run.finish(&ended, None);
            // What it has written is in the task, stored or not.
            if !has_begun.get() {
                start.withdraw();
            }
            return Err(failure.into());
        }
    };
    if args.detach && !releaser.is_released() {
        detached::tell_why_not_started(context.out, &start, end)?;
    }
    let is_applied = args.apply_on_success && end.status == 0;
    let part = (is_applied && context.out.is_json()).then(|| Part::of(context, &start.task));
    // A user who left may want to see how it ended.
    let is_seen = !releaser.is_released();
    let is_spent = is_seen && start.made.is_some() && (!end.started || start.task.is_spent()?);
    summary::tell(context.out, args, &start, end, hidden, part.as_ref(), is_spent)?;
    let status = match part {
        Some(part) => part.status,
        None if is_applied => apply(context, &start.task, &Selection::default(), &MannerArgs::unasked())
            .unwrap_or_else(|error| crate::report(context.out, &error)),
        None => status(end),
    };
    let is_refused = is_applied && status != ExitStatus::Success;
    let note = is_refused.then(|| "what it changed could not be applied".to_owned());
    if is_seen {
        start.discard_older(context.out)?;
    }
    // Nobody reads what is not flushed then.
    let flushed = context.out.flush();
    run.finish(&ended, note);
    match is_spent {
        true if end.started => drop(start.task.clone().discard(false)),
        true => start.withdraw(),
        false => {}
    }
    flushed?;
    work.worker.release(status);
    lingering.wait();
    Ok(status)
}

/// What the program reads and writes: a terminal of its own if the user has one, or will come back with one.
fn streams(args: &RunArgs, starter: Option<UnixStream>, releaser: Releaser) -> io::Result<RunStreams> {
    if starter.is_none() && !args.detach {
        return Ok(RunStreams::Pipes(plain_stdin()?));
    }
    let left = starter
        .is_some()
        .then(|| -> Box<dyn FnOnce() + Send> { Box::new(move || releaser.release(ExitStatus::Success)) });
    let (settings, size) = (terminal::settings(), terminal::size());
    Ok(RunStreams::Terminal(RunTerminal { settings, size, starter, left }))
}

fn status(end: &ProgramEnd) -> ExitStatus {
    match EndReason::of(end) {
        EndReason::TimeLimit => ExitStatus::TimedOut,
        _ => ExitStatus::OfCommand(u8::try_from(end.status).unwrap_or(u8::MAX)),
    }
}

fn failure(error: &ProgramError) -> Failure {
    let body = error.body();
    let code = arguments::code_of(error);
    Failure::new(code, of_error(&body.code), body.message).hint(body.hint)
}

/// What a program without a terminal reads: a file or a pipe as it is. Never the user's terminal, which could be
/// driven, nor a directory, which leads somewhere.
fn plain_stdin() -> io::Result<Stdin> {
    let stdin = io::stdin();
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&stdin)?.st_mode);
    let leads_nowhere = matches!(kind, FileType::RegularFile | FileType::Fifo | FileType::Socket);
    match leads_nowhere && !stdin.is_terminal() {
        true => Ok(Stdin::File(File::from(stdin.as_fd().try_clone_to_owned()?))),
        false => Ok(Stdin::Nothing),
    }
}

/// Output of a program without a terminal. Under `--json`, standard output is ours.
fn show(out: &mut Printer, event: Event<'_>) {
    // Whoever does not read is not told.
    let _ = match event {
        Event::Stdout(bytes) if !out.is_json() => out.pass_on(bytes),
        Event::Stdout(bytes) | Event::Stderr(bytes) => io::stderr().write_all(bytes).map_err(Into::into),
        Event::Refused(refusal) => {
            out.talk(unreached::frequent(refusal));
            Ok(())
        }
        Event::Started | Event::Stopping(_) => Ok(()),
    };
}
