//! How a request stands: allowed, denied, or waiting for somebody to answer.

use avfs_core::Timestamp;
use avfs_store::{RefEdit, RefRange};

use super::binding::Binding;
use super::record::{Approval, ApprovalId, ApprovalState, Earlier, PENDING_SECONDS, after, keys};
use crate::error::{Error, Result};
use crate::record::{self, key};
use crate::store::Store;
use crate::vault::Vault;

/// Standard input up to this size is kept until somebody has answered, for a preview.
const KEPT_INPUT: usize = 64 << 10;

/// How a request stands.
#[derive(Clone, Debug)]
pub(crate) enum Standing {
    Allowed(Approval),
    Denied(Approval),
    Pending(Approval),
}

/// A request that may have to be asked for.
pub(crate) struct Question<'a> {
    pub binding: &'a Binding,
    pub run: &'a str,
    pub reason: &'a str,
    /// Sections of a policy file, one for each rule.
    pub rules: Vec<String>,
    pub stdin: Option<&'a [u8]>,
}

impl Vault {
    /// How a request stands; if nobody was asked yet, or what they answered does not hold for it, it is asked for.
    pub(crate) fn standing(&self, question: &Question<'_>) -> Result<Standing> {
        let store = self.store();
        if let Some(latest) = self.latest(&question.binding.request_digest())? {
            store.expire(latest)?;
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
        question: &Question<'_>,
        latest: Option<Approval>,
        now: Timestamp,
    ) -> Result<Standing> {
        let binding = question.binding;
        // The log goes on with each request, so that no two have the same end before them.
        let id = ApprovalId::new(self.id(), &self.record()?.0.audit.hash);
        let before = match &latest {
            Some(latest) => Some(latest.clone()),
            None => self.latest(&binding.command_digest())?,
        };
        let earlier = before.map(|before| {
            let changed = before.binding.differences(binding).into_iter().map(str::to_owned);
            Earlier { id: before.id, changed: changed.collect() }
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
        let key = keys::latest(self.id(), digest);
        let expect = self.store().refs().read(&key)?;
        edits.push(RefEdit { key, expect, value: Some(record::encode(id)) });
        Ok(())
    }

    /// What waited for a state of the vault that is gone, waits no more.
    fn replace(&self, edits: &mut Vec<RefEdit>, old: Approval, with: &ApprovalId) -> Result<()> {
        match old.state {
            ApprovalState::Pending | ApprovalState::Allowed { .. } => {
                let bytes = record::encode(&old);
                let id = old.id.clone();
                let replaced = Approval { state: ApprovalState::Replaced { with: with.clone() }, ..old };
                edits.push(RefEdit::replace(keys::approval(&id), bytes, record::encode(&replaced)));
                self.store().forget_input(edits, &id)
            }
            ApprovalState::Denied { .. }
            | ApprovalState::Used { .. }
            | ApprovalState::Expired
            | ApprovalState::Replaced { .. } => Ok(()),
        }
    }

    /// Takes what an approval gives; returns whether it still gave it. Of two that come at once, one gets it.
    pub(crate) fn use_approval(&self, id: &ApprovalId, binding: &Binding, run: &str) -> Result<bool> {
        let store = self.store();
        store.retry(|edits| {
            let (approval, bytes) = store.approval_record(id)?;
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
        let refs = self.store().refs();
        let id = record::read::<ApprovalId>(refs, &keys::latest(self.id(), digest))?;
        let Some((id, _)) = id else { return Ok(None) };
        Ok(record::read(refs, &keys::approval(&id))?.map(|(approval, _)| approval))
    }

    /// The edits that append an entry to the audit log.
    pub(crate) fn note(&self, edits: &mut Vec<RefEdit>, action: &str, detail: &str) -> Result<()> {
        let (mut record, bytes) = self.record()?;
        edits.push(self.audit_edit(&mut record, &self.deed(action, detail, None), None));
        edits.push(RefEdit::replace(key::vault(self.id()), bytes, record::encode(&record)));
        Ok(())
    }
}

impl Approval {
    /// What is left of it after a run.
    fn after_use(self, run: &str) -> Approval {
        let state = match self.state {
            ApprovalState::Allowed { scope: super::Scope::Once | super::Scope::Always, by, .. } => {
                ApprovalState::Used { run: run.to_owned(), by }
            }
            other => other,
        };
        Approval { state, ..self }
    }
}

/// What the latest approval of a request says of it, if it says something.
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
    format!("{} {run}{}: {}", approval.id, who.unwrap_or_default(), approval.binding.command.shown())
}

impl Store {
    /// One approval, as it stands now.
    pub fn approval(&self, id: &ApprovalId) -> Result<Approval> {
        self.expire(self.approval_record(id)?.0)
    }

    /// All approvals, newest first; those that are past their time have expired with this.
    pub fn approvals(&self) -> Result<Vec<Approval>> {
        let rows = self.refs().scan(&RefRange::prefix(keys::ALL))?;
        let all = rows.iter().map(|(key, bytes)| self.expire(record::decode(key, bytes)?));
        let mut all = all.collect::<Result<Vec<Approval>>>()?;
        all.sort_by(|a, b| (b.created, &b.id).cmp(&(a.created, &a.id)));
        Ok(all)
    }

    pub(super) fn approval_record(&self, id: &ApprovalId) -> Result<(Approval, Vec<u8>)> {
        let found = record::read(self.refs(), &keys::approval(id))?;
        found.ok_or_else(|| Error::UnknownApproval { id: id.to_string() })
    }

    /// Says of an approval that is past its time that it has expired.
    pub(super) fn expire(&self, approval: Approval) -> Result<Approval> {
        if !approval.is_overdue(self.now()) {
            return Ok(approval);
        }
        let vault = Vault::new(self.clone(), approval.id.vault);
        self.retry(|edits| {
            let (current, bytes) = self.approval_record(&approval.id)?;
            if !current.is_overdue(self.now()) {
                return Ok(current);
            }
            let expired = Approval { state: ApprovalState::Expired, ..current };
            edits.push(RefEdit::replace(keys::approval(&expired.id), bytes, record::encode(&expired)));
            self.forget_input(edits, &expired.id)?;
            vault.note(edits, "approval-expire", &detail(&expired, &expired.run))?;
            Ok(expired)
        })
    }

    /// Standard input is kept for the preview of a request that waits, and no longer.
    pub(super) fn forget_input(&self, edits: &mut Vec<RefEdit>, id: &ApprovalId) -> Result<()> {
        let key = keys::input(id);
        let kept = self.refs().read(&key)?;
        edits.extend(kept.map(|bytes| RefEdit::delete(key, bytes)));
        Ok(())
    }
}
