//! `avfs vault rename`: another name for the same vault.

/// Give a vault another name
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs vault rename web website")]
pub struct RenameArgs {
    name: String,

    #[arg(value_name = "NEW_NAME")]
    new_name: String,
}
