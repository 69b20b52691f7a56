//! `avfs vault create`: a new vault, empty or from a directory.

use std::path::PathBuf;

/// Make a new vault
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs vault create web
  avfs vault create web --from ~/src/web --use")]
pub struct CreateArgs {
    /// Name of the vault: letters, digits, '-', '_' and '.'
    name: String,

    /// Fill it with a copy of this directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    from: Option<PathBuf>,

    /// Choose it for the commands that follow
    #[arg(long = "use")]
    choose: bool,
}
