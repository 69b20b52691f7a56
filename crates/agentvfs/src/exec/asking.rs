//! May a command run? The policy answers, or a person does.

use std::path::Path;
use std::time::{Duration, Instant};

use avfs_exec::classify::{Class, Classification};
use avfs_exec::policy::{PolicyAction, PolicyDecision, PrefixRule};
use avfs_exec::{Cancel, Capabilities};

use super::core::RunCore;
use super::outcome::{Refused, RunError};
use super::request::SessionRequest;
use super::{Asking, Permit, RunContext, RunSpec};
use super::{naming, networked};
use crate::approvals::{Approval, ApprovalQuestion, ApprovalState, AskedCommand, Binding, Standing};
use crate::error::{Hint, Result};
use crate::exec::VaultRuns;

/// The pause between two checks of an approval: at first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// A command that needs an approval.
struct Seeking<'a> {
    request: &'a RunSpec,
    cwd: &'a Path,
    found: &'a Classification,
    rules: Vec<PrefixRule>,
    decision: &'a PolicyDecision,
    /// Its capabilities if it runs.
    asked: Capabilities,
    /// Set for a session instead of a command: it ends after this time without a command.
    session: Option<Duration>,
    /// `None`: it does not wait; `Some(None)`: without a time limit.
    deadline: Option<Option<Instant>>,
}

