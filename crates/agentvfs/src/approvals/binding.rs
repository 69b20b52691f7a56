//! The scope of an approval: everything that decides what a run does, and one digest over all of it.

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
use avfs_exec::{Network, RunLimits};
use serde::{Deserialize, Serialize};

use super::programs::{CommandMeaning, FoundProgram, NamedProgram};
use crate::error::{Error, Result, StorageError};
use crate::exec::{CheckpointMode, IsolationChoice, RunSpec};
use crate::record::{VaultId, snapshot_id};
use crate::stored_bytes::StoredBytes;

/// Separates our digests from all others.
const CONTEXT: &str = "agentvfs: the approval of a command, version 1";
const PASSED_CONTEXT: &str = "agentvfs: the value of a variable that comes along with a command, version 1";
/// The field that moves when the vault does.
pub(super) const HEAD: &str = "head";
/// Whether the run may write to the vault.
pub(super) const READ_ONLY: &str = "read-only";
/// The field that only runs on an image have.
const IMAGE: &str = "image";
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

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The vault.
    pub vault: VaultId,
    /// The command.
    pub command: AskedCommand,
    /// The working directory inside.
    pub cwd: StoredBytes,
    /// The directory of the vault that is the workspace; `None`: all of it.
    pub path: Option<StoredBytes>,
    /// The home whose toolchains are shown.
    pub home: Option<StoredBytes>,
    /// What was given with the request, by name.
    pub env: Vec<(StoredBytes, StoredBytes)>,
    /// The caller's own variables that come along: by name, with a digest of the value, which is kept nowhere.
    #[serde(default)]
    pub passed: Vec<(StoredBytes, String)>,
    /// What came along of the caller's: how to talk to people, nothing else.
    pub inherited: Vec<(StoredBytes, StoredBytes)>,
    /// What the command reads; `None`: nothing.
    pub stdin: Option<BoundInput>,
    /// The rules through which it sees the vault; `None`: none.
    pub rules: Option<Vec<String>>,
    /// The hosts that it reaches.
    pub network: AskedNetwork,
    /// Ports inside that this machine reaches: `ADDRESS:HOSTPORT:PORT`.
    #[serde(default)]
    pub published: Vec<String>,
    /// The limits of its resources.
    pub limits: AskedLimits,
    /// It cannot change the vault.
    pub read_only: bool,
    /// Whether a checkpoint is taken before it.
    pub checkpoint: String,
    /// The kind of sandbox that it needs.
    pub isolation: String,
    /// The name under which it is logged.
    pub principal: Option<String>,
    /// The session that it runs in.
    pub session: Option<String>,
    /// The variables of the session's shell that the command does not have.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// The programs that the command names, and where each is found.
    #[serde(default)]
    pub programs: Vec<NamedProgram>,
    /// The directories of the vault in which programs are looked for.
    #[serde(default)]
    pub searched: Vec<StoredBytes>,
    /// After so many seconds without a command, a session ends.
    #[serde(default)]
    pub idle_seconds: Option<u64>,
    /// The image on which it runs. Programs are found in it, so its state counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<BoundImage>,
    /// The digest of the policy.
    pub policy: String,
    /// The state of the vault.
    #[serde(with = "snapshot_id")]
    pub head: SnapshotId,
}

/// An image, as a request is bound to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundImage {
    /// Its name.
    pub name: String,
    /// Its root directory cannot be changed.
    pub read_only: bool,
    /// The state of the root directory.
    pub state: Option<String>,
}

impl BoundImage {
    fn items(&self) -> Vec<Vec<u8>> {
        let state = self.state.clone().unwrap_or_default();
        [self.name.clone(), self.read_only.to_string(), state]
            .map(String::into_bytes)
            .to_vec()
    }
}

/// The command of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AskedCommand {
    /// A program and its arguments.
    Argv(Vec<StoredBytes>),
    /// A line for a shell.
    Shell(String),
    /// The start of a session: all commands in it have its grants.
    Session,
}

/// Standard input, by its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundInput {
    /// The BLAKE3 of its bytes.
    pub hash: String,
    /// How many bytes it has.
    pub length: u64,
}

/// The hosts that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AskedNetwork {
    /// No network.
    None,
    /// The network of the host, all of it.
    Host,
    /// These hosts, as they were written.
    Hosts(Vec<String>),
}

