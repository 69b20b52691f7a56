//! `avfs quota`: how much a vault may hold.

mod set;
mod show;

/// Set or show how much a vault may hold
#[derive(Debug, clap::Subcommand)]
pub enum QuotaCommand {
    Set(set::SetArgs),
    Show(show::ShowArgs),
}