impl RunCore<'_> {
    /// Decides, requests an approval if necessary, and runs.
    pub(super) fn decide_and_run(
        &mut self,
        request: &RunSpec,
        context: &mut RunContext<'_>,
        cwd: &Path,
        found: &Classification,
    ) -> Result<(), RunError> {
        let deadline = deadline(request.asking);
        loop {
            let request = &*self.vault.policy().apply_to(request)?;
            let policy = self.vault.approvals().policy_at(request, cwd, found)?;
            let asked = request.asked().narrowed_by(found.classes);
            let decision = policy.decide_for(found, &asked, request.asking != Asking::Never);
            self.outcome.decision = Some(decision.clone());
            let rules = policy.rules_to_save_for(found, &asked);
            let decision = &decision;
            let seeking = Seeking {
                request,
                cwd,
                found,
                rules,
                decision,
                asked,
                session: None,
                deadline,
            };
            let permit = match self.permit(&seeking, Some(context)) {
                Err(RunError::PermitGone) => continue,
                permit => permit?,
            };
            if request.dry_run {
                return Ok(());
            }
            self.outcome.decision = Some(permit.decision.clone());
            match self.run(request, context, &permit, cwd) {
                // Another run was faster, or the vault has changed: it is decided on again.
                Err(RunError::PermitGone) => {}
                Ok(()) => return Ok(()),
                Err(error) => {
                    self.record_failure(request, &permit.decision);
                    return Err(error);
                }
            }
        }
    }

    /// Decides on a command of a session, which has the grants of the session, and requests an approval
    /// without waiting for an answer.
    pub(crate) fn permit_at_once(
        &mut self,
        request: &RunSpec,
        cwd: &Path,
        found: &Classification,
        granted: &Capabilities,
    ) -> Result<Permit, RunError> {
        let request = &*self.vault.policy().apply_to(request)?;
        let policy = self.vault.approvals().policy_at(request, cwd, found)?;
        let decision = policy.decide_within(found, granted, request.asking != Asking::Never);
        self.outcome.decision = Some(decision.clone());
        let writing = Capabilities {
            write: granted.write,
            ..Capabilities::READING
        };
        let rules = policy.rules_to_save_for(found, &writing);
        let (asked, decision) = (granted.clone(), &decision);
        let seeking = Seeking {
            request,
            cwd,
            found,
            rules,
            decision,
            asked,
            session: None,
            deadline: None,
        };
        let permit = self.permit(&seeking, None)?;
        self.outcome.decision = Some(permit.decision.clone());
        Ok(permit)
    }

    /// Decides on the request of a session, and uses an approval.
    pub(crate) fn permit_session(&mut self, request: &SessionRequest) -> Result<Permit, RunError> {
        loop {
            let permit = self.seek_session(request)?;
            let run = &self.outcome.run;
            let is_used = match &permit.approval {
                Some((approval, binding)) => {
                    self.vault.approvals().use_approval(&approval.id, binding, run)?
                }
                None => true,
            };
            // Otherwise another session was faster, or the vault has changed: it is decided on again.
            if is_used {
                return Ok(permit);
            }
        }
    }

    /// Decides on the request of a session, and requests an approval without waiting for an answer.
    pub(crate) fn seek_session(&mut self, request: &SessionRequest) -> Result<Permit, RunError> {
        let SessionRequest { exec, idle } = request;
        let request = &*self.vault.policy().apply_to(exec)?;
        let cwd = &request.working_directory();
        let (found, rules) = (&Classification::nothing(), Vec::new());
        let policy = self.vault.approvals().policy_at(request, cwd, found)?;
        let asked = request.asked();
        let decision = &policy.decide_session(&asked, request.asking != Asking::Never);
        self.outcome.decision = Some(decision.clone());
        let session = Some(*idle);
        let seeking = Seeking {
            request,
            cwd,
            found,
            rules,
            decision,
            asked,
            session,
            deadline: None,
        };
        self.permit(&seeking, None)
    }

    fn permit(
        &mut self,
        seeking: &Seeking<'_>,
        context: Option<&mut RunContext<'_>>,
    ) -> Result<Permit, RunError> {
        let decision = seeking.decision;
        match decision.action {
            PolicyAction::Allow | PolicyAction::AllowWithCheckpoint => {
                let granted = seeking.asked.clone();
                Ok(Permit {
                    decision: decision.clone(),
                    granted,
                    approval: None,
                })
            }
            PolicyAction::RequireApproval if seeking.request.dry_run => Err(self.required(seeking, None)),
            PolicyAction::RequireApproval => self.seek(seeking, context),
            PolicyAction::Deny => {
                self.record_refusal(seeking.request, decision);
                let message = format!("the policy denies it: {}", decision.reason);
                let hint = decision.alternative.clone().map(Hint::Note);
                Err(RunError::Refused(Refused {
                    code: "denied_by_policy",
                    message,
                    hint,
                }))
            }
        }
    }

    /// Looks for an approval. On request it waits for an answer, after which everything is decided again: the
    /// answer may be a rule.
    fn seek(
        &mut self,
        seeking: &Seeking<'_>,
        context: Option<&mut RunContext<'_>>,
    ) -> Result<Permit, RunError> {
        let Seeking {
            request,
            cwd,
            decision,
            ..
        } = seeking;
        let mut binding = self.vault.runs().binding_of(request, cwd, seeking.found)?;
        if let Some(idle) = seeking.session {
            binding.command = AskedCommand::Session;
            // Nothing: it has no such limit.
            binding.idle_seconds = Some(idle.as_secs()).filter(|seconds| *seconds > 0);
        }
        let standing = self.vault.approvals().standing(&ApprovalQuestion {
            binding: &binding,
            run: &self.outcome.run,
            reason: &decision.reason,
            rules: seeking.rules.iter().map(PrefixRule::to_toml).collect(),
            stdin: request.stdin.as_deref(),
        })?;
        self.outcome.audit_head = Some(self.vault.record()?.0.audit.hash);
        let pending = match standing {
            Standing::Allowed(approval) => {
                self.outcome.approval = Some(approval.id.clone());
                let decision = allowed(decision, &approval);
                let granted = seeking.asked.clone();
                return Ok(Permit {
                    decision,
                    granted,
                    approval: Some((approval, binding)),
                });
            }
            Standing::Denied(approval) => return Err(self.denied(seeking, &approval)),
            Standing::Pending(approval) => approval,
        };
        self.outcome.approval = Some(pending.id.clone());
        let Some(context) = context else {
            return Err(self.required(seeking, Some(&pending)));
        };
        if seeking.deadline.is_some() {
            context.watch.waits_for(&pending.id, context.cancel);
        }
        if self.wait_for(&pending, seeking.deadline, context.cancel)? {
            Err(RunError::PermitGone)
        } else {
            Err(self.required(seeking, Some(&pending)))
        }
    }

    /// Waits until the request is answered; returns whether it was.
    fn wait_for(
        &self,
        pending: &Approval,
        deadline: Option<Option<Instant>>,
        cancel: &Cancel,
    ) -> Result<bool> {
        let Some(deadline) = deadline else {
            return Ok(false);
        };
        let [mut pause, longest] = PAUSES;
        while self.vault.store().approval(&pending.id)?.state == ApprovalState::Pending {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) || cancel.wait(left.map_or(pause, |left| left.min(pause))) {
                return Ok(false);
            }
            pause = longest.min(pause * 2);
        }
        Ok(true)
    }

    fn required(&self, seeking: &Seeking<'_>, pending: Option<&Approval>) -> RunError {
        let Seeking {
            request, decision, ..
        } = seeking;
        let mut message = format!("needs approval: {}", decision.reason);
        let earlier = pending.and_then(|pending| pending.earlier.as_ref());
        if let Some(earlier) = earlier.filter(|earlier| !earlier.changed.is_empty()) {
            let told = format!(
                "; approval {} does not cover it, because {}",
                earlier.id,
                earlier.what_changed()
            );
            message.push_str(&told);
        }
        let approval = pending.map(|pending| pending.id.to_string());
        let hint = if decision.classes.contains(Class::Networked) && request.reaches_nothing() {
            message.push_str("; and it would reach nothing, because this run has no network");
            let vault = self.vault.name().map(|name| name.to_string()).unwrap_or_default();
            Some(Hint::RunWithNetwork {
                again: networked::with_network(request, &vault),
                approval,
            })
        } else {
            let alternative = || decision.alternative.clone().map(Hint::Note);
            approval
                .map(|id| Hint::AnswerApproval { id })
                .or_else(alternative)
        };
        RunError::Refused(Refused {
            code: "approval_required",
            message,
            hint,
        })
    }

    fn denied(&mut self, seeking: &Seeking<'_>, approval: &Approval) -> RunError {
        let told = match &approval.state {
            ApprovalState::Denied {
                by,
                reason: Some(reason),
                ..
            } => format!("denied by {by}: {reason}"),
            ApprovalState::Denied { by, reason: None, .. } => format!("denied by {by}"),
            _ => "denied".to_owned(),
        };
        let told = avfs_core::printable(told.as_bytes());
        let rule = format!("approval {}", approval.id);
        let decision = PolicyDecision {
            action: PolicyAction::Deny,
            rule,
            reason: told.clone(),
            ..seeking.decision.clone()
        };
        self.outcome.approval = Some(approval.id.clone());
        self.record_refusal(seeking.request, &decision);
        self.outcome.decision = Some(decision);
        RunError::Refused(Refused {
            code: "approval_denied",
            message: told,
            hint: None,
        })
    }
}

impl VaultRuns<'_> {
    /// Everything that decides what a request does, in its current state.
    pub(crate) fn binding_of(
        &self,
        request: &RunSpec,
        cwd: &Path,
        found: &Classification,
    ) -> Result<Binding> {
        let head = self.vault.head()?;
        let meaning = naming::meaning(self.vault, request, cwd, found, head)?;
        Ok(Binding::of(request, self.vault.id(), cwd, meaning, head))
    }
}

fn deadline(asking: Asking) -> Option<Option<Instant>> {
    match asking {
        Asking::Never | Asking::Ask => None,
        Asking::Wait(most) => Some(most.and_then(|most| Instant::now().checked_add(most))),
    }
}

/// A command that a person allowed runs after a checkpoint.
fn allowed(decision: &PolicyDecision, approval: &Approval) -> PolicyDecision {
    let by = match &approval.state {
        ApprovalState::Allowed { by, .. } => by.as_str(),
        _ => "nobody",
    };
    PolicyDecision {
        action: PolicyAction::AllowWithCheckpoint,
        rule: format!("approval {}", approval.id),
        reason: format!("allowed by {}", avfs_core::printable(by.as_bytes())),
        ..decision.clone()
    }
}
