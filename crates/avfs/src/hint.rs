//! Remedies for errors of the library, in the words of the command line.

use std::borrow::Cow;

use agentvfs::Hint;
use agentvfs::exec::sandbox::launch::LaunchHint;
use agentvfs::exec::{Envelope, NetworkedCommand, NetworkedRun};

/// The sentence that follows an error.
pub fn words(hint: &Hint) -> String {
    match hint {
        Hint::Note(text) => text.clone(),
        Hint::DidYouMean { name } => format!("did you mean '{name}'?"),
        Hint::Launch { launch } => of_launch(*launch).to_owned(),
        Hint::NameVaultInFull { vault, task } => {
            format!("`--vault {task}` is the task, `--vault {vault}` the vault")
        }
        Hint::ForgetProject { directory } => format!(
            "`avfs project forget {}` removes the project with its vault and its tasks",
            shell_word(directory)
        ),
        Hint::RemoveForksFirst { vault } => {
            format!("delete or merge each fork first, or force it by name: --force {vault}")
        }
        Hint::NameImage { example } => format!("name one of them, as with --tag {}", shell_word(example)),
        Hint::ReadAgain { path } => format!("read {path} again and retry with its new version"),
        Hint::ExplainRule { path } => format!("`avfs rules explain {path}` shows which rule decides"),
        Hint::MoveOrForgetProject { directory } => {
            let typed = shell_word(directory);
            format!(
                "if it was renamed or moved, `avfs project move {typed} NEW` moves its tasks along; if it was deleted, \
                 `avfs apply TASK --to NEWDIR` puts what a task changed into a new directory, and `avfs project forget {typed}` \
                 deletes its tasks"
            )
        }
        Hint::ContinueTask { task } => {
            format!("`avfs run --task {task}` continues with it, or choose another name")
        }
        Hint::StartAnotherRun { task } => format!(
            "`avfs task output {task}` shows what the last run printed; `avfs run --task {task}` starts another"
        ),
        Hint::FollowOutput { task } => {
            format!("it was started with pipes; `avfs task output -f {task}` follows its output")
        }
        Hint::UnmountFirst { dir } => format!(
            "`avfs unmount {}` first; commands on its files (ls, write, diff, restore) still work",
            shell_word(&dir.display().to_string())
        ),
        Hint::StopSessions { ids } => {
            format!(
                "`avfs session stop {}` ends {}",
                ids.join(" "),
                if ids.len() == 1 { "it" } else { "them" }
            )
        }
        Hint::UseApproval { id } => format!("{id} is the same request for the current state"),
        Hint::AnswerApproval { id } => answer(id),
        Hint::RunWithNetwork { again, approval } => {
            let allow = approval
                .as_deref()
                .map(|id| format!("; {}, without a network", answer(id)));
            format!(
                "`{}` requests it with a network{}",
                typed(again),
                allow.unwrap_or_default()
            )
        }
        Hint::ResolveConflicts { vault } => format!(
            "settle each with `avfs resolve PATH --vault {vault}` and --ours (what the task has), --theirs (what came \
             in: after a sync, what the directory has), --edit or --as-is"
        ),
        Hint::ApplyFilesOfTask { task } => format!(
            "`avfs apply {task} --branch {task}-files -m 'Work of {task}'` creates one commit from its files, \
             without these changes"
        ),
        Hint::TakeOutOfCommits { task } => {
            format!("remove these changes from the commits: `avfs run --task {task}` continues with the task")
        }
        Hint::AllowGuarded { task, paths } => {
            // From the root, a path means the same in every directory.
            let flags: Vec<String> = paths
                .iter()
                .map(|path| format!("--allow {}", shell_word(&format!("/{path}"))))
                .collect();
            let flags = flags.join(" ");
            format!(
                "inspect them with `avfs diff {task}`, then apply them with `avfs apply {task} --commits {flags}`"
            )
        }
        Hint::FreeSpaceOrDrop { name } => format!(
            "free some space, and the next command that looks at it stores the work; until then, \
             `avfs mount {name} DIR` shows all of it; `{}` drops it",
            dropping(name)
        ),
        _ => fixed(hint).to_owned(),
    }
}

