//! `avfs checkpoint delete`: let a checkpoint go.

/// Delete checkpoints; the files of the vault stay as they are
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs checkpoint delete before-upgrade")]
pub struct DeleteArgs {
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}
