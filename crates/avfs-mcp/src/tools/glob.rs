//! `glob`: the files whose paths match a pattern.

use agentvfs::query::glob::{GlobList, GlobVerdict};
use agentvfs::query::walk::{EntryWalk, WalkSelection};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::grep::LeftOut;
use super::{Call, check_patterns, find};
use crate::paths::{path_in, show};
use crate::reply::Reply;
use crate::tool_error::ToolError;

/// The most paths of one answer.
const MOST: usize = 1_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GlobArgs {
    /// The workspace; without it, the default one.
    workspace: Option<String>,
    /// Such as `*.rs` for that name in any directory, or `src/**/*.rs`; a leading `!` leaves out what matches.
    patterns: Vec<String>,
    /// Look only below this directory.
    path: Option<String>,
    /// Also look into files and directories that git ignores, or that build tools make.
    #[serde(default)]
    ignored: bool,
    /// Read on behind this path, which an earlier answer ended with.
    after: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GlobAnswer {
    workspace: String,
    /// From the root of the workspace, in the order of their names.
    paths: Vec<String>,
    /// What to give as `after` to read on, if something is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// Ignored files and directories that were met and left out.
    left_out: u64,
}

pub(crate) fn run(call: &Call<'_>, args: &GlobArgs) -> Result<Reply, ToolError> {
    if args.patterns.is_empty() {
        return Err(ToolError::argument("there is no pattern").help("patterns such as [\"src/**/*.rs\"]"));
    }
    check_patterns(&args.patterns)?;
    let workspace = call.workspaces.named(args.workspace.as_deref(), call.client)?;
    let path = path_in(&workspace.vault, args.path.as_deref().unwrap_or(""))?;
    let after = args
        .after
        .as_deref()
        .map(|after| path_in(&workspace.vault, after))
        .transpose()?;
    let globs = GlobList::parse(&args.patterns).map_err(|error| ToolError::argument(error.to_string()))?;
    let reader = workspace.vault.reader()?;
    find(&reader, &path)?;
    let mut left_out = LeftOut::new(&workspace, &reader, args.ignored, std::slice::from_ref(&path))?;
    let selection = WalkSelection {
        globs: globs.clone(),
        hidden: true,
    };
    let mut walk = EntryWalk::new(&reader, &path, &selection)?;
    let mut answer = GlobAnswer {
        workspace: workspace.name.clone(),
        paths: Vec::new(),
        next: None,
        left_out: 0,
    };
    let mut is_behind = after.is_none();
    while let Some(visit) = walk.next() {
        let visit = visit?;
        let is_directory = visit.found.entry.is_directory();
        if visit.depth > 0 && left_out.takes(&visit.path, is_directory)? {
            walk.prune();
            continue;
        }
        if is_directory || globs.verdict(&visit.path, false) == GlobVerdict::Unwanted {
            continue;
        }
        if !is_behind {
            is_behind = after.as_ref() == Some(&visit.path);
            continue;
        }
        if answer.paths.len() == MOST {
            answer.next = answer.paths.last().cloned();
            break;
        }
        answer.paths.push(show(&visit.path));
    }
    answer.left_out = left_out.count();
    let lines: Vec<String> = answer
        .paths
        .iter()
        .map(|path| avfs_core::printable(path.as_bytes()))
        .collect();
    let text = if lines.is_empty() {
        "(no file matches)".to_owned()
    } else {
        lines.join("\n")
    };
    let note = answer
        .next
        .as_ref()
        .map(|next| format!("more files match; `after: {next:?}` reads on"));
    Reply::new(&answer, text).map(|reply| reply.note_if(note).note_if(left_out.note()))
}
