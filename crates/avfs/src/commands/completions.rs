//! `avfs completions`: the script that teaches a shell our commands.

use anyhow::Result;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::ExitStatus;
use crate::printer::Printer;

/// Print the completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs completions bash > ~/.local/share/bash-completion/completions/avfs
  avfs completions zsh > ~/.zfunc/_avfs
  avfs completions fish > ~/.config/fish/completions/avfs.fish")]
pub struct CompletionsArgs {
    shell: Shell,
}

pub fn run(out: &mut Printer, args: &CompletionsArgs) -> Result<ExitStatus> {
    // Generated in memory: clap_complete panics when the reader of the output goes away.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::definition(), "avfs", &mut script);
    if out.is_json() {
        let script = String::from_utf8_lossy(&script);
        out.object("completions", &serde_json::json!({ "shell": args.shell.to_string(), "script": script }))?;
    } else {
        out.bytes(&script)?;
    }
    Ok(ExitStatus::Success)
}