/// The limits of a request; `None`: no limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedLimits {
    /// The time that it may take.
    pub timeout_ms: Option<u64>,
    /// The time between the request to end and the kill.
    pub grace_ms: u64,
    /// The memory of all its processes.
    pub memory_bytes: Option<u64>,
    /// The number of its processes.
    pub pids: Option<u64>,
    /// The processor time of each process.
    pub cpu_seconds: Option<u64>,
    /// Microseconds of processor time in each 100 milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<u64>,
    /// The share of the processors; `None`: the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_shares: Option<u64>,
    /// How much of each stream is kept.
    pub output_bytes: u64,
    /// The space of its private file systems.
    pub private_bytes: u64,
}

type Field = (&'static str, Vec<Vec<u8>>);

impl Binding {
    /// Exhaustive: each field of a request is bound here, or the reason for not binding it is given.
    pub(crate) fn of(
        request: &RunSpec,
        vault: VaultId,
        cwd: &Path,
        meaning: CommandMeaning,
        head: SnapshotId,
    ) -> Binding {
        // Taken apart here and in `fields`: a new part of a request does not compile before it is decided
        // whether it binds.
        let CommandMeaning { programs, searched } = meaning;
        let RunSpec {
            command,
            // As it is understood, it is given with the request.
            cwd: _,
            // Determined by the vault.
            own_path: _,
            image,
            read_only_root,
            root_state,
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
            // They do not affect the command.
            asking: _,
            dry_run: _,
            container_runtime: _,
            transport: _,
        } = request;
        Binding {
            vault,
            command: AskedCommand::from(command),
            cwd: cwd.as_os_str().into(),
            path: path
                .as_ref()
                .map(|path| OsStr::from_bytes(path.as_bytes()).into()),
            home: home.as_ref().map(|home| home.as_os_str().into()),
            env: by_name(env),
            passed: by_name(passed)
                .into_iter()
                .map(|(name, value)| (name, value_digest(&value)))
                .collect(),
            inherited: by_name(
                caller_env
                    .iter()
                    .filter(|(name, value)| is_inherited(name, value)),
            ),
            stdin: stdin.as_deref().map(BoundInput::of),
            rules: rules
                .as_ref()
                .map(|rules| rules.iter().map(Rule::to_string).collect()),
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
            image: image.as_ref().map(|name| BoundImage {
                name: name.clone(),
                read_only: *read_only_root,
                state: root_state.map(|state| state.to_string()),
            }),
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
        let fields: Vec<Field> = self
            .fields()
            .into_iter()
            .filter(|(name, _)| *name != HEAD)
            .collect();
        digest(&fields)
    }

    /// A part of the scope of a permanent answer, beside words, programs and network: everything else that
    /// gives the same words another meaning or the run a wider view.
    pub(super) fn surroundings_digest(&self) -> String {
        // The list names the fields that do not bind, so that a field that is added later binds by default.
        let is_bound = |(name, _): &Field| *name != HEAD && !FREE_FOR_ALWAYS.contains(name);
        let mut fields: Vec<Field> = self.fields().into_iter().filter(is_bound).collect();
        // What only people see, such as the language, may change from day to day.
        let of_builds = self
            .inherited
            .iter()
            .filter(|(name, _)| !is_for_people(&name.to_os()));
        let items = of_builds
            .flat_map(|(name, value)| [name, value])
            .map(bytes)
            .collect();
        fields.push((INHERITED, items));
        digest(&fields)
    }

    /// Whether each part of the command does what its own words say: none gets input from another one or from
    /// a file, and none sets a variable that another one sees.
    pub(super) fn has_plain_parts(&self, found: &Classification) -> bool {
        let given = self.env.iter().chain(&self.inherited).map(|(name, _)| name);
        let mut given = given.chain(self.passed.iter().map(|(name, _)| name));
        // A variable that the words set and the caller gives as well could make them do something else.
        let is_given = given.any(|name| found.assigns.iter().any(|own| own.as_bytes() == name.as_bytes()));
        found.sets.is_empty() && !found.has_input && !is_given
    }

    pub(crate) fn command_digest(&self) -> String {
        digest(&[("command", self.command.items())])
    }

    /// The names of the fields that differ in `other`.
    pub fn differences(&self, other: &Binding) -> Vec<&'static str> {
        // Both lists have the same fields in the same order, whatever the requests are.
        let pairs = self.fields().into_iter().zip(other.fields());
        let one_alone = (self.image.is_some() != other.image.is_some()).then_some(IMAGE);
        pairs
            .filter(|(own, other)| own != other)
            .map(|((name, _), _)| name)
            .chain(one_alone)
            .collect()
    }

    /// Why an answer can be valid for one run only: words whose meaning is not determined by what is shown.
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
            image,
            policy,
            head,
        } = self;
        let pairs = |pairs: &[(StoredBytes, StoredBytes)]| {
            pairs
                .iter()
                .flat_map(|(name, value)| [name, value])
                .map(bytes)
                .collect()
        };
        let optional = |text: &Option<String>| text.iter().map(|text| text.clone().into_bytes()).collect();
        let mut fields = vec![
            ("vault", vec![vault.to_string().into_bytes()]),
            ("command", command.items()),
            ("working directory", vec![bytes(cwd)]),
            ("part of the vault", path.iter().map(bytes).collect()),
            ("home", home.iter().map(bytes).collect()),
            ("environment", pairs(env)),
            (
                "passed environment",
                passed
                    .iter()
                    .flat_map(|(name, digest)| [bytes(name), digest.clone().into_bytes()])
                    .collect(),
            ),
            (INHERITED, pairs(inherited)),
            (
                "standard input",
                stdin
                    .iter()
                    .map(|input| format!("{} {}", input.hash, input.length).into())
                    .collect(),
            ),
            (
                "rules",
                rules.iter().flat_map(|rules| marked("rules", rules)).collect(),
            ),
            ("network", network.items()),
            (
                "published ports",
                published.iter().map(|one| one.clone().into_bytes()).collect(),
            ),
            ("limits", vec![limits.line().into_bytes()]),
            (READ_ONLY, vec![read_only.to_string().into_bytes()]),
            ("checkpoint", vec![checkpoint.clone().into_bytes()]),
            ("isolation", vec![isolation.clone().into_bytes()]),
            ("principal", optional(principal)),
            ("session", optional(session)),
            (
                "programs",
                programs.iter().flat_map(NamedProgram::items).collect(),
            ),
            ("search path in the vault", searched.iter().map(bytes).collect()),
            (
                "idle limit",
                idle_seconds
                    .iter()
                    .map(|seconds| seconds.to_string().into())
                    .collect(),
            ),
            ("policy", vec![policy.clone().into_bytes()]),
            (HEAD, vec![head.to_string().into_bytes()]),
        ];
        // Without an image the digest is as it was before there were any.
        fields.extend(image.as_ref().map(|image| (IMAGE, image.items())));
        fields
    }

    /// The request again, except for its standard input, its policy, variables whose values are not kept, and
    /// ports.
    pub(crate) fn request(&self) -> Result<RunSpec> {
        let rule = |text: &String| Rule::parse_stored(text).map_err(|_| self.damaged("a rule that is none"));
        let rules = self
            .rules
            .as_ref()
            .map(|rules| rules.iter().map(rule).collect::<Result<Vec<_>>>());
        let pairs = |pairs: &[(StoredBytes, StoredBytes)]| {
            pairs
                .iter()
                .map(|(name, value)| (name.to_os(), value.to_os()))
                .collect()
        };
        let choices = (
            CheckpointMode::ALL
                .into_iter()
                .find(|mode| mode.as_str() == self.checkpoint),
            IsolationChoice::ALL
                .into_iter()
                .find(|choice| choice.as_str() == self.isolation),
        );
        let path = self.path.as_ref().map(|path| TreePath::parse(path.as_bytes()));
        let (Some(checkpoint), Some(isolation)) = choices else {
            return Err(self.damaged("unknown choices"));
        };
        Ok(RunSpec {
            image: self.image.as_ref().map(|image| image.name.clone()),
            read_only_root: self.image.as_ref().is_some_and(|image| image.read_only),
            cwd: Some(PathBuf::from(self.cwd.to_os())),
            path: path.transpose().map_err(|_| self.damaged("an unknown path"))?,
            home: self.home.as_ref().map(|home| PathBuf::from(home.to_os())),
            env: pairs(&self.env),
            caller_env: pairs(&self.inherited),
            limits: (&self.limits).into(),
            network: self
                .network
                .to_network()
                .ok_or_else(|| self.damaged("an unknown host"))?,
            read_only: self.read_only,
            checkpoint,
            isolation,
            rules: rules.transpose()?,
            principal: self.principal.clone(),
            session: self.session.clone(),
            // Without what was only compared: values that were passed are kept as digests, and the policy is
            // the present one.
            ..RunSpec::new(self.command.to_command())
        })
    }

    fn damaged(&self, reason: &str) -> Error {
        Error::Storage(StorageError::DamagedRecord {
            key: format!("an approval of vault {}", self.vault),
            reason: reason.to_owned(),
        })
    }
}

