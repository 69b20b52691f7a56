//! What a person answers.

use std::path::PathBuf;

use avfs_exec::policy::{PrefixRule, edit_rules};
use avfs_store::RefEdit;

use super::asking::detail;
use super::record::{Approval, ApprovalId, ApprovalState, SESSION_SECONDS, Scope, after, keys};
use super::saved::{self, SavedFor, SavedRule};
use crate::error::{Error, Result};
use crate::record;
use crate::store::Store;
use crate::vault::Vault;

/// For how long a request is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowance {
    Once,
    Session,
    /// With a rule that is saved: the one that the approval names, or edits of it.
    Always {
        edits: Vec<String>,
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
    /// With the vault: it holds for what runs there, with no more network than was asked for.
    Vault,
    /// At the end of a policy file: it holds wherever that file is used.
    File(PathBuf),
}

impl Store {
    /// Lets a request run. Returns the approval, and the rules that were saved.
    pub fn allow(&self, id: &ApprovalId, allowance: &Allowance) -> Result<(Approval, Vec<PrefixRule>)> {
        let pending = self.approval(id)?;
        check_pending(&pending)?;
        if let Some(reason) = pending.binding.once_only().filter(|_| *allowance != Allowance::Once) {
            return Err(Error::OnlyOnce { id: id.to_string(), reason });
        }
        let (rules, place) = match allowance {
            Allowance::Once | Allowance::Session => (Vec::new(), None),
            Allowance::Always { edits, place } => (rules_for(&pending, edits)?, Some(place)),
        };
        // A policy file has rules for words alone.
        if matches!(place, Some(SavePlace::File(_))) && pending.saves_whole_command() {
            return Err(Error::NothingToSave { id: id.to_string() });
        }
        let file = match place {
            Some(SavePlace::File(file)) => Some((file, saved::appended(file, &rules)?)),
            Some(SavePlace::Vault) | None => None,
        };
        let allowed = self.decide(id, "approval-allow", |approval, edits| {
            check_pending(&approval)?;
            let (by, time) = (self.actor().name.clone(), self.now());
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
            Ok((format!(" ({})", scope.as_str()), Approval { state, expires, ..approval }))
        })?;
        if let Some((file, text)) = file {
            saved::write(file, &text)?;
        }
        Ok((allowed, rules))
    }

    /// Keeps a request from running; takes back an answer that has not been used up.
    pub fn deny(&self, id: &ApprovalId, reason: Option<&str>) -> Result<Approval> {
        self.approval(id)?;
        self.decide(id, "approval-deny", |approval, _| {
            match &approval.state {
                ApprovalState::Allowed { .. } => {}
                _ => check_pending(&approval)?,
            }
            let (by, time) = (self.actor().name.clone(), self.now());
            let state = ApprovalState::Denied { by, time, reason: reason.map(str::to_owned) };
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
        let vault = Vault::new(self.clone(), id.vault);
        self.retry(|edits| {
            let (approval, bytes) = self.approval_record(id)?;
            let (told, decided) = answer(approval, edits)?;
            edits.push(RefEdit::replace(keys::approval(id), bytes, record::encode(&decided)));
            self.forget_input(edits, id)?;
            vault.note(edits, action, &format!("{}{told}", detail(&decided, &decided.run)))?;
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
                by: self.actor().name.clone(),
                time: self.now(),
                holds_for: Some(SavedFor::of(approval, rule)),
            };
            let is_same = |old: &SavedRule| old.rule == new.rule && old.network == new.network;
            // One that holds for nothing is of no use beside it.
            all.retain(|old| old.holds_for.is_some() || !is_same(old));
            if !all.iter().any(|old| is_same(old) && old.holds_for == new.holds_for) {
                all.push(new);
            }
        }
        let key = keys::saved(approval.id.vault);
        edits.push(RefEdit { key, expect, value: Some(record::encode(&all)) });
        Ok(())
    }
}

/// An approval that nobody has answered yet.
fn check_pending(approval: &Approval) -> Result<()> {
    let id = approval.id.to_string();
    match &approval.state {
        ApprovalState::Pending => Ok(()),
        ApprovalState::Expired => Err(Error::ApprovalExpired { id, with: None }),
        ApprovalState::Replaced { with } => Err(Error::ApprovalExpired { id, with: Some(with.to_string()) }),
        ApprovalState::Allowed { by, .. } | ApprovalState::Used { by, .. } => {
            Err(Error::ApprovalDecided { id, how: format!("allowed by {by}") })
        }
        ApprovalState::Denied { by, .. } => {
            Err(Error::ApprovalDecided { id, how: format!("denied by {by}") })
        }
    }
}

fn rules_for(approval: &Approval, edits: &[String]) -> Result<Vec<PrefixRule>> {
    let rules = approval.rules_to_save()?;
    if rules.is_empty() {
        return Err(Error::NothingToSave { id: approval.id.to_string() });
    }
    Ok(edit_rules(&approval.classification(), &rules, edits)?)
}
