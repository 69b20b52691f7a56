//! The set-up of each new task of a project: the `[setup]` section of its `avfs.toml`.
//!
//! ```toml
//! [setup]
//! commands = ["npm ci --offline"]
//!
//! [setup.files]
//! ".env" = "read"                                        # the project's own, which rules would hide
//! "config/dev.key" = { level = "read", from = "~/dev.key" }
//! ```
//!
//! The section comes with the project, perhaps from a stranger: nothing of it is done before the user has allowed
//! exactly this text.

mod file;

use std::path::{Path, PathBuf};

use avfs_core::rules::Rule;
use avfs_core::{BlobId, TreePath};
use avfs_store::RefEdit;

pub use crate::error::SetupFault;
use crate::error::{Error, Result};
use crate::project::Project;
use crate::record::{self, ProjectRecord, key};
use crate::task::Task;

/// The file that holds the section, at the root of a project.
const FILE: &str = "avfs.toml";

/// What each new task is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Lines for a shell, run in the task's own sandbox before anything else.
    pub commands: Vec<String>,
    /// Exceptions to the task's other rules; these take precedence.
    pub rules: Vec<Rule>,
    /// Files that every task gets.
    pub files: Vec<GivenFile>,
}

/// A file of the host that is put into each task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenFile {
    /// The path in the task.
    pub path: TreePath,
    /// The path in the project's directory.
    pub from: PathBuf,
}

/// Whether the set-up of a project may be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupState {
    /// The project has no set-up.
    Absent,
    /// The user has allowed exactly this one.
    Allowed(Setup),
    /// It was not allowed, or has changed since.
    NotAllowed(Setup),
}

impl Setup {
    /// Reads the section of a project, if there is one.
    pub fn of_project(root: &Path) -> Result<Option<Setup>> {
        let place = root.join(FILE);
        match std::fs::read_to_string(&place) {
            Ok(text) => Ok(file::parse(&place.display().to_string(), &text)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Host {
                action: "reading",
                place: place.display().to_string(),
                source,
            }),
        }
    }

    /// Reads the files that it gives to a task of the project at `root`, in their order.
    pub fn read_files(&self, root: &Path) -> Result<Vec<Vec<u8>>> {
        let read = |file: &GivenFile| {
            let from = root.join(&file.from);
            std::fs::read(&from).map_err(|source| Error::Host {
                action: "reading",
                place: format!(
                    "{}, which is named in {FILE} [setup.files] \"{}\"",
                    from.display(),
                    file.path.to_string().trim_start_matches('/')
                ),
                source,
            })
        };
        self.files.iter().map(read).collect()
    }

    /// Names everything that it does.
    fn digest(&self) -> String {
        let rules = self.rules.iter().map(|rule| format!("rule {rule}"));
        let files = self
            .files
            .iter()
            .map(|file| format!("file {:?} {:?}", file.path, file.from));
        let commands = self.commands.iter().map(|command| format!("command {command:?}"));
        let lines: Vec<String> = rules.chain(files).chain(commands).collect();
        BlobId::of(lines.join("\n").as_bytes()).to_string()
    }
}

impl Project {
    /// The set-up of the project, and whether the user has allowed it.
    pub fn setup(&self) -> Result<SetupState> {
        let Some(setup) = Setup::of_project(self.root())? else {
            return Ok(SetupState::Absent);
        };
        let allowed = self.record()?.0.setup;
        Ok(if allowed == Some(setup.digest()) {
            SetupState::Allowed(setup)
        } else {
            SetupState::NotAllowed(setup)
        })
    }

    /// Allows exactly this setup for the tasks to come.
    pub fn allow_setup(&self, setup: &Setup) -> Result<()> {
        let store = self.vault().store().clone();
        store.retry(|edits| {
            let (record, bytes) = self.record()?;
            let record = ProjectRecord {
                setup: Some(setup.digest()),
                ..record
            };
            edits.push(RefEdit::replace(
                key::project(self.path_bytes()),
                bytes,
                record::encode(&record),
            ));
            store.log(
                edits,
                "allow-setup",
                self.vault().name()?.as_str(),
                setup.digest(),
            )
        })
    }
}

impl Setup {
    /// Puts the files of the set-up into a task. They belong to its initial state, not to its changes.
    pub fn put_files(&self, task: &mut Task) -> Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        let contents = self.read_files(task.root())?;
        let open = task.vault().begin()?;
        for (file, bytes) in self.files.iter().zip(contents) {
            if let Some((parent, _)) = file.path.split_last() {
                open.make_directory(&parent, true)?;
            }
            open.write_bytes(&file.path, &bytes)?;
        }
        open.commit("setup", "files")?;
        task.begin_here()
    }
}
