//! `avfs project setup show`

use agentvfs::setup::{Setup, SetupState};
use anyhow::Result;

use super::{ProjectSetupBody, no_setup, print};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::here::working_directory;

/// Show the setup that this project gives to new tasks, and whether you have allowed it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs project setup show
  avfs project setup show --json")]
pub struct ProjectSetupShowArgs {}

pub fn run(context: &mut Context<'_>, _: &ProjectSetupShowArgs) -> Result<ExitStatus> {
    let store = context.task_store()?;
    let root = store.projects().root_of(&working_directory())?;
    // A look makes no project of a directory.
    let state = match store.projects().known_project(&root)? {
        Some(project) => project.setup()?,
        None => Setup::of_project(&root)?.map_or(SetupState::Absent, SetupState::NotAllowed),
    };
    let (setup, allowed) = match state {
        SetupState::Absent => return Err(no_setup(&root).into()),
        SetupState::Allowed(setup) => (setup, true),
        SetupState::NotAllowed(setup) => (setup, false),
    };
    let body = ProjectSetupBody::new(&setup, allowed);
    if context.out.is_json() {
        context.out.object("setup", &body)?;
        return Ok(ExitStatus::Success);
    }
    print(context.out, &setup)?;
    if allowed {
        context.out.talk("it is allowed")
    } else {
        context
            .out
            .talk("not allowed yet: `avfs project setup allow` allows exactly this")
    }
    Ok(ExitStatus::Success)
}
