//! `avfs project setup allow`

use agentvfs::setup::Setup;
use anyhow::Result;

use super::{ProjectSetupBody, no_setup, print};
use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::here::working_directory;

/// Allow the setup that this project gives to new tasks
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Shows the setup and asks. If the setup changes later, you have to allow it again.

Examples:
  avfs project setup allow
  avfs project setup allow --yes"
)]
pub struct ProjectSetupAllowArgs {
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

pub fn run(context: &mut Context<'_>, args: &ProjectSetupAllowArgs) -> Result<ExitStatus> {
    let store = context.task_store()?;
    let root = store.projects().root_of(&working_directory())?;
    let setup = Setup::of_project(&root)?.ok_or_else(|| no_setup(&root))?;
    let body = ProjectSetupBody::new(&setup, true);
    if !context.out.is_json() {
        print(context.out, &setup)?;
    }
    if !confirm(
        context.out,
        "Give this to each new task of the project?",
        args.yes,
    )? {
        return Ok(ExitStatus::No);
    }
    store.project(&root)?.allow_setup(&setup)?;
    if context.out.is_json() {
        context.out.object("setup", &body)?;
    }
    context.out.talk("allowed, as it is now");
    Ok(ExitStatus::Success)
}
