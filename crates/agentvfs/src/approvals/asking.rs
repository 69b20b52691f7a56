//! The state of a request: allowed, denied, or waiting for an answer.

use avfs_core::Timestamp;
use avfs_store::{RefEdit, RefRange};

use super::binding::Binding;
use super::record::{Approval, ApprovalId, ApprovalState, Earlier, PENDING_SECONDS, after, keys};
use crate::error::{ApprovalError, Error, Result};
use crate::record::{self, key};
use crate::store::Store;
use crate::vault::Vault;

/// Standard input up to this size is kept until the request is answered, for a preview.
const KEPT_INPUT: usize = 64 << 10;

/// The state of a request.
#[derive(Clone, Debug)]
pub(crate) enum Standing {
    Allowed(Approval),
    Denied(Approval),
    Pending(Approval),
}

/// A request that may need an approval.
pub(crate) struct ApprovalQuestion<'a> {
    pub binding: &'a Binding,
    pub run: &'a str,
    pub reason: &'a str,
    /// Sections of a policy file, one for each rule.
    pub rules: Vec<String>,
    pub stdin: Option<&'a [u8]>,
}

/// The approvals that commands in a vault need, and the rules that were saved from answers.
#[derive(Clone, Copy)]
pub struct VaultApprovals<'a> {
    pub(crate) vault: &'a Vault,
}

impl VaultApprovals<'_> {
    /// The state of a request; if it is new, or the answer is not valid for it, an approval is requested.
    pub(crate) fn standing(&self, question: &ApprovalQuestion<'_>) -> Result<Standing> {
        let store = self.vault.store();
        if let Some(latest) = self.latest(&question.binding.request_digest())? {
            store.approvals().expire(latest)?;
        }
        store.retry(|edits| {
            let binding = question.binding;
            let latest = self.latest(&binding.request_digest())?;
            let now = store.now();
            match latest.as_ref().and_then(|latest| stands(latest, binding, now)) {
                Some(standing) => Ok(standing),
                None => self.ask(edits, question, latest, now),
            }
        })
    }

    /// The edits that ask a person.
    fn ask(
        &self,
        edits: &mut Vec<RefEdit>,
        question: &ApprovalQuestion<'_>,
        latest: Option<Approval>,
        now: Timestamp,
    ) -> Result<Standing> {
        let binding = question.binding;
        // The log grows with each request, so that no two have the same end before them.
        let id = ApprovalId::new(self.vault.id(), &self.vault.record()?.0.audit.hash);
        let before = match &latest {
            Some(latest) => Some(latest.clone()),
            None => self.latest(&binding.command_digest())?,
        };
        let earlier = before.map(|before| {
            let changed = before.binding.differences(binding).into_iter().map(str::to_owned);
            Earlier {
                id: before.id,
                changed: changed.collect(),
            }
        });
        let approval = Approval {
            id: id.clone(),
            run: question.run.to_owned(),
            binding: binding.clone(),
            reason: question.reason.to_owned(),
            created: now,
            expires: after(now, PENDING_SECONDS),
            state: ApprovalState::Pending,
            rules: question.rules.clone(),
            earlier,
        };
        edits.push(RefEdit::create(keys::approval(&id), record::encode(&approval)));
        if let Some(stdin) = question.stdin.filter(|stdin| stdin.len() <= KEPT_INPUT) {
            edits.push(RefEdit::create(keys::input(&id), stdin));
        }
        for digest in [binding.request_digest(), binding.command_digest()] {
            self.point(edits, &digest, &id)?;
        }
        if let Some(latest) = latest {
            self.replace(edits, latest, &id)?;
        }
        self.note(edits, "approval-request", &detail(&approval, question.run))?;
        Ok(Standing::Pending(approval))
    }

    /// Makes an approval the latest one of a request or a command.
    fn point(&self, edits: &mut Vec<RefEdit>, digest: &str, id: &ApprovalId) -> Result<()> {
        let key = keys::latest(self.vault.id(), digest);
        let expect = self.vault.store().refs().read(&key)?;
        edits.push(RefEdit {
            key,
            expect,
            value: Some(record::encode(id)),
        });
        Ok(())
    }

    /// A request that waited for a state of the vault that is gone no longer waits.
    fn replace(&self, edits: &mut Vec<RefEdit>, old: Approval, with: &ApprovalId) -> Result<()> {
        match old.state {
            ApprovalState::Pending | ApprovalState::Allowed { .. } => {
                let bytes = record::encode(&old);
                let id = old.id.clone();
                let replaced = Approval {
                    state: ApprovalState::Replaced { with: with.clone() },
                    ..old
                };
                edits.push(RefEdit::replace(
                    keys::approval(&id),
                    bytes,
                    record::encode(&replaced),
                ));
                self.vault.store().approvals().forget_input(edits, &id)
            }
            ApprovalState::Denied { .. }
            | ApprovalState::Used { .. }
            | ApprovalState::Expired
            | ApprovalState::Replaced { .. } => Ok(()),
        }
    }

    /// Uses an approval; returns whether it was still valid. Of two concurrent uses, one succeeds.
    pub(crate) fn use_approval(&self, id: &ApprovalId, binding: &Binding, run: &str) -> Result<bool> {
        let store = self.vault.store();
        store.retry(|edits| {
            let (approval, bytes) = store.approvals().record(id)?;
            if !approval.grants(binding, store.now()) {
                return Ok(false);
            }
            let used = approval.clone().after_use(run);
            edits.push(RefEdit::replace(keys::approval(id), bytes, record::encode(&used)));
            self.note(edits, "approval-use", &detail(&approval, run))?;
            Ok(true)
        })
    }

    fn latest(&self, digest: &str) -> Result<Option<Approval>> {
        let refs = self.vault.store().refs();
        let id = record::read::<ApprovalId>(refs, &keys::latest(self.vault.id(), digest))?;
        let Some((id, _)) = id else { return Ok(None) };
        Ok(record::read(refs, &keys::approval(&id))?.map(|(approval, _)| approval))
    }

    /// The edits that append an entry to the audit log.
    pub(crate) fn note(&self, edits: &mut Vec<RefEdit>, action: &str, detail: &str) -> Result<()> {
        let (mut record, bytes) = self.vault.record()?;
        edits.push(
            self.vault
                .audit_edit(&mut record, &self.vault.logged(action, detail, None), None),
        );
        edits.push(RefEdit::replace(
            key::vault(self.vault.id()),
            bytes,
            record::encode(&record),
        ));
        Ok(())
    }
}

