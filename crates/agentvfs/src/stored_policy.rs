//! A policy that is kept with a vault, or for the whole store: it decides where a run brings none of its own.

use std::borrow::Cow;
use std::path::Path;

use avfs_core::Timestamp;
use avfs_exec::policy::Policy;
use avfs_store::RefEdit;
use serde::{Deserialize, Serialize};

use crate::error::{Result, VaultError};
use crate::exec::RunSpec;
use crate::record::{self, VaultId, key, time};
use crate::store::Store;
use crate::vault::Vault;

/// A stored policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPolicy {
    /// The text of the file that it was set from.
    pub text: String,
    /// The name of that file.
    pub name: String,
    /// Who stored it.
    pub by: String,
    /// When it was stored.
    #[serde(with = "time")]
    pub time: Timestamp,
}

/// Whose policy holds for a vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyOrigin {
    /// No policy is kept for it.
    BuiltIn,
    /// It is stored for all vaults.
    Store,
    /// The vault itself, or the nearest one of those that it was forked from.
    Vault(String),
}

/// The policy that holds for a vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyInForce {
    /// Where it is stored.
    pub origin: PolicyOrigin,
    /// `None`: the built-in one.
    pub stored: Option<StoredPolicy>,
    /// The policy.
    pub policy: Policy,
}

impl StoredPolicy {
    fn read(&self, owner: &str) -> Result<Policy> {
        let place = format!(
            "{} (stored for {owner})",
            avfs_core::printable(self.name.as_bytes())
        );
        Ok(Policy::parse(Path::new(&place), &self.text)?)
    }
}

/// The policy for all vaults that have none of their own.
#[derive(Clone, Copy)]
pub struct StorePolicy<'a> {
    pub(crate) store: &'a Store,
}

impl StorePolicy<'_> {
    /// Stores a policy for all vaults that have none of their own; `None` removes it. Returns the previous
    /// one.
    pub fn set(&self, new: Option<(&str, &str)>) -> Result<Option<StoredPolicy>> {
        self.replace_policy(VaultId::STORE, new, |edits, detail| {
            self.store.log(edits, action(new), "", detail.to_owned())
        })
    }

    /// The policy that holds for vaults that have none of their own.
    pub fn in_force(&self) -> Result<PolicyInForce> {
        let Some((stored, _)) =
            record::read::<StoredPolicy>(self.store.refs(), &key::policy(VaultId::STORE))?
        else {
            let policy = Policy::built_in();
            return Ok(PolicyInForce {
                origin: PolicyOrigin::BuiltIn,
                stored: None,
                policy,
            });
        };
        let policy = stored.read("all vaults")?;
        Ok(PolicyInForce {
            origin: PolicyOrigin::Store,
            stored: Some(stored),
            policy,
        })
    }

    fn replace_policy(
        &self,
        owner: VaultId,
        new: Option<(&str, &str)>,
        mut note: impl FnMut(&mut Vec<RefEdit>, &str) -> Result<()>,
    ) -> Result<Option<StoredPolicy>> {
        let new = new.map(|(name, text)| StoredPolicy {
            text: text.to_owned(),
            name: name.to_owned(),
            by: self.store.actor().name.clone(),
            time: self.store.now(),
        });
        // An invalid policy is never stored.
        new.as_ref().map(|new| new.read("a vault")).transpose()?;
        let detail = new.as_ref().map_or_else(String::new, |new| {
            let digest = blake3::hash(new.text.as_bytes()).to_hex();
            format!(
                "{} BLAKE3 {}",
                avfs_core::printable(new.name.as_bytes()),
                &digest[..16]
            )
        });
        self.store.retry(|edits| {
            let key = key::policy(owner);
            let old: Option<(StoredPolicy, Vec<u8>)> = record::read(self.store.refs(), &key)?;
            if old.is_none() && new.is_none() {
                return Ok(None);
            }
            let (old, expect) = old.unzip();
            edits.push(RefEdit {
                key,
                expect,
                value: new.as_ref().map(record::encode),
            });
            note(edits, &detail)?;
            Ok(old)
        })
    }
}

fn action(new: Option<(&str, &str)>) -> &'static str {
    if new.is_some() {
        "policy-set"
    } else {
        "policy-unset"
    }
}

