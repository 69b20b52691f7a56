//! `avfs setup show`

use agentvfs::setup::SetupState;
use anyhow::Result;

use super::{SetupBody, no_setup, print, project_here};
use crate::context::Context;
use crate::exit::ExitStatus;

/// Show what this project gives to new tasks, and whether you have allowed it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs setup show
  avfs setup show --json")]
pub struct ShowArgs {}

pub fn run(context: &mut Context<'_>, _: &ShowArgs) -> Result<ExitStatus> {
    let project = project_here(context)?;
    let (setup, allowed) = match project.setup()? {
        SetupState::Absent => return Err(no_setup(&project).into()),
        SetupState::Allowed(setup) => (setup, true),
        SetupState::NotAllowed(setup) => (setup, false),
    };
    let body = SetupBody::new(&setup, allowed);
    if context.out.is_json() {
        context.out.object("setup", &body)?;
        return Ok(ExitStatus::Success);
    }
    print(context.out, &setup)?;
    match allowed {
        true => context.out.talk("it is allowed"),
        false => context.out.talk("it is not allowed: `avfs setup allow` allows exactly this"),
    }
    Ok(ExitStatus::Success)
}
