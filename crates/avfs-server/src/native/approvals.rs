//! `/approvals`: requests that a person has to allow.

use std::sync::Arc;

use agentvfs::approvals::{Allowance, Approval, ApprovalId, ApprovalState, SavePlace};
use axum::Json;
use axum::extract::FromRequestParts;
use http::Method;
use http::request::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::api::{About, Api};
use super::input::{Input, Millis, Words, part_of_path};
use super::listing::PageWords;
use super::versions::millis;
use crate::auth::{Caller, Scope};
use crate::problem::Problem;
use crate::service::on_a_thread;

pub(super) fn routes(api: &mut Api) {
    let about = About::new(
        "listApprovals",
        "List requests that wait for an answer, or have one",
        Scope::Read,
    );
    let about = about.query::<PageWords>().gives::<ApprovalList>(200);
    api.route(Method::GET, "/approvals", about, list);
    let about = About::new("getApproval", "Show a request", Scope::Read).gives::<ApprovalBody>(200);
    api.route(Method::GET, "/approvals/{approval}", about, get);
    let about = About::new(
        "previewApproval",
        "Run the command in a fork that is thrown away, without network, and show what it changes",
        Scope::Approve,
    );
    let about = about.gives::<PreviewBody>(200).harmless();
    api.route(Method::POST, "/approvals/{approval}/preview", about, preview);
    let about = About::new("answerApproval", "Allow or deny a request", Scope::Approve);
    let about = about.takes::<Answer>().gives::<ApprovalBody>(200);
    api.route(Method::POST, "/approvals/{approval}/answer", about, answer);
}

/// A command that needs an approval, and the answer to it.
#[derive(Serialize, JsonSchema)]
struct ApprovalBody {
    id: String,
    /// The run that asks.
    run: String,
    /// `pending`, `allowed`, `denied` or `used`.
    state: &'static str,
    /// The command, as a shell would read it.
    command: String,
    /// Why an approval is needed.
    reason: String,
    /// What a rule that is saved with `always` would say.
    rules_to_save: Vec<String>,
    /// Milliseconds since 1970.
    created_ms: Millis,
    expires_ms: Millis,
}

#[derive(Serialize, JsonSchema)]
struct ApprovalList {
    approvals: Vec<ApprovalBody>,
    /// The `cursor` with which the list goes on; nothing at its end.
    next: Option<String>,
}

/// An answer, and for how long it holds.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// The command may run once.
    Once,
    /// It may run for some hours.
    Session,
    /// A rule is saved with the vault.
    Always,
    /// It may not run.
    Deny,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Answer {
    answer: Verdict,
    /// Why it is denied, for whoever asked.
    reason: Option<String>,
}

/// What a command would do.
#[derive(Serialize, JsonSchema)]
struct PreviewBody {
    /// What it changes, for `git apply`. Bytes that are no text are replaced.
    patch: String,
    exit_code: Option<i32>,
    stdout: String,
    stderr: String,
    /// Variables that it did not have, because they look like secrets.
    withheld: Vec<String>,
}

async fn preview(of: OneApproval) -> Result<Json<PreviewBody>, Problem> {
    let shown = of.caller.tenant.previews().of(of.id).await?;
    Ok(Json(PreviewBody {
        patch: String::from_utf8_lossy(&shown.patch).into_owned(),
        exit_code: shown.exit_code,
        stdout: shown.stdout,
        stderr: shown.stderr,
        withheld: shown.withheld,
    }))
}

fn body_of(approval: &Approval) -> ApprovalBody {
    ApprovalBody {
        id: approval.id.to_string(),
        run: approval.run.clone(),
        state: ApprovalState::as_str(&approval.state),
        command: approval.binding.command.quoted(),
        reason: approval.reason.clone(),
        rules_to_save: approval
            .rules_to_save()
            .iter()
            .map(|rule| rule.to_toml())
            .collect(),
        created_ms: millis(approval.created),
        expires_ms: millis(approval.expires),
    }
}

/// The approval that a path names.
struct OneApproval {
    caller: Caller,
    id: ApprovalId,
}

impl<S: Sync> FromRequestParts<S> for OneApproval {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<OneApproval, Problem> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let id = ApprovalId::parse(&part_of_path(parts, "approval").await?);
        let id = id.map_err(crate::service::ServiceError::from)?;
        Ok(OneApproval { caller, id })
    }
}

async fn list(caller: Caller, Words(page): Words<PageWords>) -> Result<Json<ApprovalList>, Problem> {
    let all = on_a_thread(move || Ok(caller.tenant.store().approvals().list()?)).await?;
    let (approvals, next) = page.of(all.iter().map(body_of).collect(), |one| &one.id);
    Ok(Json(ApprovalList { approvals, next }))
}

async fn get(of: OneApproval) -> Result<Json<ApprovalBody>, Problem> {
    let found = on_a_thread(move || Ok(of.caller.tenant.store().approval(&of.id)?)).await?;
    Ok(Json(body_of(&found)))
}

async fn answer(of: OneApproval, Input(asked): Input<Answer>) -> Result<Json<ApprovalBody>, Problem> {
    let answered = on_a_thread(move || {
        let tenant = Arc::clone(&of.caller.tenant);
        let allow = |allowance: Allowance| {
            tenant
                .store()
                .allow(&of.id, &allowance)
                .map(|(allowed, _)| allowed)
        };
        let answered = match asked.answer {
            Verdict::Once => allow(Allowance::Once),
            Verdict::Session => allow(Allowance::Session),
            Verdict::Always => allow(Allowance::Always {
                edits: Vec::new(),
                place: SavePlace::Vault,
            }),
            Verdict::Deny => tenant.store().deny(&of.id, asked.reason.as_deref()),
        };
        Ok(answered?)
    });
    Ok(Json(body_of(&answered.await?)))
}
