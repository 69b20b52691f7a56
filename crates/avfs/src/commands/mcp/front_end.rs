//! What the server asks of the command line: words for people, the inner door, and new tasks.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use agentvfs::approvals::ApprovalId;
use agentvfs::exec::InnerDoor;
use agentvfs::rules::Rule;
use agentvfs::{Hint, Task, Vault};
use anyhow::Result;
use avfs_mcp::FrontEnd;

use crate::commands::exec::HostDoor;
use crate::commands::run::{WantedTask, given_rules};
use crate::context::Context;
use crate::failure::Failure;
use crate::global_args::{EarlyFlags, GlobalArgs};
use crate::hint;
use crate::printer::Printer;
use crate::rule_args::RuleArgs;

/// The command line around a server.
pub struct CommandLine {
    /// The directory of the store.
    pub home: PathBuf,
    /// The rules of the flags, for new tasks.
    pub rules: RuleArgs,
    /// The project of which tasks are made, if they are.
    pub root: Option<PathBuf>,
}

impl FrontEnd for CommandLine {
    fn hint(&self, hint: &Hint) -> String {
        hint::words(hint)
    }

    fn how_to_approve(&self, id: &ApprovalId) -> String {
        format!("`avfs approvals show {id}` shows the details, `avfs approvals allow {id}` allows it")
    }

    fn inner_door(&self, vault: &Vault, rules: Option<Vec<Rule>>) -> Option<Arc<dyn InnerDoor + Send>> {
        let vault = vault.name().ok()?.to_string();
        let home = self.home.clone();
        Some(Arc::new(HostDoor { home, vault, rules }))
    }

    fn new_task(&self, client: &str) -> Result<Task, String> {
        self.task(client).map_err(|error| {
            let failure = Failure::of(&error);
            match failure.hint {
                Some(hint) => format!("{}; {hint}", failure.message),
                None => failure.message,
            }
        })
    }

    fn report(&self, line: &str) {
        // Nobody else can be told.
        let _ = writeln!(io::stderr(), "avfs mcp: {line}");
    }
}

impl CommandLine {
    /// A task as `avfs task new` makes it. Standard output belongs to the protocol: what there is to say goes elsewhere.
    fn task(&self, client: &str) -> Result<Task> {
        let style = EarlyFlags::default().style();
        let mut out = Printer::to(Box::new(io::sink()), Box::new(io::stderr()), style);
        let global = GlobalArgs {
            home: Some(self.home.clone()),
            ..GlobalArgs::default()
        };
        let mut context = Context::load(&mut out, &global, None)?;
        let root = self.root.clone().unwrap_or_default();
        let wanted = WantedTask {
            name: None,
            command: format!("mcp {client}"),
            automatic: true,
            profile: None,
            rules: given_rules(&self.rules)?,
        };
        let (task, _) = wanted.make(&mut context, &root)?;
        Ok(task)
    }
}
