//! `avfs run`: a program on a private fork of the project that one is in.

mod arguments;
mod hidden;
mod summary;
mod surroundings;

use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use agentvfs::apply::Selection;
use agentvfs::exec::boundary::terminal::Console;
use agentvfs::exec::boundary::{Event, Stdin};
use agentvfs::exec::{Lingering, ProgramEnd, ProgramError};
use anyhow::Result;
use rustix::fs::FileType;

pub use arguments::RunArgs;

use super::apply::{MannerArgs, Part, apply};
use super::exec::{HostDoor, of_error, supervised};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::front::{self, Front, Side, Worker};
use crate::printer::Printer;
use crate::terminal;

pub fn run(context: &mut Context<'_>, args: &RunArgs) -> Result<ExitStatus> {
    let shared = terminal::is_there().then(Console::pair).transpose()?;
    // Its end says that the terminal is the user's again.
    let (is_back, sharing) = io::pipe()?;
    match front::split()? {
        Side::Front(front) => {
            drop(is_back);
            let console = shared.map(|(console, _)| console);
            wait(front, console.as_ref(), sharing)
        }
        Side::Worker(worker) => {
            drop(sharing);
            let terminal = shared.map(|(_, socket)| socket);
            work(context, args, Work { worker, is_back }, terminal)
        }
    }
}

fn wait(front: Front, console: Option<&Console>, sharing: io::PipeWriter) -> Result<ExitStatus> {
    front.hand_on_signals()?;
    let shared = console.map_or(Ok(()), terminal::share);
    drop(sharing);
    let status = front.status()?;
    shared?;
    Ok(status)
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
    terminal: Option<OwnedFd>,
) -> Result<ExitStatus> {
    let start = args.start(context)?;
    start.announce(context.out);
    let stdin = terminal.map_or_else(plain_stdin, |socket| Ok(Stdin::Terminal(socket)))?;
    let rules = start.program.rules.clone();
    let door =
        HostDoor { home: context.home()?.to_owned(), vault: start.task.vault_name().to_string(), rules };
    let hidden = hidden::Hidden::look(&start);
    let mut lingering = Lingering::default();
    let ended = supervised(
        &work.worker,
        Some(&door),
        |running| start.task.run(&start.program, stdin, running),
        &mut |event| show(context.out, event),
        &mut |_, _| (),
        &mut lingering,
    )?;
    work.await_terminal();
    let end = ended.map_err(|error| failure(&error))?;
    let is_applied = args.apply_on_success && end.status == 0;
    let part = (is_applied && context.out.is_json()).then(|| Part::of(context, &start.task));
    summary::tell(context.out, args, &start, &end, hidden, part.as_ref())?;
    let status = match part {
        Some(part) => part.status,
        None if is_applied => apply(context, &start.task, &Selection::default(), &MannerArgs::unasked())?,
        None => status(&end),
    };
    context.out.flush()?;
    work.worker.release(status);
    lingering.wait();
    Ok(status)
}

fn status(end: &ProgramEnd) -> ExitStatus {
    ExitStatus::OfCommand(u8::try_from(end.status).unwrap_or(u8::MAX))
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
        Event::Stdout(bytes) if !out.is_json() => out.bytes(bytes).and_then(|()| out.flush()),
        Event::Stdout(bytes) | Event::Stderr(bytes) => io::stderr().write_all(bytes).map_err(Into::into),
        Event::Started | Event::Stopping(_) => Ok(()),
    };
}
