//! `checkpoint`: the present state under a name.

use agentvfs::error::HistoryError;
use agentvfs::{Checkpoint, CheckpointName, Error, Vault};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::Call;
use crate::reply::Reply;
use crate::tool_error::ToolError;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckpointArgs {
    /// The workspace; without it, the default one.
    workspace: Option<String>,
    /// A name that says what state it is; without it, `checkpoint` and a number.
    name: Option<String>,
    /// A note about it, for people.
    message: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CheckpointAnswer {
    workspace: String,
    name: String,
    snapshot: String,
}

pub(crate) fn run(call: &Call<'_>, args: &CheckpointArgs) -> Result<Reply, ToolError> {
    let workspace = call.workspaces.named(args.workspace.as_deref(), call.client)?;
    let message = args.message.as_deref();
    let saved = match &args.name {
        Some(name) => workspace
            .vault
            .save_checkpoint(&CheckpointName::new(name)?, message)?,
        None => save_with_number(&workspace.vault, message)?,
    };
    let answer = CheckpointAnswer {
        workspace: workspace.name.clone(),
        name: saved.name.to_string(),
        snapshot: saved.snapshot.to_string(),
    };
    let text = format!("saved checkpoint {}", answer.name);
    Reply::new(&answer, text).map(|reply| reply.note("`restore` goes back to it, `changes` compares with it"))
}

fn save_with_number(vault: &Vault, message: Option<&str>) -> Result<Checkpoint, ToolError> {
    let mut number = vault.checkpoints()?.len() + 1;
    loop {
        let name = CheckpointName::new(&format!("checkpoint-{number}"))?;
        match vault.save_checkpoint(&name, message) {
            Err(Error::History(HistoryError::CheckpointExists { .. })) => number += 1,
            saved => return Ok(saved?),
        }
    }
}
