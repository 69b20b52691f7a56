//! What `avfs run` says when a program goes on without the terminal.

use agentvfs::exec::{ProgramEnd, PublishedBody};
use agentvfs::task_run::PlainText;
use anyhow::Result;
use serde::Serialize;

use super::arguments::Start;
use crate::context::Context;
use crate::escape::printable_text;
use crate::exit::ExitStatus;
use crate::front::Releaser;
use crate::here::working_directory;
use crate::printer::{PrintError, Printer};

/// A run that goes on by itself, in JSON.
#[derive(Serialize)]
struct DetachedBody<'a> {
    task: &'a str,
    run: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    published: Vec<PublishedBody>,
}

/// The program has begun: nobody has to wait for it.
pub(super) fn let_go(context: &mut Context<'_>, start: &Start, run: &str, releaser: &Releaser) {
    let vault = start.task.vault_name().as_str();
    let task = &name_here(context, vault);
    let published = start.published();
    let told = match context.out.is_json() {
        true => context.out.object("detached", &DetachedBody { task, run, published }),
        false => context.out.line(task).and_then(|()| tell_detached(context, vault, run)),
    };
    // A run is not wrong because nobody reads its name.
    let _ = told.and_then(|()| context.out.flush());
    releaser.release(ExitStatus::Success);
}

/// Says that a run goes on, and how to get back to it.
pub fn tell_detached(context: &mut Context<'_>, vault: &str, run: &str) -> Result<(), PrintError> {
    let task = &name_here(context, vault);
    let out = &mut *context.out;
    if out.is_json() {
        return out.object("detached", &DetachedBody { task, run, published: Vec::new() });
    }
    out.talk(format_args!("task {task} goes on in the background"));
    out.talk(format_args!("back:   avfs task attach {task}"));
    out.talk(format_args!("watch:  avfs task output -f {task}"));
    out.talk(format_args!("stop:   avfs task stop {task}"));
    Ok(())
}

/// What a task is called in the working directory.
pub fn name_here(context: &Context<'_>, vault: &str) -> String {
    let found = || -> Result<String> {
        let store = context.store()?;
        Ok(store.here(&working_directory())?.name_of(&store.task(vault)?))
    };
    // Of a task that is gone, its whole name.
    found().unwrap_or_else(|_| vault.to_owned())
}

/// What would have been on the terminal of a program that did not begin.
pub(super) fn tell_why_not_started(out: &mut Printer, start: &Start, end: &ProgramEnd) -> Result<()> {
    let runs = start.task.runs()?;
    if let Some(run) = runs.iter().find(|run| run.record().id == end.run) {
        let said = PlainText::default().push(&run.output().read(0).unwrap_or_default().bytes);
        out.talk(printable_text(&said).trim_end());
    }
    Ok(())
}
