//! `avfs workspace enter`: a shell that sees the workspace at the project's own path.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentvfs::exec::sandbox::in_place::{InPlaceError, show_in_place};
use agentvfs::{ReadError, Task};
use anyhow::Result;
use avfs_core::TreePath;

use super::start::{SourceArgs, mounted};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// Open a shell in which the project's path leads to the workspace
#[derive(Debug, clap::Args)]
#[command(
    after_help = "For this shell and everything it starts, absolute paths of the project (in a Python
environment, a CMake cache, a link) lead to the workspace. The directory itself does not
change. Leave the shell with `exit`; the workspace stays until
`avfs workspace stop NAME`.

Examples:
  avfs workspace enter try --from ~/src/web
  avfs workspace enter try                       an existing workspace
  avfs workspace enter try -- .venv/bin/pip install requests"
)]
pub struct EnterArgs {
    #[command(flatten)]
    source: SourceArgs,

    /// The command to run instead of your shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The variable by which programs inside find the vault.
const VAULT: &str = "AVFS_VAULT";

pub fn run(context: &mut Context<'_>, args: &EnterArgs) -> Result<ExitStatus> {
    let cwd = std::env::current_dir().ok();
    if let Some(program) = args.command.first() {
        check_on_path(program)?;
    }
    let (task, made) = args.source.task(context)?;
    if let Some(program) = args.command.first()
        && let Err(failure) = check_inside(&task, program, cwd.as_deref())
    {
        if let Some(made) = made {
            made.withdraw(&task);
        }
        return Err(failure.into());
    }
    let vault = task.vault();
    vault.store().projects().check_directory_of(vault)?;
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
        [] => task.programs().named_in_prompt(shell()),
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
    let aside = vault.store().projects().place_aside(task.root())?;
    show_in_place(&shown, task.root(), aside.as_deref()).map_err(|error| no_place(&error))?;
    let error = become_program(&task, &command, variables, cwd.as_deref());
    Err(not_started(&command[0], &error).into())
}

/// Nothing is made for a program that is not there.
fn check_on_path(program: &OsStr) -> Result<(), Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |directory: PathBuf| directory.join(program).is_file();
    if is_path(program) || std::env::split_paths(&path).any(is_there) {
        Ok(())
    } else {
        Err(not_started(program, &io::ErrorKind::NotFound.into()))
    }
}

fn is_path(program: &OsStr) -> bool {
    program.as_encoded_bytes().contains(&b'/')
}

/// A path is looked up where the command starts, and in the project that is in the task.
fn check_inside(task: &Task, program: &OsStr, cwd: Option<&Path>) -> Result<(), Failure> {
    if !is_path(program) {
        return Ok(());
    }
    let start = cwd.filter(|cwd| cwd.starts_with(task.root()));
    let path: PathBuf = start.unwrap_or(task.root()).join(program).components().collect();
    let is_there = match path.strip_prefix(task.root()) {
        Ok(below) => is_in_task(task, below),
        Err(_) => path.exists(),
    };
    if is_there {
        Ok(())
    } else {
        Err(not_started(program, &io::ErrorKind::NotFound.into()))
    }
}

/// In doubt it is: the kernel decides then.
fn is_in_task(task: &Task, below: &Path) -> bool {
    let Ok(path) = TreePath::parse(below.as_os_str().as_encoded_bytes()) else {
        return true;
    };
    let found = task.vault().reader().map(|reader| reader.find(&path).map(drop));
    !matches!(found, Ok(Err(ReadError::NotFound { .. })))
}

/// It may be mounted where this process does not see it: then an empty directory would be shown.
fn check_here(shown: &Path) -> Result<()> {
    if agentvfs::mount::is_here(shown)? {
        return Ok(());
    }
    let text = format!(
        "{} is mounted in another namespace of mounts",
        crate::escape::printable_path(shown)
    );
    let hint = "enter it where it was started, or stop it first".to_owned();
    Err(Failure::new("not-shown", ExitStatus::Refused, text)
        .hint(Some(hint))
        .into())
}

fn shell() -> OsString {
    std::env::var_os("SHELL")
        .filter(|shell| !shell.is_empty())
        .unwrap_or("/bin/sh".into())
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
    program
        .args(&command[1..])
        .current_dir(&place)
        .env("PWD", &place)
        .envs(variables);
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
    let reason = match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        _ => error.to_string(),
    };
    let text = format!("{} cannot be run: {reason}", crate::escape::printable_os(program));
    Failure::new(code, ExitStatus::OfCommand(status), text)
}
