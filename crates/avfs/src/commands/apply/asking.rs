//! `--conflicts ask`: shows each conflict with both its sides, and asks how to resolve it.

use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal, Write};

use agentvfs::apply::{ApplyOptions, Conflict, ConflictSides, EditedText, OnConflict, Plan};
use agentvfs::{Error, TreePath};
use anstyle::Style;
use anyhow::{Result, bail};

use crate::commands::resolve::edited;
use crate::conflict_view::{ConflictLine, LineRole, conflict_lines};
use crate::context::Context;
use crate::escape::printable_line;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::printer::{BOLD, CYAN, FAINT, GREEN, Printer, WARNING};

const ANSWERS: &str = "[m]ark, [o]urs (directory), [t]heirs (task), [e]dit, [q]uit, [?] help";

const EXPLANATION: &str = "  m  mark: both sides go into the file, with markers between them
  o  ours (or directory; s, skip): the lines in conflict stay as they are in your directory
  t  theirs (or task): the lines in conflict become what the task has
  e  edit: both sides and the base go into your editor, and your text into the file
     A file that is not text, or is gone on one side, is taken or left as a whole. An answer is for all
     conflicts of a file; `avfs review` decides them one by one.
  q  quit: nothing is applied
  ?  shows both sides again";

/// The user's decisions about these sides.
#[derive(Default)]
pub struct Answers {
    choices: BTreeMap<TreePath, OnConflict>,
    edited: BTreeMap<TreePath, EditedText>,
    /// The contents of the directory at that time.
    here: BTreeMap<TreePath, String>,
}

impl Answers {
    pub fn put_into(&self, options: &mut ApplyOptions) {
        options.choices = self.choices.clone();
        options.edited = self.edited.clone();
    }

    /// Nothing is done about a file that became another one after the user had looked.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        for conflict in &plan.settled {
            let here = plan.sides(&conflict.path).map_err(Error::from)?.here_digest;
            if self.here.get(&conflict.path).is_some_and(|seen| *seen != here) {
                bail!(
                    "{} was changed while you were asked: nothing was applied",
                    conflict.path
                );
            }
        }
        Ok(())
    }
}

/// Asks on the terminal how to resolve each conflict. `None`: the user cancelled.
pub fn ask_for_each(context: &mut Context<'_>, plan: &Plan) -> Result<Option<Answers>> {
    if context.out.is_json() || !io::stdin().is_terminal() {
        let failure = Failure::new(
            "no-terminal",
            ExitStatus::BadInput,
            "there is no terminal to ask on",
        );
        return Err(failure
            .hint(Some(
                "choose mark, ours (the directory) or theirs (the task)".to_owned(),
            ))
            .into());
    }
    context.out.flush()?;
    let mut answers = Answers::default();
    for conflict in &plan.conflicts {
        let sides = plan.sides(&conflict.path).map_err(Error::from)?;
        match ask(context.out, conflict, &sides)? {
            None => return Ok(None),
            Some(ConflictAnswer::Do(choice)) => drop(answers.choices.insert(conflict.path.clone(), choice)),
            Some(ConflictAnswer::Text(bytes)) => {
                let text = EditedText {
                    bytes,
                    here_digest: sides.here_digest.clone(),
                };
                answers.edited.insert(conflict.path.clone(), text);
            }
        }
        answers.here.insert(conflict.path.clone(), sides.here_digest);
    }
    Ok(Some(answers))
}

enum ConflictAnswer {
    Do(OnConflict),
    Text(Vec<u8>),
}

fn ask(out: &mut Printer, conflict: &Conflict, sides: &ConflictSides) -> Result<Option<ConflictAnswer>> {
    let lines = conflict_lines(conflict, sides);
    show(out, &lines)?;
    loop {
        write!(io::stderr(), "{conflict}: {ANSWERS}? ")?;
        let mut answer = String::new();
        if io::stdin().lock().read_line(&mut answer)? == 0 {
            writeln!(io::stderr())?;
            return Ok(None);
        }
        match answer.trim().to_ascii_lowercase().as_str() {
            "m" | "mark" => return Ok(Some(ConflictAnswer::Do(OnConflict::Mark))),
            "o" | "ours" | "d" | "directory" | "s" | "skip" => {
                return Ok(Some(ConflictAnswer::Do(OnConflict::Ours)));
            }
            "t" | "theirs" | "task" => return Ok(Some(ConflictAnswer::Do(OnConflict::Theirs))),
            "q" | "quit" => return Ok(None),
            "e" | "edit" => match sides.marked.as_deref().map(edited) {
                Some(Ok(text)) => return Ok(Some(ConflictAnswer::Text(text))),
                Some(Err(error)) => writeln!(
                    io::stderr(),
                    "{}",
                    printable_line(format!("{error:#}").as_bytes())
                )?,
                None => writeln!(
                    io::stderr(),
                    "these are not texts: choose ours (directory) or theirs (task)"
                )?,
            },
            "?" | "h" | "help" => {
                show(out, &lines)?;
                writeln!(io::stderr(), "{EXPLANATION}")?;
            }
            _ => {}
        }
    }
}

/// Where the question is: on standard error.
fn show(out: &mut Printer, lines: &[ConflictLine]) -> Result<()> {
    writeln!(io::stderr())?;
    for line in lines {
        let text = line.text.strip_suffix(b"\n").unwrap_or(&line.text);
        let text = format!("{}{}", line.sign(), printable_line(text));
        writeln!(io::stderr(), "{}", out.paint_talk(style(line.role), text))?;
    }
    Ok(())
}

fn style(role: LineRole) -> Style {
    match role {
        LineRole::Title => WARNING,
        LineRole::Label => BOLD,
        LineRole::Unchanged => Style::new(),
        LineRole::Here => CYAN,
        LineRole::Base => FAINT,
        LineRole::Task => GREEN,
    }
}
