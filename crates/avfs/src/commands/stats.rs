//! `avfs stats`: what vaults hold and what they share.

/// Show logical, unique and shared bytes per vault
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs stats
  avfs stats web web-fix")]
pub struct StatsArgs {
    /// Which vaults [default: all]
    #[arg(value_name = "VAULT")]
    names: Vec<String>,
}
