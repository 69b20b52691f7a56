//! What an approval holds for: everything that decides what a run does, and one digest over all of it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use avfs_core::rules::Rule;
use avfs_core::{SnapshotId, TreePath};
use avfs_exec::classify::{Classification, Command};
use avfs_exec::plan::{is_for_people, is_inherited};
use avfs_exec::policy::Policy;
use avfs_exec::{Limits, Network};
use serde::{Deserialize, Serialize};

use super::programs::{FoundProgram, Meaning, NamedProgram};
use super::raw::Raw;
use crate::error::{Error, Result};
use crate::exec::{CheckpointMode, ExecRequest, IsolationChoice};
use crate::record::{VaultId, snapshot_id};

/// Separates our digests from all others.
const CONTEXT: &str = "agentvfs: the approval of a command, version 1";
const PASSED_CONTEXT: &str = "agentvfs: the value of a variable that comes along with a command, version 1";
/// The field that moves when the vault does.
const HEAD: &str = "head";
/// The caller's variables that come along; those for people are free where an answer is for always.
const INHERITED: &str = "inherited environment";

/// The fields that an answer for always leaves free, or that its rule decides on: words, programs and network.
const FREE_FOR_ALWAYS: [&str; 10] = [
    "command",
    "working directory",
    INHERITED,
    "network",
    "published ports",
    "limits",
    "checkpoint",
    "session",
    "programs",
    "policy",
];

/// One request as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    pub vault: VaultId,
    pub command: AskedCommand,
    pub cwd: Raw,
    /// The directory of the vault that is the workspace; `None`: all of it.
    pub path: Option<Raw>,
    /// The home whose toolchains are shown.
    pub home: Option<Raw>,
    /// What was given with the request, by name.
    pub env: Vec<(Raw, Raw)>,
    /// The caller's own variables that come along: by name, with a digest of the value, which is kept nowhere.
    #[serde(default)]
    pub passed: Vec<(Raw, String)>,
    /// What came along of the caller's: how to talk to people, nothing else.
    pub inherited: Vec<(Raw, Raw)>,
    pub stdin: Option<Input>,
    pub rules: Option<Vec<String>>,
    pub network: AskedNetwork,
    /// Ports inside that this machine reaches: `ADDRESS:HOSTPORT:PORT`.
    #[serde(default)]
    pub published: Vec<String>,
    pub limits: AskedLimits,
    pub read_only: bool,
    pub checkpoint: String,
    pub isolation: String,
    pub principal: Option<String>,
    pub session: Option<String>,
    /// The variables of the session's shell that the command does not have.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// The programs that the command names, and where each is found.
    #[serde(default)]
    pub programs: Vec<NamedProgram>,
    /// The directories of the vault in which programs are looked for.
    #[serde(default)]
    pub searched: Vec<Raw>,
    /// After so many seconds without a command, a session ends.
    #[serde(default)]
    pub idle_seconds: Option<u64>,
    /// The digest of what the policy says.
    pub policy: String,
    #[serde(with = "snapshot_id")]
    pub head: SnapshotId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AskedCommand {
    Argv(Vec<Raw>),
    Shell(String),
    /// The start of a session: what it is given, all commands in it have.
    Session,
}

