//! What was done with a sandbox or vault, and by whom.

use axum::Json;
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::api::{About, Api};
use super::input::{Millis, Words};
use super::subject::Subject;
use super::versions::millis;
use crate::auth::Scope;
use crate::problem::Problem;

/// How many entries a page has, unless the client says otherwise, and at most.
const PAGE: [usize; 2] = [100, 1000];

pub(super) fn routes(api: &mut Api, base: &str) {
    let about = About::new(
        "listAudit",
        "List the audit log, the oldest entry first",
        Scope::Read,
    );
    let about = about.query::<AuditWords>().gives::<AuditList>(200);
    api.route(Method::GET, &format!("{base}/audit"), about, list);
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AuditWords {
    /// Where the list goes on: `next` of the page before.
    cursor: Option<u64>,
    /// The most entries of the page; 100, if not said, and at most 1000.
    limit: Option<usize>,
}

/// One entry.
#[derive(Serialize, JsonSchema)]
struct AuditBody {
    seq: u64,
    /// Milliseconds since 1970.
    time_ms: Millis,
    actor: String,
    action: String,
    detail: String,
}

#[derive(Serialize, JsonSchema)]
struct AuditList {
    audit: Vec<AuditBody>,
    /// The `cursor` with which the list goes on; nothing at its end.
    next: Option<u64>,
}

async fn list(of: Subject, Words(asked): Words<AuditWords>) -> Result<Json<AuditList>, Problem> {
    let limit = asked.limit.unwrap_or(PAGE[0]).clamp(1, PAGE[1]);
    let read = of.with_vault(move |vault| Ok(vault.audit(asked.cursor.unwrap_or(0), limit + 1)?));
    let mut entries = read.await?;
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    let next = entries.last().filter(|_| has_more).map(|last| last.seq);
    let bodies = entries.into_iter().map(|entry| AuditBody {
        seq: entry.seq,
        time_ms: millis(entry.time),
        actor: entry.actor,
        action: entry.action,
        detail: entry.detail,
    });
    Ok(Json(AuditList {
        audit: bodies.collect(),
        next,
    }))
}
