//! `avfs vault use`: choose the vault for the commands that follow.

/// Choose the vault that commands work on
#[derive(Debug, clap::Args)]
#[command(after_help = "A --vault flag, AVFS_VAULT or `vault` in avfs.toml still beats this choice.

Examples:
  avfs vault use web")]
pub struct UseArgs {
    name: String,
}
