//! One change of settings, shown before it is made.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentvfs::patch::{HunkLineKind, LineDiff};
use anyhow::{Context as _, Result};

use super::record::SetupRecords;
use crate::escape::{printable, printable_path};
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::printer::{GREEN, PrintError, Printer, RED};

/// How many unchanged lines are shown around a change.
const AROUND: u32 = 3;

/// A step of a setup.
#[derive(Debug)]
pub enum SetupChange {
    /// A file gets other contents; nothing: it is not there.
    File {
        file: PathBuf,
        before: Option<String>,
        after: Option<String>,
    },
    /// The agent changes its own settings.
    Command { agent: &'static str, words: Vec<String> },
}

impl SetupChange {
    /// The change of a file, unless it is as it should be.
    pub fn of_file(file: PathBuf, before: Option<String>, after: Option<String>) -> Option<SetupChange> {
        (before != after).then_some(SetupChange::File { file, before, after })
    }

    /// Makes the change, and keeps what it takes to undo it.
    pub fn make(&self, records: &mut SetupRecords, removes: bool) -> Result<()> {
        match self {
            SetupChange::File { file, before, after } => {
                // Another program may have written it while the user was asked.
                if read(file)? != *before {
                    let text = format!(
                        "{} was changed by another program meanwhile",
                        printable_path(file)
                    );
                    return Err(Failure::new("settings-changed", ExitStatus::Conflict, text)
                        .hint(Some("try again".to_owned()))
                        .into());
                }
                let directories = records.directories(file).to_vec();
                records.add(self, removes)?;
                match after {
                    Some(text) => write(file, text),
                    None => remove(file, &directories),
                }
                .with_context(|| format!("changing {}", printable_path(file)))?;
                records.settle(self)
            }
            SetupChange::Command { agent, words } => run(agent, words),
        }
    }
}

/// The text of a file of settings; `None`: there is no such file.
pub fn read(file: &Path) -> Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", printable_path(file))),
    }
}

/// Replaces a file as a whole, so that nobody reads half of it. A link stays one, and so do the permissions.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let file = &file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let directory = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mode = fs::metadata(file).map_or(0o644, |found| found.permissions().mode());
    let mut fresh = tempfile::NamedTempFile::new_in(directory)?;
    io::Write::write_all(&mut fresh, text.as_bytes())?;
    fresh
        .as_file()
        // Settings may hold tokens: the new file is never readable for more users than the old one was.
        .set_permissions(fs::Permissions::from_mode(mode & 0o7777))?;
    // Before the rename: after a power cut, an agent without settings would be worse than one without ours.
    fresh.as_file().sync_all()?;
    fresh.persist(file)?;
    Ok(())
}

/// Removes a file, and those of the directories made for it that are empty now.
fn remove(file: &Path, made: &[PathBuf]) -> io::Result<()> {
    fs::remove_file(file)?;
    for directory in made.iter().rev() {
        if fs::remove_dir(directory).is_err() {
            break;
        }
    }
    Ok(())
}

fn run(agent: &str, words: &[String]) -> Result<()> {
    let [program, rest @ ..] = words else {
        return Ok(());
    };
    let output = Command::new(program).args(rest).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("starting {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(if output.stderr.is_empty() {
        &output.stdout
    } else {
        &output.stderr
    });
    let told = crate::escape::printable_line(told.trim().as_bytes());
    let text = format!("{agent} did not take it: `{}`: {told}", words.join(" "));
    Err(Failure::new("agent-refused", ExitStatus::Refused, text).into())
}

/// Shows a change as a diff, or as the command that makes it.
pub fn print_change(out: &mut Printer, change: &SetupChange) -> Result<(), PrintError> {
    match change {
        SetupChange::Command { words, .. } => {
            let words: Vec<String> = words.iter().map(|word| avfs_core::shell_word(word)).collect();
            out.line(format_args!("run: {}", words.join(" ")))
        }
        SetupChange::File { file, before, after } => {
            out.line(format_args!("{}:", printable_path(file)))?;
            let text = |text: &Option<String>| bytes::Bytes::from(text.clone().unwrap_or_default());
            for hunk in LineDiff::compute(&text(before), &text(after), AROUND).hunks {
                for line in hunk.lines {
                    let text = printable(line.text.strip_suffix(b"\n").unwrap_or(&line.text));
                    match line.kind {
                        HunkLineKind::Context => out.line(format_args!("  {text}"))?,
                        HunkLineKind::Removed => out.line(out.paint(RED, format!("- {text}")))?,
                        HunkLineKind::Added => out.line(out.paint(GREEN, format!("+ {text}")))?,
                    }
                }
            }
            Ok(())
        }
    }
}