/// Hints that say the same every time.
fn fixed(hint: &Hint) -> &'static str {
    match hint {
        Hint::ListImages => "`avfs image list` lists the images, `avfs image import` makes one",
        Hint::AllowLargerImage => "if you trust it, `--max-bytes SIZE` allows more",
        Hint::ListVaults => "`avfs vault list` lists the vaults",
        Hint::ExportAndCreate => {
            "export its files with `avfs export`, then create a vault from them with `avfs vault create --from`"
        }
        Hint::ShowQuota => "`avfs quota show` shows the limits, `avfs quota set` changes them",
        Hint::TryAgainUnchanged => "nothing was changed here; try again",
        Hint::UseDirectoryBelow => "use a directory below it",
        Hint::ListProjects => "`avfs project list` lists the projects",
        Hint::ApplyOrDiscardTasks => "apply or discard them first, or force it with --force",
        Hint::MoveDirectoryFirst => "move it first, for example with `mv`",
        Hint::ApplyOrDiscardItsTasks => "apply or discard its tasks first",
        Hint::WaitForTasksOrStop => "wait until they end, or stop them with `avfs task stop`",
        Hint::ForceMove => "if you are sure, add --force",
        Hint::ListTasks => "`avfs tasks --all` lists the tasks",
        Hint::NameTask => "name a task; `avfs tasks --all` lists them",
        Hint::NameTaskWithProject => "add its project to the name, as shown here",
        Hint::ChooseTask => "name one of them",
        Hint::StartTask => "start one with `avfs run`",
        Hint::ListCheckpoints => "`avfs checkpoint list` lists the checkpoints",
        Hint::SaveCheckpoint => "save one with `avfs checkpoint save NAME`",
        Hint::ListRevisions => "`avfs log` lists snapshots, `avfs checkpoint list` lists names",
        Hint::GiveMoreDigits => "give more digits of the id",
        Hint::ListKeptStates => {
            "`avfs log` lists the states that are kept, `avfs checkout` restores paths from them"
        }
        Hint::MergeRelatives => {
            "only a vault and its forks, forks of one vault, or tasks of one project can be merged"
        }
        Hint::ListConflicts => "`avfs conflicts` lists the open conflicts",
        Hint::WaitForOwner => "try again when it has finished",
        Hint::UseVersionOfOwner => "use the version of avfs that has it open, or end that process first",
        Hint::EndOwner => "the stored state is intact: end the process that has the vault open",
        Hint::LookWhetherDone => "`avfs log` shows whether the change was made",
        Hint::EnableIoUring => {
            "as root: echo Y > /sys/module/fuse/parameters/enable_uring; or use --transport device"
        }
        Hint::CheckMachine => "`avfs doctor` says what is missing on this machine",
        Hint::ListMounts => "`avfs mounts` shows what is mounted",
        Hint::MountElsewhere => "name another directory, or `avfs unmount` this one",
        Hint::ForceUnmount => "`--force` detaches the mount even while programs use it",
        Hint::MountShared => "unmount its other mounts first, or omit --exclusive",
        Hint::UseNoneAndWriteOnly => "omit --exclusive, or use only the levels none and write",
        Hint::CachedForAMoment => "the new rules are in force; cached data may stay visible for a moment",
        Hint::RulesOfWholeCopies => {
            "a plain copy is either fully writable or not at all: use bubblewrap, or rules to match"
        }
        Hint::ListApprovals => "`avfs approvals list --all` lists the approvals",
        Hint::RunAgainToAsk => "run the command again: it asks again",
        Hint::WithdrawApproval => "`avfs approvals deny ID` revokes an approval that was not used yet",
        Hint::DenialHolds => {
            "the denial holds for 24 hours, or until the vault changes; after that, the command asks again"
        }
        Hint::AllowOnce => "allow it with --once",
        Hint::AllowOnceOrForSession => "allow it with --once or --session",
        Hint::ListSavedRules => "`avfs approvals rules` lists the rules with their numbers",
        Hint::BeginWithWordsOfCommand => {
            "begin with the words of the command, down to its subcommand; `avfs approvals show ID` shows them"
        }
        Hint::ListSessions => "`avfs session list` lists the sessions",
        Hint::WaitForSession => "use --wait to wait until it has finished",
        Hint::ForceExport => "name a new place, or use --force to write into this one",
        Hint::ForceUndo => "--force skips these files and undoes everything else",
        Hint::ForceRedo => "--force skips these files and redoes everything else",
        Hint::DecideConflicts => {
            "--conflicts decides: directory (or ours) keeps what the directory has, task (or theirs) takes what the task \
             has, mark takes both, ask shows them; or name the paths to apply"
        }
        Hint::PathsOfProject => {
            "`avfs diff TASK` lists the changed paths, from the root of the project; below the root, begin them with '/'"
        }
        Hint::LeaveWorkspace => "leave the workspace with `exit`, and try again outside",
        Hint::ApplyWhenQuiet => "try again when no program is writing there",
        Hint::RepairObstacle => "remove the obstacle first; the next command then tries again",
        Hint::ListHunks => "`avfs diff --patch` shows the hunks, counted from 1 in each file",
        Hint::InstallGit => "install git, or put it on the PATH",
        Hint::MakeRepository => "create one there with `git init`",
        Hint::ListCommits => "`git log` there lists commits, `git branch -a` lists branches",
        Hint::NameAnotherBranch => "choose another name with --branch",
        Hint::NameOrUpdateBranch => "name another one with --branch, or move it forward with --update",
        Hint::SayWhichBranch => "choose one with --of",
        Hint::AcceptRepair => {
            "look at `avfs vault list` and `avfs log` of each vault; `avfs gc --after-repair` accepts the result"
        }
        Hint::RepairJournal => {
            "`avfs fsck --repair` recovers the intact part; `avfs log` lists the stored states"
        }
        Hint::CheckStore => "`avfs fsck` lists everything that is affected",
        Hint::UseNewerVersion => "use the version of avfs that created it, or a newer one",
        Hint::FreeSpace => "free some space and try again; nothing was changed",
        Hint::Note(_)
        | Hint::DidYouMean { .. }
        | Hint::Launch { .. }
        | Hint::NameVaultInFull { .. }
        | Hint::ForgetProject { .. }
        | Hint::RemoveForksFirst { .. }
        | Hint::ReadAgain { .. }
        | Hint::ExplainRule { .. }
        | Hint::MoveOrForgetProject { .. }
        | Hint::ContinueTask { .. }
        | Hint::StartAnotherRun { .. }
        | Hint::FollowOutput { .. }
        | Hint::UnmountFirst { .. }
        | Hint::StopSessions { .. }
        | Hint::UseApproval { .. }
        | Hint::AnswerApproval { .. }
        | Hint::RunWithNetwork { .. }
        | Hint::ResolveConflicts { .. }
        | Hint::ApplyFilesOfTask { .. }
        | Hint::TakeOutOfCommits { .. }
        | Hint::AllowGuarded { .. }
        | Hint::NameImage { .. }
        | Hint::FreeSpaceOrDrop { .. } => unreachable!("`words` has a sentence for it"),
    }
}

