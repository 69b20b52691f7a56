//! May a command run? The policy answers, or a person does.

use std::path::Path;
use std::time::{Duration, Instant};

use avfs_exec::classify::{Class, Classification};
use avfs_exec::policy::{Action, Decision, PrefixRule};
use avfs_exec::{Cancel, Capabilities};

use super::envelope::RunResult;
use super::{Asking, ExecRequest, Failed, Permit, Refusal, Running};
use super::{naming, networked};
use crate::approvals::{Approval, ApprovalState, AskedCommand, Binding, Question, Standing};
use crate::error::Result;
use crate::session::SessionRequest;
use crate::vault::Vault;

/// How long is paused between two looks at an approval: at first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// A command whose approval is looked for.
struct Seeking<'a> {
    request: &'a ExecRequest,
    cwd: &'a Path,
    found: &'a Classification,
    rules: Vec<PrefixRule>,
    decision: &'a Decision,
    /// What it has if it runs.
    asked: Capabilities,
    /// It is no command, but a session, which ends after so long without one.
    session: Option<Duration>,
    /// `None`: it does not wait; `Some(None)`: as long as it takes.
    deadline: Option<Option<Instant>>,
}

impl Vault {
    /// Decides, asks if somebody has to be asked, and runs.
    pub(super) fn decide_and_run(
        &self,
        request: &ExecRequest,
        running: &mut Running<'_>,
        cwd: &Path,
        found: &Classification,
        result: &mut RunResult,
    ) -> Result<(), Failed> {
        let deadline = deadline(request.asking);
        loop {
            let request = &*self.with_policy(request)?;
            let policy = self.policy_at(request, cwd, found)?;
            let asked = request.asked().narrowed_by(found.classes);
            let decision = policy.decide_for(found, &asked, request.asking != Asking::Never);
            result.decision = Some(decision.clone());
            let rules = policy.rules_to_save_for(found, &asked);
            let decision = &decision;
            let seeking = Seeking { request, cwd, found, rules, decision, asked, session: None, deadline };
            let permit = match self.permit(&seeking, Some(running), result) {
                Err(Failed::PermitGone) => continue,
                permit => permit?,
            };
            if request.dry_run {
                return Ok(());
            }
            result.decision = Some(permit.decision.clone());
            match self.run(request, running, &permit, cwd, result) {
                // Another run was faster, or the vault has changed: it is decided on anew.
                Err(Failed::PermitGone) => {}
                done => {
                    return done.inspect_err(|_| {
                        result.audit_head = self.note_failure(request, result, &permit.decision).ok();
                    });
                }
            }
        }
    }

    /// Decides on a command of a session, which has what was granted to the session, and asks without waiting for an
    /// answer.
    pub(crate) fn permit_at_once(
        &self,
        request: &ExecRequest,
        cwd: &Path,
        found: &Classification,
        granted: &Capabilities,
        result: &mut RunResult,
    ) -> Result<Permit, Failed> {
        let request = &*self.with_policy(request)?;
        let policy = self.policy_at(request, cwd, found)?;
        let decision = policy.decide_within(found, granted, request.asking != Asking::Never);
        result.decision = Some(decision.clone());
        let writing = Capabilities { write: granted.write, ..Capabilities::READING };
        let rules = policy.rules_to_save_for(found, &writing);
        let (asked, decision) = (granted.clone(), &decision);
        let seeking = Seeking { request, cwd, found, rules, decision, asked, session: None, deadline: None };
        let permit = self.permit(&seeking, None, result)?;
        result.decision = Some(permit.decision.clone());
        Ok(permit)
    }

    /// Decides on what a session asks for, and takes what an approval gives.
    pub(crate) fn permit_session(
        &self,
        request: &SessionRequest,
        result: &mut RunResult,
    ) -> Result<Permit, Failed> {
        loop {
            let permit = self.seek_session(request, result)?;
            let is_used = match &permit.approval {
                Some((approval, binding)) => self.use_approval(&approval.id, binding, &result.run)?,
                None => true,
            };
            // Otherwise another session was faster, or the vault has changed: it is decided on again.
            if is_used {
                return Ok(permit);
            }
        }
    }

    /// Decides on what a session asks for, and asks without waiting for an answer.
    pub(crate) fn seek_session(
        &self,
        request: &SessionRequest,
        result: &mut RunResult,
    ) -> Result<Permit, Failed> {
        let SessionRequest { exec, idle } = request;
        let request = &*self.with_policy(exec)?;
        let cwd = &request.working_directory();
        let (found, rules) = (&Classification::nothing(), Vec::new());
        let policy = self.policy_at(request, cwd, found)?;
        let asked = request.asked();
        let decision = &policy.decide_session(&asked, request.asking != Asking::Never);
        result.decision = Some(decision.clone());
        let session = Some(*idle);
        let seeking = Seeking { request, cwd, found, rules, decision, asked, session, deadline: None };
        self.permit(&seeking, None, result)
    }

    fn permit(
        &self,
        seeking: &Seeking<'_>,
        running: Option<&mut Running<'_>>,
        result: &mut RunResult,
    ) -> Result<Permit, Failed> {
        let decision = seeking.decision;
        match decision.action {
            Action::Allow | Action::AllowWithCheckpoint => {
                let granted = seeking.asked.clone();
                Ok(Permit { decision: decision.clone(), granted, approval: None })
            }
            Action::RequireApproval if seeking.request.dry_run => Err(self.required(seeking, None)),
            Action::RequireApproval => self.seek(seeking, running, result),
            Action::Deny => {
                result.audit_head = self.note_refusal(seeking.request, result, decision).ok();
                let message = format!("the policy denies it: {}", decision.reason);
                let hint = decision.alternative.clone();
                Err(Failed::Refused(Refusal { code: "denied_by_policy", message, hint }))
            }
        }
    }

