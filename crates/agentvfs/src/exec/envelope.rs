//! The one answer to a run, whatever becomes of it. `docs/exec.schema.json` describes it for programs.

use avfs_exec::classify::Command;
use avfs_exec::launch::CommandEnd;
use avfs_exec::limits::{LimitsBy, ReachedLimit};
use avfs_exec::network::{PublishedPort, Refusal};
use avfs_exec::output::CapturedOutput;
use avfs_exec::policy::PolicyDecision;
use avfs_exec::{LaunchError, Network, RunLimits};
use serde::{Deserialize, Serialize, Serializer};

use super::changes::ChangedFile;
use super::granted::GrantedBody;
use super::outcome::{ProcessOutcome, RunCheckpoint, RunOutcome};
use super::request::RunSpec;
use crate::approvals::ApprovalId;
use crate::error::{Error, Hint};
use crate::text::Text;

/// Increased when a field changes its meaning or is removed.
pub(super) const SCHEMA_VERSION: u32 = 2;

#[derive(Clone, Debug, Serialize)]
pub struct Envelope {
    pub schema_version: u32,
    pub kind: &'static str,
    /// The command ran, was not ended before its time, and exited with 0.
    pub success: bool,
    pub request: RequestBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ResultBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
}

/// The request as it was understood.
#[derive(Clone, Debug, Serialize)]
pub struct RequestBody {
    pub vault: String,
    pub cwd: String,
    /// The directory of the vault that is the workspace, if it is not all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub command: Vec<String>,
    /// `argv`, or `shell` for a line that a shell reads.
    pub command_mode: &'static str,
    pub limits: LimitsBody,
    pub checkpoint_mode: &'static str,
    pub readonly: bool,
    pub network: NetworkBody,
    /// Ports inside that this machine can reach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedBody>,
    pub isolation: &'static str,
    pub dry_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The rules through which the vault is seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<String>>,
}

#[derive(Clone, Debug, Serialize)]
pub struct LimitsBody {
    pub timeout_ms: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub pids: Option<u64>,
    pub cpu_seconds: Option<u64>,
    pub output_bytes: u64,
}

/// `none`, `host`, or a list of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkBody(pub(super) Network);

impl NetworkBody {
    /// In one word.
    pub(super) fn shown(&self) -> String {
        match &self.0 {
            Network::None => "none".to_owned(),
            Network::Host => "host".to_owned(),
            Network::Hosts(hosts) if hosts.is_empty() => "none".to_owned(),
            Network::Hosts(hosts) => hosts
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" "),
        }
    }
}

impl Serialize for NetworkBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Network::None => "none".serialize(serializer),
            Network::Host => "host".serialize(serializer),
            Network::Hosts(hosts) => hosts
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .serialize(serializer),
        }
    }
}

/// A port inside, and where this machine has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedBody {
    /// `ADDRESS:PORT` of this machine.
    pub at: String,
    pub port: u16,
}

impl From<&PublishedPort> for PublishedBody {
    fn from(published: &PublishedPort) -> PublishedBody {
        PublishedBody {
            at: published.at().to_string(),
            port: published.port(),
        }
    }
}

/// The outcome of a run, for programs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ResultBody {
    pub run: String,
    /// The session that it ran in, and whether that ended with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_ended: Option<bool>,
    pub decision: Option<PolicyDecision>,
    pub vault: String,
    pub checkpoint: CheckpointBody,
    pub mountpoint: Option<String>,
    pub isolation: Option<String>,
    /// Its grants; none if it was not allowed to run.
    pub granted: Option<GrantedBody>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub timed_out: bool,
    #[serde(flatten)]
    pub stdout: StdoutBody,
    #[serde(flatten)]
    pub stderr: StderrBody,
    pub changed_files: Vec<ChangedFile>,
    /// In a session: the changes since the previous command, by background jobs or from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_changed_files: Option<Vec<ChangedFile>>,
    pub snapshot_before: Option<String>,
    pub snapshot_after: Option<String>,
    pub audit_head: Option<String>,
    pub duration_ms: u64,
    pub usage: UsageBody,
    pub limits_by: Option<&'static str>,
    pub limits_hit: Vec<&'static str>,
    pub network_refusals: Vec<RefusalBody>,
    /// Under which a person can allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
}

