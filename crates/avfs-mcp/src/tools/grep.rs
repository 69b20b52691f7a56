//! `grep`: lines that match a regular expression.

use std::collections::HashSet;
use std::ops::ControlFlow;

use agentvfs::query::glob::GlobList;
use agentvfs::query::grep::{CaseMode, Grep, GrepError, GrepEvent, GrepOptions, GrepReport, LineKind};
use agentvfs::query::walk::WalkSelection;
use agentvfs::{Ignored, ReadError, Task, TreePath, TreeReader};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::{Call, check_patterns, find};
use crate::paths::{path_in, show};
use crate::reply::{Reply, TEXT_MAX, beginning, shown};
use crate::tool_error::ToolError;
use crate::workspaces::Workspace;

/// How many lines are shown if the agent does not say, and at most.
const LINES: usize = 200;
const LINES_MAX: usize = 2_000;
/// How much of a line is shown.
const LINE_MAX: usize = 500;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrepArgs {
    /// The workspace; without it, the default one.
    workspace: Option<String>,
    /// A regular expression, as ripgrep reads it.
    pattern: String,
    /// Search at and below these paths; without them, everywhere.
    #[serde(default)]
    paths: Vec<String>,
    /// Search only files that match, such as `*.rs`; a leading `!` leaves out.
    #[serde(default)]
    globs: Vec<String>,
    /// The pattern is plain text.
    #[serde(default)]
    fixed: bool,
    #[serde(default)]
    ignore_case: bool,
    /// Show this many lines before and after each match.
    #[serde(default)]
    #[schemars(range(max = 100))]
    context: usize,
    /// Show only the paths of the files that match.
    #[serde(default)]
    files_only: bool,
    /// Also search files that git ignores, or that build tools make.
    #[serde(default)]
    ignored: bool,
    /// How many lines, or paths, to show; 200 if not said.
    #[schemars(range(min = 1, max = 2000))]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GrepAnswer {
    workspace: String,
    lines: Vec<FoundLine>,
    /// The files that match, if only these were asked for.
    files: Vec<String>,
    files_matched: u64,
    lines_matched: u64,
    /// More matches than are shown.
    cut: bool,
    /// Ignored files and directories that were met and not searched.
    left_out: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FoundLine {
    path: String,
    /// From 1 on.
    line: u64,
    text: String,
    /// It matches; otherwise it stands beside a line that does.
    is_match: bool,
}

pub(crate) fn run(call: &Call<'_>, args: &GrepArgs) -> Result<Reply, ToolError> {
    check_patterns([&args.pattern].into_iter().chain(&args.globs))?;
    let workspace = call.workspaces.named(args.workspace.as_deref(), call.client)?;
    let starts = match args.paths.as_slice() {
        [] => vec![TreePath::root()],
        paths => paths
            .iter()
            .map(|path| path_in(&workspace.vault, path))
            .collect::<Result<_, _>>()?,
    };
    let grep = Grep::new(options(args)?).map_err(bad_pattern)?;
    let reader = workspace.vault.reader()?;
    for start in &starts {
        // A path that does not exist is an error of the call, and not a search without results.
        find(&reader, start)?;
    }
    let mut left_out = LeftOut::new(&workspace, &reader, args.ignored, &starts)?;
    let mut found = Gathered {
        limit: args.limit.unwrap_or(LINES).clamp(1, LINES_MAX),
        ..Gathered::default()
    };
    let searched = grep.run_without(
        &reader,
        &starts,
        &mut |path, is_directory| left_out.takes(path, is_directory),
        &mut |event| found.take(event),
    );
    let summary = searched.map_err(bad_pattern)?;
    let answer = GrepAnswer {
        workspace: workspace.name.clone(),
        files_matched: summary.files_matched,
        lines_matched: summary.lines_matched,
        cut: found.is_cut,
        left_out: left_out.count(),
        lines: found.lines,
        files: found.files,
    };
    let note = answer.cut.then(|| {
        "more lines match; narrow the search with `paths` or `globs`, or ask for more with `limit`".to_owned()
    });
    Reply::new(&answer, text(&answer)).map(|reply| {
        let binary =
            (found.binary > 0).then(|| format!("{} binary file(s) match and are not shown", found.binary));
        reply.note_if(note).note_if(binary).note_if(left_out.note())
    })
}

fn options(args: &GrepArgs) -> Result<GrepOptions, ToolError> {
    let globs = GlobList::parse(&args.globs).map_err(|error| ToolError::argument(error.to_string()))?;
    // The schema says so, and nobody has to follow it.
    let context = args.context.min(100);
    Ok(GrepOptions {
        patterns: vec![args.pattern.clone()],
        case: if args.ignore_case {
            CaseMode::Insensitive
        } else {
            CaseMode::Sensitive
        },
        fixed: args.fixed,
        report: if args.files_only {
            GrepReport::Name
        } else {
            GrepReport::Lines
        },
        before: context,
        after: context,
        selection: WalkSelection { globs, hidden: true },
        ..GrepOptions::default()
    })
}

fn bad_pattern(error: GrepError) -> ToolError {
    match error {
        GrepError::Read(source) => ToolError::from(source),
        error @ (GrepError::NoPattern | GrepError::BadPattern { .. }) => {
            ToolError::argument(error.to_string()).help("`fixed: true` takes the pattern as plain text")
        }
    }
}

#[derive(Default)]
struct Gathered {
    limit: usize,
    bytes: usize,
    lines: Vec<FoundLine>,
    files: Vec<String>,
    binary: u64,
    is_cut: bool,
}

impl Gathered {
    fn take(&mut self, event: GrepEvent) -> ControlFlow<()> {
        // Looked at before the next is taken: what fills the answer to the last line is not cut.
        let is_full = self.lines.len() + self.files.len() >= self.limit || self.bytes >= TEXT_MAX;
        match event {
            GrepEvent::Line(_) | GrepEvent::Name(_) if is_full => {
                self.is_cut = true;
                return ControlFlow::Break(());
            }
            GrepEvent::Line(line) => {
                let text = String::from_utf8_lossy(&line.bytes).into_owned();
                let text = beginning(&text, LINE_MAX).to_owned();
                self.bytes += text.len();
                self.lines.push(FoundLine {
                    path: show(&line.path),
                    line: line.number,
                    text,
                    is_match: line.kind == LineKind::Match,
                });
            }
            GrepEvent::Name(path) => self.files.push(show(&path)),
            GrepEvent::Binary { .. } => self.binary += 1,
            GrepEvent::Gap | GrepEvent::Count { .. } | GrepEvent::Failed { .. } => {}
        }
        ControlFlow::Continue(())
    }
}

fn text(answer: &GrepAnswer) -> String {
    if answer.lines.is_empty() && answer.files.is_empty() {
        return "(nothing matches)".to_owned();
    }
    let mut text = String::new();
    for path in &answer.files {
        text.push_str(&format!("{}\n", avfs_core::printable(path.as_bytes())));
    }
    for line in &answer.lines {
        let sign = if line.is_match { ':' } else { '-' };
        let path = avfs_core::printable(line.path.as_bytes());
        text.push_str(&format!("{path}{sign}{}{sign}{}\n", line.line, shown(&line.text)));
    }
    text
}

/// Whether a path is in what git keeps for itself. Nobody who searches a project means that.
fn is_repository(path: &TreePath) -> bool {
    path.names().any(|name| name == b".git")
}

/// In a task, the files that are not among its changes are not searched either.
pub(super) struct LeftOut {
    /// `None`: everything is searched.
    ignored: Option<Ignored>,
    with_ignored: bool,
    named: HashSet<TreePath>,
    met: Vec<TreePath>,
}

impl LeftOut {
    pub fn new(
        workspace: &Workspace,
        reader: &TreeReader,
        with_ignored: bool,
        starts: &[TreePath],
    ) -> Result<LeftOut, ToolError> {
        let task = if with_ignored {
            None
        } else {
            Task::of_vault(&workspace.whole)?
        };
        let ignored = match task {
            // The whole vault's own view of what is ignored: hidden settings of git count, too.
            Some(task) => Some(Ignored::new(
                workspace.whole.reader_at(task.base()?)?,
                reader.clone(),
            )),
            None => None,
        };
        Ok(LeftOut {
            ignored,
            with_ignored,
            named: starts.iter().cloned().collect(),
            met: Vec::new(),
        })
    }

    pub fn takes(&mut self, path: &TreePath, is_directory: bool) -> Result<bool, ReadError> {
        if !self.with_ignored && is_repository(path) && !self.named.iter().any(is_repository) {
            return Ok(true);
        }
        let Some(ignored) = &mut self.ignored else {
            return Ok(false);
        };
        let is_left_out = ignored.left_out(path, is_directory, &self.named)?.is_some();
        if is_left_out {
            self.met.push(path.clone());
        }
        Ok(is_left_out)
    }

    pub fn count(&self) -> u64 {
        self.met.len() as u64
    }

    pub fn note(&self) -> Option<String> {
        let first = self.met.first()?;
        let more = match self.met.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let first = avfs_core::printable(show(first).as_bytes());
        Some(format!(
            "ignored and not searched: {first}{more}; `ignored: true` searches them too"
        ))
    }
}
