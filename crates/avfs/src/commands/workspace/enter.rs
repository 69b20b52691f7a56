//! `avfs workspace enter`: a shell that sees the workspace at the project's own path.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentvfs::Task;
use agentvfs::exec::boundary::in_place::{InPlaceError, show_in_place};
use anyhow::Result;

use super::start::{SourceArgs, mounted};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// Open a shell in which the project's own path is the workspace
#[derive(Debug, clap::Args)]
#[command(after_help = "Absolute paths of the project (of a Python environment, a CMake cache, a link)
lead to the workspace, for this shell and what it starts. The directory itself is
out of its reach, and as it was. Leave the shell with `exit`; the workspace stays
until `avfs workspace stop NAME`.

Examples:
  avfs workspace enter try --from ~/src/web
  avfs workspace enter try                       one that there is
  avfs workspace enter try -- .venv/bin/pip install requests")]
pub struct EnterArgs {
    #[command(flatten)]
    source: SourceArgs,

    /// What to run instead of your shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What programs inside find the vault by.
const VAULT: &str = "AVFS_VAULT";

pub fn run(context: &mut Context<'_>, args: &EnterArgs) -> Result<ExitStatus> {
    let cwd = std::env::current_dir().ok();
    if let Some(program) = args.command.first() {
        check_program(program)?;
    }
    let (task, made) = args.source.task(context)?;
    let shown = match mounted(context, &task, None) {
        Ok(Ok(dir)) => dir,
        failed => {
            if let Some(made) = made {
                made.withdraw(&task);
            }
            return failed.map(|mounted| mounted.err().unwrap_or(ExitStatus::Success));
        }
    };
    check_here(&shown)?;
    let (command, variables) = match &args.command[..] {
        [] => task.named_in_prompt(shell()),
        words => (words.to_vec(), Vec::new()),
    };
    if args.command.is_empty() {
        let name = args.source.name();
        context.out.talk(format_args!(
            "in workspace '{name}', {} is a copy; `exit` leaves it",
            crate::escape::printable_os(task.root().as_os_str())
        ));
    }
    context.out.flush()?;
    show_in_place(&shown, task.root()).map_err(|error| no_place(&error))?;
    let error = become_program(&task, &command, variables, cwd.as_deref());
    Err(not_started(&command[0], &error).into())
}

/// Nothing is made for a program that is not there.
fn check_program(program: &OsStr) -> Result<()> {
    let found = match program.as_encoded_bytes().contains(&b'/') {
        true => Path::new(program).exists(),
        false => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
        }
    };
    match found {
        true => Ok(()),
        false => Err(not_started(program, &io::ErrorKind::NotFound.into()).into()),
    }
}

/// It may be mounted where this process does not see it: then an empty directory would be shown.
fn check_here(shown: &Path) -> Result<()> {
    if agentvfs::mount::is_here(shown)? {
        return Ok(());
    }
    let text = format!("{} is mounted in another namespace of mounts", crate::escape::printable_path(shown));
    let hint = "enter it where it was started, or stop it first".to_owned();
    Err(Failure::new("not-shown", ExitStatus::Refused, text).hint(Some(hint)).into())
}

fn shell() -> OsString {
    std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or("/bin/sh".into())
}

/// Comes back only if it cannot be started.
fn become_program(
    task: &Task,
    command: &[OsString],
    variables: Vec<(OsString, OsString)>,
    cwd: Option<&Path>,
) -> io::Error {
    let place = directory(task, cwd);
    let mut program = Command::new(&command[0]);
    program.args(&command[1..]).current_dir(&place).env("PWD", &place).envs(variables);
    program.env(VAULT, OsStr::new(task.vault_name().as_str())).exec()
}

/// Where one was in the project, if the workspace has that, or its top: the old directory is the one outside.
fn directory(task: &Task, cwd: Option<&Path>) -> PathBuf {
    let inside = cwd.filter(|cwd| cwd.starts_with(task.root()) && cwd.is_dir());
    inside.unwrap_or(task.root()).to_owned()
}

fn no_place(error: &InPlaceError) -> Failure {
    let code = match error {
        InPlaceError::NoNamespaces { .. } => "no-namespaces",
        InPlaceError::NotShown { .. } => "not-shown",
    };
    let text = avfs_core::with_causes(error);
    Failure::new(code, ExitStatus::Refused, text).hint(Some("`avfs doctor` says what is missing".to_owned()))
}

/// With the statuses that a shell has for it.
fn not_started(program: &OsStr, error: &io::Error) -> Failure {
    let (code, status) = match error.kind() {
        io::ErrorKind::NotFound => ("host-not-found", 127),
        _ => ("host-denied", 126),
    };
    let text = format!("{} cannot be run: {error}", crate::escape::printable_os(program));
    Failure::new(code, ExitStatus::OfCommand(status), text)
}
