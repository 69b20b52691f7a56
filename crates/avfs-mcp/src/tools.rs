//! The tools that answer at once, one module each: its arguments, its answer, and what it does. `exec`, which takes time,
//! is in [`crate::command`].

pub(crate) mod changes;
pub(crate) mod checkpoint;
pub(crate) mod delete;
pub(crate) mod edit;
pub(crate) mod fork;
pub(crate) mod glob;
pub(crate) mod grep;
pub(crate) mod list;
pub(crate) mod move_path;
pub(crate) mod read;
pub(crate) mod restore;
pub(crate) mod status;
pub(crate) mod write;

use agentvfs::{EntryKind, OpenVault, Saved, SnapshotId, TreePath, TreeReader, Vault, Version};
use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;

use crate::catalogue::ToolName;
use crate::reply::Reply;
use crate::tool_error::ToolError;
use crate::workspaces::Workspaces;

/// What a tool call is about besides its arguments.
pub(crate) struct Call<'a> {
    pub workspaces: &'a Workspaces,
    /// The name that the client gives itself.
    pub client: &'a str,
}

/// Runs a tool to its end, on a thread that may wait.
pub(crate) fn run(tool: ToolName, call: &Call<'_>, arguments: JsonObject) -> Result<Reply, ToolError> {
    match tool {
        ToolName::Read => read::run(call, &parse(arguments)?),
        ToolName::List => list::run(call, &parse(arguments)?),
        ToolName::Glob => glob::run(call, &parse(arguments)?),
        ToolName::Grep => grep::run(call, &parse(arguments)?),
        ToolName::Write => write::run(call, &parse(arguments)?),
        ToolName::Edit => edit::run(call, &parse(arguments)?),
        ToolName::Move => move_path::run(call, &parse(arguments)?),
        ToolName::Delete => delete::run(call, &parse(arguments)?),
        ToolName::Exec => Err(ToolError::new("internal", "exec is answered elsewhere")),
        ToolName::Changes => changes::run(call, &parse(arguments)?),
        ToolName::Checkpoint => checkpoint::run(call, &parse(arguments)?),
        ToolName::Restore => restore::run(call, &parse(arguments)?),
        ToolName::Fork => fork::run(call, &parse(arguments)?),
        ToolName::Status => status::run(call, &parse(arguments)?),
    }
}

/// The arguments of a tool. What is wrong with them is told as data that the agent can correct.
pub(crate) fn parse<A: DeserializeOwned>(arguments: JsonObject) -> Result<A, ToolError> {
    serde_json::from_value(serde_json::Value::Object(arguments)).map_err(|error| {
        ToolError::argument(error.to_string()).help("the input schema of the tool lists its arguments")
    })
}

/// The longest pattern, and the most of them: a search takes time with both.
const PATTERN_MAX: usize = 10_000;
const PATTERNS_MAX: usize = 200;

/// Refuses what is longer than anybody writes.
fn check_patterns<'a>(patterns: impl IntoIterator<Item = &'a String>) -> Result<(), ToolError> {
    for (count, pattern) in patterns.into_iter().enumerate() {
        if pattern.len() > PATTERN_MAX || count == PATTERNS_MAX {
            let text = format!("at most {PATTERNS_MAX} patterns of {PATTERN_MAX} bytes each are looked for");
            return Err(ToolError::argument(text).help("search in several steps"));
        }
    }
    Ok(())
}

/// Changes a workspace in one snapshot, or not at all.
fn change<T>(
    vault: &Vault,
    action: &str,
    path: &TreePath,
    edit: impl FnMut(&OpenVault) -> Result<T, ToolError>,
) -> Result<(T, SnapshotId), ToolError> {
    let (value, saved) = vault.change(action, &path.to_string(), edit)?;
    Ok((value, snapshot_of(vault, saved.as_ref())?))
}

/// The state that holds a change.
fn snapshot_of(vault: &Vault, saved: Option<&Saved>) -> Result<SnapshotId, ToolError> {
    match saved {
        Some(saved) => Ok(saved.snapshot),
        None => Ok(vault.head()?),
    }
}

/// The version of a file in a state.
fn version_at(vault: &Vault, snapshot: SnapshotId, path: &TreePath) -> Result<String, ToolError> {
    let reader = vault.reader_at(snapshot)?;
    let version = Version::of_file(&reader, path)?;
    Ok(version.to_string())
}

/// What an entry is, in one word.
fn kind(kind: &EntryKind) -> &'static str {
    match kind {
        EntryKind::File { .. } => "file",
        EntryKind::Directory { .. } => "directory",
        EntryKind::Symlink { .. } => "symlink",
        EntryKind::Fifo => "fifo",
        EntryKind::Socket => "socket",
        EntryKind::CharDevice { .. } | EntryKind::BlockDevice { .. } => "device",
    }
}

/// What is at a path. Symbolic links on the way are not followed: the agent is told of them.
fn find(reader: &TreeReader, path: &TreePath) -> Result<agentvfs::FoundEntry, ToolError> {
    reader
        .find(path)
        .map_err(|error| through_link(reader, path).unwrap_or_else(|| read_failed(error)))
}

fn read_failed(error: agentvfs::ReadError) -> ToolError {
    let is_missing = matches!(error, agentvfs::ReadError::NotFound { .. });
    let error = ToolError::from(error);
    if is_missing {
        error.help("`list` and `glob` show what is there")
    } else {
        error
    }
}

/// If a link stands on the way to a path, says where it leads.
fn through_link(reader: &TreeReader, path: &TreePath) -> Option<ToolError> {
    let mut at = TreePath::root();
    for name in path.components() {
        at.push(&name);
        let found = reader.find(&at).ok()?;
        if let EntryKind::Symlink { target } = &found.entry.kind {
            let target = avfs_core::printable(target);
            let text = format!("{at} is a symbolic link to {target}");
            return Some(ToolError::new("not-a-directory", text).help("name the place that it leads to"));
        }
    }
    None
}
