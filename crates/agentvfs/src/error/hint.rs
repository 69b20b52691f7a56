//! The remedy for an error, as data: each front end phrases it itself.

use std::path::PathBuf;

use avfs_core::TreePath;
use avfs_exec::launch::LaunchHint;
use serde::{Deserialize, Serialize};

/// What the caller can do about an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "hint", rename_all = "kebab-case")]
pub enum Hint {
    DidYouMean {
        name: String,
    },
    /// The sandbox cannot be made on this machine.
    Launch {
        launch: LaunchHint,
    },

    // Vaults and their files.
    ListVaults,
    ListImages,
    /// Say which of several images is meant.
    NameImage {
        example: String,
    },
    AllowLargerImage,
    RemoveForksFirst {
        vault: String,
    },
    /// Names that mean a vault and a task, which have the same one.
    NameVaultInFull {
        vault: String,
        task: String,
    },
    /// The project of this directory needs the vault.
    ForgetProject {
        directory: String,
    },
    /// Export the files of the vault and make a new vault of them.
    ExportAndCreate,
    ReadAgain {
        path: String,
    },
    ExplainRule {
        path: String,
    },
    ShowQuota,
    TryAgainUnchanged,

    // Projects and tasks.
    UseDirectoryBelow,
    ListProjects,
    ApplyOrDiscardTasks,
    /// The directory of a project is gone: it was moved, or it is to be forgotten.
    MoveOrForgetProject {
        directory: String,
    },
    MoveDirectoryFirst,
    ApplyOrDiscardItsTasks,
    WaitForTasksOrStop,
    ForceMove,
    ListTasks,
    NameTask,
    NameTaskWithProject,
    ChooseTask,
    ContinueTask {
        task: String,
    },
    StartTask,
    /// Nothing is running in the task: look at the output of the last run, or start another.
    StartAnotherRun {
        task: String,
    },
    FollowOutput {
        task: String,
    },

    // History and merging.
    ListCheckpoints,
    SaveCheckpoint,
    ListRevisions,
    GiveMoreDigits,
    ListKeptStates,
    MergeRelatives,
    ListConflicts,

    // Processes that have a vault open, and mounts.
    WaitForOwner,
    UseVersionOfOwner,
    EndOwner,
    LookWhetherDone,
    EnableIoUring,
    CheckMachine,
    ListMounts,
    MountElsewhere,
    ForceUnmount,
    /// An exclusive mount is in the way.
    UnmountFirst {
        dir: PathBuf,
    },
    MountShared,
    UseNoneAndWriteOnly,
    CachedForAMoment,
    RulesOfWholeCopies,

    // Approvals and sessions.
    ListApprovals,
    UseApproval {
        id: String,
    },
    RunAgainToAsk,
    WithdrawApproval,
    DenialHolds,
    AllowOnce,
    AllowOnceOrForSession,
    ListSavedRules,
    BeginWithWordsOfCommand,
    ListSessions,
    WaitForSession,
    StopSessions {
        ids: Vec<String>,
    },
    AnswerApproval {
        id: String,
    },
    /// Without a network the command would reach nothing. The approval lets it run nevertheless, without one.
    RunWithNetwork {
        again: NetworkedRun,
        approval: Option<String>,
    },

    // From a task to its project.
    ForceExport,
    ForceUndo,
    ForceRedo,
    DecideConflicts,
    PathsOfProject,
    LeaveWorkspace,
    ResolveConflicts {
        vault: String,
    },
    ApplyWhenQuiet,
    RepairObstacle,
    ListHunks,
    InstallGit,
    MakeRepository,
    ListCommits,
    NameAnotherBranch,
    NameOrUpdateBranch,
    SayWhichBranch,
    ApplyFilesOfTask {
        task: String,
    },
    /// The commits change hidden files, and no file differs that could be committed without them.
    TakeOutOfCommits {
        task: String,
    },
    AllowGuarded {
        task: String,
        paths: Vec<String>,
    },

    // The store.
    AcceptRepair,
    RepairJournal,
    CheckStore,
    UseNewerVersion,
    FreeSpace,
    /// Free space, or give up the work that waits for it. Until then, a mount shows all of it.
    FreeSpaceOrDrop {
        name: String,
    },

    /// Words that read the same in every front end, such as those about a file's own grammar.
    #[serde(untagged)]
    Note(String),
}

impl Hint {
    pub(crate) fn did_you_mean(name: &Option<String>) -> Option<Hint> {
        name.clone().map(|name| Hint::DidYouMean { name })
    }

    pub(crate) fn explain_rule(path: &TreePath) -> Hint {
        Hint::ExplainRule {
            path: path.to_string(),
        }
    }
}

/// A command that is to be run again with a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkedRun {
    pub vault: String,
    /// Hosts and groups of hosts that it needs, each to be added to what the run has; empty if they are not known.
    pub hosts: Vec<String>,
    pub command: NetworkedCommand,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkedCommand {
    /// Words, quoted for a shell.
    Argv(String),
    /// A line of a shell, quoted as one word.
    Shell(String),
    /// A session has the network that it was started with.
    Session,
}