impl Approval {
    /// What remains of it after a run.
    fn after_use(self, run: &str) -> Approval {
        let state = match self.state {
            ApprovalState::Allowed {
                scope: super::Scope::Once | super::Scope::Always,
                by,
                ..
            } => ApprovalState::Used {
                run: run.to_owned(),
                by,
            },
            other => other,
        };
        Approval { state, ..self }
    }
}

/// The decision of the latest approval of a request, if there is one.
fn stands(latest: &Approval, binding: &Binding, now: Timestamp) -> Option<Standing> {
    if latest.grants(binding, now) {
        return Some(Standing::Allowed(latest.clone()));
    }
    let holds = latest.binding.head == binding.head && now < latest.expires;
    match &latest.state {
        ApprovalState::Pending if holds => Some(Standing::Pending(latest.clone())),
        ApprovalState::Denied { .. } if holds => Some(Standing::Denied(latest.clone())),
        _ => None,
    }
}

/// One line for the audit log: which approval, which run, who asked, what.
pub(super) fn detail(approval: &Approval, run: &str) -> String {
    let who = approval
        .binding
        .principal
        .as_deref()
        .map(|who| format!(" by {}", avfs_core::printable(who.as_bytes())));
    format!(
        "{} {run}{}: {}",
        approval.id,
        who.unwrap_or_default(),
        approval.binding.command.shown()
    )
}

/// The requests that wait for a person's answer, and the answers.
#[derive(Clone, Copy)]
pub struct Approvals<'a> {
    pub(crate) store: &'a Store,
}

impl Approvals<'_> {
    /// One approval in its current state.
    pub fn get(&self, id: &ApprovalId) -> Result<Approval> {
        self.expire(self.record(id)?.0)
    }

    /// All approvals, newest first; those that are past their time have expired with this.
    pub fn list(&self) -> Result<Vec<Approval>> {
        let rows = self.store.refs().scan(&RefRange::prefix(keys::ALL))?;
        let all = rows
            .iter()
            .map(|(key, bytes)| self.expire(record::decode(key, bytes)?));
        let mut all = all.collect::<Result<Vec<Approval>>>()?;
        all.sort_by(|a, b| (b.created, &b.id).cmp(&(a.created, &a.id)));
        Ok(all)
    }

    pub(super) fn record(&self, id: &ApprovalId) -> Result<(Approval, Vec<u8>)> {
        let found = record::read(self.store.refs(), &keys::approval(id))?;
        found.ok_or_else(|| Error::Approval(ApprovalError::Unknown { id: id.to_string() }))
    }

    /// Says of an approval that is past its time that it has expired.
    pub(super) fn expire(&self, approval: Approval) -> Result<Approval> {
        if !approval.is_overdue(self.store.now()) {
            return Ok(approval);
        }
        let vault = Vault::new(self.store.clone(), approval.id.vault);
        self.store.retry(|edits| {
            let (current, bytes) = self.record(&approval.id)?;
            if !current.is_overdue(self.store.now()) {
                return Ok(current);
            }
            let expired = Approval {
                state: ApprovalState::Expired,
                ..current
            };
            edits.push(RefEdit::replace(
                keys::approval(&expired.id),
                bytes,
                record::encode(&expired),
            ));
            self.forget_input(edits, &expired.id)?;
            vault
                .approvals()
                .note(edits, "approval-expire", &detail(&expired, &expired.run))?;
            Ok(expired)
        })
    }

    /// Standard input is kept for the preview of a request that waits, and no longer.
    pub(super) fn forget_input(&self, edits: &mut Vec<RefEdit>, id: &ApprovalId) -> Result<()> {
        let key = keys::input(id);
        let kept = self.store.refs().read(&key)?;
        edits.extend(kept.map(|bytes| RefEdit::delete(key, bytes)));
        Ok(())
    }
}
