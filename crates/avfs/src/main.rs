//! `avfs`, the command line of agentvfs: reads arguments, calls the library, prints, and ends with a status.

mod args;
mod change;
mod cli;
mod commands;
mod completion;
mod confirm;
mod conflict_view;
mod conflicts;
mod context;
mod editor;
mod entry;
mod env_args;
mod escape;
mod exit;
mod failure;
mod front;
mod git;
mod here;
mod host_file;
mod ignored;
mod json;
mod listing;
mod mode;
mod network_args;
mod printer;
mod progress;
mod recovered;
mod revision;
mod rule_args;
mod settings;
mod size;
mod suggest;
mod table;
mod terminal;
mod time;
mod unreached;
mod versions;
mod view;

use std::process::ExitCode;

use agentvfs::exec::boundary::inside;
use cli::{Cli, EarlyFlags};
use exit::ExitStatus;
use failure::Failure;
use printer::{PrintError, Printer};

fn main() -> ExitCode {
    if let Some(status) = inside_sandbox() {
        return status;
    }
    if let Some(status) = completion::answer() {
        return status;
    }
    if let Some(status) = commands::through_door() {
        return ExitCode::from(status);
    }
    let flags = EarlyFlags::scan(std::env::args_os().skip(1));
    let mut out = Printer::new(flags.manner());
    let outcome = Cli::read(std::env::args_os(), flags.color)
        .map_err(anyhow::Error::from)
        .and_then(|cli| commands::run(cli, &mut out))
        // What is still in the buffer can fail to be written, too.
        .and_then(|status| out.flush().map(|()| status).map_err(anyhow::Error::from));
    let status = outcome.unwrap_or_else(|error| report(&mut out, &error));
    status.into()
}

/// The first program in a sandbox is this one. It has nothing to do with the command line.
fn inside_sandbox() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().filter(|first| first == inside::ARGUMENT)?;
    let status = inside::main(arguments.next().as_deref());
    Some(u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Tells the user how a command failed. If nobody reads, there is nobody to tell.
fn report(out: &mut Printer, error: &anyhow::Error) -> ExitStatus {
    let told = match error.downcast_ref::<clap::Error>() {
        Some(usage) => report_usage(out, usage),
        None => {
            let failure = Failure::of(error);
            match failure.status {
                ExitStatus::BrokenPipe => Ok(failure.status),
                status => out.failure(&failure).map(|()| status),
            }
        }
    };
    let told = told.and_then(|status| out.flush().map(|()| status));
    told.unwrap_or_else(|error| Failure::of(&error.into()).status)
}

/// clap reports help and the version as errors, too.
fn report_usage(out: &mut Printer, error: &clap::Error) -> Result<ExitStatus, PrintError> {
    if !error.use_stderr() {
        out.styled(&error.render())?;
        return Ok(ExitStatus::Success);
    }
    let failure = Failure::of_usage(error);
    match out.is_json() {
        true => out.failure(&failure)?,
        false => out.talk_styled(&error.render()),
    }
    Ok(failure.status)
}
