//! `move`: a file or directory at another path.

use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::{Call, change};
use crate::paths::{path_in, show};
use crate::reply::Reply;
use crate::tool_error::ToolError;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveArgs {
    /// The workspace; without it, the default one.
    workspace: Option<String>,
    from: String,
    /// The new path, or a directory that it is moved into. Missing directories are created.
    to: String,
    /// Replace a file that is there already.
    #[serde(default)]
    overwrite: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MoveAnswer {
    workspace: String,
    from: String,
    to: String,
    /// The state of the workspace that holds the change.
    snapshot: String,
}

pub(crate) fn run(call: &Call<'_>, args: &MoveArgs) -> Result<Reply, ToolError> {
    let workspace = call.workspaces.named(args.workspace.as_deref(), call.client)?;
    let from = path_in(&workspace.vault, &args.from)?;
    let to = path_in(&workspace.vault, &args.to)?;
    let (moved, snapshot) = change(&workspace.vault, "move", &from, |open| {
        if let Some((parent, _)) = to.split_last().filter(|(parent, _)| !parent.is_root()) {
            open.make_directory(&parent, true)?;
        }
        let moved = if args.overwrite {
            open.rename(&from, &to)?
        } else {
            open.rename_no_replace(&from, &to)?
        };
        Ok(moved)
    })?;
    let answer = MoveAnswer {
        workspace: workspace.name.clone(),
        from: show(&from),
        to: show(&moved),
        snapshot: snapshot.to_string(),
    };
    let [from, to] = [&answer.from, &answer.to].map(|path| avfs_core::printable(path.as_bytes()));
    Reply::new(&answer, format!("moved {from} to {to}"))
}
