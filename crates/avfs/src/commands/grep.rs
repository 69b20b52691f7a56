//! `avfs grep`: lines that match a pattern.

mod output;

use std::ops::ControlFlow;

use agentvfs::query::glob::GlobList;
use agentvfs::query::grep::{CaseMode, Grep, GrepError, GrepOptions, GrepReport, GrepSummary};
use agentvfs::query::walk::WalkSelection;
use anyhow::Result;
use avfs_core::TreePath;

use self::output::{GatheredLines, LinePrinter};
use crate::args::{AtArg, PathArg, path_arg};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::ignored::IgnoredArgs;
use crate::left_out::IgnoredTally;
use crate::rule_args::RuleArgs;
use crate::view::View;

/// Find lines that match a regular expression
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exits with status 1 if nothing matches. Binary files and files whose names begin
with a dot are skipped unless you name them or ask for them; in a task, so are files
that git ignores and build output (`--ignored` includes them).

Examples:
  avfs grep -n 'TODO|FIXME'
  avfs grep -il license -g '*.md'
  avfs grep -C 2 'fn main' src --at before-upgrade"
)]
pub struct GrepArgs {
    /// The regular expression
    pattern: String,

    /// Search below these paths [default: everywhere]
    #[arg(value_name = "PATH", value_parser = path_arg())]
    paths: Vec<PathArg>,

    /// Ignore case
    #[arg(short, long)]
    ignore_case: bool,

    /// Show line numbers
    #[arg(short = 'n', long)]
    line_number: bool,

    /// Show only the paths of files that match
    #[arg(short = 'l', long, conflicts_with = "count")]
    files_with_matches: bool,

    /// Show only the number of matching lines per file
    #[arg(short, long)]
    count: bool,

    /// Show lines that do not match
    #[arg(short = 'v', long)]
    invert_match: bool,

    /// Match whole words only
    #[arg(short, long)]
    word_regexp: bool,

    /// Treat the pattern as plain text
    #[arg(short = 'F', long)]
    fixed_strings: bool,

    /// Show N lines of context on both sides
    #[arg(short = 'C', long, value_name = "N")]
    context: Option<usize>,

    /// Show N lines of context after each match
    #[arg(short = 'A', long, value_name = "N")]
    after_context: Option<usize>,

    /// Show N lines of context before each match
    #[arg(short = 'B', long, value_name = "N")]
    before_context: Option<usize>,

    /// Search only paths that match; a leading '!' excludes them; can be repeated
    #[arg(short, long, value_name = "GLOB")]
    glob: Vec<String>,

    /// Include files and directories whose names begin with a dot
    #[arg(short = '.', long)]
    hidden: bool,

    #[command(flatten)]
    ignored: IgnoredArgs,

    /// Search binary files as if they were text
    #[arg(short = 'a', long)]
    text: bool,

    #[command(flatten)]
    at: AtArg,

    #[command(flatten)]
    pub rules: RuleArgs,
}

/// Minified files have lines of megabytes.
const MOST_ON_TERMINAL: usize = 1000;

pub fn run(context: &mut Context<'_>, args: &GrepArgs) -> Result<ExitStatus> {
    let paths = context.paths(&args.paths)?;
    let grep = Grep::new(options(args)?).map_err(bad_pattern)?;
    let view = context.view(&args.at)?;
    let starts = match paths.as_slice() {
        [] => vec![TreePath::root()],
        paths => paths.to_vec(),
    };
    let mut left_out = IgnoredTally::new(context, args.ignored, &view, &starts)?;
    let summary = if context.out.is_json() {
        gather(context, &grep, &view, &starts, &mut left_out)?
    } else {
        show(context, args, &grep, &view, &starts, &mut left_out)?
    };
    match summary {
        GrepSummary {
            files_failed: 1.., ..
        } => Ok(ExitStatus::Corrupt),
        GrepSummary { files_matched: 0, .. } => Ok(ExitStatus::No),
        _ => Ok(ExitStatus::Success),
    }
}

fn options(args: &GrepArgs) -> Result<GrepOptions, Failure> {
    let globs = GlobList::parse(&args.glob)
        .map_err(|error| Failure::new("bad-pattern", ExitStatus::BadInput, error))?;
    let context = args.context.unwrap_or(0);
    Ok(GrepOptions {
        patterns: vec![args.pattern.clone()],
        case: if args.ignore_case {
            CaseMode::Insensitive
        } else {
            CaseMode::Sensitive
        },
        fixed: args.fixed_strings,
        word: args.word_regexp,
        invert: args.invert_match,
        report: match (args.files_with_matches, args.count) {
            (true, _) => GrepReport::Name,
            (false, true) => GrepReport::Count,
            (false, false) => GrepReport::Lines,
        },
        before: args.before_context.unwrap_or(context),
        after: args.after_context.unwrap_or(context),
        binary_as_text: args.text,
        selection: WalkSelection {
            globs,
            hidden: args.hidden,
        },
        ..GrepOptions::default()
    })
}

/// The engine displays the error in several lines; the last one describes it.
fn bad_pattern(error: GrepError) -> Failure {
    let text = error.to_string();
    let message = match text.split_once('\n') {
        Some((first, rest)) => {
            let reason = rest.lines().last().unwrap_or_default();
            format!("{} {}", first.trim(), reason.trim().trim_start_matches("error: "))
        }
        None => text,
    };
    Failure::new(
        "bad-pattern",
        ExitStatus::BadInput,
        crate::escape::printable_line(message.as_bytes()),
    )
    .hint(Some("-F takes the pattern as plain text".to_owned()))
}

fn show(
    context: &mut Context<'_>,
    args: &GrepArgs,
    grep: &Grep,
    view: &View,
    starts: &[TreePath],
    left_out: &mut IgnoredTally,
) -> Result<GrepSummary> {
    let mut lines = LinePrinter {
        most: context.out.is_terminal().then_some(MOST_ON_TERMINAL),
        out: context.out,
        with_path: !is_one_file(view, starts),
        with_number: args.line_number,
    };
    let mut failed = None;
    let mut is_left_out = |path: &TreePath, is_directory| left_out.takes(path, is_directory);
    let summary = grep.run_without(&view.reader, starts, &mut is_left_out, &mut |event| match lines
        .print(event)
    {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    let summary = summary.map_err(|error| fail(view, error))?;
    left_out.tell(context.out);
    Ok(summary)
}

fn gather(
    context: &mut Context<'_>,
    grep: &Grep,
    view: &View,
    starts: &[TreePath],
    left_out: &mut IgnoredTally,
) -> Result<GrepSummary> {
    let mut gathered = GatheredLines::default();
    let mut is_left_out = |path: &TreePath, is_directory| left_out.takes(path, is_directory);
    let summary = grep.run_without(&view.reader, starts, &mut is_left_out, &mut |event| {
        gathered.take(event);
        ControlFlow::Continue(())
    });
    let summary = summary.map_err(|error| fail(view, error))?;
    context
        .out
        .object("grep", &gathered.body(&summary, left_out.places()))?;
    Ok(summary)
}

fn fail(view: &View, error: GrepError) -> anyhow::Error {
    match error {
        GrepError::Read(source) => view.fail(source).into(),
        error @ (GrepError::NoPattern | GrepError::BadPattern { .. }) => bad_pattern(error).into(),
    }
}

/// If a single file is searched, its name is not printed.
fn is_one_file(view: &View, starts: &[TreePath]) -> bool {
    match starts {
        [only] => view
            .reader
            .find(only)
            .is_ok_and(|found| !found.entry.is_directory()),
        _ => false,
    }
}