/// The checkpoint before a run, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum CheckpointBody {
    Taken { id: String, name: String },
    Skipped { skipped: &'static str },
}

impl Default for CheckpointBody {
    fn default() -> CheckpointBody {
        CheckpointBody::Skipped {
            skipped: "nothing was run",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageBody {
    pub cpu_ms: Option<u64>,
    pub max_memory_bytes: Option<u64>,
}

/// Something that the proxy did not let through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusalBody {
    /// `HOST:PORT`, or empty if the request did not name one.
    pub target: String,
    pub reason: &'static str,
    pub count: u64,
    /// The addition to `--net` with which it would be reachable: `+HOST`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
}

impl From<&Refusal> for RefusalBody {
    fn from(refusal: &Refusal) -> RefusalBody {
        let Refusal {
            target,
            because,
            count,
            allow,
        } = refusal;
        RefusalBody {
            target: target.clone(),
            reason: because.code(),
            count: *count,
            allow: allow.clone(),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct ErrorBody {
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
}

macro_rules! stream_body {
    ($type:ident, $text:ident, $hex:ident, $truncated:ident, $total:ident) => {
        /// One stream of output, as far as it was kept.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct $type {
            pub $text: String,
            #[serde(skip_serializing_if = "Option::is_none")]
            pub $hex: Option<String>,
            pub $truncated: bool,
            /// How many bytes were written, including those that were not kept.
            pub $total: u64,
        }

        impl From<&CapturedOutput> for $type {
            fn from(captured: &CapturedOutput) -> $type {
                let Text { text, hex } = Text::of(&captured.bytes());
                $type {
                    $text: text,
                    $hex: hex,
                    $truncated: captured.truncated(),
                    $total: captured.total,
                }
            }
        }
    };
}

stream_body!(
    StdoutBody,
    stdout,
    stdout_bytes_hex,
    stdout_truncated,
    stdout_bytes
);
stream_body!(
    StderrBody,
    stderr,
    stderr_bytes_hex,
    stderr_truncated,
    stderr_bytes
);

impl Envelope {
    pub(crate) fn new(
        request: RequestBody,
        result: Option<ResultBody>,
        error: Option<ErrorBody>,
    ) -> Envelope {
        let success = error.is_none() && result.as_ref().is_some_and(ResultBody::is_success);
        Envelope {
            schema_version: SCHEMA_VERSION,
            kind: "exec",
            success,
            request,
            result,
            error,
        }
    }
}

impl ResultBody {
    fn is_success(&self) -> bool {
        self.exit_code == Some(0) && !self.timed_out
    }

    pub(super) fn of(outcome: &RunOutcome) -> ResultBody {
        let turn = outcome.turn.as_ref();
        let mut body = ResultBody {
            run: outcome.run.clone(),
            session: turn.map(|turn| turn.session.clone()),
            session_ended: turn.map(|turn| turn.is_over),
            decision: outcome.decision.clone(),
            vault: outcome.vault.clone(),
            checkpoint: (&outcome.checkpoint).into(),
            mountpoint: outcome.place.clone(),
            isolation: outcome.isolation.clone(),
            granted: outcome.granted.as_ref().map(GrantedBody::from),
            changed_files: outcome.changed_files.clone(),
            background_changed_files: turn.and_then(|turn| turn.background.clone()),
            snapshot_before: outcome.before.map(|id| id.to_string()),
            snapshot_after: outcome.after.map(|id| id.to_string()),
            audit_head: outcome.audit_head.clone(),
            approval: outcome.approval.as_ref().map(ApprovalId::to_string),
            ..ResultBody::default()
        };
        if let Some(process) = &outcome.process {
            body.take(process);
        }
        body
    }

    fn take(&mut self, process: &ProcessOutcome) {
        (self.exit_code, self.signal) = match process.end {
            CommandEnd::Exited(code) => (Some(code), None),
            CommandEnd::Signaled(signal) => (None, Some(signal)),
            CommandEnd::NotStarted { .. } => (Some(process.status()), None),
        };
        self.timed_out = process.timed_out();
        self.stdout = (&process.stdout).into();
        self.stderr = (&process.stderr).into();
        self.duration_ms = millis(process.duration);
        self.usage = UsageBody {
            cpu_ms: process.usage.cpu.map(millis),
            max_memory_bytes: process.usage.memory,
        };
        self.limits_by = Some(limits_by(process.limits_by));
        self.limits_hit = process.limits_hit.iter().copied().map(limit).collect();
        self.network_refusals = process.refusals.iter().map(RefusalBody::from).collect();
    }
}

impl From<&RunCheckpoint> for CheckpointBody {
    fn from(checkpoint: &RunCheckpoint) -> CheckpointBody {
        match checkpoint {
            RunCheckpoint::Taken { snapshot, name } => CheckpointBody::Taken {
                id: snapshot.to_string(),
                name: name.to_string(),
            },
            RunCheckpoint::Skipped { because } => CheckpointBody::Skipped { skipped: because },
        }
    }
}

impl RequestBody {
    pub(crate) fn of(request: &RunSpec, vault: String, cwd: &std::path::Path) -> RequestBody {
        let (command, command_mode) = match &request.command {
            Command::Argv(words) => {
                let text = |word: &std::ffi::OsString| Text::of(word.as_encoded_bytes()).text;
                (words.iter().map(text).collect(), "argv")
            }
            Command::Shell(line) => (vec![line.clone()], "shell"),
        };
        RequestBody {
            vault,
            cwd: cwd.display().to_string(),
            path: request.path.as_ref().map(ToString::to_string),
            command,
            command_mode,
            limits: LimitsBody::of(&request.limits),
            checkpoint_mode: request.checkpoint.as_str(),
            readonly: request.read_only,
            network: NetworkBody(request.network.clone()),
            published: request.published.iter().map(PublishedBody::from).collect(),
            isolation: request.isolation.as_str(),
            dry_run: request.dry_run,
            principal: request.principal.clone(),
            rules: request
                .rules
                .as_ref()
                .map(|rules| rules.iter().map(ToString::to_string).collect()),
        }
    }
}

impl LimitsBody {
    fn of(limits: &RunLimits) -> LimitsBody {
        LimitsBody {
            timeout_ms: limits.timeout.map(millis),
            memory_bytes: limits.memory,
            pids: limits.pids,
            cpu_seconds: limits.cpu_seconds,
            output_bytes: limits.output_bytes as u64,
        }
    }
}

impl From<&Error> for ErrorBody {
    fn from(error: &Error) -> ErrorBody {
        let message = avfs_core::with_causes(error);
        ErrorBody {
            code: error.code().to_string(),
            message,
            hint: error.hint(),
        }
    }
}

impl From<&LaunchError> for ErrorBody {
    fn from(error: &LaunchError) -> ErrorBody {
        let message = avfs_core::with_causes(error);
        ErrorBody {
            code: error.code().to_owned(),
            message,
            hint: error.hint().map(|launch| Hint::Launch { launch }),
        }
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn limits_by(by: LimitsBy) -> &'static str {
    match by {
        LimitsBy::CgroupV2 => "cgroup_v2",
        LimitsBy::CgroupV1 => "cgroup_v1",
        LimitsBy::Rlimits => "rlimits",
    }
}

fn limit(limit: ReachedLimit) -> &'static str {
    match limit {
        ReachedLimit::Memory => "memory",
        ReachedLimit::Pids => "pids",
        ReachedLimit::CpuTime => "cpu",
    }
}
