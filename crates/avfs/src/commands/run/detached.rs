//! What `avfs run` says when a program goes on without the terminal.

use agentvfs::exec::{ProgramEnd, PublishedBody};
use agentvfs::task_run::PlainText;
use anyhow::Result;
use serde::Serialize;

use super::arguments::Start;
use crate::escape::printable_text;
use crate::exit::ExitStatus;
use crate::front::Releaser;
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
pub(super) fn let_go(out: &mut Printer, start: &Start, run: &str, releaser: &Releaser) {
    let task = start.task.name().as_str();
    let told = match out.is_json() {
        true => out.object("detached", &DetachedBody { task, run, published: start.published() }),
        false => out.line(task).and_then(|()| tell_detached(out, task, run)),
    };
    // A run is not wrong because nobody reads its name.
    let _ = told.and_then(|()| out.flush());
    releaser.release(ExitStatus::Success);
}

/// Says that a run goes on, and how to get back to it.
pub fn tell_detached(out: &mut Printer, task: &str, run: &str) -> Result<(), PrintError> {
    if out.is_json() {
        return out.object("detached", &DetachedBody { task, run, published: Vec::new() });
    }
    out.talk(format_args!("task {task} goes on in the background"));
    out.talk(format_args!("back:   avfs task attach {task}"));
    out.talk(format_args!("watch:  avfs task output -f {task}"));
    out.talk(format_args!("stop:   avfs task stop {task}"));
    Ok(())
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
