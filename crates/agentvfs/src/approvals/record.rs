//! One approval as it is kept.

use std::fmt;

use avfs_core::Timestamp;
use avfs_exec::classify::{Classification, classify};
use avfs_exec::policy::{Policy, PrefixRule};
use serde::{Deserialize, Serialize};

use super::binding::Binding;
use crate::error::{Error, Result};
use crate::record::{VaultId, time};

/// How long a request waits for an answer, and an answer for its one use.
pub const PENDING_SECONDS: u64 = 24 * 60 * 60;
/// How long an approval "for the session" holds.
pub const SESSION_SECONDS: u64 = 8 * 60 * 60;

/// Names an approval: `a3-5f0c21d8` is one of vault number 3.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ApprovalId {
    pub(crate) vault: VaultId,
    pub(crate) digits: String,
}

impl ApprovalId {
    /// Two of a vault have the same digits only if their seeds do, but for a chance in four billion.
    pub(super) fn new(vault: VaultId, seed: &str) -> ApprovalId {
        let digits = blake3::hash(seed.as_bytes()).to_hex()[..8].to_owned();
        ApprovalId { vault, digits }
    }

    pub fn parse(text: &str) -> Result<ApprovalId> {
        let parts = text.strip_prefix('a').and_then(|rest| rest.split_once('-'));
        let known = parts.and_then(|(vault, digits)| {
            let good =
                digits.len() == 8 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            Some(ApprovalId { vault: VaultId(vault.parse().ok()?), digits: good.then(|| digits.to_owned())? })
        });
        known.ok_or_else(|| Error::UnknownApproval { id: avfs_core::printable(text.as_bytes()) })
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("a{}-{}", self.vault.0, self.digits))
    }
}

/// What was asked, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    pub id: ApprovalId,
    /// The run that asked.
    pub run: String,
    pub binding: Binding,
    /// Why it is asked for, in the words of the policy.
    pub reason: String,
    #[serde(with = "time")]
    pub created: Timestamp,
    /// When it stops holding, or waiting.
    #[serde(with = "time")]
    pub expires: Timestamp,
    pub state: ApprovalState,
    /// The sections of a policy file that `always` would save.
    pub(crate) rules: Vec<String>,
    /// An earlier request for the same command that does not hold for this one.
    pub earlier: Option<Earlier>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    pub id: ApprovalId,
    /// The names of what is another now; empty if it was used up or had expired.
    pub changed: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum ApprovalState {
    Pending,
    Allowed {
        scope: Scope,
        by: String,
        #[serde(with = "time")]
        time: Timestamp,
    },
    Denied {
        by: String,
        #[serde(with = "time")]
        time: Timestamp,
        reason: Option<String>,
    },
    /// Allowed once, and this run was it.
    Used {
        run: String,
        by: String,
    },
    Expired,
    /// The vault changed, and the same request was asked for again.
    Replaced {
        with: ApprovalId,
    },
}

impl ApprovalState {
    pub fn as_str(&self) -> &'static str {
        match self {
            ApprovalState::Pending => "pending",
            ApprovalState::Allowed { .. } => "allowed",
            ApprovalState::Denied { .. } => "denied",
            ApprovalState::Used { .. } => "used",
            ApprovalState::Expired => "expired",
            ApprovalState::Replaced { .. } => "replaced",
        }
    }
}

/// For how long an answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// For one run of this request, on this state of the vault.
    Once,
    /// For this request by the same principal, whatever the vault holds, for [`SESSION_SECONDS`].
    Session,
    /// A rule was saved. If that is in a policy file, this request may run once even if it does not use the file.
    Always,
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Once => "once",
            Scope::Session => "session",
            Scope::Always => "always",
        }
    }
}

impl Approval {
    /// What the command does, part by part.
    pub fn classification(&self) -> Classification {
        classify(&self.binding.command.to_command())
    }

    /// The rules that `always` saves; none if some part of the command cannot be kept as a rule.
    pub fn rules_to_save(&self) -> Result<Vec<PrefixRule>> {
        self.rules.iter().map(|text| parse_rule(&self.id.to_string(), text)).collect()
    }

    /// Whether what `always` saves is for the command as a whole, and not for each part of it.
    pub fn saves_whole_command(&self) -> bool {
        !self.binding.has_plain_parts(&self.classification())
    }

    /// Whether it lets a request run now.
    pub(super) fn grants(&self, request: &Binding, now: Timestamp) -> bool {
        let ApprovalState::Allowed { scope, .. } = &self.state else { return false };
        let is_same = match scope {
            Scope::Once | Scope::Always => self.binding.digest() == request.digest(),
            Scope::Session => self.binding.request_digest() == request.request_digest(),
        };
        is_same && now < self.expires
    }

    /// Whether it is past its time, and nobody has said so yet.
    pub(super) fn is_overdue(&self, now: Timestamp) -> bool {
        let ends = match &self.state {
            ApprovalState::Pending => true,
            ApprovalState::Allowed { scope, .. } => *scope != Scope::Always,
            ApprovalState::Denied { .. }
            | ApprovalState::Used { .. }
            | ApprovalState::Expired
            | ApprovalState::Replaced { .. } => false,
        };
        ends && now >= self.expires
    }
}

/// A rule from its section of a policy file.
pub(super) fn parse_rule(place: &str, text: &str) -> Result<PrefixRule> {
    let policy = Policy::parse(std::path::Path::new(place), text).ok();
    let rule = policy.and_then(|policy| policy.rules().first().cloned());
    rule.ok_or_else(|| Error::DamagedRecord {
        key: place.to_owned(),
        reason: "its rule is not readable".into(),
    })
}

/// `seconds` after `moment`.
pub(super) fn after(moment: Timestamp, seconds: u64) -> Timestamp {
    Timestamp::from_nanos(moment.as_nanos() + i128::from(seconds) * 1_000_000_000)
}

/// Where approvals are in refs.
pub(crate) mod keys {
    use super::{ApprovalId, VaultId};

    pub const ALL: &str = "approval/";

    pub fn approvals(vault: VaultId) -> String {
        format!("{ALL}{vault}/")
    }

    pub fn approval(id: &ApprovalId) -> String {
        format!("{ALL}{}/{}", id.vault, id.digits)
    }

    pub fn inputs(vault: VaultId) -> String {
        format!("approval-input/{vault}/")
    }

    /// Standard input of a request, while it waits.
    pub fn input(id: &ApprovalId) -> String {
        format!("approval-input/{}/{}", id.vault, id.digits)
    }

    pub fn pointers(vault: VaultId) -> String {
        format!("approval-latest/{vault}/")
    }

    /// The latest approval of a request, or of a command.
    pub fn latest(vault: VaultId, digest: &str) -> String {
        format!("approval-latest/{vault}/{digest}")
    }

    /// What was allowed for always.
    pub fn saved(vault: VaultId) -> String {
        format!("approval-rules/{vault}")
    }
}
