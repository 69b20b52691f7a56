//! `avfs setup allow`

use agentvfs::setup::Setup;
use anyhow::Result;

use super::{SetupBody, no_setup, print};
use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::here::working_directory;

/// Allow what this project gives to new tasks
#[derive(Debug, clap::Args)]
#[command(after_help = "Shows it and asks. When the section is changed, it asks for a new answer.

Examples:
  avfs setup allow
  avfs setup allow --yes")]
pub struct AllowArgs {
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

pub fn run(context: &mut Context<'_>, args: &AllowArgs) -> Result<ExitStatus> {
    let store = context.task_store()?;
    let root = store.project_root(&working_directory())?;
    let setup = Setup::of_project(&root)?.ok_or_else(|| no_setup(&root))?;
    let body = SetupBody::new(&setup, true);
    if !context.out.is_json() {
        print(context.out, &setup)?;
    }
    if !confirm(context.out, "Give this to each new task of the project?", args.yes)? {
        return Ok(ExitStatus::No);
    }
    store.project(&root)?.allow_setup(&setup)?;
    if context.out.is_json() {
        context.out.object("setup", &body)?;
    }
    context.out.talk("allowed, as it is now");
    Ok(ExitStatus::Success)
}
