//! What can go wrong, in words for the user: what it is about, why, and what helps.

mod codes;

use avfs_core::rules::BadRules;
use avfs_core::{BadName, TreePath};
use avfs_store::{CommitError, StoreError};
use avfs_tree::{FsError, ObjectError, ReadError};

use avfs_fuse::transport::ServingError;

use avfs_exec::policy::{BadEdit, PolicyError};

use crate::apply::{ApplyError, Wanted};
use crate::git::GitError;
use crate::mount::MountError;
use crate::rules::RuleFault;
use crate::transfer::TransferError;
use crate::unstored;

pub use codes::CODES;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no vault '{name}'")]
    UnknownVault { name: String, similar: Option<String> },
    #[error("there is already a vault '{name}'")]
    VaultExists { name: String },
    #[error("'{}' cannot be a project: {reason}", path.display())]
    NotAProject { path: std::path::PathBuf, reason: &'static str },
    #[error(transparent)]
    Setup(#[from] crate::setup::SetupFault),
    #[error("'{name}' is a vault, and not a task")]
    NotATask { name: String },
    #[error("there is no task '{name}'")]
    UnknownTask { name: String, similar: Option<String> },
    #[error("there is no task '{name}' in this directory; there is {}", known.join(", "))]
    TaskElsewhere { name: String, known: Vec<String> },
    #[error("the project {directory} already has a task '{name}'")]
    TaskExists { directory: String, name: String },
    #[error("the project {directory} has no task")]
    NoTask { directory: String },
    #[error("the project {directory} has tasks with work that is nowhere else: {}", tasks.join(", "))]
    ProjectInUse { directory: String, tasks: Vec<String> },
    #[error("{directory} is not a known project")]
    UnknownProject { directory: String },
    #[error("{directory} belongs to no project")]
    NoProject { directory: String },
    #[error("this project has several tasks: {}", names.join(", "))]
    SeveralTasks { names: Vec<String> },
    #[error("'{name}' cannot be the name of a {what}: {reason}")]
    BadLabel { what: &'static str, name: String, reason: &'static str },
    #[error("vault '{vault}' has no checkpoint '{name}'")]
    UnknownCheckpoint { vault: String, name: String, similar: Option<String> },
    #[error("vault '{vault}' already has a checkpoint '{name}'")]
    CheckpointExists { vault: String, name: String },
    #[error("'{text}' is neither a checkpoint of vault '{vault}', nor a vault, nor a snapshot of it")]
    UnknownRevision { vault: String, text: String, similar: Option<String> },
    #[error("'{text}' could be several snapshots of vault '{vault}'")]
    AmbiguousRevision { vault: String, text: String },
    #[error("'{text}' is not a path in a vault")]
    BadPath {
        text: String,
        #[source]
        source: BadName,
    },
    #[error("{path} in vault '{vault}'")]
    File {
        vault: String,
        path: TreePath,
        #[source]
        source: FsError,
    },
    #[error("vault '{vault}'")]
    Read {
        vault: String,
        #[source]
        source: ReadError,
    },
    #[error("vault '{vault}' holds files that lie in the directory it was started from")]
    StillPromised { vault: String },
    #[error("there is no source {id}")]
    UnknownSource { id: String },
    #[error("{path} has version {found}, and you expected {expected}")]
    StaleVersion { path: TreePath, expected: String, found: String },
    #[error("vault '{vault}' is in use by process {owner}")]
    Busy { vault: String, owner: String },
    #[error("{} in vault '{vault}' was changed by others at the same time", path.as_ref().map_or("something".to_owned(), TreePath::to_string))]
    Overtaken { vault: String, path: Option<TreePath> },
    #[error("process {pid} has vault '{vault}' open and speaks version {theirs}, not {ours}")]
    OwnerVersion { vault: String, pid: u32, theirs: u32, ours: u32 },
    #[error("the process that has vault '{vault}' open does not answer")]
    OwnerSilent {
        vault: String,
        #[source]
        source: std::io::Error,
    },
    #[error("process {pid}, which had vault '{vault}' open, ended before it answered")]
    OwnerGone { vault: String, pid: u32 },
    /// An error of the owner, in its words.
    #[error("{message}")]
    OwnerFailed { vault: String, code: &'static str, message: String, hint: Option<String> },
    #[error("the tree of vault '{vault}' in memory is not whole")]
    Torn { vault: String },
    #[error("this is no request: {reason}")]
    BadRequest { reason: String },
    #[error(transparent)]
    Mount(#[from] MountError),
    #[error("vault '{vault}' is mounted alone at {}", dir.display())]
    MountedAlone { vault: String, dir: std::path::PathBuf },
    #[error("vault '{vault}' is at {} already, so a mount of it cannot be alone", dir.display())]
    NotAlone { vault: String, dir: std::path::PathBuf },
    #[error("rule '{rule}' is asked when a file is opened, which nobody does in a mount that is alone")]
    RuleNeedsOpen { rule: String },
    #[error("a mount cannot be served")]
    Serving(#[from] ServingError),
    #[error("there is no approval '{id}'")]
    UnknownApproval { id: String },
    #[error("approval {id} holds no more: {}", if with.is_some() { "the vault has changed since" } else { "it has expired" })]
    ApprovalExpired { id: String, with: Option<String> },
    #[error("approval {id} was {how} already")]
    ApprovalDecided { id: String, how: String },
    #[error("no rule can be kept for approval {id}: what it runs is not known word by word")]
    NothingToSave { id: String },
    #[error("approval {id} can be given once only: {reason}")]
    OnlyOnce { id: String, reason: String },
    #[error("approval {id} has no preview: {reason}")]
    NoPreview { id: String, reason: &'static str },
    #[error("there is no saved rule number {number}")]
    UnknownSavedRule { number: usize },
    #[error(transparent)]
    BadEdit(#[from] BadEdit),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("these rules can be kept by a mount only")]
    RulesNeedMount,
    #[error("a store in memory has no place for runs")]
    NoPlaceForRuns,
    #[error("there is no session '{id}'")]
    UnknownSession { id: String },
    #[error("session '{id}' does not answer")]
    SessionSilent {
        id: String,
        #[source]
        source: std::io::Error,
    },
    #[error("nothing runs in task '{task}'")]
    NotRunning { task: String },
    #[error("the program in task '{task}' has no terminal")]
    NoTerminalInside { task: String },
    #[error("the process that supervises the run in task '{task}' does not answer")]
    RunSilent {
        task: String,
        #[source]
        source: std::io::Error,
    },
    #[error("the kernel is slow to forget what it knows of {}", dir.display())]
    SlowKernel { dir: std::path::PathBuf },
    #[error(transparent)]
    BadRules(#[from] BadRules),
    #[error(transparent)]
    RuleFault(#[from] RuleFault),
    #[error("{action} is about all of vault '{vault}', which is seen through rules here")]
    NotThroughRules { vault: String, action: &'static str },
    #[error("process {pid} has the vault open and serves no mounts")]
    NoMounts { pid: u32 },
    #[error(
        "the work of {} is not stored: it stays in its journal until there is room for about {} ({} are free)",
        unstored::known_as(name), unstored::mebibytes(*needed), unstored::mebibytes(*free)
    )]
    Unstored {
        name: String,
        /// Bytes.
        needed: u64,
        free: u64,
        #[source]
        source: Box<Error>,
    },
    #[error("vault '{vault}' has {} it: {}", if forks.len() == 1 { "a fork that needs" } else { "forks that need" }, forks.join(", "))]
    Needed { vault: String, forks: Vec<String> },
    #[error("vault '{vault}' has nothing to undo")]
    NothingToUndo { vault: String },
    #[error("vault '{vault}' has nothing to redo: the last thing done to it was no undo")]
    NothingToRedo { vault: String },
    #[error("vault '{vault}' cannot be merged with itself")]
    MergeWithItself { vault: String },
    #[error("vaults '{vault}' and '{other}' have no state in common")]
    NotRelated { vault: String, other: String },
    #[error("{path} in vault '{vault}' is not in conflict")]
    NoConflict { vault: String, path: TreePath },
    #[error("the state of vault '{vault}' before entry {seq} ({action}) is no longer kept")]
    HistoryThinned { vault: String, seq: u64, action: String },
    #[error("vault '{vault}' has no checkpoint to go back to")]
    NoCheckpoint { vault: String },
    #[error("{key} in the store is not readable: {reason}")]
    DamagedRecord { key: String, reason: String },
    #[error("a repair may have lost refs, and collecting garbage would make that final")]
    AfterRepair,
    #[error("the audit log of '{log}' is broken at entry {seq}: {reason}")]
    AuditBroken { log: String, seq: u64, reason: &'static str },
    #[error("{} is not a vault file: {reason}", place)]
    BadBundle { place: String, reason: String },
    #[error("{action} {place}")]
    Host {
        action: &'static str,
        place: String,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Tree(#[from] FsError),
    #[error(transparent)]
    Transfer(#[from] TransferError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("{key} was changed by others again and again")]
    Contended { key: String },
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Error {
        match error {
            CommitError::Conflict { key } => Error::Contended { key },
            CommitError::Store(error) => Error::Store(error),
        }
    }
}

/// What kind of thing an error is: one for each way a caller can react.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The input is wrong; asking again will not help.
    BadInput,
    NotFound,
    /// Something is in the way: it exists, is newer, or is needed by others.
    Conflict,
    /// Try again later.
    Busy,
    /// Damaged data: run fsck.
    Corrupt,
    /// Rules do not allow it.
    Denied,
    /// No room, by quota or by disk.
    Full,
    /// The machine, a store that this version cannot use, or a bug.
    Internal,
}

/// Why something is no project, nor anything in it.
pub(crate) const NOWHERE_BELOW: [&str; 2] = ["it is in the store", "its path is not UTF-8"];

impl Error {
    /// What helps, where something does.
    pub fn hint(&self) -> Option<String> {
        let similar = |name: &Option<String>| name.as_ref().map(|name| format!("did you mean '{name}'?"));
        match self {
            Error::UnknownVault { similar: name, .. } => {
                similar(name).or_else(|| Some("`avfs vault list` shows what there is".into()))
            }
            Error::UnknownTask { similar: name, .. } => {
                similar(name).or_else(|| Some("`avfs tasks --all` shows what there is".into()))
            }
            Error::TaskElsewhere { .. } => Some("name it with its project, as it is written here".into()),
            Error::TaskExists { name, .. } => {
                Some(format!("`avfs run --task {name}` goes on with it, or choose another name"))
            }
            Error::NotAProject { reason, .. } if !NOWHERE_BELOW.contains(reason) => {
                Some("use a directory below it".into())
            }
            Error::NoTask { .. } => Some("start one with `avfs run`".into()),
            Error::NoProject { .. } => {
                Some("name a task; `avfs tasks --all` shows what there is".into())
            }
            Error::SeveralTasks { .. } => Some("name one of them".into()),
            Error::ProjectInUse { .. } => Some("apply or discard them first, or force it with --force".into()),
            Error::UnknownProject { .. } => Some("`avfs project list` shows what there is".into()),
            Error::UnknownCheckpoint { similar: name, .. } => {
                similar(name).or_else(|| Some("`avfs checkpoint list` shows what there is".into()))
            }
            Error::UnknownRevision { similar: name, .. } => similar(name)
                .or_else(|| Some("`avfs log` shows snapshots, `avfs checkpoint list` names".into())),
            Error::AmbiguousRevision { .. } => Some("give more digits of the id".into()),
            Error::StaleVersion { path, .. } => Some(format!("read {path} again and decide anew")),
            Error::Setup(fault) => fault.hint.clone(),
            Error::Busy { .. } => Some("try again when it is done".into()),
            Error::Overtaken { .. } => Some("nothing was changed here; try again".into()),
            Error::OwnerVersion { .. } => {
                Some("use the version of avfs that has it open, or end that process first".into())
            }
            Error::Torn { .. } => {
                Some("what is stored is whole: end the process that has the vault open".into())
            }
            Error::OwnerGone { .. } => Some("`avfs log` shows whether it was done".into()),
            Error::OwnerFailed { hint, .. } | Error::RuleFault(RuleFault { hint, .. }) => hint.clone(),
            Error::Serving(ServingError::Uring(_)) => Some(URING_FIX.into()),
            Error::Mount(
                MountError::NoDevice
                | MountError::NotTheDevice
                | MountError::DeviceDenied
                | MountError::Device(_)
                | MountError::NoFusermount
                | MountError::Refused { .. },
            ) => Some("`avfs doctor` says what is missing on this machine".into()),
            Error::Mount(MountError::NotMounted { .. }) => Some("`avfs mounts` shows what is mounted".into()),
            Error::Mount(MountError::Taken { .. }) => {
                Some("name another directory, or `avfs unmount` this one".into())
            }
            Error::Mount(MountError::Busy { .. }) => {
                Some("`--force` takes the mount away from those who use it".into())
            }
            Error::MountedAlone { dir, .. } => Some(format!(
                "`avfs unmount {}` first; commands on its files (ls, write, diff, restore) work meanwhile",
                dir.display()
            )),
            Error::NotAlone { .. } => Some("wait until nothing of it is mounted, or leave --alone out".into()),
            Error::RuleNeedsOpen { .. } => {
                Some("leave --alone out, or use the levels none and write only".into())
            }
            Error::Needed { vault, .. } => {
                Some(format!("delete or merge them first, or force it by name: --force {vault}"))
            }
            Error::NotRelated { .. } => Some("only a vault and its forks, forks of one vault, or tasks of one project can be merged".into()),
            Error::NoConflict { .. } => Some("`avfs conflicts` shows what is".into()),
            Error::HistoryThinned { .. } => {
                Some("`avfs log` shows the states that are, `avfs checkout` brings paths back".into())
            }
            Error::File { path, source: FsError::Denied { .. } | FsError::OtherRulesThere, .. } => {
                Some(format!("`avfs rules explain {path}` shows which rule decides"))
            }
            Error::Read { source: ReadError::Denied { path, .. }, .. }
            | Error::Transfer(TransferError::Read(ReadError::Denied { path, .. })) => {
                Some(format!("`avfs rules explain {path}` shows which rule decides"))
            }
            Error::UnknownApproval { .. } => Some("`avfs approvals list --all` shows what there is".into()),
            Error::ApprovalExpired { with: Some(with), .. } => {
                Some(format!("{with} asks for the same, on the present state"))
            }
            Error::ApprovalExpired { with: None, .. } => {
                Some("run the command again: it asks again".into())
            }
            Error::ApprovalDecided { .. } => {
                Some("`avfs approvals deny ID` takes back what is allowed and not used yet".into())
            }
            Error::OnlyOnce { .. } => Some("allow it with --once".into()),
            Error::NothingToSave { .. } => Some("allow it with --once or --session".into()),
            Error::UnknownSavedRule { .. } => Some("`avfs approvals rules` numbers what there is".into()),
            Error::BadEdit(BadEdit::TooWide { .. } | BadEdit::Elsewhere { .. }) => {
                Some("begin with the words of the command, down to its subcommand; `avfs approvals show ID` has them".into())
            }
            Error::Policy(source) => source.hint(),
            Error::Git(source) | Error::Transfer(TransferError::Git(source)) => source.hint(),
            Error::RulesNeedMount => Some(
                "a plain copy can be written as a whole or not at all: use bubblewrap, or rules that say so".into(),
            ),
            Error::SlowKernel { .. } => {
                Some("the new rules hold; what is cached may be seen for a moment more".into())
            }
            Error::UnknownSession { .. } => Some("`avfs session list` shows what there is".into()),
            Error::NotRunning { task } => {
                Some(format!("`avfs task output {task}` shows what the last run printed; `avfs run --task {task}` starts another"))
            }
            Error::NoTerminalInside { task } => {
                Some(format!("it was started with pipes; `avfs task output -f {task}` follows what it prints"))
            }
            Error::StillPromised { .. } => {
                Some("`avfs export` writes its files, and `avfs vault create --from` makes a vault of them".into())
            }
            Error::NoCheckpoint { .. } => Some("save one with `avfs checkpoint save NAME`".into()),
            Error::File { source: FsError::OverBytes { .. } | FsError::OverFiles { .. }, .. } => {
                Some("`avfs quota show` shows the limits, `avfs quota set` changes them".into())
            }
            Error::Transfer(TransferError::NotEmpty { .. } | TransferError::Exists { .. }) => {
                Some("name a new place, or use --force to write into this one".into())
            }
            Error::Apply(ApplyError::Conflicts { wanted: Wanted::Undo, .. }) => {
                Some("--force leaves these as they are and undoes everything else".into())
            }
            Error::Apply(ApplyError::Conflicts { wanted: Wanted::Redo, .. }) => {
                Some("--force leaves these as they are and redoes everything else".into())
            }
            Error::Apply(ApplyError::Conflicts { wanted: Wanted::Apply, .. }) => {
                Some("--conflicts mark, ours, theirs or ask decides; or name the paths to apply".into())
            }
            Error::Apply(ApplyError::NotChanged { .. }) => {
                Some("paths count from the root of the project; `avfs diff TASK` lists what changed".into())
            }
            Error::Apply(ApplyError::OutOfReach { .. }) => {
                Some("leave the workspace with `exit`, and try again outside".into())
            }
            Error::Apply(ApplyError::OpenConflicts { vault, .. }) => Some(format!(
                "settle each with `avfs resolve PATH --vault {vault}` and --ours, --theirs, --edit or --as-is"
            )),
            Error::Apply(ApplyError::Overtaken { .. }) => Some("try again when nobody writes there".into()),
            Error::Apply(ApplyError::Stuck { .. }) => {
                Some("the next command tries again; repair what is in its way first".into())
            }
            Error::Apply(ApplyError::BadHunks { .. }) => {
                Some("`avfs diff --patch` shows the hunks, counted from 1 in each file".into())
            }
            Error::AfterRepair => Some(
                "look at `avfs vault list` and `avfs log` of each vault; `avfs gc --after-repair` accepts what is there".into(),
            ),
            _ if self.code() == "damaged-journal" => Some(
                "`avfs fsck --repair` keeps what is whole of it; `avfs log` shows the states that are stored".into(),
            ),
            _ if self.kind() == ErrorKind::Corrupt => {
                Some("`avfs fsck` names everything that is affected".into())
            }
            Error::Store(StoreError::Newer { .. }) => {
                Some("use the version of avfs that made it, or a newer one".into())
            }
            Error::Unstored { name, .. } => Some(format!(
                "free some space, and the next command that looks at it stores it; `{}` drops it",
                unstored::dropping(name)
            )),
            Error::Store(StoreError::Full { .. }) => {
                Some("free some space and try again; nothing was changed".into())
            }
            _ => None,
        }
    }
}

/// How requests can come over io_uring.
const URING_FIX: &str =
    "as root: echo Y > /sys/module/fuse/parameters/enable_uring; or use --transport device";
