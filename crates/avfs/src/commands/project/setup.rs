//! `avfs project setup`: what a project wants each new task to be given, and whether it may.

mod allow;
mod carry_out;
mod show;

use std::path::Path;

use agentvfs::Project;
use agentvfs::setup::{Setup, SetupState};
use anyhow::Result;
use serde::Serialize;

pub use carry_out::carry_out;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::json::PathField;
use crate::printer::{PrintError, Printer};

/// Show and allow the setup that a project gives to new tasks
#[derive(Debug, clap::Subcommand)]
pub enum SetupCommand {
    Show(show::ProjectSetupShowArgs),
    Allow(allow::ProjectSetupAllowArgs),
}

pub fn run(context: &mut Context<'_>, command: &SetupCommand) -> Result<ExitStatus> {
    match command {
        SetupCommand::Show(args) => show::run(context, args),
        SetupCommand::Allow(args) => allow::run(context, args),
    }
}

#[derive(Serialize)]
struct ProjectSetupBody {
    allowed: bool,
    commands: Vec<String>,
    rules: Vec<String>,
    files: Vec<ProjectSetupFileBody>,
}

#[derive(Serialize)]
struct ProjectSetupFileBody {
    #[serde(flatten)]
    path: PathField,
    from: String,
}

impl ProjectSetupBody {
    fn new(setup: &Setup, allowed: bool) -> ProjectSetupBody {
        let file = |file: &agentvfs::setup::GivenFile| ProjectSetupFileBody {
            path: (&file.path).into(),
            from: file.from.display().to_string(),
        };
        ProjectSetupBody {
            allowed,
            commands: setup.commands.clone(),
            rules: setup.rules.iter().map(ToString::to_string).collect(),
            files: setup.files.iter().map(file).collect(),
        }
    }
}

fn print(out: &mut Printer, setup: &Setup) -> Result<(), PrintError> {
    let rules = setup.rules.iter().map(|rule| format!("rule     {rule}"));
    let files = setup
        .files
        .iter()
        .map(|file| format!("file     {} from {}", file.path, file.from.display()));
    let commands = setup.commands.iter().map(|command| format!("command  {command}"));
    for line in rules.chain(files).chain(commands) {
        out.line(crate::escape::printable(line.as_bytes()))?;
    }
    Ok(())
}

/// The setup of a project, if it has one that is allowed. One that is not is pointed out.
pub fn allowed_setup(context: &mut Context<'_>, project: &Project) -> Result<Option<Setup>> {
    match project.setup()? {
        SetupState::Absent => Ok(None),
        SetupState::Allowed(setup) => Ok(Some(setup)),
        SetupState::NotAllowed(_) => {
            context.out.warn(
                "avfs.toml has a [setup] that you have not allowed: `avfs project setup show`, `avfs project setup allow`",
            );
            Ok(None)
        }
    }
}

fn no_setup(root: &Path) -> Failure {
    let text = format!("{} has no avfs.toml with a [setup] section", root.display());
    Failure::new("no-setup", ExitStatus::NotFound, text)
        .hint(Some("docs/tasks.md describes what it can contain".to_owned()))
}
