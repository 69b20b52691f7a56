//! `avfs setup allow`

use agentvfs::setup::SetupState;
use anyhow::Result;

use super::{SetupBody, no_setup, print, project_here};
use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::ExitStatus;

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
    let project = project_here(context)?;
    let setup = match project.setup()? {
        SetupState::Absent => return Err(no_setup(&project).into()),
        SetupState::Allowed(setup) | SetupState::NotAllowed(setup) => setup,
    };
    let body = SetupBody::new(&setup, true);
    if !context.out.is_json() {
        print(context.out, &setup)?;
    }
    if !confirm(context.out, "Give this to each new task of the project?", args.yes)? {
        return Ok(ExitStatus::No);
    }
    project.allow_setup(&setup)?;
    if context.out.is_json() {
        context.out.object("setup", &body)?;
    }
    context.out.talk("allowed, as it is now");
    Ok(ExitStatus::Success)
}
