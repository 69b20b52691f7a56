//! `avfs setup show`

use agentvfs::setup::{Setup, SetupState};
use anyhow::Result;

use super::{SetupBody, no_setup, print};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::here::working_directory;

/// Show what this project gives to new tasks, and whether you have allowed it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs setup show
  avfs setup show --json")]
pub struct ShowArgs {}

pub fn run(context: &mut Context<'_>, _: &ShowArgs) -> Result<ExitStatus> {
    let store = context.task_store()?;
    let root = store.project_root(&working_directory())?;
    // A look makes no project of a directory.
    let state = match store.known_project(&root)? {
        Some(project) => project.setup()?,
        None => Setup::of_project(&root)?.map_or(SetupState::Absent, SetupState::NotAllowed),
    };
    let (setup, allowed) = match state {
        SetupState::Absent => return Err(no_setup(&root).into()),
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