/// The policy that is stored with a vault.
#[derive(Clone, Copy)]
pub struct VaultPolicy<'a> {
    pub(crate) vault: &'a Vault,
}

impl VaultPolicy<'_> {
    /// Stores a policy with this vault, which then applies to it and its forks; `None` removes it. Returns
    /// the previous one.
    pub fn set(&self, new: Option<(&str, &str)>) -> Result<Option<StoredPolicy>> {
        self.vault.check_unrestricted("setting its policy")?;
        self.vault
            .store()
            .policy()
            .replace_policy(self.vault.id(), new, |edits, detail| {
                self.vault.approvals().note(edits, action(new), detail)
            })
    }

    /// The policy that holds for runs in this vault: its own, that of the nearest vault that it was forked from and
    /// that has one, that of the store, or the built-in one.
    pub fn in_force(&self) -> Result<PolicyInForce> {
        let mut next = Some(self.vault.id());
        while let Some(id) = next {
            let vault = Vault::new(self.vault.store().clone(), id);
            if let Some((stored, _)) =
                record::read::<StoredPolicy>(self.vault.store().refs(), &key::policy(id))?
            {
                let name = vault.name()?.to_string();
                let policy = stored.read(&format!("vault {name}"))?;
                return Ok(PolicyInForce {
                    origin: PolicyOrigin::Vault(name),
                    stored: Some(stored),
                    policy,
                });
            }
            next = match vault.record() {
                Ok((record, _)) => record.parent.map(|parent| parent.vault),
                // A vault that is gone has no policy either.
                Err(crate::Error::Vault(VaultError::Unknown { .. })) => None,
                Err(error) => return Err(error),
            };
        }
        self.vault.store().policy_in_force()
    }

    /// A request with the policy that decides on it.
    pub(crate) fn apply_to<'a>(&self, request: &'a RunSpec) -> Result<Cow<'a, RunSpec>> {
        Ok(match &request.policy {
            Some(_) => Cow::Borrowed(request),
            None => {
                let policy = Some(self.in_force()?.policy);
                Cow::Owned(RunSpec {
                    policy,
                    ..request.clone()
                })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VaultName;
    use avfs_exec::classify::{Command, classify};

    const STRICT: &str = "[classes]\nmutating = \"deny\"\n";
    const LENIENT: &str = "[classes]\nmutating = \"allow\"\n";

    fn rule(vault: &Vault) -> String {
        let found = classify(&Command::Shell("touch a".into()));
        vault.policy_in_force().unwrap().policy.decide(&found, true).rule
    }

    #[test]
    fn the_nearest_policy_decides_and_its_name_is_in_the_decision() {
        let store = Store::in_memory();
        let main = store.create_vault(&VaultName::new("main").unwrap()).unwrap();
        let fork = main.fork(&[VaultName::new("fork").unwrap()]).unwrap().remove(0);
        assert_eq!(rule(&fork), "mutating (built-in)");
        store.set_policy(Some(("strict.toml", STRICT))).unwrap();
        assert_eq!(rule(&fork), "mutating (strict.toml (stored for all vaults):2)");
        main.set_policy(Some(("lenient.toml", LENIENT))).unwrap();
        assert_eq!(rule(&fork), "mutating (lenient.toml (stored for vault main):2)");
        assert_eq!(
            fork.policy_in_force().unwrap().origin,
            PolicyOrigin::Vault("main".into())
        );
        fork.set_policy(Some(("strict.toml", STRICT))).unwrap();
        assert_eq!(rule(&fork), "mutating (strict.toml (stored for vault fork):2)");
        assert_eq!(fork.set_policy(None).unwrap().unwrap().text, STRICT);
        assert_eq!(fork.set_policy(None).unwrap(), None);
        main.delete(true).unwrap();
        assert_eq!(rule(&fork), "mutating (strict.toml (stored for all vaults):2)");
    }

    #[test]
    fn invalid_policy_is_not_stored() {
        let store = Store::in_memory();
        let main = store.create_vault(&VaultName::new("main").unwrap()).unwrap();
        assert!(main.set_policy(Some(("bad.toml", "classes = 3"))).is_err());
        assert!(store.set_policy(Some(("bad.toml", "classes = 3"))).is_err());
        assert_eq!(main.policy_in_force().unwrap().origin, PolicyOrigin::BuiltIn);
    }
}
