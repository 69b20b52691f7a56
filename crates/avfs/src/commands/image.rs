//! `avfs image`: the roots of systems that sandboxes can be made on.

mod body;
mod delete;
mod import;
mod list;
mod pull;
mod save;
mod show;

use anyhow::Result;

use crate::context::Context;
use crate::exit::ExitStatus;

/// Import, pull, list, show, save and delete images of containers
#[derive(Debug, clap::Subcommand)]
pub enum ImageCommand {
    Import(import::ImageImportArgs),
    Pull(pull::PullArgs),
    List(list::ImageListArgs),
    Show(show::ShowArgs),
    Save(save::ImageSaveArgs),
    Delete(delete::ImageDeleteArgs),
}

pub fn run(context: &mut Context<'_>, command: &ImageCommand) -> Result<ExitStatus> {
    match command {
        ImageCommand::Import(args) => import::run(context, args),
        ImageCommand::Pull(args) => pull::run(context, args),
        ImageCommand::List(args) => list::run(context, args),
        ImageCommand::Show(args) => show::run(context, args),
        ImageCommand::Save(args) => save::run(context, args),
        ImageCommand::Delete(args) => delete::run(context, args),
    }
}
