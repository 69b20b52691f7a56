//! What is set up, where, and for which store.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::agent::Reach;
use super::record::SetupRecords;
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// One thing that an agent can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupPart {
    Mcp,
    Hooks,
    Worktrees,
    Skill,
}

impl SetupPart {
    pub const ALL: [SetupPart; 4] = [
        SetupPart::Mcp,
        SetupPart::Hooks,
        SetupPart::Worktrees,
        SetupPart::Skill,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            SetupPart::Mcp => "mcp",
            SetupPart::Hooks => "hooks",
            SetupPart::Worktrees => "worktrees",
            SetupPart::Skill => "skill",
        }
    }
}

/// What the user asked for.
pub struct WantedSetup {
    pub parts: Vec<SetupPart>,
    pub reach: Reach,
    /// The store, if it was named by a flag.
    pub home: Option<PathBuf>,
    pub remove: bool,
}

impl WantedSetup {
    /// The tools, for all projects of the user.
    pub fn tools() -> WantedSetup {
        WantedSetup {
            parts: vec![SetupPart::Mcp],
            reach: Reach::User,
            home: None,
            remove: false,
        }
    }
}

/// The directories that settings are in.
pub struct SetupPlace {
    /// The user's home.
    pub home: PathBuf,
    /// Where settings of the user are, if not in a directory of the agent's own.
    pub config: PathBuf,
    pub project: Option<PathBuf>,
    /// What earlier setups changed.
    pub records: SetupRecords,
}

impl SetupPlace {
    pub fn of_user(project: Option<PathBuf>) -> Result<SetupPlace, Failure> {
        let home = std::env::home_dir()
            .filter(|home| home.is_absolute())
            .ok_or_else(|| {
                Failure::new(
                    "no-home",
                    ExitStatus::BadInput,
                    "there is no place for settings: HOME is not set",
                )
            })?;
        let config = std::env::var_os("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute());
        Ok(SetupPlace {
            config: config.unwrap_or_else(|| home.join(".config")),
            records: SetupRecords::of_user(&home),
            home,
            project,
        })
    }

    /// A file below the directory that a reach means.
    pub fn file(&self, reach: Reach, below: &str) -> Option<PathBuf> {
        match reach {
            Reach::Project => self.project.as_ref().map(|project| project.join(below)),
            Reach::User => Some(match below.strip_prefix("~config/") {
                Some(below) => self.config.join(below),
                None => self.home.join(below),
            }),
        }
    }
}

/// How agents start this program: by its name, if that is what the `PATH` finds.
pub fn own_program() -> Result<String, Failure> {
    let unknown = |reason: &str| {
        Failure::new(
            "agent-refused",
            ExitStatus::Refused,
            format!("agents cannot start this program: {reason}"),
        )
    };
    let own = std::env::current_exe().map_err(|error| unknown(&error.to_string()))?;
    // Compared without links: installers put a link into the search path.
    let same = |found: &Path| found.canonicalize().ok() == own.canonicalize().ok();
    if program_on_path("avfs").is_some_and(|found| same(&found)) {
        return Ok("avfs".to_owned());
    }
    own.to_str()
        .map(str::to_owned)
        .ok_or_else(|| unknown("its path is not UTF-8"))
}

/// A program of the `PATH`.
pub fn program_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The words after the program: a store that was named by a flag is named again.
pub fn words(wanted: &WantedSetup, command: &[&str]) -> Result<Vec<String>, Failure> {
    let mut words = Vec::new();
    if let Some(home) = &wanted.home {
        let home = home.to_str().ok_or_else(|| {
            Failure::new(
                "bad-name",
                ExitStatus::BadInput,
                "the path of the store is not UTF-8",
            )
        })?;
        words.extend(["--home".to_owned(), home.to_owned()]);
    }
    words.extend(command.iter().map(|word| (*word).to_owned()));
    Ok(words)
}
