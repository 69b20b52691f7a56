//! `avfs`, the command line of agentvfs: reads arguments, calls the library, prints, and ends with a status.

mod args;
mod background_log;
mod build_info;
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
mod foreground;
mod git;
mod global_args;
mod here;
mod hint;
mod host_file;
mod ignored;
mod image_args;
mod json;
mod left_out;
mod listing;
mod mode;
mod network_args;
mod printer;
mod progress;
mod recovered;
#[cfg(feature = "server")]
mod remote;
mod revision;
mod rule_args;
mod settings;
mod size;
mod slips;
mod suggest;
mod table;
mod terminal;
mod time;
mod unreached;
mod unstored;
mod versions;
mod view;

use std::process::ExitCode;

use agentvfs::exec::sandbox::inside;
use cli::Cli;
use exit::ExitStatus;
use failure::Failure;
use global_args::EarlyFlags;
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
    let mut out = Printer::new(flags.style());
    let outcome = if build_info::is_requested(std::env::args_os().skip(1)) {
        build_info::print(&mut out).map_err(anyhow::Error::from)
    } else {
        run(flags, &mut out)
    };
    // Writing what is still in the buffer can fail as well.
    let outcome = outcome.and_then(|status| out.flush().map(|()| status).map_err(anyhow::Error::from));
    let status = outcome.unwrap_or_else(|error| report(&mut out, &error));
    status.into()
}

fn run(flags: EarlyFlags, out: &mut Printer) -> anyhow::Result<ExitStatus> {
    let cli = Cli::read(std::env::args_os(), flags.color)?;
    // The words of a program that is run are its own: only now is it known which flags are ours.
    *out = Printer::new(cli.global.style());
    commands::run(cli, out)
}

/// The first program in a sandbox is this one. It has nothing to do with the command line.
fn inside_sandbox() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().filter(|first| first == inside::ARGUMENT)?;
    let status = inside::main(arguments.next().as_deref());
    Some(u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Reports to the user how a command failed, if there is a reader.
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
    if out.is_json() {
        out.failure(&failure)?
    } else {
        out.talk_styled(&error.render())
    }
    Ok(failure.status)
}
