//! `status`: the workspaces, and what there is to know about one of them.

use agentvfs::approvals::ApprovalState;
use agentvfs::{Task, Vault};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::Call;
use crate::reply::{Reply, beginning, shown};
use crate::tool_error::ToolError;
use crate::workspaces::Workspace;

/// How many checkpoints and snapshots are listed.
const LISTED: usize = 20;
/// How much of an action is shown.
const ACTION_MAX: usize = 200;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatusArgs {
    /// The workspace; without it, the default one.
    workspace: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StatusAnswer {
    workspace: String,
    /// Every workspace that can be named here.
    workspaces: Vec<String>,
    /// The directory of the user that the workspace is a copy of. Commands see the workspace there; the user's own files
    /// change only when the user applies the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    /// Of a task: `unchanged`, `unmerged`, `applied`, `running` or another state.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    /// The newest last.
    checkpoints: Vec<KnownCheckpoint>,
    /// The last changes, the newest first.
    history: Vec<KnownSnapshot>,
    /// Commands that wait for a person's answer.
    waiting: Vec<WaitingCommand>,
    /// The rules decide what is shown and what can be changed.
    has_rules: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KnownCheckpoint {
    name: String,
    snapshot: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KnownSnapshot {
    snapshot: String,
    /// What was done, such as `write /src/main.rs`.
    action: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitingCommand {
    approval: String,
    command: String,
    reason: String,
}

pub(crate) fn run(call: &Call<'_>, args: &StatusArgs) -> Result<Reply, ToolError> {
    let workspace = call.workspaces.named(args.workspace.as_deref(), call.client)?;
    let all = call.workspaces.all()?;
    let answer = answer(&workspace, all.into_iter().map(|known| known.name).collect())?;
    let text = text(&answer);
    Reply::new(&answer, text)
        .map(|reply| reply.note("the user reviews, applies or discards the work; no tool does that"))
}

fn answer(workspace: &Workspace, workspaces: Vec<String>) -> Result<StatusAnswer, ToolError> {
    let task = Task::of_vault(&workspace.whole)?;
    let mut checkpoints = workspace.vault.checkpoints()?;
    // Those that commands have saved are found in the history.
    checkpoints.retain(|checkpoint| !checkpoint.automatic);
    let newest = checkpoints.len().saturating_sub(LISTED);
    Ok(StatusAnswer {
        workspace: workspace.name.clone(),
        workspaces,
        directory: workspace.whole.own_path()?.map(|path| path.display().to_string()),
        state: task
            .map(|task| task.state().map(|state| state.as_str().to_owned()))
            .transpose()?,
        checkpoints: checkpoints[newest..]
            .iter()
            .map(|checkpoint| KnownCheckpoint {
                name: checkpoint.name.to_string(),
                snapshot: checkpoint.snapshot.to_string(),
                message: checkpoint.message.clone(),
            })
            .collect(),
        history: history(&workspace.vault)?,
        waiting: waiting(&workspace.whole)?,
        has_rules: workspace.vault.rules().is_some(),
    })
}

fn history(vault: &Vault) -> Result<Vec<KnownSnapshot>, ToolError> {
    // What was written meanwhile is part of it.
    vault.head()?;
    let entries = vault.history().entries(None, LISTED)?;
    Ok(entries
        .into_iter()
        .map(|entry| KnownSnapshot {
            snapshot: entry.snapshot.to_string(),
            action: match vault.rules() {
                // What was changed may be hidden.
                Some(_) => entry.action.split(' ').next().unwrap_or_default().to_owned(),
                None => beginning(&entry.action, ACTION_MAX).to_owned(),
            },
        })
        .collect())
}

fn waiting(vault: &Vault) -> Result<Vec<WaitingCommand>, ToolError> {
    let approvals = vault.store().approvals().list()?;
    let pending = approvals
        .into_iter()
        .filter(|approval| approval.binding.vault == vault.id() && approval.state == ApprovalState::Pending);
    Ok(pending
        .map(|approval| WaitingCommand {
            approval: approval.id.to_string(),
            command: approval.binding.command.shown(),
            reason: approval.reason,
        })
        .collect())
}

fn text(answer: &StatusAnswer) -> String {
    let mut text = format!("workspace {}", answer.workspace);
    if let Some(directory) = &answer.directory {
        text.push_str(&format!(
            ", a private copy of {}",
            avfs_core::printable(directory.as_bytes())
        ));
    }
    if let Some(state) = &answer.state {
        text.push_str(&format!(" ({state})"));
    }
    text.push('\n');
    if answer.workspaces.len() > 1 {
        text.push_str(&format!("workspaces: {}\n", answer.workspaces.join(", ")));
    }
    for checkpoint in &answer.checkpoints {
        let message = checkpoint
            .message
            .as_deref()
            .map(|message| format!(": {}", shown(message)));
        text.push_str(&format!(
            "checkpoint {}{}\n",
            checkpoint.name,
            message.unwrap_or_default()
        ));
    }
    for (steps, entry) in answer.history.iter().enumerate().take(8) {
        let id = beginning(&entry.snapshot, 12);
        text.push_str(&format!("@~{steps} {id} {}\n", shown(&entry.action)));
    }
    for waiting in &answer.waiting {
        text.push_str(&format!(
            "waits for the user ({}): {}\n",
            waiting.approval,
            shown(&waiting.command)
        ));
    }
    text
}
