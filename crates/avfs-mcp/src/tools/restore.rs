//! `restore`: files, or everything, as they were.

use std::collections::BTreeSet;

use agentvfs::{Revision, TreePath, Vault};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::changes::revision;
use super::{Call, snapshot_of};
use crate::paths::path_in;
use crate::reply::Reply;
use crate::tool_error::ToolError;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestoreArgs {
    /// The workspace; without it, the default one.
    workspace: Option<String>,
    /// A checkpoint, the first digits of a snapshot, or `@~N`: N snapshots back, so that `@~1` takes the last change back.
    to: String,
    /// Restore only these files and directories; without it, everything.
    #[serde(default)]
    paths: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RestoreAnswer {
    workspace: String,
    to: String,
    /// How many files changed.
    files: u64,
    /// The state of the workspace now.
    snapshot: String,
}

pub(crate) fn run(call: &Call<'_>, args: &RestoreArgs) -> Result<Reply, ToolError> {
    let workspace = call.workspaces.named(args.workspace.as_deref(), call.client)?;
    let vault = &workspace.vault;
    let paths: Vec<TreePath> = args
        .paths
        .iter()
        .map(|path| path_in(vault, path))
        .collect::<Result<_, _>>()?;
    let from = revision(&workspace, &args.to)?;
    let detail = avfs_core::printable(args.to.as_bytes());
    let done = match paths.as_slice() {
        // Through rules, what they hide stays as it is.
        [] if vault.rules().is_some() => {
            vault.restore_paths(&from, &top_level(vault, &from)?, "restore", &detail)?
        }
        [] => vault.restore(&from, &detail)?,
        paths => vault.restore_paths(&from, paths, "restore", &detail)?,
    };
    let answer = RestoreAnswer {
        workspace: workspace.name.clone(),
        to: args.to.clone(),
        files: done.files,
        snapshot: snapshot_of(vault, done.saved.as_ref())?.to_string(),
    };
    let text = format!("restored {} file(s) as in {detail}", answer.files);
    Reply::new(&answer, text)
        .map(|reply| reply.note("the state before is kept; `restore` to `@~1` takes this back"))
}

/// Everything that is at the root, in either state.
fn top_level(vault: &Vault, from: &Revision) -> Result<Vec<TreePath>, ToolError> {
    let mut names = BTreeSet::new();
    for reader in [from.reader()?, vault.reader()?] {
        for entry in reader.list(&TreePath::root())? {
            names.insert(TreePath::root().join(&entry?.0));
        }
    }
    Ok(names.into_iter().collect())
}
