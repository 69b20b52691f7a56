//! `avfs completions`: the script that teaches a shell our commands.

use anyhow::Result;
use clap_complete::Shell;

use crate::completion;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;

/// Print the completion script for a shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Besides commands and flags, it completes the names of tasks, vaults, checkpoints, profiles,
sessions and approvals: the script asks avfs for them at every Tab.

Examples:
  avfs completions bash > ~/.local/share/bash-completion/completions/avfs
  avfs completions zsh > ~/.zfunc/_avfs
  avfs completions fish > ~/.config/fish/completions/avfs.fish"
)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub fn run(out: &mut Printer, args: &CompletionsArgs) -> Result<ExitStatus> {
    let name = args.shell.to_string();
    let unknown = || Failure::new("usage", ExitStatus::BadInput, format!("{name} cannot be taught"));
    let script = completion::script(&name).ok_or_else(unknown)?;
    if out.is_json() {
        let script = String::from_utf8_lossy(&script);
        out.object(
            "completions",
            &serde_json::json!({ "shell": args.shell.to_string(), "script": script }),
        )?;
    } else {
        out.bytes(&script)?;
    }
    Ok(ExitStatus::Success)
}
