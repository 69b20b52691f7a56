//! `avfs vault info`: what there is to know about one vault.

/// Show a vault: its state, parent, forks, checkpoints, size and quota
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs vault info
  avfs vault info web")]
pub struct InfoArgs {
    /// Which vault [default: the one that commands work on]
    name: Option<String>,
}