/// Standard input, by what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    pub hash: String,
    pub length: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AskedNetwork {
    None,
    Host,
    Hosts(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedLimits {
    pub timeout_ms: Option<u64>,
    pub grace_ms: u64,
    pub memory_bytes: Option<u64>,
    pub pids: Option<u64>,
    pub cpu_seconds: Option<u64>,
    pub output_bytes: u64,
    pub private_bytes: u64,
}

type Field = (&'static str, Vec<Vec<u8>>);

impl Binding {
    /// Exhaustive: what is added to a request is bound here, or it is said why not.
    pub(crate) fn of(
        request: &ExecRequest,
        vault: VaultId,
        cwd: &Path,
        meaning: Meaning,
        head: SnapshotId,
    ) -> Binding {
        let Meaning { programs, searched } = meaning;
        let ExecRequest {
            command,
            // As it is understood, it is given with the request.
            cwd: _,
            // The vault says it.
            own_path: _,
            path,
            env,
            passed,
            caller_env,
            home,
            stdin,
            limits,
            network,
            published,
            read_only,
            checkpoint,
            rules,
            principal,
            session,
            left_out,
            policy,
            isolation,
            // They do not change what the command does.
            asking: _,
            dry_run: _,
            transport: _,
        } = request;
        Binding {
            vault,
            command: AskedCommand::from(command),
            cwd: cwd.as_os_str().into(),
            path: path.as_ref().map(|path| OsStr::from_bytes(path.as_bytes()).into()),
            home: home.as_ref().map(|home| home.as_os_str().into()),
            env: by_name(env),
            passed: by_name(passed).into_iter().map(|(name, value)| (name, value_digest(&value))).collect(),
            inherited: by_name(caller_env.iter().filter(|(name, value)| is_inherited(name, value))),
            stdin: stdin.as_deref().map(Input::of),
            rules: rules.as_ref().map(|rules| rules.iter().map(Rule::to_string).collect()),
            network: AskedNetwork::from(network),
            published: published.iter().map(|one| one.asked().to_string()).collect(),
            limits: AskedLimits::from(limits),
            read_only: *read_only,
            checkpoint: checkpoint.as_str().to_owned(),
            isolation: isolation.as_str().to_owned(),
            principal: principal.clone(),
            session: session.clone(),
            left_out: left_out.clone(),
            programs,
            searched,
            idle_seconds: None,
            policy: digest_of(policy.as_ref().unwrap_or(&Policy::built_in())),
            head,
        }
    }

    /// Of everything, and the state of the vault.
    pub fn digest(&self) -> String {
        digest(&self.fields())
    }

    /// Of the request alone, whatever the vault holds.
    pub(crate) fn request_digest(&self) -> String {
        let fields: Vec<Field> = self.fields().into_iter().filter(|(name, _)| *name != HEAD).collect();
        digest(&fields)
    }

    /// Of what an answer for always holds for beside words, programs and network: whatever else gives the same words another
    /// meaning or the run a wider view.
    pub(super) fn surroundings_digest(&self) -> String {
        let is_bound = |(name, _): &Field| *name != HEAD && !FREE_FOR_ALWAYS.contains(name);
        let mut fields: Vec<Field> = self.fields().into_iter().filter(is_bound).collect();
        let of_builds = self.inherited.iter().filter(|(name, _)| !is_for_people(&name.to_os()));
        let items = of_builds.flat_map(|(name, value)| [name, value]).map(bytes).collect();
        fields.push((INHERITED, items));
        digest(&fields)
    }

    /// Whether each part of the command is what its own words say: none gets input from another one or from a file, and none
    /// sets a variable that another one sees.
    pub(super) fn has_plain_parts(&self, found: &Classification) -> bool {
        let given = self.env.iter().chain(&self.inherited).map(|(name, _)| name);
        let mut given = given.chain(self.passed.iter().map(|(name, _)| name));
        let is_given = given.any(|name| found.assigns.iter().any(|own| own.as_bytes() == name.as_bytes()));
        found.sets.is_empty() && !found.has_input && !is_given
    }

    pub(crate) fn command_digest(&self) -> String {
        digest(&[("command", self.command.items())])
    }

    /// The names of what is another in `other`.
    pub fn differences(&self, other: &Binding) -> Vec<&'static str> {
        let pairs = self.fields().into_iter().zip(other.fields());
        pairs.filter(|(own, other)| own != other).map(|((name, _), _)| name).collect()
    }

    /// Why an answer can hold for one run only: words whose meaning is not fixed by what is shown.
    pub fn once_only(&self) -> Option<String> {
        self.programs.iter().find_map(|program| {
            let name = avfs_core::printable(program.name.as_bytes());
            match &program.found {
                FoundProgram::Unknown => {
                    Some(format!("which program '{name}' is, is not known before it runs"))
                }
                FoundProgram::InVault(_) => {
                    Some(format!("'{name}' is a file of the vault, which runs can change"))
                }
                FoundProgram::Builtin | FoundProgram::Installed(_) => None,
            }
        })
    }

    /// Exhaustive: a field that is added here without a place in the digest does not compile.
    fn fields(&self) -> Vec<Field> {
        let Binding {
            vault,
            command,
            cwd,
            path,
            home,
            env,
            passed,
            inherited,
            stdin,
            rules,
            network,
            published,
            limits,
            read_only,
            checkpoint,
            isolation,
            principal,
            session,
            // The command does not have them.
            left_out: _,
            programs,
            searched,
            idle_seconds,
            policy,
            head,
        } = self;
        let pairs =
            |pairs: &[(Raw, Raw)]| pairs.iter().flat_map(|(name, value)| [name, value]).map(bytes).collect();
        let optional = |text: &Option<String>| text.iter().map(|text| text.clone().into_bytes()).collect();
        vec![
            ("vault", vec![vault.to_string().into_bytes()]),
            ("command", command.items()),
            ("working directory", vec![bytes(cwd)]),
            ("part of the vault", path.iter().map(bytes).collect()),
            ("home", home.iter().map(bytes).collect()),
            ("environment", pairs(env)),
            (
                "passed environment",
                passed.iter().flat_map(|(name, digest)| [bytes(name), digest.clone().into_bytes()]).collect(),
            ),
            (INHERITED, pairs(inherited)),
            (
                "standard input",
                stdin.iter().map(|input| format!("{} {}", input.hash, input.length).into()).collect(),
            ),
            ("rules", rules.iter().flat_map(|rules| marked("rules", rules)).collect()),
            ("network", network.items()),
            ("published ports", published.iter().map(|one| one.clone().into_bytes()).collect()),
            ("limits", vec![limits.line().into_bytes()]),
            ("read-only", vec![read_only.to_string().into_bytes()]),
            ("checkpoint", vec![checkpoint.clone().into_bytes()]),
            ("isolation", vec![isolation.clone().into_bytes()]),
            ("principal", optional(principal)),
            ("session", optional(session)),
            ("programs", programs.iter().flat_map(NamedProgram::items).collect()),
            ("search path in the vault", searched.iter().map(bytes).collect()),
            ("idle limit", idle_seconds.iter().map(|seconds| seconds.to_string().into()).collect()),
            ("policy", vec![policy.clone().into_bytes()]),
            (HEAD, vec![head.to_string().into_bytes()]),
        ]
    }

    /// The request again, but for its standard input, its policy, variables whose values are not kept, and ports.
    pub(crate) fn request(&self) -> Result<ExecRequest> {
        let rule = |text: &String| Rule::parse_stored(text).map_err(|_| self.damaged("a rule that is none"));
        let rules = self.rules.as_ref().map(|rules| rules.iter().map(rule).collect::<Result<Vec<_>>>());
        let pairs =
            |pairs: &[(Raw, Raw)]| pairs.iter().map(|(name, value)| (name.to_os(), value.to_os())).collect();
        let choices = (
            CheckpointMode::ALL.into_iter().find(|mode| mode.as_str() == self.checkpoint),
            IsolationChoice::ALL.into_iter().find(|choice| choice.as_str() == self.isolation),
        );
        let path = self.path.as_ref().map(|path| TreePath::parse(path.as_bytes()));
        let (Some(checkpoint), Some(isolation)) = choices else {
            return Err(self.damaged("unknown choices"));
        };
        Ok(ExecRequest {
            cwd: Some(PathBuf::from(self.cwd.to_os())),
            path: path.transpose().map_err(|_| self.damaged("an unknown path"))?,
            home: self.home.as_ref().map(|home| PathBuf::from(home.to_os())),
            env: pairs(&self.env),
            caller_env: pairs(&self.inherited),
            limits: (&self.limits).into(),
            network: self.network.to_network().ok_or_else(|| self.damaged("an unknown host"))?,
            read_only: self.read_only,
            checkpoint,
            isolation,
            rules: rules.transpose()?,
            principal: self.principal.clone(),
            session: self.session.clone(),
            ..ExecRequest::new(self.command.to_command())
        })
    }

    fn damaged(&self, reason: &str) -> Error {
        Error::DamagedRecord {
            key: format!("an approval of vault {}", self.vault),
            reason: reason.to_owned(),
        }
    }
}

fn digest_of(policy: &Policy) -> String {
    blake3::hash(policy.text().as_bytes()).to_hex().to_string()
}

/// Of a value that is to be compared, and not to be known.
fn value_digest(value: &Raw) -> String {
    let mut hasher = blake3::Hasher::new_derive_key(PASSED_CONTEXT);
    hasher.update(value.as_bytes());
    hasher.finalize().to_hex().to_string()
}

/// Every name and every item with its length in front, so that no two requests have the same encoding.
fn digest(fields: &[Field]) -> String {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    let mut put = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    for (name, items) in fields {
        put(name.as_bytes());
        put(&(items.len() as u64).to_le_bytes());
        items.iter().for_each(|item| put(item));
    }
    hasher.finalize().to_hex().to_string()
}

fn bytes(raw: &Raw) -> Vec<u8> {
    raw.as_bytes().to_vec()
}

/// A list that is there differs from none, also if it is empty.
fn marked(mark: &str, list: &[String]) -> Vec<Vec<u8>> {
    std::iter::once(mark.as_bytes().to_vec())
        .chain(list.iter().map(|item| item.clone().into_bytes()))
        .collect()
}

/// Sorted, and of each name what was said last.
fn by_name<'a>(pairs: impl IntoIterator<Item = &'a (OsString, OsString)>) -> Vec<(Raw, Raw)> {
    let raw = |text: &OsStr| Raw::from(text);
    let pairs = pairs.into_iter().map(|(name, value)| (raw(name), raw(value)));
    pairs.collect::<BTreeMap<Raw, Raw>>().into_iter().collect()
}

impl AskedCommand {
    pub fn to_command(&self) -> Command {
        match self {
            AskedCommand::Argv(words) => Command::Argv(words.iter().map(Raw::to_os).collect()),
            AskedCommand::Shell(line) => Command::Shell(line.clone()),
            AskedCommand::Session => Command::Shell(String::new()),
        }
    }

    /// On one line, with nothing in it that could steer a terminal or hide: a shell's line as it is, words in
    /// quotes where they would be read as more than a word.
    pub fn shown(&self) -> String {
        match self {
            AskedCommand::Shell(line) => avfs_core::printable(line.as_bytes()),
            AskedCommand::Argv(words) => words.iter().map(quoted).collect::<Vec<_>>().join(" "),
            AskedCommand::Session => "(a session)".to_owned(),
        }
    }

    /// As a shell has to be given it: its words, or the line as one word.
    pub fn quoted(&self) -> String {
        match self {
            AskedCommand::Shell(line) => quoted(&Raw::from(OsStr::new(line))),
            AskedCommand::Argv(_) | AskedCommand::Session => self.shown(),
        }
    }

    fn items(&self) -> Vec<Vec<u8>> {
        match self {
            AskedCommand::Argv(words) => {
                std::iter::once(b"argv".to_vec()).chain(words.iter().map(bytes)).collect()
            }
            AskedCommand::Shell(line) => vec![b"shell".to_vec(), line.clone().into_bytes()],
            AskedCommand::Session => vec![b"session".to_vec()],
        }
    }
}

fn quoted(word: &Raw) -> String {
    let shown = avfs_core::printable(word.as_bytes());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-=@:,+%".contains(c);
    match !shown.is_empty() && shown.chars().all(is_plain) {
        true => shown,
        false => format!("'{}'", shown.replace('\'', "'\\''")),
    }
}

impl From<&Command> for AskedCommand {
    fn from(command: &Command) -> AskedCommand {
        match command {
            Command::Argv(words) => {
                AskedCommand::Argv(words.iter().map(|word| word.as_os_str().into()).collect())
            }
            Command::Shell(line) => AskedCommand::Shell(line.clone()),
        }
    }
}

impl Input {
    fn of(bytes: &[u8]) -> Input {
        Input { hash: blake3::hash(bytes).to_hex().to_string(), length: bytes.len() as u64 }
    }
}

impl AskedNetwork {
    pub(crate) fn to_network(&self) -> Option<Network> {
        match self {
            AskedNetwork::None => Some(Network::None),
            AskedNetwork::Host => Some(Network::Host),
            AskedNetwork::Hosts(hosts) => {
                let hosts: Result<Vec<_>, _> = hosts.iter().map(|host| host.parse()).collect();
                hosts.ok().map(Network::Hosts)
            }
        }
    }

    fn items(&self) -> Vec<Vec<u8>> {
        match self {
            AskedNetwork::None => vec![b"none".to_vec()],
            AskedNetwork::Host => vec![b"host".to_vec()],
            AskedNetwork::Hosts(hosts) => marked("hosts", hosts),
        }
    }
}

impl From<&Network> for AskedNetwork {
    fn from(network: &Network) -> AskedNetwork {
        match network {
            Network::None => AskedNetwork::None,
            Network::Host => AskedNetwork::Host,
            Network::Hosts(hosts) => AskedNetwork::Hosts(hosts.iter().map(ToString::to_string).collect()),
        }
    }
}

impl AskedLimits {
    fn line(&self) -> String {
        let AskedLimits {
            timeout_ms,
            grace_ms,
            memory_bytes,
            pids,
            cpu_seconds,
            output_bytes,
            private_bytes,
        } = self;
        format!(
            "{timeout_ms:?} {grace_ms} {memory_bytes:?} {pids:?} {cpu_seconds:?} {output_bytes} {private_bytes}"
        )
    }
}

impl From<&Limits> for AskedLimits {
    fn from(limits: &Limits) -> AskedLimits {
        let Limits { timeout, grace, memory, pids, cpu_seconds, output_bytes, private_bytes } = limits;
        let millis = |span: &Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        AskedLimits {
            timeout_ms: timeout.as_ref().map(millis),
            grace_ms: millis(grace),
            memory_bytes: *memory,
            pids: *pids,
            cpu_seconds: *cpu_seconds,
            output_bytes: *output_bytes as u64,
            private_bytes: *private_bytes,
        }
    }
}

impl From<&AskedLimits> for Limits {
    fn from(asked: &AskedLimits) -> Limits {
        Limits {
            timeout: asked.timeout_ms.map(Duration::from_millis),
            grace: Duration::from_millis(asked.grace_ms),
            memory: asked.memory_bytes,
            pids: asked.pids,
            cpu_seconds: asked.cpu_seconds,
            output_bytes: usize::try_from(asked.output_bytes).unwrap_or(usize::MAX),
            private_bytes: asked.private_bytes,
        }
    }
}

#[cfg(test)]
mod tests;
