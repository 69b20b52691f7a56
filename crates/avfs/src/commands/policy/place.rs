//! Where a policy is stored: with a vault, or for the whole store.

use agentvfs::{PolicyInForce, PolicyOrigin, Store, StoredPolicy, Vault};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::escape::printable;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::here::{Decided, VaultReason, working_directory};
use crate::time::{Age, now, show_rfc3339};

#[derive(Debug, clap::Args)]
pub struct PlaceArgs {
    /// Use the policy for all vaults and projects that have none of their own
    #[arg(long)]
    everywhere: bool,
}

pub enum PolicyPlace {
    Everywhere(Store),
    Vault(Vault),
}

impl PlaceArgs {
    /// The vault whose policy decides on commands that `avfs exec` runs here.
    pub fn of_commands(&self, context: &Context<'_>) -> Result<PolicyPlace> {
        self.find(context, |decided| decided.vault)
    }

    /// Where a policy is stored: with the vault that commands work on, but with its project if that vault is
    /// an unnamed task.
    pub fn to_store(&self, context: &Context<'_>) -> Result<PolicyPlace> {
        let store = context.store()?;
        let project = store.projects().find(&working_directory())?;
        self.find(context, |decided| match (&decided.reason, project) {
            (VaultReason::OnlyTask(_) | VaultReason::ChosenTask(_), Some(project)) => project.vault(),
            _ => decided.vault,
        })
    }

    fn find(&self, context: &Context<'_>, place: impl FnOnce(Decided) -> Vault) -> Result<PolicyPlace> {
        let store = context.store()?;
        if self.everywhere {
            return Ok(PolicyPlace::Everywhere(store));
        }
        if let Some(decided) = context.decided_already(&store)? {
            context.tell_if_of_no_project(&store, &decided)?;
            return Ok(PolicyPlace::Vault(place(decided)));
        }
        match store.projects().find(&working_directory())? {
            Some(project) => Ok(PolicyPlace::Vault(project.vault())),
            None => Err(nowhere().into()),
        }
    }
}

fn nowhere() -> Failure {
    let text = "there is no project here, and no vault is chosen";
    Failure::new("no-vault", ExitStatus::BadInput, text)
        .hint(Some("name a vault with --vault, or say --everywhere".to_owned()))
}

impl PolicyPlace {
    pub fn set(&self, new: Option<(&str, &str)>) -> Result<Option<StoredPolicy>> {
        Ok(match self {
            PolicyPlace::Everywhere(store) => store.set_policy(new)?,
            PolicyPlace::Vault(vault) => vault.set_policy(new)?,
        })
    }

    pub fn in_force(&self) -> Result<PolicyInForce> {
        Ok(match self {
            PolicyPlace::Everywhere(store) => store.policy_in_force()?,
            PolicyPlace::Vault(vault) => vault.policy_in_force()?,
        })
    }

    /// For people.
    pub fn name(&self) -> Result<String> {
        Ok(match self {
            PolicyPlace::Everywhere(_) => "all vaults".to_owned(),
            PolicyPlace::Vault(vault) => format!("vault '{}'", vault.name()?),
        })
    }

    fn vault(&self) -> Result<Option<String>> {
        Ok(match self {
            PolicyPlace::Everywhere(_) => None,
            PolicyPlace::Vault(vault) => Some(vault.name()?.to_string()),
        })
    }
}

/// Which policy holds, in JSON.
#[derive(Serialize)]
pub struct PolicyBody {
    /// The vault for which it was requested; none: all vaults.
    vault: Option<String>,
    /// `built-in`, `store` or `vault`.
    origin: &'static str,
    /// The vault that it is stored with.
    stored_with: Option<String>,
    file: Option<String>,
    by: Option<String>,
    time: Option<String>,
    text: String,
}

impl PolicyBody {
    pub fn new(place: &PolicyPlace) -> Result<PolicyBody> {
        let force = place.in_force()?;
        let (origin, stored_with) = match force.origin {
            PolicyOrigin::BuiltIn => ("built-in", None),
            PolicyOrigin::Store => ("store", None),
            PolicyOrigin::Vault(name) => ("vault", Some(name)),
        };
        let stored = force.stored.as_ref();
        Ok(PolicyBody {
            vault: place.vault()?,
            origin,
            stored_with,
            file: stored.map(|stored| stored.name.clone()),
            by: stored.map(|stored| stored.by.clone()),
            time: stored.map(|stored| show_rfc3339(stored.time)),
            text: stored.map_or_else(|| force.policy.text(), |stored| stored.text.clone()),
        })
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Where the policy that holds comes from, for people.
pub fn origin(force: &PolicyInForce) -> String {
    let whose = match &force.origin {
        PolicyOrigin::BuiltIn => return "the built-in policy".to_owned(),
        PolicyOrigin::Store => "all vaults".to_owned(),
        PolicyOrigin::Vault(name) => format!("vault '{name}'"),
    };
    match &force.stored {
        Some(stored) => format!(
            "{} (stored for {whose} {} by {})",
            printable(stored.name.as_bytes()),
            Age {
                then: stored.time,
                now: now()
            },
            printable(stored.by.as_bytes()),
        ),
        None => whose,
    }
}
