//! `avfs checkpoint`: named states that a vault can be restored to.

mod delete;
mod list;
mod restore;
mod save;
mod show;

/// Save, list, restore and delete checkpoints
#[derive(Debug, clap::Subcommand)]
pub enum CheckpointCommand {
    Save(save::SaveArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Restore(restore::RestoreArgs),
    Delete(delete::DeleteArgs),
}
