//! `avfs task attach`.

use agentvfs::task_run::RunRecord;
use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::run_body::{RunStateBody, in_words, status};
use super::run_of;
use crate::commands::run::{name_here, tell_detached};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::terminal::{self, Sharing, SharingEnd};

/// Attach to the terminal of a program that runs in a task
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Shows the last part of the program's output, and then new output as it comes. Keys go to the
program; Ctrl-\\ followed by d detaches, and the program keeps running (the setting
run.detach_keys changes the keys). Several terminals can be attached at the same time; the
window has the size of the one that was used last.

When the program ends, this command exits with the same status.

Examples:
  avfs task attach
  avfs task attach fix-login"
)]
pub struct AttachArgs {
    /// The task [default: the one that commands work on here]
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Select one of several runs in the task [default: one that is still running, or else the
    /// detached one that ended last, or else the newest]
    #[arg(long, value_name = "ID")]
    run: Option<String>,
}

pub fn run(context: &mut Context<'_>, args: &AttachArgs) -> Result<ExitStatus> {
    if !terminal::is_there() {
        let text = "attaching takes a terminal on standard input and output";
        let hint = "`avfs task output -f` follows what the program prints";
        return Err(Failure::new("no-terminal", ExitStatus::BadInput, text)
            .hint(Some(hint.to_owned()))
            .into());
    }
    let task = context.task(args.task.as_deref())?;
    let run = run_of(&task, args.run.as_deref())?;
    let attachment = run.attach(terminal::size())?;
    let sharing = Sharing {
        keys: context.settings.detach_keys(),
        output: Some(run.output()),
        // Each of them ends this view only; the program goes on.
        leaving: &[SIGHUP, SIGINT, SIGTERM, SIGQUIT],
        awaits_end: true,
    };
    match terminal::share(attachment, sharing)? {
        SharingEnd::Ended(Some(record)) => told_end(context, &record),
        // Its supervisor was killed: the record that it left is read.
        SharingEnd::Ended(None) => match run_of(&task, Some(&run.record().id)) {
            Ok(ended) => told_end(context, ended.record()),
            Err(error) => Err(error),
        },
        SharingEnd::Detached(joined) => {
            tell_detached(context, &joined.vault, &joined.run)?;
            Ok(ExitStatus::Success)
        }
        SharingEnd::Lost => Ok(ExitStatus::Success),
    }
}

fn told_end(context: &mut Context<'_>, record: &RunRecord) -> Result<ExitStatus> {
    if context.out.is_json() {
        context.out.object("task-run", &RunStateBody::from(record))?;
    } else {
        let name = name_here(context, &record.vault);
        context
            .out
            .talk(format_args!("task {name}: it {}", in_words(record)));
        context.out.talk(format_args!("look:  avfs diff {name}"));
    }
    Ok(status(record))
}
