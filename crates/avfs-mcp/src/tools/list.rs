//! `list`: the entries of a directory, and of those below it.

use agentvfs::EntryKind;
use agentvfs::query::walk::{EntryWalk, WalkSelection};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::{Call, find, kind};
use crate::paths::{path_in, show};
use crate::reply::{Reply, shown};
use crate::tool_error::ToolError;

/// The most entries of one answer.
const MOST: usize = 1_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListArgs {
    /// The workspace; without it, the default one.
    workspace: Option<String>,
    /// A directory; without it, the root of the workspace.
    path: Option<String>,
    /// How many levels to show; 1 if not said.
    #[schemars(range(min = 1, max = 64))]
    depth: Option<usize>,
    /// Read on behind this path, which an earlier answer ended with.
    after: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListAnswer {
    workspace: String,
    path: String,
    entries: Vec<ListedEntry>,
    /// What to give as `after` to read on, if something is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedEntry {
    /// From the root of the workspace.
    path: String,
    /// `file`, `directory`, `symlink`, `fifo`, `socket` or `device`.
    kind: String,
    /// Of a file, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// Where a symbolic link leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

pub(crate) fn run(call: &Call<'_>, args: &ListArgs) -> Result<Reply, ToolError> {
    let workspace = call.workspaces.named(args.workspace.as_deref(), call.client)?;
    let path = path_in(&workspace.vault, args.path.as_deref().unwrap_or(""))?;
    let after = args
        .after
        .as_deref()
        .map(|after| path_in(&workspace.vault, after))
        .transpose()?;
    let reader = workspace.vault.reader()?;
    if !find(&reader, &path)?.entry.is_directory() {
        let text = format!("{} is not a directory", show(&path));
        return Err(ToolError::new("not-a-directory", text).help("`read` shows a file"));
    }
    let depth = args.depth.unwrap_or(1).max(1);
    let everything = WalkSelection::everything();
    let mut walk = EntryWalk::new(&reader, &path, &everything)?;
    let mut answer = ListAnswer {
        workspace: workspace.name.clone(),
        path: show(&path),
        entries: Vec::new(),
        next: None,
    };
    let mut is_behind = after.is_none();
    let mut text = String::new();
    while let Some(visit) = walk.next() {
        let visit = visit?;
        if visit.depth >= depth {
            walk.prune();
        }
        if visit.depth == 0 {
            continue;
        }
        if !is_behind {
            is_behind = after.as_ref() == Some(&visit.path);
            continue;
        }
        if answer.entries.len() == MOST {
            answer.next = answer.entries.last().map(|entry| entry.path.clone());
            break;
        }
        let entry = entry(&visit.found.entry.kind, show(&visit.path));
        text.push_str(&line(&entry));
        answer.entries.push(entry);
    }
    if answer.entries.is_empty() {
        text = if is_behind {
            "(nothing)\n".to_owned()
        } else {
            "(nothing behind that path)\n".to_owned()
        };
    }
    let note = answer
        .next
        .as_ref()
        .map(|next| format!("more entries follow; `after: {next:?}` reads on"));
    Reply::new(&answer, text).map(|reply| reply.note_if(note))
}

fn entry(entry_kind: &EntryKind, path: String) -> ListedEntry {
    ListedEntry {
        path,
        kind: kind(entry_kind).to_owned(),
        size: match entry_kind {
            EntryKind::File { size, .. } => Some(*size),
            _ => None,
        },
        target: match entry_kind {
            EntryKind::Symlink { target } => Some(String::from_utf8_lossy(target).into_owned()),
            _ => None,
        },
    }
}

fn line(entry: &ListedEntry) -> String {
    let path = avfs_core::printable(entry.path.as_bytes());
    match (entry.kind.as_str(), &entry.target) {
        ("directory", _) => format!("{path}/\n"),
        ("symlink", Some(target)) => format!("{path} -> {}\n", shown(target)),
        ("file", _) => format!("{path}\t{} bytes\n", entry.size.unwrap_or_default()),
        (kind, _) => format!("{path}\t{kind}\n"),
    }
}