/// Remedies if a command cannot be isolated.
pub fn of_launch(hint: LaunchHint) -> &'static str {
    match hint {
        LaunchHint::InstallBubblewrap => {
            "install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap; \
             Arch: pacman -S bubblewrap), or run with --isolation landlock"
        }
        LaunchHint::CheckMachine => "run `avfs doctor` to see what is missing",
        LaunchHint::AllowNamespaces => {
            "user namespaces are not available here: `avfs doctor` says what blocks them and how to allow them"
        }
        LaunchHint::CheckLimits => "run `avfs doctor` to see which limits this system offers",
        LaunchHint::UseBubblewrap => "use bubblewrap instead",
        LaunchHint::EnableLandlock => "boot with `lsm=landlock,…`, or install bubblewrap",
        LaunchHint::InstallContainerRuntime => {
            "install runc (Debian package runc), or omit `--isolation oci`"
        }
        LaunchHint::StartDaemon => {
            "start Docker or Podman (`podman system service`), or use `--isolation oci`"
        }
        LaunchHint::NameImage => "name one with `--image NAME`; `avfs image list` lists them",
        LaunchHint::UpdateKernel => "Linux 6.12 or newer is needed, or bubblewrap",
    }
}

/// An envelope with its hint in words.
pub fn spelled(envelope: &Envelope) -> Envelope {
    let mut spelled = envelope.clone();
    if let Some(error) = &mut spelled.error {
        error.hint = error.hint.as_ref().map(|hint| Hint::Note(words(hint)));
    }
    spelled
}

