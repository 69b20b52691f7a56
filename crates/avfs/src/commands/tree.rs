//! `avfs tree`: directories as a picture.

use std::iter::Peekable;

use agentvfs::{EntryName, FoundEntry};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use crate::args::{AtArg, PathArg, path_arg};
use crate::context::Context;
use crate::entry::{EntryBody, painted, target};
use crate::escape::printable;
use crate::exit::ExitStatus;
use crate::json::PathField;
use crate::printer::Printer;
use crate::rule_args::RuleArgs;
use crate::view::View;

/// Show a directory tree
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs tree -L 2
  avfs tree src --at before-upgrade")]
pub struct TreeArgs {
    /// The directory to show
    #[arg(value_parser = path_arg(), default_value = "/")]
    path: PathArg,

    /// Show at most this many levels
    #[arg(short = 'L', long = "level", value_name = "N")]
    levels: Option<usize>,

    /// Show only directories
    #[arg(short, long)]
    directories: bool,

    /// Include names that begin with a dot
    #[arg(short, long)]
    all: bool,

    #[command(flatten)]
    at: AtArg,

    #[command(flatten)]
    pub rules: RuleArgs,
}

/// The prefix below the last entry of a directory, and below another one.
const LAST: &str = "    ";
const MORE: &str = "│   ";

type Entries<'a> = Peekable<Box<dyn Iterator<Item = Result<(EntryName, FoundEntry)>> + 'a>>;

#[derive(Serialize)]
struct TreeBody {
    #[serde(flatten)]
    path: PathField,
    entries: Vec<EntryBody>,
    directories: u64,
    files: u64,
}

pub fn run(context: &mut Context<'_>, args: &TreeArgs) -> Result<ExitStatus> {
    let path = context.path(&args.path)?;
    let view = context.view(&args.at)?;
    let top = view.find(&path)?;
    let mut drawing = TreeDrawing {
        view: &view,
        args,
        directories: 0,
        files: 0,
        out: context.out,
        entries: Vec::new(),
    };
    if !drawing.out.is_json() {
        drawing.out.line(painted(drawing.out, &top, path.to_string()))?;
    }
    drawing.below(&path, &top)?;
    let TreeDrawing {
        directories,
        files,
        entries,
        out,
        ..
    } = drawing;
    if out.is_json() {
        out.object(
            "tree",
            &TreeBody {
                path: (&path).into(),
                entries,
                directories,
                files,
            },
        )?;
    } else {
        let plural =
            |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let directories = plural(directories, "directory", "directories");
        if args.directories {
            out.line(format_args!("\n{directories}"))?
        } else {
            out.line(format_args!(
                "\n{directories}, {}",
                plural(files, "file", "files")
            ))?
        }
    }
    Ok(ExitStatus::Success)
}

struct TreeDrawing<'a> {
    view: &'a View,
    args: &'a TreeArgs,
    directories: u64,
    files: u64,
    out: &'a mut Printer,
    /// For JSON.
    entries: Vec<EntryBody>,
}

impl<'a> TreeDrawing<'a> {
    /// Draws the contents of a directory. Trees can be deeper than any stack: the directories on the way to
    /// the current one are in a list.
    fn below(&mut self, path: &TreePath, top: &FoundEntry) -> Result<()> {
        let mut open = vec![self.entries_of(path, top)?];
        // The path of the last of them, and the lines in front of its entries.
        let (mut path, mut lines) = (path.clone(), String::new());
        while let Some(directory) = open.last_mut() {
            let Some(item) = directory.next() else {
                open.pop();
                if let Some((above, _)) = path.split_last().filter(|_| !open.is_empty()) {
                    path = above;
                    lines.truncate(lines.len() - width_of_last(&lines));
                }
                continue;
            };
            let (name, found) = item?;
            let is_last = directory.peek().is_none();
            let (branch, space) = if is_last {
                ("└── ", LAST)
            } else {
                ("├── ", MORE)
            };
            path.push(&name);
            self.draw(&path, &name, &found, &lines, branch)?;
            let is_entered =
                found.entry.is_directory() && self.args.levels.is_none_or(|levels| open.len() < levels);
            if is_entered {
                open.push(self.entries_of(&path, &found)?);
                lines.push_str(space);
            } else {
                path = path.split_last().map(|(above, _)| above).unwrap_or_default()
            }
        }
        Ok(())
    }

    /// The entries of a directory that are drawn.
    fn entries_of(&self, path: &TreePath, directory: &FoundEntry) -> Result<Entries<'a>> {
        let (all, only_directories) = (self.args.all, self.args.directories);
        let shown = self.view.list(path, directory)?.filter(move |item| match item {
            Ok((name, found)) => {
                (all || !name.as_bytes().starts_with(b"."))
                    && (!only_directories || found.entry.is_directory())
            }
            Err(_) => true,
        });
        Ok((Box::new(shown.map(|item| Ok(item?))) as Box<dyn Iterator<Item = _>>).peekable())
    }

    fn draw(
        &mut self,
        path: &TreePath,
        name: &EntryName,
        found: &FoundEntry,
        lines: &str,
        branch: &str,
    ) -> Result<()> {
        if found.entry.is_directory() {
            self.directories += 1
        } else {
            self.files += 1
        }
        if self.out.is_json() {
            self.entries.push(EntryBody::new(path, found));
            return Ok(());
        }
        let name = painted(self.out, found, name.to_string());
        match target(found) {
            Some(target) => self
                .out
                .line(format_args!("{lines}{branch}{name} -> {}", printable(target)))?,
            None => self.out.line(format_args!("{lines}{branch}{name}"))?,
        }
        Ok(())
    }
}

/// How many bytes of the lines belong to the directory that was entered last.
fn width_of_last(lines: &str) -> usize {
    if lines.ends_with(MORE) {
        MORE.len()
    } else {
        LAST.len()
    }
}
