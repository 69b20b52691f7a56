//! Permanent permissions: rules that are kept with a vault, or at the end of a policy file.

use std::io::Write;
use std::path::Path;

use avfs_core::Timestamp;
use avfs_exec::Network;
use avfs_exec::classify::{Classification, classify};
use avfs_exec::policy::{Policy, PrefixRule, append_rules};
use avfs_store::RefEdit;
use serde::{Deserialize, Serialize};

use super::binding::{AskedNetwork, Binding};
use super::programs::NamedProgram;
use super::record::{Approval, ApprovalId, parse_rule};
use crate::approvals::asking::Approvals;
use crate::approvals::asking::VaultApprovals;
use crate::error::{ApprovalError, Error, Result, StorageError};
use crate::exec::RunSpec;
use crate::record::{self, VaultId, key, time};

/// A rule that is kept with a vault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRule {
    /// As a section of a policy file.
    pub rule: String,
    /// It holds for runs that reach no more than this.
    pub network: AskedNetwork,
    /// The approval that it was saved with.
    pub approval: ApprovalId,
    /// Who saved it.
    pub by: String,
    /// When it was saved.
    #[serde(with = "time")]
    pub time: Timestamp,
    /// The rest of its scope; `None` in records of versions that did not store it: then it is never valid.
    #[serde(default)]
    pub holds_for: Option<SavedFor>,
}

/// The information that was shown to the person who allowed something permanently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFor {
    /// The digest of everything around the command that could give its words another meaning, or it a wider view.
    pub surroundings: String,
    /// Where the program of the rule was found.
    pub programs: Vec<NamedProgram>,
    /// The digest of the command, if the rule holds for this very command only.
    pub command: Option<String>,
}

impl SavedFor {
    pub(super) fn of(approval: &Approval, rule: &PrefixRule) -> SavedFor {
        let binding = &approval.binding;
        SavedFor {
            surroundings: binding.surroundings_digest(),
            programs: programs_of(rule, binding),
            command: approval.saves_whole_command().then(|| binding.command_digest()),
        }
    }

    fn covers(&self, rule: &PrefixRule, binding: &Binding, found: &Classification) -> bool {
        let is_for_command = match &self.command {
            Some(command) => *command == binding.command_digest(),
            None => binding.has_plain_parts(found),
        };
        let is_fixed = !self.programs.is_empty() && self.programs.iter().all(|one| one.found.is_fixed());
        is_for_command
            && is_fixed
            && self.programs == programs_of(rule, binding)
            && self.surroundings == binding.surroundings_digest()
    }
}

/// Where the program of a rule is found in a request.
fn programs_of(rule: &PrefixRule, binding: &Binding) -> Vec<NamedProgram> {
    let named = binding
        .programs
        .iter()
        .filter(|program| Some(&program.name) == rule.prefix.first());
    named.cloned().collect()
}

impl VaultApprovals<'_> {
    /// The permanent permissions in this vault.
    pub fn saved_rules(&self) -> Result<Vec<SavedRule>> {
        Ok(self.vault.store().approvals().saved_record(self.vault.id())?.0)
    }

    /// The policy of a request as it holds in this vault: the rules that were saved answer where it would ask.
    pub fn policy_here(&self, request: &RunSpec) -> Result<Policy> {
        let request = request.placed(self.vault.own_path()?);
        self.policy_at(
            &request,
            &request.working_directory(),
            &classify(&request.command),
        )
    }

    /// The same for a request that starts in a directory.
    pub(crate) fn policy_at(&self, request: &RunSpec, cwd: &Path, found: &Classification) -> Result<Policy> {
        let policy = match &request.policy {
            Some(policy) => policy.clone(),
            None => self.vault.policy_in_force()?.policy,
        };
        let saved = self.saved_rules()?;
        if saved.is_empty() {
            return Ok(policy);
        }
        let binding = self.vault.runs().binding_of(request, cwd, found)?;
        Ok(policy.with_saved(holding(&saved, &request.network, &binding, found)?))
    }

    /// Removes a saved rule; `number` counts from 1 in the order of [`VaultApprovals::saved_rules`].
    pub fn forget_saved_rule(&self, number: usize) -> Result<SavedRule> {
        self.vault.store().retry(|edits| {
            let (mut all, expect) = self.vault.store().approvals().saved_record(self.vault.id())?;
            if number == 0 || number > all.len() {
                return Err(Error::Approval(ApprovalError::UnknownSavedRule { number }));
            }
            let gone = all.remove(number - 1);
            let key = key::always_allowed(self.vault.id());
            edits.push(RefEdit {
                key,
                expect,
                value: Some(record::encode(&all)),
            });
            self.note(
                edits,
                "approval-forget",
                &format!("{} {}", gone.approval, gone.name()),
            )?;
            Ok(gone)
        })
    }
}

/// The saved rules that hold for a request.
pub(super) fn holding(
    all: &[SavedRule],
    network: &Network,
    binding: &Binding,
    found: &Classification,
) -> Result<Vec<PrefixRule>> {
    let mut holding = Vec::new();
    for saved in all {
        let place = format!("approval {}", saved.approval);
        let mut rule = parse_rule(&place, &saved.rule)?;
        if !saved
            .holds_for
            .as_ref()
            .is_some_and(|holds_for| holds_for.covers(&rule, binding, found))
        {
            continue;
        }
        let reached = saved.network.to_network().ok_or_else(|| {
            Error::Storage(StorageError::DamagedRecord {
                key: place.clone(),
                reason: "an unknown host".to_owned(),
            })
        })?;
        if reached.covers(network) {
            rule.network.network = reached;
            rule.origin = Some(place);
            holding.push(rule);
        }
    }
    Ok(holding)
}

impl SavedRule {
    /// For people.
    pub fn name(&self) -> String {
        let rule = parse_rule("saved", &self.rule);
        rule.map_or_else(
            |_| "a rule that is not readable".to_owned(),
            |rule| PrefixRule { origin: None, ..rule }.name(),
        )
    }
}

impl Approvals<'_> {
    pub(super) fn saved_record(&self, vault: VaultId) -> Result<(Vec<SavedRule>, Option<Vec<u8>>)> {
        let found = record::read(self.store.refs(), &key::always_allowed(vault))?;
        Ok(found.map_or_else(|| (Vec::new(), None), |(rules, bytes)| (rules, Some(bytes))))
    }
}

/// A policy file's text with rules at its end.
pub(super) fn appended(file: &Path, rules: &[PrefixRule]) -> Result<String> {
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.map_err(|source| host("reading", file, source))?,
    };
    Ok(append_rules(file, &text, rules)?)
}

/// Atomically: concurrent readers of the file always read a complete policy.
pub(super) fn write(file: &Path, text: &str) -> Result<()> {
    let target = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut name = target.clone().into_os_string();
    name.push(format!(".{}.new", std::process::id()));
    let written = || {
        // As a new file beside it: a policy that is cut off by a full disk would grant less, or nothing.
        let mut new = std::fs::File::create(&name)?;
        new.write_all(text.as_bytes())?;
        // Before the rename, so that the file is never readable for more users than it was.
        if let Ok(old) = std::fs::metadata(&target) {
            new.set_permissions(old.permissions())?;
        }
        new.sync_all()?;
        std::fs::rename(&name, &target)
    };
    written().map_err(|source| host("writing", file, source))
}

fn host(action: &'static str, place: &Path, source: std::io::Error) -> Error {
    Error::Host {
        action,
        place: avfs_core::printable(place.as_os_str().as_encoded_bytes()),
        source,
    }
}
