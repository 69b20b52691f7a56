//! The workspaces that clients may name, and the open sandboxes in them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentvfs::exec::sandbox::classify::Command;
use agentvfs::exec::{AfterRun, RunSpec};
use agentvfs::rules::Rules;
use agentvfs::session::SessionStartError;
use agentvfs::{OpenSandbox, Task, TaskState, Vault, VaultId, VaultInfo};

use crate::options::{RuleChoice, Scope, ServerOptions};
use crate::outputs::Outputs;
use crate::tool_error::ToolError;

/// What the tools work with. One for all connections of a server.
pub(crate) struct Workspaces {
    options: ServerOptions,
    /// The task that was made for clients that name no workspace.
    made: Mutex<Option<Task>>,
    sandboxes: Mutex<HashMap<VaultId, Arc<Mutex<Option<Arc<OpenSandbox>>>>>>,
    pub outputs: Outputs,
}

/// A vault as a client sees it.
#[derive(Clone)]
pub(crate) struct Workspace {
    pub name: String,
    /// Through the rules that hold for clients; no other vault can be named from it.
    pub vault: Vault,
    /// All of it.
    pub whole: Vault,
}

impl Workspaces {
    pub fn new(options: ServerOptions) -> Workspaces {
        Workspaces {
            options,
            made: Mutex::default(),
            sandboxes: Mutex::default(),
            outputs: Outputs::default(),
        }
    }

    pub fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// The workspace of this name, or the default one, which is made if it does not exist yet.
    pub fn named(&self, name: Option<&str>, client: &str) -> Result<Workspace, ToolError> {
        match name {
            Some(name) => self.find(name),
            None => self.default_workspace(client),
        }
    }

    /// The default workspace, unless it does not exist yet.
    pub fn default_already(&self) -> Result<Option<Workspace>, ToolError> {
        match &self.options.scope {
            Scope::Vault(vault) => self.seen(vault.clone()).map(Some),
            Scope::Project(_) => {
                let made = lock(&self.made).clone();
                made.map(|task| self.seen(task.vault().clone())).transpose()
            }
        }
    }

    fn default_workspace(&self, client: &str) -> Result<Workspace, ToolError> {
        if let Scope::Vault(vault) = &self.options.scope {
            return self.seen(vault.clone());
        }
        // Held while the task is made: a second request at the same time waits for the same task.
        let mut made = lock(&self.made);
        let task = match &*made {
            // A person may have discarded it meanwhile.
            Some(task) if self.options.store.has_vault(task.vault_name().as_str())? => task.clone(),
            _ => {
                let task = self.options.front_end.new_task(client);
                let task = task.map_err(|message| ToolError::new("no-workspace", message))?;
                made.insert(task).clone()
            }
        };
        self.seen(task.vault().clone())
    }

    /// A workspace that a client names: the name of its vault, or of a task without its project.
    fn find(&self, name: &str) -> Result<Workspace, ToolError> {
        let store = &self.options.store;
        let unknown = || {
            let name = avfs_core::printable(name.as_bytes());
            ToolError::new(
                "unknown-workspace",
                format!("there is no workspace '{name}' here"),
            )
            .help("`status` lists the workspaces; without `workspace`, a tool works on the default one")
        };
        if store.has_vault(name)? {
            let vault = store.vault(name)?;
            return if self.admits(&vault)? {
                self.seen(vault)
            } else {
                Err(unknown())
            };
        }
        let beside = self
            .all()?
            .into_iter()
            .find(|known| known.name.rsplit('/').next() == Some(name));
        beside.ok_or_else(unknown)
    }

    /// Every workspace that a client may name.
    pub fn all(&self) -> Result<Vec<Workspace>, ToolError> {
        let store = &self.options.store;
        let vaults: Vec<Vault> = match &self.options.scope {
            Scope::Project(root) => match store.known_project(root)? {
                Some(project) => project.tasks()?.iter().map(|task| task.vault().clone()).collect(),
                None => Vec::new(),
            },
            Scope::Vault(base) => {
                let family = self.family(base)?;
                family.into_iter().map(|id| store.vault_by_id(id)).collect()
            }
        };
        vaults.into_iter().map(|vault| self.seen(vault)).collect()
    }

    fn admits(&self, vault: &Vault) -> Result<bool, ToolError> {
        match &self.options.scope {
            Scope::Project(root) => Ok(Task::of_vault(vault)?.is_some_and(|task| task.root() == root)),
            Scope::Vault(base) => Ok(base.id() == vault.id() || self.family(base)?.contains(&vault.id())),
        }
    }

