//! `avfs vault delete`: remove a vault, with care for what still needs it.

/// Delete a vault with its checkpoints and history
#[derive(Debug, clap::Args)]
#[command(after_help = "Refused while unmerged forks or a running process need the vault.

Examples:
  avfs vault delete web-fix
  avfs vault delete web-fix --yes
  avfs vault delete web --force web       although forks of it are not merged")]
pub struct DeleteArgs {
    name: String,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Delete it although something still needs it; repeat the vault's name
    #[arg(long, value_name = "NAME")]
    force: Option<String>,
}
