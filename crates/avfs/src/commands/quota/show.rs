//! `avfs quota show`: limits and what is used of them.

/// Show the limits and what is used of them
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs quota show --vault web")]
pub struct ShowArgs {}
