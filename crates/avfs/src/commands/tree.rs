//! `avfs tree`: directories as a picture.

use std::iter::Peekable;

use agentvfs::{EntryName, Found};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use crate::args::{AtArg, vault_path};
use crate::context::Context;
use crate::entry::{EntryBody, painted, target};
use crate::escape::printable;
use crate::exit::ExitStatus;
use crate::json::PathField;
use crate::printer::Printer;
use crate::rule_args::RuleArgs;
use crate::view::View;

/// Draw a directory and what is below it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs tree -L 2
  avfs tree src --at before-upgrade")]
pub struct TreeArgs {
    #[arg(value_parser = vault_path(), default_value = "/")]
    path: TreePath,

    /// Only this many levels
    #[arg(short = 'L', long = "level", value_name = "N")]
    levels: Option<usize>,

    /// Only directories
    #[arg(short, long)]
    directories: bool,

    /// Also names that begin with a dot
    #[arg(short, long)]
    all: bool,

    #[command(flatten)]
    at: AtArg,

    #[command(flatten)]
    pub rules: RuleArgs,
}

/// In front of what is below the last entry of a directory, and below another one.
const LAST: &str = "    ";
const MORE: &str = "│   ";

type Entries<'a> = Peekable<Box<dyn Iterator<Item = Result<(EntryName, Found)>> + 'a>>;

#[derive(Serialize)]
struct TreeBody {
    #[serde(flatten)]
    path: PathField,
    entries: Vec<EntryBody>,
    directories: u64,
    files: u64,
}

pub fn run(context: &mut Context<'_>, args: &TreeArgs) -> Result<ExitStatus> {
    let view = context.view(&args.at)?;
    let top = view.find(&args.path)?;
    let mut drawing =
        Drawing { view: &view, args, directories: 0, files: 0, out: context.out, entries: Vec::new() };
    if !drawing.out.is_json() {
        drawing.out.line(painted(drawing.out, &top, args.path.to_string()))?;
    }
    drawing.below(&args.path, &top)?;
    let Drawing { directories, files, entries, out, .. } = drawing;
    if out.is_json() {
        out.object("tree", &TreeBody { path: (&args.path).into(), entries, directories, files })?;
    } else {
        let plural =
            |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let directories = plural(directories, "directory", "directories");
        match args.directories {
            true => out.line(format_args!("\n{directories}"))?,
            false => out.line(format_args!("\n{directories}, {}", plural(files, "file", "files")))?,
        }
    }
    Ok(ExitStatus::Success)
}

struct Drawing<'a> {
    view: &'a View,
    args: &'a TreeArgs,
    directories: u64,
    files: u64,
    out: &'a mut Printer,
    /// For JSON.
    entries: Vec<EntryBody>,
}

impl<'a> Drawing<'a> {
    /// Draws what is below a directory. Trees can be deeper than any stack: the directories on the way to the one that
    /// is drawn are in a list.
    fn below(&mut self, path: &TreePath, top: &Found) -> Result<()> {
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
            let (branch, space) = if is_last { ("└── ", LAST) } else { ("├── ", MORE) };
            path.push(&name);
            self.draw(&path, &name, &found, &lines, branch)?;
            let is_entered =
                found.entry.is_directory() && self.args.levels.is_none_or(|levels| open.len() < levels);
            match is_entered {
                true => {
                    open.push(self.entries_of(&path, &found)?);
                    lines.push_str(space);
                }
                false => path = path.split_last().map(|(above, _)| above).unwrap_or_default(),
            }
        }
        Ok(())
    }

    /// The entries of a directory that are drawn.
    fn entries_of(&self, path: &TreePath, directory: &Found) -> Result<Entries<'a>> {
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
        found: &Found,
        lines: &str,
        branch: &str,
    ) -> Result<()> {
        match found.entry.is_directory() {
            true => self.directories += 1,
            false => self.files += 1,
        }
        if self.out.is_json() {
            self.entries.push(EntryBody::new(path, found));
            return Ok(());
        }
        let name = painted(self.out, found, name.to_string());
        match target(found) {
            Some(target) => self.out.line(format_args!("{lines}{branch}{name} -> {}", printable(target)))?,
            None => self.out.line(format_args!("{lines}{branch}{name}"))?,
        }
        Ok(())
    }
}

/// How many bytes of the lines belong to the directory that was entered last.
fn width_of_last(lines: &str) -> usize {
    if lines.ends_with(MORE) { MORE.len() } else { LAST.len() }
}
