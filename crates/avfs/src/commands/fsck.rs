//! `avfs fsck`: is everything there, and is it what its name says?

/// Check the whole store and name the files that are damaged
#[derive(Debug, clap::Args)]
#[command(after_help = "Ends with status 6 if something is damaged.

Examples:
  avfs fsck
  avfs fsck --repair")]
pub struct FsckArgs {
    /// Repair what another copy can repair
    #[arg(long)]
    repair: bool,
}
