//! The stored form of an approval.

use std::fmt;

use avfs_core::Timestamp;
use avfs_exec::classify::{Classification, classify};
use avfs_exec::policy::{Policy, PrefixRule};
use serde::{Deserialize, Serialize};

use super::binding::{Binding, HEAD, READ_ONLY};
use crate::error::{ApprovalError, Error, Result, StorageError};
use crate::record::{VaultId, time};

/// How long a request waits for an answer, and an answer for its one use.
pub const PENDING_SECONDS: u64 = 24 * 60 * 60;
/// How long an approval "for the session" is valid.
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

    /// Reads the text of an id.
    pub fn parse(text: &str) -> Result<ApprovalId> {
        let parts = text.strip_prefix('a').and_then(|rest| rest.split_once('-'));
        let known = parts.and_then(|(vault, digits)| {
            let good = digits.len() == 8
                && digits
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            Some(ApprovalId {
                vault: VaultId(vault.parse().ok()?),
                digits: good.then(|| digits.to_owned())?,
            })
        });
        known.ok_or_else(|| {
            Error::Approval(ApprovalError::Unknown {
                id: avfs_core::printable(text.as_bytes()),
            })
        })
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("a{}-{}", self.vault.0, self.digits))
    }
}

/// A request, and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// The requesting run.
    pub run: String,
    /// Everything that the answer depends on.
    pub binding: Binding,
    /// Why an approval is needed, in the words of the policy.
    pub reason: String,
    /// When it was asked.
    #[serde(with = "time")]
    pub created: Timestamp,
    /// When it stops holding, or waiting.
    #[serde(with = "time")]
    pub expires: Timestamp,
    /// The answer.
    pub state: ApprovalState,
    /// The sections of a policy file that `always` would save.
    pub(crate) rules: Vec<String>,
    /// An earlier request for the same command that does not hold for this one.
    pub earlier: Option<Earlier>,
}

/// An earlier request for the same command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    /// Its id.
    pub id: ApprovalId,
    /// The names of the fields that differ now; empty if it was used up or had expired.
    pub changed: Vec<String>,
}

impl Earlier {
    /// The fields that differ now, in words: `this has changed since: the network`.
    pub fn what_changed(&self) -> String {
        let named = |name: &String| match name.as_str() {
            HEAD => "the state of the vault".to_owned(),
            READ_ONLY => "whether it may only read".to_owned(),
            name => format!("the {name}"),
        };
        let names: Vec<String> = self.changed.iter().map(named).collect();
        let verb = if names.len() == 1 {
            "this has"
        } else {
            "these have"
        };
        format!("{verb} changed since: {}", names.join(", "))
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum ApprovalState {
    /// There is none yet.
    Pending,
    /// It was allowed.
    Allowed {
        /// For how long.
        scope: Scope,
        /// Who allowed it.
        by: String,
        /// When.
        #[serde(with = "time")]
        time: Timestamp,
    },
    /// It was denied.
    Denied {
        /// Who denied it.
        by: String,
        /// When.
        #[serde(with = "time")]
        time: Timestamp,
        /// Why, if that was said.
        reason: Option<String>,
    },
    /// Allowed once, and this run was it.
    Used {
        /// The run.
        run: String,
        /// Who allowed it.
        by: String,
    },
    /// Nobody answered in time, or the time of the answer is over.
    Expired,
    /// The vault changed, and the same request was made again.
    Replaced {
        /// The new request.
        with: ApprovalId,
    },
}

impl ApprovalState {
    /// Its name in JSON.
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
    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Once => "once",
            Scope::Session => "session",
            Scope::Always => "always",
        }
    }
}

impl Approval {
    /// The effects of the command, part by part.
    pub fn classification(&self) -> Classification {
        classify(&self.binding.command.to_command())
    }

    /// The rules that `always` saves; none if some part of the command cannot be kept as a rule, or a rule of the record
    /// cannot be read: one bad record must not hide the others.
    pub fn rules_to_save(&self) -> Vec<PrefixRule> {
        let place = self.id.to_string();
        let rules: Option<Vec<PrefixRule>> = self
            .rules
            .iter()
            .map(|text| parse_rule(&place, text).ok())
            .collect();
        rules.unwrap_or_default()
    }

    /// Whether the rule that `always` saves is for the command as a whole, and not for each part of it.
    pub fn saves_whole_command(&self) -> bool {
        !self.binding.has_plain_parts(&self.classification())
    }

    /// Whether it lets a request run now.
    pub(super) fn grants(&self, request: &Binding, now: Timestamp) -> bool {
        let ApprovalState::Allowed { scope, .. } = &self.state else {
            return false;
        };
        let is_same = match scope {
            Scope::Once | Scope::Always => self.binding.digest() == request.digest(),
            Scope::Session => self.binding.request_digest() == request.request_digest(),
        };
        is_same && now < self.expires
    }

    /// Whether it has expired, and that was not recorded yet.
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
    rule.ok_or_else(|| {
        Error::Storage(StorageError::DamagedRecord {
            key: place.to_owned(),
            reason: "its rule is not readable".into(),
        })
    })
}

/// `seconds` after `moment`.
pub(super) fn after(moment: Timestamp, seconds: u64) -> Timestamp {
    Timestamp::from_nanos(moment.as_nanos() + i128::from(seconds) * 1_000_000_000)
}

/// Where approvals are in refs.
pub(crate) mod keys {
    use super::{ApprovalId, VaultId};

    pub(crate) use crate::record::key::APPROVALS as ALL;

    pub(crate) fn approval(id: &ApprovalId) -> String {
        format!("{ALL}{}/{}", id.vault, id.digits)
    }

    /// Standard input of a request, while it waits.
    pub(crate) fn input(id: &ApprovalId) -> String {
        format!("approval-input/{}/{}", id.vault, id.digits)
    }

    /// The latest approval of a request, or of a command.
    pub(crate) fn latest(vault: VaultId, digest: &str) -> String {
        format!("approval-latest/{vault}/{digest}")
    }
}
