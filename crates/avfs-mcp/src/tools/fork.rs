//! `fork`: a copy of a workspace as it is now, to try something beside it.

use agentvfs::error::{TaskError, VaultError};
use agentvfs::{Error, Task, TaskName, Vault, VaultName};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::Call;
use crate::reply::Reply;
use crate::tool_error::ToolError;
use crate::workspaces::Workspace;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkArgs {
    /// The workspace that is copied; without it, the default one.
    workspace: Option<String>,
    /// The name of the copy; without it, the name of the workspace and a number.
    name: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ForkAnswer {
    /// The copy: give it as `workspace` to work in it.
    workspace: String,
    from: String,
}

pub(crate) fn run(call: &Call<'_>, args: &ForkArgs) -> Result<Reply, ToolError> {
    let workspace = call.workspaces.named(args.workspace.as_deref(), call.client)?;
    let copy = match &args.name {
        Some(name) => fork(&workspace, name)?,
        None => fork_with_number(&workspace)?,
    };
    let answer = ForkAnswer {
        workspace: copy.name()?.to_string(),
        from: workspace.name.clone(),
    };
    let text = format!("forked {} as {}", answer.from, answer.workspace);
    let note = format!("give `workspace: {:?}` to work in the copy", answer.workspace);
    Reply::new(&answer, text).map(|reply| reply.note(note))
}

fn fork(workspace: &Workspace, name: &str) -> Result<Vault, ToolError> {
    match Task::of_vault(&workspace.whole)? {
        Some(task) => Ok(task.fork(&[TaskName::new(name)?])?.remove(0).vault().clone()),
        None => Ok(workspace.whole.fork(&[VaultName::new(name)?])?.remove(0)),
    }
}

fn fork_with_number(workspace: &Workspace) -> Result<Vault, ToolError> {
    let own = workspace.name.rsplit('/').next().unwrap_or(&workspace.name);
    let mut number = 2;
    loop {
        let name = format!("{own}-{number}");
        let forked = match Task::of_vault(&workspace.whole)? {
            Some(task) => task
                .fork(&[TaskName::new(&name)?])
                .map(|copies| copies[0].vault().clone()),
            None => workspace
                .whole
                .fork(&[VaultName::new(&name)?])
                .map(|mut copies| copies.remove(0)),
        };
        match forked {
            Err(Error::Vault(VaultError::Exists { .. }) | Error::Task(TaskError::Exists { .. })) => {
                number += 1
            }
            forked => return Ok(forked?),
        }
    }
}
