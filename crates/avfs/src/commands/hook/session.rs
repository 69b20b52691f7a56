//! `avfs hook session-start` and `stop`: what an agent and its user should know.

use agentvfs::Task;
use anyhow::Result;
use serde_json::json;

use super::input::{HookInput, HookWorkspace};
use crate::context::Context;
use crate::exit::ExitStatus;

/// Tell the agent what it works on
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs hook session-start <input.json")]
pub struct HookSessionStartArgs {}

/// Tell the user what there is to review
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs hook stop <input.json")]
pub struct HookSessionStopArgs {}

pub fn start(context: &mut Context<'_>, _: &HookSessionStartArgs) -> Result<ExitStatus> {
    let input = HookInput::read()?;
    // A session that does nothing leaves no task behind.
    let text = match HookWorkspace::of(context, &input, false)? {
        Some(HookWorkspace::Mounted { vault, .. }) => {
            let name = vault.name()?;
            format!(
                "This directory is workspace {name} of agentvfs, a private copy of the user's project. Every change is \
                 kept: `avfs checkpoint save NAME` names a state, `avfs checkpoint restore NAME` goes back to it. The \
                 user's own files change only when the user applies the work."
            )
        }
        Some(HookWorkspace::Task(_)) | None => {
            "Shell commands of this session run in a sandbox, on a private copy of this project (agentvfs). Files that \
             they change are changed in the copy, and the user applies the work later. Change files with the tools of \
             the agentvfs server, or with shell commands."
                .to_owned()
        }
    };
    let output = json!({
        "hookSpecificOutput": { "hookEventName": "SessionStart", "additionalContext": text }
    });
    context.out.line(output)?;
    Ok(ExitStatus::Success)
}

pub fn stop(context: &mut Context<'_>, _: &HookSessionStopArgs) -> Result<ExitStatus> {
    let input = HookInput::read()?;
    let Some(workspace) = HookWorkspace::of(context, &input, false)? else {
        return Ok(ExitStatus::Success);
    };
    let Some(task) = Task::of_vault(workspace.vault())? else {
        return Ok(ExitStatus::Success);
    };
    let changed = task.look()?.changed.len();
    if changed > 0 {
        let name = task.vault_name();
        let files = if changed == 1 {
            "1 file".to_owned()
        } else {
            format!("{changed} files")
        };
        let text = format!("{files} changed in {name}: `avfs diff {name}`, `avfs apply {name}`");
        context.out.line(json!({ "systemMessage": text }))?;
    }
    Ok(ExitStatus::Success)
}
