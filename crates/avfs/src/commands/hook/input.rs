//! What an agent says of a moment, and the workspace that it is about.

use std::io::Read;
use std::path::{Path, PathBuf};

use agentvfs::{Meant, Task, Vault};
use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::commands::run::{WantedTask, given_rules};
use crate::context::Context;
use crate::rule_args::RuleArgs;

/// The most that is read: a file that an agent writes is part of it.
const MOST: u64 = 64 << 20;

/// The description of a moment. Agents add fields from time to time.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct HookInput {
    pub session_id: String,
    pub cwd: PathBuf,
    pub tool_name: String,
    pub tool_input: Map<String, Value>,
    /// Of a worktree that is to be made.
    pub name: String,
    /// Of one that is to go.
    pub worktree_path: PathBuf,
}

impl HookInput {
    pub fn read() -> Result<HookInput> {
        let mut text = String::new();
        std::io::stdin()
            .lock()
            .take(MOST)
            .read_to_string(&mut text)
            .context("reading the input of the hook")?;
        HookInput::parse(&text)
    }

    fn parse(text: &str) -> Result<HookInput> {
        let mut input: HookInput = serde_json::from_str(text).context("reading the input of the hook")?;
        if input.cwd.as_os_str().is_empty() {
            input.cwd = crate::here::working_directory();
        }
        Ok(input)
    }
}

/// Where a session of an agent works.
pub enum HookWorkspace {
    /// In a mount, which its own tools change.
    Mounted { vault: Vault, at: PathBuf },
    /// In the directory of the user; its commands run in a task.
    Task(Box<Task>),
}

impl HookWorkspace {
    /// The workspace of a session. A task is made if there is none and `make` is set.
    pub fn of(context: &mut Context<'_>, input: &HookInput, make: bool) -> Result<Option<HookWorkspace>> {
        let store = context.task_store()?;
        let here = store.projects().here(&input.cwd)?;
        // Several tasks of the project are no reason to stop: the session has its own.
        if let Ok(Some(Meant::Mounted { vault, at })) = here.meant(None) {
            return Ok(Some(HookWorkspace::Mounted { vault, at }));
        }
        let name = task_name(&input.session_id);
        let root = store.projects().root_of(&input.cwd)?;
        let known = match store.projects().known_project(&root)? {
            Some(project) => project.task(&name)?,
            None => None,
        };
        if let Some(task) = known {
            return Ok(Some(HookWorkspace::Task(Box::new(task))));
        }
        if !make {
            return Ok(None);
        }
        let wanted = WantedTask {
            name: Some(&name),
            command: "agent session".to_owned(),
            automatic: true,
            profile: None,
            rules: given_rules(&RuleArgs::default())?,
        };
        Ok(Some(HookWorkspace::Task(Box::new(
            wanted.make(context, &root)?.0,
        ))))
    }

    pub fn vault(&self) -> &Vault {
        match self {
            HookWorkspace::Mounted { vault, .. } => vault,
            HookWorkspace::Task(task) => task.vault(),
        }
    }

    /// The directory of the user, or of the mount, that is the root of the workspace.
    pub fn root(&self) -> &Path {
        match self {
            HookWorkspace::Mounted { at, .. } => at,
            HookWorkspace::Task(task) => task.root(),
        }
    }
}

/// The task of a session, by the beginning of its id: every hook of the session finds it again.
fn task_name(session: &str) -> String {
    let id: String = session
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(12)
        .collect();
    if id.is_empty() {
        "session".to_owned()
    } else {
        format!("session-{}", id.to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_one_name_whatever_its_id_contains() {
        assert_eq!(task_name("8F2c-11ab-9../../x"), "session-8f2c11ab9x");
        assert_eq!(task_name("../.."), "session");
    }

    #[test]
    fn fields_that_are_not_known_are_no_mistake() {
        let input = HookInput::parse(r#"{"session_id":"a","cwd":"/x","tool_name":"Bash","new":1}"#).unwrap();
        assert_eq!(
            (input.tool_name.as_str(), input.cwd.to_str().unwrap()),
            ("Bash", "/x")
        );
        assert!(HookInput::parse("no").is_err());
    }
}