    /// Looks for an approval. If that is wanted it waits for an answer, with which everything is decided on anew:
    /// the answer may be a rule.
    fn seek(
        &self,
        seeking: &Seeking<'_>,
        running: Option<&mut Running<'_>>,
        result: &mut RunResult,
    ) -> Result<Permit, Failed> {
        let Seeking { request, cwd, decision, .. } = seeking;
        let mut binding = self.binding_of(request, cwd, seeking.found)?;
        if let Some(idle) = seeking.session {
            binding.command = AskedCommand::Session;
            binding.idle_seconds = Some(idle.as_secs());
        }
        let standing = self.standing(&Question {
            binding: &binding,
            run: &result.run,
            reason: &decision.reason,
            rules: seeking.rules.iter().map(PrefixRule::to_toml).collect(),
            stdin: request.stdin.as_deref(),
        })?;
        result.audit_head = Some(self.record()?.0.audit.hash);
        let pending = match standing {
            Standing::Allowed(approval) => {
                result.approval = Some(approval.id.to_string());
                let decision = allowed(decision, &approval);
                let granted = seeking.asked.clone();
                return Ok(Permit { decision, granted, approval: Some((approval, binding)) });
            }
            Standing::Denied(approval) => return Err(self.denied(seeking, &approval, result)),
            Standing::Pending(approval) => approval,
        };
        result.approval = Some(pending.id.to_string());
        let Some(running) = running else { return Err(self.required(seeking, Some(&pending))) };
        if let Some(asked) = running.asked.as_mut().filter(|_| seeking.deadline.is_some()) {
            asked(&pending.id);
        }
        match self.wait_for(&pending, seeking.deadline, running.cancel)? {
            true => Err(Failed::PermitGone),
            false => Err(self.required(seeking, Some(&pending))),
        }
    }

    /// Everything that decides what a request does, as it is now.
    pub(crate) fn binding_of(
        &self,
        request: &ExecRequest,
        cwd: &Path,
        found: &Classification,
    ) -> Result<Binding> {
        let head = self.head()?;
        let meaning = naming::meaning(self, request, cwd, found, head)?;
        Ok(Binding::of(request, self.id(), cwd, meaning, head))
    }

    /// Waits until somebody has answered; returns whether somebody has.
    fn wait_for(
        &self,
        pending: &Approval,
        deadline: Option<Option<Instant>>,
        cancel: &Cancel,
    ) -> Result<bool> {
        let Some(deadline) = deadline else { return Ok(false) };
        let [mut pause, longest] = PAUSES;
        while self.store().approval(&pending.id)?.state == ApprovalState::Pending {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) || cancel.wait(left.map_or(pause, |left| left.min(pause))) {
                return Ok(false);
            }
            pause = longest.min(pause * 2);
        }
        Ok(true)
    }

    fn required(&self, seeking: &Seeking<'_>, pending: Option<&Approval>) -> Failed {
        let Seeking { request, decision, .. } = seeking;
        let mut message = format!("it takes an approval: {}", decision.reason);
        let earlier = pending.and_then(|pending| pending.earlier.as_ref());
        if let Some(earlier) = earlier.filter(|earlier| !earlier.changed.is_empty()) {
            let changed = earlier.changed.join(", ");
            message.push_str(&format!("; {} does not hold for it, other than then: {changed}", earlier.id));
        }
        let answer = pending.map(|Approval { id, .. }| {
            format!(
                "`avfs approvals show {id}` tells what it is, `avfs approvals allow {id}` lets the same command run"
            )
        });
        let hint = match decision.classes.contains(Class::Networked) && request.reaches_nothing() {
            true => {
                message.push_str("; and it would reach nothing, because this run has no network");
                let name = self.name().map(|name| name.to_string()).unwrap_or_default();
                let again = networked::with_network(request, &name);
                let allow = answer.map(|answer| format!("; {answer}, without a network")).unwrap_or_default();
                Some(format!("`{again}` asks for it with a network{allow}"))
            }
            false => answer.or_else(|| decision.alternative.clone()),
        };
        Failed::Refused(Refusal { code: "approval_required", message, hint })
    }

    fn denied(&self, seeking: &Seeking<'_>, approval: &Approval, result: &mut RunResult) -> Failed {
        let told = match &approval.state {
            ApprovalState::Denied { by, reason: Some(reason), .. } => format!("denied by {by}: {reason}"),
            ApprovalState::Denied { by, reason: None, .. } => format!("denied by {by}"),
            _ => "denied".to_owned(),
        };
        let told = avfs_core::printable(told.as_bytes());
        let rule = format!("approval {}", approval.id);
        let decision =
            Decision { action: Action::Deny, rule, reason: told.clone(), ..seeking.decision.clone() };
        result.approval = Some(approval.id.to_string());
        result.audit_head = self.note_refusal(seeking.request, result, &decision).ok();
        result.decision = Some(decision);
        Failed::Refused(Refusal { code: "approval_denied", message: told, hint: None })
    }
}

fn deadline(asking: Asking) -> Option<Option<Instant>> {
    match asking {
        Asking::Never | Asking::Ask => None,
        Asking::Wait(most) => Some(most.and_then(|most| Instant::now().checked_add(most))),
    }
}

/// What a person allowed runs after a checkpoint.
fn allowed(decision: &Decision, approval: &Approval) -> Decision {
    let by = match &approval.state {
        ApprovalState::Allowed { by, .. } => by.as_str(),
        _ => "nobody",
    };
    Decision {
        action: Action::AllowWithCheckpoint,
        rule: format!("approval {}", approval.id),
        reason: format!("allowed by {}", avfs_core::printable(by.as_bytes())),
        ..decision.clone()
    }
}
