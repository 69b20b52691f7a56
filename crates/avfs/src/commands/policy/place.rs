//! Where a policy is stored: with a vault, or for the whole store.

use agentvfs::{PolicyInForce, PolicyOrigin, Store, StoredPolicy, Vault};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::escape::printable;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::time::{Age, now, show_rfc3339};

#[derive(Debug, clap::Args)]
pub struct PlaceArgs {
    /// For all vaults and projects that have no policy of their own
    #[arg(long)]
    everywhere: bool,
}

pub enum Place {
    Everywhere(Store),
    Vault(Vault),
}

impl PlaceArgs {
    /// A vault that is named, otherwise the project of the current directory, otherwise the vault that commands work on.
    pub fn find(&self, context: &Context<'_>) -> Result<Place> {
        let store = context.store()?;
        if self.everywhere {
            return Ok(Place::Everywhere(store));
        }
        if !context.names_vault()
            && let Ok(directory) = std::env::current_dir()
            && let Some(project) = store.find_project(&directory)?
        {
            return Ok(Place::Vault(project.vault()));
        }
        match context.chosen_vault(&store)? {
            Some(name) => Ok(Place::Vault(context.vault_named(&name)?)),
            None => Err(nowhere().into()),
        }
    }
}

fn nowhere() -> Failure {
    let text = "there is no project here, and no vault is chosen";
    Failure::new("no-vault", ExitStatus::BadInput, text)
        .hint(Some("name a vault with --vault, or say --everywhere".to_owned()))
}

impl Place {
    pub fn set(&self, new: Option<(&str, &str)>) -> Result<Option<StoredPolicy>> {
        Ok(match self {
            Place::Everywhere(store) => store.set_policy(new)?,
            Place::Vault(vault) => vault.set_policy(new)?,
        })
    }

    pub fn in_force(&self) -> Result<PolicyInForce> {
        Ok(match self {
            Place::Everywhere(store) => store.policy_in_force()?,
            Place::Vault(vault) => vault.policy_in_force()?,
        })
    }

    /// For people.
    pub fn name(&self) -> Result<String> {
        Ok(match self {
            Place::Everywhere(_) => "all vaults".to_owned(),
            Place::Vault(vault) => format!("vault '{}'", vault.name()?),
        })
    }

    fn vault(&self) -> Result<Option<String>> {
        Ok(match self {
            Place::Everywhere(_) => None,
            Place::Vault(vault) => Some(vault.name()?.to_string()),
        })
    }
}

/// Which policy holds, in JSON.
#[derive(Serialize)]
pub struct PolicyBody {
    /// Whom it was asked for; none: all vaults.
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
    pub fn new(place: &Place) -> Result<PolicyBody> {
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
            Age { then: stored.time, now: now() },
            printable(stored.by.as_bytes()),
        ),
        None => whose,
    }
}
