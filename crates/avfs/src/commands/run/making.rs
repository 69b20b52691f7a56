//! Makes a task of a project, with the project's set-up.

use std::path::Path;

use agentvfs::rules::{self, Rule};
use agentvfs::{NewTask, Project, Task, TaskName};
use anyhow::Result;

use super::withdrawing::MadeObjects;
use crate::commands::missing::moved_here;
use crate::commands::project::setup::{allowed_setup, carry_out};
use crate::context::Context;
use crate::rule_args::{Chosen, RuleArgs};

/// A task that does not exist yet.
pub struct WantedTask<'a> {
    pub name: Option<&'a str>,
    /// The command that is about to run in it, as one line.
    pub command: String,
    /// It is made for one run by itself.
    pub automatic: bool,
    pub profile: Option<String>,
    pub rules: Option<Vec<Rule>>,
}

impl WantedTask<'_> {
    /// Makes it, from the project to which a directory belongs. All checks come before anything is created.
    pub fn make(self, context: &mut Context<'_>, directory: &Path) -> Result<(Task, MadeObjects)> {
        let name = self.name.map(TaskName::new).transpose()?;
        let store = context.task_store()?;
        let root = store.projects().root_of(directory)?;
        let is_first = store.projects().known_project(&root)?.is_none();
        if let Some(hint) = is_first.then(|| moved_here(&store)).flatten() {
            context.out.warn(hint);
        }
        let project = store.project(&root)?;
        let made = self.make_in(context, &project, name);
        if made.is_err() && is_first && project.tasks()?.is_empty() {
            project.clone().forget(false)?;
        }
        Ok((made?, MadeObjects { project, is_first }))
    }

    fn make_in(self, context: &mut Context<'_>, project: &Project, name: Option<TaskName>) -> Result<Task> {
        let setup = allowed_setup(context, project)?;
        let mut rules = self.rules;
        if let (Some(rules), Some(setup)) = (&mut rules, &setup) {
            rules.extend(setup.rules.iter().cloned());
        }
        let new = NewTask {
            name,
            command: self.command,
            automatic: self.automatic,
            profile: self.profile,
            rules: rules.clone(),
        };
        if let Some(setup) = &setup {
            setup.read_files(project.root())?;
        }
        let mut task = project.new_task(&new)?;
        if let Some(setup) = setup {
            // Without this flag, `exec` uses the rules of the task.
            let flags = if rules.is_none() {
                vec!["--no-rules".to_owned()]
            } else {
                Vec::new()
            };
            carry_out(context, &mut task, &setup, &flags)?;
        }
        Ok(task)
    }
}

/// The rules of the flags, or the usual ones.
pub fn given_rules(flags: &RuleArgs) -> Result<Option<Vec<Rule>>> {
    let usual = rules::usual();
    match flags.read_on_top_of(&usual)? {
        Chosen::Everything => Ok(None),
        Chosen::These(rules) => Ok(Some(rules.list().to_vec())),
        Chosen::Stored => Ok(Some(usual)),
    }
}
