//! `avfs ls`: the entries of a directory.

use agentvfs::{EntryName, FoundEntry};
use anyhow::Result;
use avfs_core::TreePath;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::args::{AtArg, PathArg, path_arg};
use crate::context::Context;
use crate::entry::{EntryBody, letters, names, painted, target};
use crate::escape::printable;
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::rule_args::RuleArgs;
use crate::time::show_local;
use crate::view::View;

/// List files
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs ls -l src
  avfs ls -R --at before-upgrade")]
pub struct LsArgs {
    /// The file or directory to list [default: the root]
    #[arg(value_name = "PATH", value_parser = path_arg())]
    paths: Vec<PathArg>,

    /// Use the long format: mode, links, owner, size, time, name
    #[arg(short, long)]
    long: bool,

    /// Include names that begin with a dot
    #[arg(short, long)]
    all: bool,

    /// Include everything below directories
    #[arg(short = 'R', long)]
    recursive: bool,

    #[command(flatten)]
    at: AtArg,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct LsBody {
    entries: Vec<EntryBody>,
}

/// An entry to print: its displayed name, and the entry.
type Row = (String, FoundEntry);

pub fn run(context: &mut Context<'_>, args: &LsArgs) -> Result<ExitStatus> {
    let paths = context.paths(&args.paths)?;
    let view = context.view(&args.at)?;
    let root = [TreePath::root()];
    let paths = if paths.is_empty() { &root[..] } else { &paths };
    let find = |path: &TreePath| Ok((path.clone(), view.find(path)?));
    let found = paths.iter().map(find).collect::<Result<Vec<_>>>()?;
    let listing = DirectoryListing {
        view: &view,
        args,
        has_headings: args.recursive || paths.len() > 1,
    };
    if context.out.is_json() {
        context.out.object(
            "ls",
            &LsBody {
                entries: listing.bodies(found)?,
            },
        )?
    } else {
        listing.print(context.out, found)?
    }
    Ok(ExitStatus::Success)
}

struct DirectoryListing<'a> {
    view: &'a View,
    args: &'a LsArgs,
    has_headings: bool,
}

impl DirectoryListing<'_> {
    /// Passes each entry of a directory to `take`, and returns the directories to list next.
    fn visit(
        &self,
        path: &TreePath,
        directory: &FoundEntry,
        mut take: impl FnMut(&EntryName, &TreePath, FoundEntry) -> Result<()>,
    ) -> Result<Vec<(TreePath, FoundEntry)>> {
        let mut next = Vec::new();
        for item in self.view.list(path, directory)? {
            let (name, found) = item?;
            if !self.args.all && name.as_bytes().starts_with(b".") {
                continue;
            }
            let path = path.join(&name);
            if self.args.recursive && found.entry.is_directory() {
                next.push((path.clone(), found.clone()));
            }
            take(&name, &path, found)?;
        }
        // The next one is taken from the end.
        next.reverse();
        Ok(next)
    }

    fn bodies(&self, found: Vec<(TreePath, FoundEntry)>) -> Result<Vec<EntryBody>> {
        let mut entries = Vec::new();
        let mut waiting: Vec<_> = found.into_iter().rev().collect();
        while let Some((path, found)) = waiting.pop() {
            if !found.entry.is_directory() {
                entries.push(EntryBody::new(&path, &found));
                continue;
            }
            waiting.extend(self.visit(&path, &found, |_, path, found| {
                entries.push(EntryBody::new(path, &found));
                Ok(())
            })?);
        }
        Ok(entries)
    }

    /// Files that were named come first, then each directory.
    fn print(&self, out: &mut Printer, found: Vec<(TreePath, FoundEntry)>) -> Result<()> {
        let (mut waiting, files): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|(_, found)| found.entry.is_directory());
        let mut is_first = files.is_empty();
        self.print_rows(
            out,
            files
                .into_iter()
                .map(|(path, found)| (path.to_string(), found))
                .collect(),
        )?;
        waiting.reverse();
        while let Some((path, found)) = waiting.pop() {
            if self.has_headings {
                let gap = if std::mem::take(&mut is_first) { "" } else { "\n" };
                out.line(format_args!("{gap}{path}:"))?;
            }
            waiting.extend(self.print_directory(out, &path, &found)?);
        }
        Ok(())
    }

    fn print_directory(
        &self,
        out: &mut Printer,
        path: &TreePath,
        directory: &FoundEntry,
    ) -> Result<Vec<(TreePath, FoundEntry)>> {
        // Columns can be set when all rows are known; without them nothing has to be kept.
        let mut rows = Vec::new();
        let next = self.visit(path, directory, |name, _, found| {
            if self.args.long {
                rows.push((name.to_string(), found))
            } else {
                out.line(painted(out, &found, name.to_string()))?
            }
            Ok(())
        })?;
        self.print_rows(out, rows)?;
        Ok(next)
    }

    fn print_rows(&self, out: &mut Printer, rows: Vec<Row>) -> Result<()> {
        if self.args.long {
            return print_long(out, rows);
        }
        for (name, found) in rows {
            out.line(painted(out, &found, name))?;
        }
        Ok(())
    }
}

fn print_long(out: &mut Printer, rows: Vec<Row>) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let zone = TimeZone::system();
    let columns = |found: &FoundEntry| {
        let meta = &found.entry.meta;
        [
            names(found).to_string(),
            meta.uid.to_string(),
            meta.gid.to_string(),
            found.entry.size().to_string(),
        ]
    };
    let mut widths = [0; 4];
    for (_, found) in &rows {
        for (width, text) in widths.iter_mut().zip(columns(found)) {
            *width = text.len().max(*width);
        }
    }
    let [w0, w1, w2, w3] = widths;
    for (name, found) in rows {
        let [names, uid, gid, size] = columns(&found);
        let mode = letters(&found);
        let time = show_local(found.entry.meta.mtime, &zone);
        let arrow = target(&found)
            .map(|target| format!(" -> {}", printable(target)))
            .unwrap_or_default();
        let name = painted(out, &found, name);
        out.line(format_args!(
            "{mode} {names:>w0$} {uid:>w1$} {gid:>w2$} {size:>w3$} {time} {name}{arrow}"
        ))?;
    }
    Ok(())
}