fn digest_of(policy: &Policy) -> String {
    blake3::hash(policy.text().as_bytes()).to_hex().to_string()
}

/// Of a value that is to be compared, and not to be known.
fn value_digest(value: &StoredBytes) -> String {
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
        // The count as well: items of one field must not pass for those of the next.
        put(&(items.len() as u64).to_le_bytes());
        items.iter().for_each(|item| put(item));
    }
    hasher.finalize().to_hex().to_string()
}

fn bytes(raw: &StoredBytes) -> Vec<u8> {
    raw.as_bytes().to_vec()
}

/// A list that is there differs from none, also if it is empty.
fn marked(mark: &str, list: &[String]) -> Vec<Vec<u8>> {
    std::iter::once(mark.as_bytes().to_vec())
        .chain(list.iter().map(|item| item.clone().into_bytes()))
        .collect()
}

/// Sorted, and of each name what was said last.
fn by_name<'a>(pairs: impl IntoIterator<Item = &'a (OsString, OsString)>) -> Vec<(StoredBytes, StoredBytes)> {
    let raw = |text: &OsStr| StoredBytes::from(text);
    let pairs = pairs.into_iter().map(|(name, value)| (raw(name), raw(value)));
    pairs
        .collect::<BTreeMap<StoredBytes, StoredBytes>>()
        .into_iter()
        .collect()
}