    /// A vault and the forks that come from it, by the records of one moment.
    fn family(&self, base: &Vault) -> Result<BTreeSet<VaultId>, ToolError> {
        let known = self.options.store.vaults()?.vaults;
        let mut family = BTreeSet::from([base.id()]);
        let mut names: Vec<String> = vec![base.name()?.to_string()];
        while let Some(parent) = names.pop() {
            let is_fork =
                |info: &&VaultInfo| info.parent.as_ref().is_some_and(|name| name.as_str() == parent);
            for fork in known.iter().filter(is_fork) {
                if family.insert(fork.id) {
                    names.push(fork.name.to_string());
                }
            }
        }
        Ok(family)
    }

    fn seen(&self, vault: Vault) -> Result<Workspace, ToolError> {
        let rules = self.rules_of(&vault)?;
        let alone = vault.alone();
        Ok(Workspace {
            name: vault.name()?.to_string(),
            vault: match rules {
                Some(rules) => alone.through(rules),
                None => alone,
            },
            whole: vault,
        })
    }

    fn rules_of(&self, vault: &Vault) -> Result<Option<Rules>, ToolError> {
        match &self.options.rules {
            RuleChoice::None => Ok(None),
            RuleChoice::These(rules) => Ok(Some(rules.clone())),
            RuleChoice::OfVault => {
                let rules = vault.rules_for_programs()?.map(Rules::shared).transpose();
                Ok(rules.map_err(agentvfs::Error::from)?)
            }
        }
    }

    /// A command for a workspace, with what every command of this server has.
    pub fn command(&self, workspace: &Workspace, command: Command, client: &str) -> RunSpec {
        RunSpec {
            command,
            rules: workspace.vault.rules().map(|rules| rules.list().to_vec()),
            principal: Some(format!("mcp {client}")),
            ..self.options.command.clone()
        }
    }

    /// The sandbox in which the commands of a workspace run. It is opened by the first of them, and stays.
    pub fn sandbox(
        &self,
        workspace: &Workspace,
        client: &str,
    ) -> Result<Arc<OpenSandbox>, SessionStartError> {
        let place = Arc::clone(lock(&self.sandboxes).entry(workspace.whole.id()).or_default());
        let mut place = lock(&place);
        if let Some(open) = &*place {
            return Ok(Arc::clone(open));
        }
        let spec = self.command(workspace, Command::Shell(String::new()), client);
        let front_end = Arc::clone(&self.options.front_end);
        let door = front_end.inner_door(&workspace.whole, spec.rules.clone());
        let report = Arc::new(move |line: &str| front_end.report(line));
        let opened = workspace
            .whole
            .open_sandbox(&spec, self.options.inside.clone(), door, report)?;
        Ok(Arc::clone(place.insert(Arc::new(opened))))
    }

    /// Ends the sandbox of a workspace if there is one; the next command opens another.
    pub fn close_sandbox(&self, workspace: &Workspace) {
        let place = lock(&self.sandboxes).remove(&workspace.whole.id());
        // Commands that still run in it hold it open until they have ended.
        drop(place);
    }

    /// Ends every sandbox, and discards the task that was made if nothing was changed in it. Commands have ended by now.
    pub fn end(&self) -> Vec<AfterRun> {
        let sandboxes: Vec<_> = lock(&self.sandboxes).drain().collect();
        let mut after = Vec::new();
        for (_, place) in sandboxes {
            let open = lock(&place).take().and_then(Arc::into_inner);
            match open.map(OpenSandbox::end) {
                Some(Ok(ended)) => after.push(ended),
                Some(Err(error)) => self.options.front_end.report(&avfs_core::with_causes(&error)),
                None => {}
            }
        }
        if let Some(task) = lock(&self.made).take()
            && is_unused(&task).unwrap_or(false)
        {
            // What serves its vault to others until they end is waited for with the rest.
            let mut lingering = AfterRun::default();
            if let Err(error) = task.discard_at_end(&mut lingering) {
                self.options.front_end.report(&avfs_core::with_causes(&error));
            }
            after.push(lingering);
        }
        after
    }
}

/// Whether nothing in a task that was made by itself is worth keeping. The checkpoints that commands have saved are not.
fn is_unused(task: &Task) -> agentvfs::Result<bool> {
    let task = Task::of(task.vault().clone())?;
    let has_names = task
        .vault()
        .checkpoints()?
        .iter()
        .any(|checkpoint| !checkpoint.automatic);
    Ok(!has_names && task.state()? == TaskState::Unchanged && task.open_conflicts()?.is_empty())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
