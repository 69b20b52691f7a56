//! Which rules hold for a command with certain flags, or for programs in a task.

use std::path::PathBuf;

use agentvfs::hidden::with_tracked_opened;
use agentvfs::rules::{Rule, Rules};
use agentvfs::setup::SetupState;
use agentvfs::{Task, Vault};
use anyhow::Result;

use crate::commands::run::given_rules;
use crate::context::Context;
use crate::escape::printable_path;
use crate::here::working_directory;
use crate::printer::Printer;
use crate::rule_args::{Chosen, RuleArgs};

pub struct InForce {
    /// `None`: all of a vault is seen.
    pub rules: Option<Rules>,
    /// The chosen vault, if one is.
    pub vault: Option<Vault>,
    pub subject: RulesSubject,
}

/// The subject of the rules.
pub enum RulesSubject {
    /// A command with these flags, on the chosen vault.
    Command,
    /// Programs that run in a task, which has no rules stored with it.
    ProgramsIn(Box<Task>),
    /// Programs that run in a new task of the project at this directory.
    NewTaskOf(PathBuf),
}

impl InForce {
    pub fn find(context: &Context<'_>, flags: &RuleArgs) -> Result<InForce> {
        let chosen = context.rule_args(flags).read()?;
        let vault = context.vault_if_chosen()?;
        let (rules, subject) = match (chosen, &vault) {
            (Chosen::These(rules), _) => (Some(rules), RulesSubject::Command),
            (Chosen::Everything, _) => (None, RulesSubject::Command),
            (Chosen::Stored, Some(vault)) => of_vault(vault)?,
            (Chosen::Stored, None) => match project(context)? {
                Some(root) => (of_new_task(context, &root)?, RulesSubject::NewTaskOf(root)),
                None => (None, RulesSubject::Command),
            },
        };
        Ok(InForce {
            rules,
            vault,
            subject,
        })
    }
}

impl RulesSubject {
    /// Prints the subject of the rules, unless it is the command's own.
    pub fn tell(&self, out: &mut Printer) {
        match self {
            RulesSubject::Command => {}
            RulesSubject::ProgramsIn(task) => out.talk(format_args!(
                "rules for programs in task {}; your own commands see all of it",
                task.vault_name()
            )),
            RulesSubject::NewTaskOf(root) => {
                out.talk(format_args!(
                    "rules for programs in a new task of {}",
                    printable_path(root)
                ));
            }
        }
    }
}

/// The rules that are stored with a vault, or with which the task was made: `run` and `exec` give them to
/// programs.
fn of_vault(vault: &Vault) -> Result<(Option<Rules>, RulesSubject)> {
    if vault.stored_rules()?.is_some() {
        return Ok((vault.through_stored()?.rules().cloned(), RulesSubject::Command));
    }
    match Task::of_vault(vault)? {
        Some(task) => Ok((task.rules()?, RulesSubject::ProgramsIn(Box::new(task)))),
        None => Ok((None, RulesSubject::Command)),
    }
}

/// The project that contains the current directory: a directory with tasks, or a repository.
fn project(context: &Context<'_>) -> Result<Option<PathBuf>> {
    let here = working_directory();
    if !context.settings.home().is_some_and(std::path::Path::exists) {
        return Ok(None);
    }
    let store = context.store()?;
    let root = store.projects().root_of(&here)?;
    let is_project = store.projects().known_project(&root)?.is_some() || root.join(".git").exists();
    Ok(Some(root).filter(|_| is_project))
}

fn of_new_task(context: &Context<'_>, root: &std::path::Path) -> Result<Option<Rules>> {
    let Some(rules) = new_task_rules(context, root, &RuleArgs::default())? else {
        return Ok(None);
    };
    let rules = with_tracked_opened(root, &rules);
    Ok(Some(Rules::new(rules).map_err(agentvfs::Error::from)?))
}

/// The rules of a new task that `avfs run` would make, before its files are examined: the default ones, those
/// of the flags, and those of a setup that the user has allowed.
pub fn new_task_rules(
    context: &Context<'_>,
    root: &std::path::Path,
    flags: &RuleArgs,
) -> Result<Option<Vec<Rule>>> {
    let Some(mut rules) = given_rules(flags)? else {
        return Ok(None);
    };
    let project = context.store()?.projects().known_project(root)?;
    if let Some(SetupState::Allowed(setup)) = project.map(|project| project.setup()).transpose()? {
        rules.extend(setup.rules.iter().cloned());
    }
    Ok(Some(rules))
}