impl AskedCommand {
    /// The command, ready to run.
    pub fn to_command(&self) -> Command {
        match self {
            AskedCommand::Argv(words) => Command::Argv(words.iter().map(StoredBytes::to_os).collect()),
            AskedCommand::Shell(line) => Command::Shell(line.clone()),
            AskedCommand::Session => Command::Shell(String::new()),
        }
    }

    /// On one line, with nothing in it that could control a terminal or hide: a shell's line unchanged, words
    /// in quotes where they would be read as more than a word.
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
            AskedCommand::Shell(line) => quoted(&StoredBytes::from(OsStr::new(line))),
            AskedCommand::Argv(_) | AskedCommand::Session => self.shown(),
        }
    }

    fn items(&self) -> Vec<Vec<u8>> {
        match self {
            AskedCommand::Argv(words) => std::iter::once(b"argv".to_vec())
                .chain(words.iter().map(bytes))
                .collect(),
            AskedCommand::Shell(line) => vec![b"shell".to_vec(), line.clone().into_bytes()],
            AskedCommand::Session => vec![b"session".to_vec()],
        }
    }
}

fn quoted(word: &StoredBytes) -> String {
    avfs_core::shell_word(&avfs_core::printable(word.as_bytes()))
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

impl BoundInput {
    fn of(bytes: &[u8]) -> BoundInput {
        BoundInput {
            hash: blake3::hash(bytes).to_hex().to_string(),
            length: bytes.len() as u64,
        }
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
            cpu_quota,
            cpu_shares,
            output_bytes,
            private_bytes,
        } = self;
        let mut line = format!(
            "{timeout_ms:?} {grace_ms} {memory_bytes:?} {pids:?} {cpu_seconds:?} {output_bytes} {private_bytes}"
        );
        // Only where they are set, so that earlier answers still hold.
        if cpu_quota.or(*cpu_shares).is_some() {
            line.push_str(&format!(" {cpu_quota:?} {cpu_shares:?}"));
        }
        line
    }
}

impl From<&RunLimits> for AskedLimits {
    fn from(limits: &RunLimits) -> AskedLimits {
        let RunLimits {
            timeout,
            grace,
            memory,
            pids,
            cpu_seconds,
            cpu_quota,
            cpu_shares,
            output_bytes,
            private_bytes,
        } = limits;
        let millis = |span: &Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        AskedLimits {
            timeout_ms: timeout.as_ref().map(millis),
            grace_ms: millis(grace),
            memory_bytes: *memory,
            pids: *pids,
            cpu_seconds: *cpu_seconds,
            cpu_quota: *cpu_quota,
            cpu_shares: *cpu_shares,
            output_bytes: *output_bytes as u64,
            private_bytes: *private_bytes,
        }
    }
}

impl From<&AskedLimits> for RunLimits {
    fn from(asked: &AskedLimits) -> RunLimits {
        RunLimits {
            timeout: asked.timeout_ms.map(Duration::from_millis),
            grace: Duration::from_millis(asked.grace_ms),
            memory: asked.memory_bytes,
            pids: asked.pids,
            cpu_seconds: asked.cpu_seconds,
            cpu_quota: asked.cpu_quota,
            cpu_shares: asked.cpu_shares,
            output_bytes: usize::try_from(asked.output_bytes).unwrap_or(usize::MAX),
            private_bytes: asked.private_bytes,
        }
    }
}

#[cfg(test)]
mod tests;
