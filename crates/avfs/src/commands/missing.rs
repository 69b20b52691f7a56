//! Errors that are caused by the missing directory of a project mention it, with a remedy.

use std::path::{Path, PathBuf};

use agentvfs::apply::ApplyError;
use agentvfs::error::{FileError, ProjectError};
use agentvfs::git::GitError;
use agentvfs::{Error, Project, Store};
use anyhow::Result;

use avfs_core::shell_word;

use crate::context::Context;
use crate::escape::printable_path;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::here::working_directory;
use crate::printer::Printer;

/// Errors in a directory that avfs knows under another path.
const NOT_KNOWN_HERE: [&str; 7] = [
    "no-vault",
    "no-project",
    "no-task",
    "unknown-task",
    "task-elsewhere",
    "nothing-to-undo",
    "project-missing",
];

/// The code of errors about files that had not been read before their directory disappeared.
const SOURCE_GONE: &str = "source-gone";

/// The same error, or a better one if the directory of a project is missing.
pub fn explained(error: anyhow::Error, out: &mut Printer, global: &GlobalArgs) -> anyhow::Error {
    match explanation(&error, out, global) {
        Ok(Some(better)) => better,
        // The first error is the one that counts.
        Ok(None) | Err(_) => error,
    }
}

fn explanation(
    error: &anyhow::Error,
    out: &mut Printer,
    global: &GlobalArgs,
) -> Result<Option<anyhow::Error>> {
    let place = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Error>())
        .and_then(FailedPlace::of);
    let failure = Failure::of(error);
    let is_about_directory = place.is_some() || failure.code == SOURCE_GONE;
    if !is_about_directory && !NOT_KNOWN_HERE.contains(&failure.code) {
        return Ok(None);
    }
    let context = Context::load(out, global, None)?;
    // A store is not made for an error.
    if !context.home()?.exists() {
        return Ok(None);
    }
    let store = context.store()?;
    let missing = match place {
        Some(place) => place.project(&store)?,
        None if failure.code == SOURCE_GONE => only_missing(&store)?,
        None => None,
    };
    let missing = missing.map(|root| {
        Error::Project(ProjectError::Missing {
            directory: printable_path(&root),
        })
        .into()
    });
    let failure = missing.as_ref().map_or(failure, Failure::of);
    let hint = NOT_KNOWN_HERE
        .contains(&failure.code)
        .then(|| moved_here(&store))
        .flatten();
    Ok(hint.map(|hint| failure.hint(Some(hint)).into()).or(missing))
}

/// The remedy if the current directory was the directory of a project before it was moved.
pub fn moved_here(store: &Store) -> Option<String> {
    let root = store.projects().root_of(&working_directory()).ok()?;
    let project = project_before(store, &root)?;
    let what = if project.tasks().ok()?.is_empty() {
        "what was applied to it"
    } else {
        "its tasks"
    };
    let old = printable_path(project.root());
    let [from, to] = [project.root(), &root].map(|path| shell_word(&printable_path(path)));
    Some(format!(
        "this directory was {old} before; `avfs project move {from} {to}` moves {what} here"
    ))
}

/// Fails in a directory that was moved: its latest actions are recorded under its old path.
pub fn refuse_moved(store: &Store) -> Result<()> {
    let root = store.projects().root_of(&working_directory()).ok();
    match root.and_then(|root| project_before(store, &root)) {
        Some(project) => Err(Error::Project(ProjectError::Missing {
            directory: printable_path(project.root()),
        })
        .into()),
        None => Ok(()),
    }
}

/// The project that a directory was before it was moved, if there is something that it would bring along.
fn project_before(store: &Store, root: &Path) -> Option<Project> {
    let project = store.projects().moved_here(root).ok()??;
    let has_applies = || {
        let newest = store
            .applies()
            .last_time(|directory| directory.starts_with(project.root()));
        newest.ok().flatten().is_some()
    };
    (!project.tasks().ok()?.is_empty() || has_applies()).then_some(project)
}

/// The directory that an error must be about that names none.
fn only_missing(store: &Store) -> Result<Option<PathBuf>> {
    match store.projects().missing()?.as_slice() {
        [only] => Ok(Some(only.root().to_owned())),
        _ => Ok(None),
    }
}

/// The subject of an error whose cause may be a missing directory.
enum FailedPlace {
    Host(PathBuf),
    Vault(String),
}

impl FailedPlace {
    fn of(error: &Error) -> Option<FailedPlace> {
        match error {
            Error::Host { place, .. } => Some(FailedPlace::Host(place.into())),
            Error::Apply(ApplyError::Host { path, .. } | ApplyError::NotADirectory { path }) => {
                Some(FailedPlace::Host(path.clone()))
            }
            Error::Git(GitError::NotARepository { place }) => Some(FailedPlace::Host(place.clone())),
            Error::File(FileError::Read { vault, .. } | FileError::Tree { vault, .. })
                if error.code() == SOURCE_GONE =>
            {
                Some(FailedPlace::Vault(vault.clone()))
            }
            _ => None,
        }
    }

    fn project(&self, store: &Store) -> Result<Option<PathBuf>> {
        let path = match self {
            FailedPlace::Host(path) => Some(path.clone()),
            FailedPlace::Vault(name) => store.vault(name)?.own_path()?,
        };
        let project = path
            .map(|path| store.projects().missing_around(Path::new(&path)))
            .transpose()?
            .flatten();
        Ok(project.map(|project| project.root().to_owned()))
    }
}
