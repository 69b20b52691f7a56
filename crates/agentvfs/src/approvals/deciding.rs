//! Answers to requests.

use std::path::PathBuf;

use avfs_exec::policy::{PrefixRule, edit_rules};
use avfs_store::RefEdit;

use super::asking::detail;
use super::record::{Approval, ApprovalId, ApprovalState, SESSION_SECONDS, Scope, after, keys};
use super::saved::{self, SavedFor, SavedRule};
use crate::approvals::asking::Approvals;
use crate::error::{ApprovalError, Error, Result};
use crate::record::{self, key};
use crate::vault::Vault;

/// For how long a request is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// For the next run of the request.
    Once,
    /// For a limited time, in the session that asked.
    Session,
    /// With a rule that is saved: the one that the approval names, or edits of it.
    Always {
        /// The words of other rules in place of the one that the approval names.
        edits: Vec<String>,
        /// Where the rule is saved.
        place: SavePlace,
    },
}

impl Allowance {
    fn scope(&self) -> Scope {
        match self {
            Allowance::Once => Scope::Once,
            Allowance::Session => Scope::Session,
            Allowance::Always { .. } => Scope::Always,
        }
    }
}

/// Where a rule is saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SavePlace {
    /// With the vault: it is valid for runs there, with no more network than was requested.
    Vault,
    /// At the end of a policy file: it holds wherever that file is used.
    File(PathBuf),
}

impl Approvals<'_> {
    /// Lets a request run. Returns the approval, and the rules that were saved.
    pub fn allow(&self, id: &ApprovalId, allowance: &Allowance) -> Result<(Approval, Vec<PrefixRule>)> {
        let pending = self.get(id)?;
        check_pending(&pending)?;
        if let Some(reason) = pending
            .binding
            .once_only()
            .filter(|_| *allowance != Allowance::Once)
        {
            return Err(Error::Approval(ApprovalError::OnlyOnce {
                id: id.to_string(),
                reason,
            }));
        }
        let (rules, place) = match allowance {
            Allowance::Once | Allowance::Session => (Vec::new(), None),
            Allowance::Always { edits, place } => (rules_for(&pending, edits)?, Some(place)),
        };
        // A policy file has rules for words alone.
        if matches!(place, Some(SavePlace::File(_))) && pending.saves_whole_command() {
            return Err(Error::Approval(ApprovalError::NothingToSave {
                id: id.to_string(),
            }));
        }
        let file = match place {
            Some(SavePlace::File(file)) => Some((file, saved::appended(file, &rules)?)),
            Some(SavePlace::Vault) | None => None,
        };
        let allowed = self.decide(id, "approval-allow", |approval, edits| {
            check_pending(&approval)?;
            let (by, time) = (self.store.actor().name.clone(), self.store.now());
            let scope = allowance.scope();
            let expires = match scope {
                Scope::Session => after(time, SESSION_SECONDS),
                // From now on it is the rule that allows it, as long as there is one.
                Scope::Always if place == Some(&SavePlace::Vault) => time,
                Scope::Once | Scope::Always => approval.expires,
            };
            if place == Some(&SavePlace::Vault) {
                self.save_rules(edits, &approval, &rules)?;
            }
            let state = ApprovalState::Allowed { scope, by, time };
            Ok((
                format!(" ({})", scope.as_str()),
                Approval {
                    state,
                    expires,
                    ..approval
                },
            ))
        })?;
        if let Some((file, text)) = file {
            saved::write(file, &text)?;
        }
        Ok((allowed, rules))
    }

    /// Denies a request; withdraws an answer that has not been used up.
    pub fn deny(&self, id: &ApprovalId, reason: Option<&str>) -> Result<Approval> {
        self.get(id)?;
        self.decide(id, "approval-deny", |approval, _| {
            match &approval.state {
                ApprovalState::Allowed { .. } => {}
                _ => check_pending(&approval)?,
            }
            let (by, time) = (self.store.actor().name.clone(), self.store.now());
            let state = ApprovalState::Denied {
                by,
                time,
                reason: reason.map(str::to_owned),
            };
            let told = reason.map(|reason| format!(" ({})", avfs_core::printable(reason.as_bytes())));
            Ok((told.unwrap_or_default(), Approval { state, ..approval }))
        })
    }

    fn decide(
        &self,
        id: &ApprovalId,
        action: &str,
        mut answer: impl FnMut(Approval, &mut Vec<RefEdit>) -> Result<(String, Approval)>,
    ) -> Result<Approval> {
        let vault = Vault::new(self.store.clone(), id.vault);
        self.store.retry(|edits| {
            let (approval, bytes) = self.record(id)?;
            let (told, decided) = answer(approval, edits)?;
            edits.push(RefEdit::replace(
                keys::approval(id),
                bytes,
                record::encode(&decided),
            ));
            self.forget_input(edits, id)?;
            vault.approvals().note(
                edits,
                action,
                &format!("{}{told}", detail(&decided, &decided.run)),
            )?;
            Ok(decided)
        })
    }

    /// The edits that save rules with the vault of an approval.
    fn save_rules(&self, edits: &mut Vec<RefEdit>, approval: &Approval, rules: &[PrefixRule]) -> Result<()> {
        let (mut all, expect) = self.saved_record(approval.id.vault)?;
        for rule in rules {
            let new = SavedRule {
                rule: rule.to_toml(),
                network: approval.binding.network.clone(),
                approval: approval.id.clone(),
                by: self.store.actor().name.clone(),
                time: self.store.now(),
                holds_for: Some(SavedFor::of(approval, rule)),
            };
            let is_same = |old: &SavedRule| old.rule == new.rule && old.network == new.network;
            // An old copy that holds for nothing is useless beside the new one.
            all.retain(|old| old.holds_for.is_some() || !is_same(old));
            if !all
                .iter()
                .any(|old| is_same(old) && old.holds_for == new.holds_for)
            {
                all.push(new);
            }
        }
        let key = key::always_allowed(approval.id.vault);
        edits.push(RefEdit {
            key,
            expect,
            value: Some(record::encode(&all)),
        });
        Ok(())
    }
}

/// An approval that has not been answered yet.
fn check_pending(approval: &Approval) -> Result<()> {
    let id = approval.id.to_string();
    match &approval.state {
        ApprovalState::Pending => Ok(()),
        ApprovalState::Expired => Err(Error::Approval(ApprovalError::Expired { id, with: None })),
        ApprovalState::Replaced { with } => Err(Error::Approval(ApprovalError::Expired {
            id,
            with: Some(with.to_string()),
        })),
        ApprovalState::Allowed { by, .. } | ApprovalState::Used { by, .. } => {
            Err(Error::Approval(ApprovalError::Decided {
                id,
                how: format!("allowed by {by}"),
            }))
        }
        ApprovalState::Denied { by, .. } => {
            Err(Error::Approval(ApprovalError::Denied { id, by: by.clone() }))
        }
    }
}

fn rules_for(approval: &Approval, edits: &[String]) -> Result<Vec<PrefixRule>> {
    let rules = approval.rules_to_save();
    if rules.is_empty() {
        return Err(Error::Approval(ApprovalError::NothingToSave {
            id: approval.id.to_string(),
        }));
    }
    Ok(edit_rules(&approval.classification(), &rules, edits)?)
}
