//! `avfs grep`: lines that match a pattern.

mod output;

use std::ops::ControlFlow;

use agentvfs::query::glob::Globs;
use agentvfs::query::grep::{Case, Grep, GrepError, GrepOptions, GrepSummary, Report};
use agentvfs::query::walk::Selection;
use anyhow::Result;
use avfs_core::TreePath;

use self::output::{Gathered, Lines};
use crate::args::{AtArg, vault_path};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::rule_args::RuleArgs;
use crate::view::View;

/// Find lines that match a regular expression
#[derive(Debug, clap::Args)]
#[command(after_help = "Ends with status 1 if nothing matches. Left out are binary files and those
whose name begins with a dot, unless they are named or view for.

Examples:
  avfs grep -n 'TODO|FIXME'
  avfs grep -il license -g '*.md'
  avfs grep -C 2 'fn main' src --at before-upgrade")]
pub struct GrepArgs {
    pattern: String,

    /// Where to look [default: everywhere]
    #[arg(value_name = "PATH", value_parser = vault_path())]
    paths: Vec<TreePath>,

    /// Capital and small letters are the same
    #[arg(short, long)]
    ignore_case: bool,

    /// With line numbers
    #[arg(short = 'n', long)]
    line_number: bool,

    /// Only the paths of files that match
    #[arg(short = 'l', long, conflicts_with = "count")]
    files_with_matches: bool,

    /// Only the number of matching lines per file
    #[arg(short, long)]
    count: bool,

    /// Lines that do not match
    #[arg(short = 'v', long)]
    invert_match: bool,

    /// Whole words only
    #[arg(short, long)]
    word_regexp: bool,

    /// The pattern is plain text
    #[arg(short = 'F', long)]
    fixed_strings: bool,

    /// Lines of context on both sides
    #[arg(short = 'C', long, value_name = "N")]
    context: Option<usize>,

    /// Lines of context after
    #[arg(short = 'A', long, value_name = "N")]
    after_context: Option<usize>,

    /// Lines of context before
    #[arg(short = 'B', long, value_name = "N")]
    before_context: Option<usize>,

    /// Only paths that match; '!' before it leaves them out; can be repeated
    #[arg(short, long, value_name = "GLOB")]
    glob: Vec<String>,

    /// Also files and directories whose name begins with a dot
    #[arg(short = '.', long)]
    hidden: bool,

    /// Search binary files as if they were text
    #[arg(short = 'a', long)]
    text: bool,

    #[command(flatten)]
    at: AtArg,

    #[command(flatten)]
    pub rules: RuleArgs,
}

pub fn run(context: &mut Context<'_>, args: &GrepArgs) -> Result<ExitStatus> {
    let grep = Grep::new(options(args)?).map_err(bad_pattern)?;
    let view = context.view(&args.at)?;
    let starts = match args.paths.as_slice() {
        [] => vec![TreePath::root()],
        paths => paths.to_vec(),
    };
    let summary = match context.out.is_json() {
        true => gather(context, &grep, &view, &starts)?,
        false => show(context, args, &grep, &view, &starts)?,
    };
    match summary {
        GrepSummary { files_failed: 1.., .. } => Ok(ExitStatus::Corrupt),
        GrepSummary { files_matched: 0, .. } => Ok(ExitStatus::No),
        _ => Ok(ExitStatus::Success),
    }
}

fn options(args: &GrepArgs) -> Result<GrepOptions, Failure> {
    let globs =
        Globs::parse(&args.glob).map_err(|error| Failure::new("bad-pattern", ExitStatus::BadInput, error))?;
    let context = args.context.unwrap_or(0);
    Ok(GrepOptions {
        patterns: vec![args.pattern.clone()],
        case: if args.ignore_case { Case::Insensitive } else { Case::Sensitive },
        fixed: args.fixed_strings,
        word: args.word_regexp,
        invert: args.invert_match,
        report: match (args.files_with_matches, args.count) {
            (true, _) => Report::Name,
            (false, true) => Report::Count,
            (false, false) => Report::Lines,
        },
        before: args.before_context.unwrap_or(context),
        after: args.after_context.unwrap_or(context),
        binary_as_text: args.text,
        selection: Selection { globs, hidden: args.hidden },
        ..GrepOptions::default()
    })
}

/// The engine draws a picture of the mistake in several lines; the last one says what it is.
fn bad_pattern(error: GrepError) -> Failure {
    let text = error.to_string();
    let message = match text.split_once('\n') {
        Some((first, rest)) => {
            let reason = rest.lines().last().unwrap_or_default();
            format!("{} {}", first.trim(), reason.trim().trim_start_matches("error: "))
        }
        None => text,
    };
    Failure::new("bad-pattern", ExitStatus::BadInput, crate::escape::printable_line(message.as_bytes()))
        .hint(Some("-F takes the pattern as plain text".to_owned()))
}

fn show(
    context: &mut Context<'_>,
    args: &GrepArgs,
    grep: &Grep,
    view: &View,
    starts: &[TreePath],
) -> Result<GrepSummary> {
    let mut lines =
        Lines { out: context.out, with_path: !is_one_file(view, starts), with_number: args.line_number };
    let mut failed = None;
    let summary = grep.run(&view.reader, starts, &mut |event| match lines.print(event) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    summary.map_err(|error| fail(view, error))
}

fn gather(context: &mut Context<'_>, grep: &Grep, view: &View, starts: &[TreePath]) -> Result<GrepSummary> {
    let mut gathered = Gathered::default();
    let summary = grep.run(&view.reader, starts, &mut |event| {
        gathered.take(event);
        ControlFlow::Continue(())
    });
    let summary = summary.map_err(|error| fail(view, error))?;
    context.out.object("grep", &gathered.body(&summary))?;
    Ok(summary)
}

fn fail(view: &View, error: GrepError) -> anyhow::Error {
    match error {
        GrepError::Read(source) => view.fail(source).into(),
        error @ (GrepError::NoPattern | GrepError::BadPattern { .. }) => bad_pattern(error).into(),
    }
}

/// Who asks for one file knows its name.
fn is_one_file(view: &View, starts: &[TreePath]) -> bool {
    match starts {
        [only] => view.reader.find(only).is_ok_and(|found| !found.entry.is_directory()),
        _ => false,
    }
}
