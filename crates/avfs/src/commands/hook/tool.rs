//! `avfs hook pre-tool-use`: shell commands go through the exec boundary, changes of files are saved before.

use std::path::{Component, Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use super::before::FileCall;
use super::input::{HookInput, HookWorkspace};
use avfs_core::shell_word;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// Run a shell command in the sandbox, and save the state before a file is changed
#[derive(Debug, clap::Args)]
#[command(
    after_help = "In a mounted workspace, a shell command runs in the sandbox of that workspace, and before a tool
changes a file, the state is saved as a checkpoint that is named after both, such as before-edit-src-main.rs.
In a project's own directory, shell commands run in a task of the session, and changing a file of the project is
refused, because the commands would not see it: the tools of `avfs mcp` work on the task.

Examples:
  avfs hook pre-tool-use <input.json"
)]
pub struct PreToolUseArgs {}

pub fn run(context: &mut Context<'_>, _: &PreToolUseArgs) -> Result<ExitStatus> {
    // An agent goes on after a hook that failed. What could not be decided must not run.
    let answer = HookInput::read().and_then(|input| answer(context, &input));
    let answer = answer.unwrap_or_else(|error| {
        let failure = Failure::of(&error);
        Some(decision(
            "deny",
            &format!("avfs cannot run it in the sandbox: {}", failure.message),
            None,
        ))
    });
    if let Some(answer) = answer {
        context.out.line(answer)?;
    }
    Ok(ExitStatus::Success)
}

/// The answer to a tool call; nothing: it is left to the agent.
fn answer(context: &mut Context<'_>, input: &HookInput) -> Result<Option<Value>> {
    match input.tool_name.as_str() {
        "Bash" => in_sandbox(context, input).map(Some),
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" | "apply_patch" => before_change(context, input),
        _ => Ok(None),
    }
}

fn in_sandbox(context: &mut Context<'_>, input: &HookInput) -> Result<Value> {
    let command = input.tool_input.get("command").and_then(Value::as_str);
    let Some(command) = command else {
        return Ok(decision("deny", "the call has no command", None));
    };
    let Some(workspace) = HookWorkspace::of(context, input, true)? else {
        return Ok(decision("deny", "there is no workspace for it", None));
    };
    let vault = workspace.vault().name()?;
    let mut words = vec!["avfs".to_owned()];
    if let Ok(program) = crate::commands::setup::own_program() {
        words[0] = program;
    }
    if let Some(home) = context.home_flag() {
        words.extend(["--home".to_owned(), home.display().to_string()]);
    }
    words.extend(["exec".to_owned(), "--vault".to_owned(), vault.to_string()]);
    words.extend([
        "--cwd".to_owned(),
        below(workspace.root(), &input.cwd),
        "-c".to_owned(),
        command.to_owned(),
    ]);
    let line = words
        .iter()
        .map(|word| shell_word(word))
        .collect::<Vec<_>>()
        .join(" ");
    let mut updated = input.tool_input.clone();
    updated.insert("command".to_owned(), Value::from(line));
    let reason = format!("it runs in the sandbox of workspace {vault}");
    Ok(decision("allow", &reason, Some(Value::Object(updated))))
}

fn before_change(context: &mut Context<'_>, input: &HookInput) -> Result<Option<Value>> {
    let Some(workspace) = HookWorkspace::of(context, input, true)? else {
        return Ok(None);
    };
    let named = ["file_path", "notebook_path"]
        .iter()
        .find_map(|name| input.tool_input.get(*name)?.as_str());
    // A patch names its files itself; they are in the directory that it is made for.
    let file = named.map_or_else(|| input.cwd.clone(), |file| absolute(&input.cwd, Path::new(file)));
    if !file.starts_with(workspace.root()) {
        return Ok(None);
    }
    match &workspace {
        HookWorkspace::Mounted { vault, .. } => {
            let tool = input.tool_name.as_str();
            let call = match named {
                Some(_) => FileCall::of_file(tool, workspace.root(), &file),
                None => FileCall::of_patch(tool, patch(input)),
            };
            call.save(vault)?;
            Ok(None)
        }
        HookWorkspace::Task(task) => {
            let name = task.vault_name();
            let reason = format!(
                "the commands of this session run in workspace {name}, a private copy, and would not see this change. \
                 Use `write` and `edit` of the agentvfs server with `workspace: \"{name}\"`, or change the file with a \
                 shell command. (Started with --worktree, the agent's own tools work in the copy.)"
            );
            Ok(Some(decision("deny", &reason, None)))
        }
    }
}

/// The text of a patch. Codex hands it over as if it were a command.
fn patch(input: &HookInput) -> &str {
    let text = ["command", "input", "patch"]
        .iter()
        .find_map(|name| input.tool_input.get(*name)?.as_str());
    text.unwrap_or_default()
}

fn decision(decision: &str, reason: &str, updated: Option<Value>) -> Value {
    let mut output = json!({
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    });
    if let Some(updated) = updated {
        output["updatedInput"] = updated;
    }
    json!({ "hookSpecificOutput": output })
}

/// The working directory from the root of the workspace.
fn below(root: &Path, cwd: &Path) -> String {
    let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    match cwd.strip_prefix(root) {
        Ok(below) if !below.as_os_str().is_empty() => below.display().to_string(),
        _ => ".".to_owned(),
    }
}

/// A path without `.` and `..`, which a file that does not exist yet can have, too.
fn absolute(cwd: &Path, file: &Path) -> PathBuf {
    let mut path = PathBuf::new();
    for part in cwd.join(file).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    // The directory may be reached by a link.
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => path,
    }
}
