//! What helps with an error, in the words of a Python program.

use agentvfs::Hint;
use agentvfs::exec::sandbox::launch::LaunchHint;

/// The sentence that follows an error. Hints that only concern other front ends say nothing here.
pub fn words(hint: &Hint) -> Option<String> {
    Some(match hint {
        Hint::Note(text) => text.clone(),
        Hint::DidYouMean { name } => format!("did you mean '{name}'?"),
        Hint::Launch { launch } => of_launch(*launch).to_owned(),
        Hint::RemoveForksFirst { .. } => "delete or merge its forks first, or pass force=True".to_owned(),
        Hint::ReadAgain { path } => format!("read {path} again and retry with its new version"),
        Hint::ExplainRule { path } => format!("explain({path:?}) tells which rule decides"),
        Hint::ListVaults => "AVFS.list_vaults() lists the vaults".to_owned(),
        Hint::ShowQuota => "AVFS.set_quota() changes the limits".to_owned(),
        Hint::TryAgainUnchanged => "nothing was changed; try again".to_owned(),
        Hint::ListCheckpoints => "checkpoints() lists the checkpoints".to_owned(),
        Hint::ListRevisions => "log() lists the states, checkpoints() their names".to_owned(),
        Hint::ListConflicts => "conflicts() lists the open conflicts".to_owned(),
        Hint::WaitForOwner | Hint::ApplyWhenQuiet => "try again in a moment".to_owned(),
        Hint::DecideConflicts => "pass on_conflict=\"ours\", \"theirs\" or \"markers\" to apply()".to_owned(),
        Hint::ForceUndo => "pass force=True to undo everything but these files".to_owned(),
        Hint::AnswerApproval { id } => {
            format!("approve= answers such requests; `avfs approvals allow {id}` allows this one")
        }
        Hint::UseApproval { id } => format!("{id} is the same request for the current state"),
        Hint::RunWithNetwork { .. } => "give the sandbox a network with network=".to_owned(),
        Hint::CheckMachine => "`avfs doctor` tells what is missing on this machine".to_owned(),
        Hint::InstallGit => "install git (Debian package git)".to_owned(),
        Hint::FreeSpace => "free some space on the disk of the store".to_owned(),
        Hint::CheckStore => "`avfs fsck` checks the store".to_owned(),
        Hint::RepairJournal => "`avfs fsck --repair` repairs it".to_owned(),
        Hint::ForceExport => "pass force=True to write into what is there".to_owned(),
        _ => return None,
    })
}

fn of_launch(hint: LaunchHint) -> &'static str {
    match hint {
        LaunchHint::InstallBubblewrap => "install bubblewrap (Debian package bubblewrap)",
        LaunchHint::CheckMachine => "`avfs doctor` tells what is missing on this machine",
        LaunchHint::AllowNamespaces => {
            "this machine forbids user namespaces; `avfs doctor` tells what has to be allowed"
        }
        LaunchHint::CheckLimits => "`avfs doctor` tells which limits this machine can enforce",
        LaunchHint::UseBubblewrap => "this needs bubblewrap",
        LaunchHint::EnableLandlock => "the kernel was started without Landlock",
        LaunchHint::InstallContainerRuntime => "install runc (Debian package runc)",
        LaunchHint::StartDaemon => "start Docker or Podman, or install runc (Debian package runc)",
        LaunchHint::NameImage => "this needs an image",
        LaunchHint::UpdateKernel => "this needs Linux 6.12 or bubblewrap",
    }
}
