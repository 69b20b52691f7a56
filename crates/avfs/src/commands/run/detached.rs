//! Messages of `avfs run` when a program continues without the terminal.

use agentvfs::exec::{ProgramEnd, PublishedBody};
use agentvfs::task_run::PlainText;
use anyhow::Result;
use serde::Serialize;

use super::arguments::Start;
use crate::context::Context;
use crate::escape::printable_text;
use crate::exit::ExitStatus;
use crate::foreground::Releaser;
use crate::here::working_directory;
use crate::printer::{PrintError, Printer};

/// A run that continues in the background, in JSON.
#[derive(Serialize)]
struct DetachedBody<'a> {
    task: &'a str,
    run: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    published: Vec<PublishedBody>,
}

/// The program has begun: the caller need not wait for it.
pub(super) fn let_go(context: &mut Context<'_>, start: &Start, run: &str, releaser: &Releaser) {
    let vault = start.task.vault_name().as_str();
    let task = &name_here(context, vault);
    let published = start.published();
    let told = if context.out.is_json() {
        context
            .out
            .object("detached", &DetachedBody { task, run, published })
    } else {
        context
            .out
            .line(task)
            .and_then(|()| tell_detached(context, vault, run))
    };
    // A run does not fail because its name cannot be printed.
    let _ = told.and_then(|()| context.out.flush());
    releaser.release(ExitStatus::Success);
}

/// Reports that a run continues, and how to get back to it.
pub fn tell_detached(context: &mut Context<'_>, vault: &str, run: &str) -> Result<(), PrintError> {
    let task = &name_here(context, vault);
    let out = &mut *context.out;
    if out.is_json() {
        return out.object(
            "detached",
            &DetachedBody {
                task,
                run,
                published: Vec::new(),
            },
        );
    }
    out.talk(format_args!("task {task} goes on in the background"));
    out.talk(format_args!("back:   avfs task attach {task}"));
    out.talk(format_args!("watch:  avfs task output -f {task}"));
    out.talk(format_args!("stop:   avfs task stop {task}"));
    Ok(())
}

/// The name of a task in the working directory.
pub fn name_here(context: &Context<'_>, vault: &str) -> String {
    let found = || -> Result<String> {
        let store = context.store()?;
        Ok(store
            .projects()
            .here(&working_directory())?
            .name_of(&store.task(vault)?))
    };
    // Of a task that is gone, its whole name.
    found().unwrap_or_else(|_| vault.to_owned())
}

/// The output that would have been on the terminal of a program that did not begin.
pub(super) fn tell_why_not_started(out: &mut Printer, start: &Start, end: &ProgramEnd) -> Result<()> {
    let runs = start.task.runs().list()?;
    if let Some(run) = runs.iter().find(|run| run.record().id == end.run) {
        let said = PlainText::default().push(&run.output().read(0).unwrap_or_default().bytes);
        out.talk(printable_text(&said).trim_end());
    }
    Ok(())
}
