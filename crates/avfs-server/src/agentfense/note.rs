//! What AgentFense's clients are told of a sandbox that no other interface knows.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tonic::Status;

use super::proto;
use super::values::moment;
use crate::service::{Sandbox, Tenant, on_a_thread};

/// How far a sandbox is. Between its start and its stop, it takes commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Stage {
    #[default]
    Pending,
    Running,
    Stopped,
}

/// A permission as it was given.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Given(String, i32, i32, i32);

/// Kept with the sandbox, and gone with it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Note {
    pub stage: Stage,
    /// Milliseconds since 1970.
    pub started: Option<i64>,
    pub stopped: Option<i64>,
    permissions: Vec<Given>,
    runtime: i32,
    image: String,
    /// Memory, CPU quota, CPU shares, processes; nothing, if none was asked for.
    resources: Option<[i64; 4]>,
}

impl Note {
    /// What is kept of a request.
    pub fn of(asked: &proto::CreateSandboxRequest) -> Note {
        let given = |rule: &proto::PermissionRule| {
            Given(rule.pattern.clone(), rule.r#type, rule.permission, rule.priority)
        };
        let limits = |limits: &proto::ResourceLimits| {
            [
                limits.memory_bytes,
                limits.cpu_quota,
                limits.cpu_shares,
                limits.pids_limit,
            ]
        };
        Note {
            permissions: asked.permissions.iter().map(given).collect(),
            runtime: match asked.runtime() {
                proto::RuntimeType::Unspecified => proto::RuntimeType::Bwrap.into(),
                proto::RuntimeType::Bwrap | proto::RuntimeType::Docker => asked.runtime,
            },
            image: asked.image.clone(),
            resources: asked.resources.as_ref().map(limits),
            ..Note::default()
        }
    }

    pub async fn read(tenant: &Arc<Tenant>, sandbox: &Sandbox) -> Result<Note, Status> {
        let (tenant, id) = (Arc::clone(tenant), sandbox.id.clone());
        let note = on_a_thread(move || Ok(tenant.state().note(&id)?)).await?;
        // A sandbox whose server died before it wrote one was told to nobody.
        Ok(note
            .and_then(|note| serde_json::from_str(&note).ok())
            .unwrap_or_default())
    }

    pub async fn write(&self, tenant: &Arc<Tenant>, sandbox: &Sandbox) -> Result<(), Status> {
        let text = serde_json::to_string(self).map_err(|error| Status::internal(error.to_string()))?;
        let (tenant, id) = (Arc::clone(tenant), sandbox.id.clone());
        Ok(on_a_thread(move || Ok(tenant.state().put_note(&id, &text)?)).await?)
    }

    /// The sandbox as its client is told of it.
    pub fn show(&self, sandbox: &Sandbox) -> proto::Sandbox {
        let permission = |Given(pattern, kind, permission, priority): &Given| proto::PermissionRule {
            pattern: pattern.clone(),
            r#type: *kind,
            permission: *permission,
            priority: *priority,
        };
        let status = match self.stage {
            Stage::Pending => proto::SandboxStatus::Pending,
            Stage::Running => proto::SandboxStatus::Running,
            Stage::Stopped => proto::SandboxStatus::Stopped,
        };
        let resources = |[memory_bytes, cpu_quota, cpu_shares, pids_limit]: [i64; 4]| proto::ResourceLimits {
            memory_bytes,
            cpu_quota,
            cpu_shares,
            pids_limit,
        };
        proto::Sandbox {
            id: sandbox.id.clone(),
            codebase_id: sandbox.parent.clone().unwrap_or_default(),
            permissions: self.permissions.iter().map(permission).collect(),
            status: status.into(),
            labels: sandbox.spec.metadata.clone().into_iter().collect(),
            created_at: Some(moment(sandbox.created)),
            started_at: self.started.map(moment),
            stopped_at: self.stopped.map(moment),
            expires_at: sandbox.expires().map(moment),
            runtime: self.runtime,
            image: self.image.clone(),
            resources: self.resources.map(resources),
        }
    }
}
