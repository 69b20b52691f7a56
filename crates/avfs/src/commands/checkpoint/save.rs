//! `avfs checkpoint save`: keep the present state.

/// Keep the present state under a name
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs checkpoint save before-upgrade
  avfs checkpoint save -m 'all tests pass'")]
pub struct SaveArgs {
    /// Name [default: the date and time]
    name: Option<String>,

    /// Why it is kept
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
}
