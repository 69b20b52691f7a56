//! `avfs tree`: directories as a picture.

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
    drawing.below(&args.path, &top, "", 1)?;
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

impl Drawing<'_> {
    /// Draws what is in a directory, behind the lines of those above. A path is at most 4095 bytes long, and
    /// so the recursion ends long before the stack does.
    fn below(&mut self, path: &TreePath, directory: &Found, lines: &str, level: usize) -> Result<()> {
        let view = self.view;
        let (all, only_directories) = (self.args.all, self.args.directories);
        let shown = view.list(path, directory)?.filter(|item| match item {
            Ok((name, found)) => {
                (all || !name.as_bytes().starts_with(b"."))
                    && (!only_directories || found.entry.is_directory())
            }
            Err(_) => true,
        });
        let mut shown = shown.peekable();
        while let Some(item) = shown.next() {
            let (name, found) = item?;
            let path = path.join(&name);
            let (branch, space) =
                if shown.peek().is_some() { ("├── ", "│   ") } else { ("└── ", "    ") };
            self.draw(&path, &name, &found, &format!("{lines}{branch}"))?;
            if found.entry.is_directory() && self.args.levels.is_none_or(|levels| level < levels) {
                self.below(&path, &found, &format!("{lines}{space}"), level + 1)?;
            }
        }
        Ok(())
    }

    fn draw(&mut self, path: &TreePath, name: &EntryName, found: &Found, lines: &str) -> Result<()> {
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
            Some(target) => self.out.line(format_args!("{lines}{name} -> {}", printable(target)))?,
            None => self.out.line(format_args!("{lines}{name}"))?,
        }
        Ok(())
    }
}
