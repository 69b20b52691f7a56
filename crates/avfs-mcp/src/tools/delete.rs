//! `delete`: a file, or a directory with everything in it.

use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::{Call, change};
use crate::paths::{path_in, show};
use crate::reply::Reply;
use crate::tool_error::ToolError;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteArgs {
    /// The workspace; without it, the default one.
    workspace: Option<String>,
    path: String,
    /// Delete a directory with everything in it.
    #[serde(default)]
    recursive: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeleteAnswer {
    workspace: String,
    path: String,
    /// The state of the workspace that holds the change.
    snapshot: String,
}

pub(crate) fn run(call: &Call<'_>, args: &DeleteArgs) -> Result<Reply, ToolError> {
    let workspace = call.workspaces.named(args.workspace.as_deref(), call.client)?;
    let path = path_in(&workspace.vault, &args.path)?;
    if path.is_root() {
        return Err(ToolError::argument("the root of a workspace cannot be deleted")
            .help("name the files and directories that are to go"));
    }
    let ((), snapshot) = change(&workspace.vault, "delete", &path, |open| {
        Ok(open.remove(&path, args.recursive)?)
    })?;
    let answer = DeleteAnswer {
        workspace: workspace.name.clone(),
        path: show(&path),
        snapshot: snapshot.to_string(),
    };
    let text = format!("deleted {}", avfs_core::printable(answer.path.as_bytes()));
    Reply::new(&answer, text)
        .map(|reply| reply.note("`restore` brings it back from the snapshot before (`@~1`)"))
}