/// A line with an envelope that another process has written, with its hint in words.
pub fn spelled_line(line: &str) -> Cow<'_, str> {
    // A quote inside of a string is escaped, so this is found as a field only.
    const FIELD: &str = "\"hint\":{";
    let Some(found) = line.find(FIELD) else {
        return line.into();
    };
    let at = found + FIELD.len() - 1;
    let mut read = serde_json::Deserializer::from_str(&line[at..]).into_iter::<Hint>();
    match read.next() {
        Some(Ok(hint)) => {
            let rest = &line[at + read.byte_offset()..];
            format!("{}{}{rest}", &line[..at], serde_json::Value::from(words(&hint))).into()
        }
        _ => line.into(),
    }
}

fn answer(id: &str) -> String {
    format!(
        "`avfs approvals show {id}` shows the details, `avfs approvals allow {id}` lets the same command run"
    )
}

/// A command with a network, as one types it.
fn typed(again: &NetworkedRun) -> String {
    let NetworkedRun {
        vault,
        hosts,
        command,
    } = again;
    let net = if hosts.is_empty() {
        "HOST".to_owned()
    } else {
        hosts.join(",")
    };
    match command {
        NetworkedCommand::Session => format!("avfs session start --vault {vault} --net {net}"),
        NetworkedCommand::Argv(words) => format!("avfs exec --vault {vault} --net {net} -- {words}"),
        NetworkedCommand::Shell(line) => format!("avfs exec --vault {vault} --net {net} -c {line}"),
    }
}

/// A word as a shell reads it back.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-=@:,+%".contains(c);
    if word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The command that drops the work of a vault.
fn dropping(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((_, task)) => format!("avfs discard {task}"),
        None => format!("avfs vault delete {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_work_is_named_by_its_task_or_its_vault() {
        assert_eq!(dropping("web/half"), "avfs discard half");
        assert_eq!(dropping("web"), "avfs vault delete web");
    }

    #[test]
    fn commands_with_a_network_can_be_typed() {
        let again = |hosts: &[&str], command| NetworkedRun {
            vault: "web".into(),
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            command,
        };
        let npm = again(&["+npm"], NetworkedCommand::Argv("npm ci".into()));
        assert_eq!(typed(&npm), "avfs exec --vault web --net +npm -- npm ci");
        let pip = again(
            &["+pypi"],
            NetworkedCommand::Shell("'cd x && pip install y'".into()),
        );
        assert_eq!(
            typed(&pip),
            "avfs exec --vault web --net +pypi -c 'cd x && pip install y'"
        );
        let ssh = again(&[], NetworkedCommand::Argv("ssh host".into()));
        assert_eq!(typed(&ssh), "avfs exec --vault web --net HOST -- ssh host");
        let session = again(&["+crates"], NetworkedCommand::Session);
        assert_eq!(typed(&session), "avfs session start --vault web --net +crates");
    }

    #[test]
    fn the_hint_in_a_line_is_put_into_words_and_the_rest_stays() {
        let hint = serde_json::to_string(&Hint::WaitForSession).unwrap();
        let line = format!(r#"{{"b":1,"error":{{"message":"\"hint\":{{","hint":{hint}}},"a":2}}"#);
        let expected = r#"{"b":1,"error":{"message":"\"hint\":{","hint":"use --wait to wait until it has finished"},"a":2}"#;
        assert_eq!(spelled_line(&line), expected);
        assert_eq!(spelled_line(expected), expected);
    }
}
