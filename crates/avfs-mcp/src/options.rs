//! What a server is given: the vaults that it serves, and what belongs to the program around it.

use std::path::PathBuf;
use std::sync::Arc;

use agentvfs::approvals::ApprovalId;
use agentvfs::exec::sandbox::launch::InnerProgram;
use agentvfs::exec::{InnerDoor, RunSpec};
use agentvfs::rules::{Rule, Rules};
use agentvfs::{Hint, Store, Task, Vault};

/// Everything that a server is made of.
pub struct ServerOptions {
    /// The store with the vaults.
    pub store: Store,
    /// The vaults that a client may name.
    pub scope: Scope,
    /// The rules through which clients see vaults.
    pub rules: RuleChoice,
    /// What every command has: environment, home, limits, policy. Its own command does not count.
    pub command: RunSpec,
    /// The first program in a sandbox.
    pub inside: InnerProgram,
    /// The program around the server.
    pub front_end: Arc<dyn FrontEnd>,
}

/// The vaults that a client may name. No other vault of the store can be reached.
#[derive(Clone)]
pub enum Scope {
    /// This vault, which is the default, and the forks that come from it.
    Vault(Vault),
    /// The tasks of the project in this directory. The default is a task that is made when a client first needs one.
    Project(PathBuf),
}

/// The rules through which clients see vaults.
#[derive(Clone)]
pub enum RuleChoice {
    /// Those that programs in the vault obey.
    OfVault,
    /// These, for every vault.
    These(Rules),
    /// None: all of it is seen.
    None,
}

/// What belongs to the program around the server: words for people, and new tasks as it makes them. Called on threads that
/// may wait.
pub trait FrontEnd: Send + Sync {
    /// A hint in words.
    fn hint(&self, hint: &Hint) -> String;

    /// What a person does to let a command run that needs an approval, in words.
    fn how_to_approve(&self, id: &ApprovalId) -> String;

    /// Answers programs inside a sandbox of this vault.
    fn inner_door(&self, vault: &Vault, rules: Option<Vec<Rule>>) -> Option<Arc<dyn InnerDoor + Send>>;

    /// Makes a task for a client of this name, of the project in the scope. The text of an error is told to the client.
    fn new_task(&self, client: &str) -> Result<Task, String>;

    /// Hears what an operator should know.
    fn report(&self, line: &str);
}
