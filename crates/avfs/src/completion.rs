//! What a shell completes: commands and flags, and the names that are in the store and around it.
//!
//! The scripts of `avfs completions` start this program at every press of Tab, with [`VARIABLE`] set and the words of the
//! line behind `--`. So it answers fast, makes no store, waits for nobody, and has nothing to say where something is wrong.

mod names;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Arg, Command};
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{CompleteEnv, Shells};

use self::names::Names;
use crate::cli::Cli;

/// Says to a program that a shell asks, and which one it is.
pub const VARIABLE: &str = "AVFS_COMPLETE";

/// Answers a shell, if one asks.
pub fn answer() -> Option<ExitCode> {
    std::env::var_os(VARIABLE)?;
    let directory = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(definition).var(VARIABLE).bin("avfs");
    match asked.try_complete(std::env::args_os(), directory.as_deref()) {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// The script that has a shell ask. `None`: it is none that can.
pub fn script(shell: &str) -> Option<Vec<u8>> {
    let shells = Shells::builtins();
    let mut script = Vec::new();
    shells.completer(shell)?.write_registration(VARIABLE, "avfs", "avfs", "avfs", &mut script).ok()?;
    Some(script)
}

/// All commands, whose arguments know what they can be.
fn definition() -> Command {
    knowing(Cli::definition(), &mut Vec::new())
}

fn knowing(command: Command, path: &mut Vec<String>) -> Command {
    let above: Vec<&str> = path.iter().map(String::as_str).collect();
    let command = command.mut_args(|arg| match names_of(&above, &arg) {
        Some(Names::VaultsAndDirectories) => arg.add(ArgValueCompleter::new(vaults_and_directories)),
        Some(names) => arg.add(ArgValueCandidates::new(move || names.find(&typed()))),
        None => arg,
    });
    command.mut_subcommands(|sub| {
        path.push(sub.get_name().to_owned());
        let sub = knowing(sub, path);
        path.pop();
        sub
    })
}

/// What an argument of a command names.
fn names_of(command: &[&str], arg: &Arg) -> Option<Names> {
    let value = arg.get_value_names().and_then(|names| names.first()).map(|name| name.as_str());
    Some(match (command, arg.get_id().as_str(), value) {
        // Names that are to be given, not found.
        (_, "name" | "new_name", Some("TASK" | "NEW_NAME")) => return None,
        (_, _, Some("TASK")) => Names::Tasks,
        (["mount"], "place", _) => Names::VaultsAndDirectories,
        (["vault", "info" | "use" | "rename" | "export" | "delete"], "name", _) => Names::Vaults,
        (["vault", "fork"] | ["merge"], "from" | "into", _) => Names::Vaults,
        ([], "vault", _) | (["stats"], "names", _) => Names::Vaults,
        (["checkpoint", "show" | "restore" | "delete"], "name" | "names", _) => Names::Checkpoints,
        (_, _, Some("CHECKPOINT")) => Names::Checkpoints,
        (["diff"], "words", _) => Names::TasksAndRevisions,
        (_, _, Some("REV" | "REVISION")) => Names::Revisions,
        (["run"], "profile", _) | (["profiles", _], "name", _) => Names::Profiles,
        (["session", _], "id" | "ids", _) => Names::Sessions,
        (["approvals", _], "id", _) => Names::Approvals,
        (_, "preset", _) | (["rules", "presets"], "name", _) => Names::Presets,
        _ => return None,
    })
}

/// The words of the line that is completed.
fn typed() -> Vec<OsString> {
    std::env::args_os().skip_while(|word| word != "--").skip(1).collect()
}

fn vaults_and_directories(current: &std::ffi::OsStr) -> Vec<CompletionCandidate> {
    let start = current.to_string_lossy();
    let mut found = Names::Vaults.find(&typed());
    found.retain(|candidate| candidate.get_value().to_string_lossy().starts_with(&*start));
    found.extend(PathCompleter::dir().complete(current));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_know_what_they_name() {
        let mut found = Vec::new();
        collect(&Cli::definition(), &mut Vec::new(), &mut found);
        for (line, names) in [
            ("review task", Names::Tasks),
            ("apply task", Names::Tasks),
            ("discard tasks", Names::Tasks),
            ("run profile", Names::Profiles),
            ("vault use name", Names::Vaults),
            ("checkpoint restore name", Names::Checkpoints),
            ("cat at", Names::Revisions),
            ("approvals allow id", Names::Approvals),
            ("session exec id", Names::Sessions),
        ] {
            assert!(found.contains(&(line.to_owned(), names)), "{line}: {found:?}");
        }
        for new in ["run name", "vault create name", "checkpoint save name", "task new name"] {
            assert!(!found.iter().any(|(line, _)| line == new), "{new} is a new name");
        }
        definition().debug_assert();
    }

    fn collect(command: &Command, path: &mut Vec<String>, found: &mut Vec<(String, Names)>) {
        let above: Vec<&str> = path.iter().map(String::as_str).collect();
        for arg in command.get_arguments() {
            let line = above.iter().copied().chain([arg.get_id().as_str()]).collect::<Vec<_>>().join(" ");
            found.extend(names_of(&above, arg).map(|names| (line, names)));
        }
        for sub in command.get_subcommands() {
            path.push(sub.get_name().to_owned());
            collect(sub, path, found);
            path.pop();
        }
    }
}
