//! `avfs hook`: what agents call at certain moments. `avfs setup --hooks` and `--worktrees` put these commands into their
//! settings.

mod before;
mod input;
mod session;
mod tool;
mod worktree;

use anyhow::Result;

use crate::context::Context;
use crate::exit::ExitStatus;

/// Answer the hooks of agents
///
/// Agents call these commands themselves and describe the moment on standard input, as JSON.
#[derive(Debug, clap::Subcommand)]
pub enum HookCommand {
    PreToolUse(tool::PreToolUseArgs),
    WorktreeCreate(worktree::HookWorktreeCreateArgs),
    WorktreeRemove(worktree::HookWorktreeRemoveArgs),
    SessionStart(session::HookSessionStartArgs),
    Stop(session::HookSessionStopArgs),
}

pub fn run(context: &mut Context<'_>, command: &HookCommand) -> Result<ExitStatus> {
    match command {
        HookCommand::PreToolUse(args) => tool::run(context, args),
        HookCommand::WorktreeCreate(args) => worktree::create(context, args),
        HookCommand::WorktreeRemove(args) => worktree::remove(context, args),
        HookCommand::SessionStart(args) => session::start(context, args),
        HookCommand::Stop(args) => session::stop(context, args),
    }
}
