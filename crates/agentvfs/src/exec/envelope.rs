//! The one answer to a run, whatever becomes of it. `docs/exec.schema.json` describes it for programs.

use avfs_exec::classify::Command;
use avfs_exec::launch::{End, Outcome, Stop};
use avfs_exec::limits::{Limit, LimitsBy, Usage};
use avfs_exec::network::{Published, Refusal};
use avfs_exec::output::Captured;
use avfs_exec::policy::Decision;
use avfs_exec::session::{Answer, TurnEnd};
use avfs_exec::{LaunchError, Limits, Network};
use serde::{Deserialize, Serialize, Serializer};

use super::changes::ChangedFile;
use super::granted::GrantedBody;
use super::request::ExecRequest;
use crate::error::Error;
use crate::text::Text;

/// Grows when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

#[derive(Clone, Debug, Serialize)]
pub struct Envelope {
    pub schema_version: u32,
    pub kind: &'static str,
    /// The command ran, was not ended before its time, and exited with 0.
    pub success: bool,
    pub request: RequestBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
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
    /// Ports inside that this machine reaches.
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
            Network::Hosts(hosts) => hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        }
    }
}

impl Serialize for NetworkBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Network::None => "none".serialize(serializer),
            Network::Host => "host".serialize(serializer),
            Network::Hosts(hosts) => {
                hosts.iter().map(ToString::to_string).collect::<Vec<_>>().serialize(serializer)
            }
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

impl From<&Published> for PublishedBody {
    fn from(published: &Published) -> PublishedBody {
        PublishedBody { at: published.at().to_string(), port: published.port() }
    }
}

/// What became of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunResult {
    pub run: String,
    /// The session that it ran in, and whether that ended with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_ended: Option<bool>,
    pub decision: Option<Decision>,
    pub vault: String,
    /// The fork that it ran in, if it was made for it.
    pub fork: Option<String>,
    pub checkpoint: CheckpointBody,
    pub mountpoint: Option<String>,
    pub isolation: Option<String>,
    /// What it was given; nothing if it was not allowed to run.
    pub granted: Option<GrantedBody>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub timed_out: bool,
    #[serde(flatten)]
    pub stdout: StdoutBody,
    #[serde(flatten)]
    pub stderr: StderrBody,
    pub changed_files: Vec<ChangedFile>,
    /// In a session: what was changed since the command before, by background jobs or from outside.
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
        CheckpointBody::Skipped { skipped: "nothing was run" }
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
    /// `HOST:PORT`, or nothing if the request did not name one.
    pub target: String,
    pub reason: &'static str,
    pub count: u64,
    /// What `--net` would have to add for it to be reached: `+HOST`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
}

impl From<&Refusal> for RefusalBody {
    fn from(refusal: &Refusal) -> RefusalBody {
        let Refusal { target, because, count, allow } = refusal;
        RefusalBody { target: target.clone(), reason: because.code(), count: *count, allow: allow.clone() }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct ErrorBody {
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
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
            /// How many bytes were written, also those that were not kept.
            pub $total: u64,
        }

        impl From<&Captured> for $type {
            fn from(captured: &Captured) -> $type {
                let Text { text, hex } = Text::of(&captured.bytes());
                $type { $text: text, $hex: hex, $truncated: captured.truncated(), $total: captured.total }
            }
        }
    };
}

stream_body!(StdoutBody, stdout, stdout_bytes_hex, stdout_truncated, stdout_bytes);
stream_body!(StderrBody, stderr, stderr_bytes_hex, stderr_truncated, stderr_bytes);

impl Envelope {
    pub(crate) fn new(request: RequestBody, result: Option<RunResult>, error: Option<ErrorBody>) -> Envelope {
        let success = error.is_none() && result.as_ref().is_some_and(RunResult::is_success);
        Envelope { schema_version: SCHEMA_VERSION, kind: "exec", success, request, result, error }
    }
}

impl RunResult {
    fn is_success(&self) -> bool {
        self.exit_code == Some(0) && !self.timed_out
    }

    /// What became of a command in a session whose shell goes on.
    pub(crate) fn take_turn(&mut self, answer: &Answer) {
        if let TurnEnd::Status(status) = answer.end {
            self.exit_code = Some(status);
        }
        self.timed_out = answer.stopped == Some(Stop::Timeout);
        self.stdout = (&answer.stdout).into();
        self.stderr = (&answer.stderr).into();
        self.duration_ms = millis(answer.duration);
        self.take_usage(&answer.usage, answer.limits_by, &answer.limits_hit);
        self.network_refusals = answer.refusals.iter().map(RefusalBody::from).collect();
    }

    fn take_usage(&mut self, usage: &Usage, by: LimitsBy, hit: &[Limit]) {
        self.usage = UsageBody { cpu_ms: usage.cpu.map(millis), max_memory_bytes: usage.memory };
        self.limits_by = Some(limits_by(by));
        self.limits_hit = hit.iter().copied().map(limit).collect();
    }

    pub(crate) fn take(&mut self, outcome: &Outcome) {
        (self.exit_code, self.signal) = match outcome.end {
            End::Exited(code) => (Some(code), None),
            End::Signaled(signal) => (None, Some(signal)),
            End::NotStarted { .. } => (Some(outcome.status()), None),
        };
        self.timed_out = outcome.timed_out();
        self.stdout = (&outcome.stdout).into();
        self.stderr = (&outcome.stderr).into();
        self.duration_ms = millis(outcome.duration);
        self.take_usage(&outcome.usage, outcome.limits_by, &outcome.limits_hit);
        self.isolation = Some(outcome.isolation.to_string());
        self.network_refusals = outcome.refusals.iter().map(RefusalBody::from).collect();
    }
}

impl RequestBody {
    pub(crate) fn of(request: &ExecRequest, vault: String, cwd: &std::path::Path) -> RequestBody {
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
            rules: request.rules.as_ref().map(|rules| rules.iter().map(ToString::to_string).collect()),
        }
    }
}

impl LimitsBody {
    fn of(limits: &Limits) -> LimitsBody {
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
        ErrorBody { code: error.code().to_owned(), message, hint: error.hint() }
    }
}

impl From<&LaunchError> for ErrorBody {
    fn from(error: &LaunchError) -> ErrorBody {
        let message = avfs_core::with_causes(error);
        ErrorBody { code: error.code().to_owned(), message, hint: error.hint().map(str::to_owned) }
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

fn limit(limit: Limit) -> &'static str {
    match limit {
        Limit::Memory => "memory",
        Limit::Pids => "pids",
        Limit::CpuTime => "cpu",
    }
}
