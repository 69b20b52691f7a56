//! Completions for shells: commands and flags, and the names in the store and around it.
//!
//! The scripts of `avfs completions` start this program at every press of Tab, with [`VARIABLE`] set and the
//! words of the line after `--`. So it must be fast, creates no store, waits for no lock, and ignores errors.

mod names;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Arg, Command};
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{CompleteEnv, Shells};

use self::names::CompletedNames;
use crate::cli::Cli;

/// Set if a shell requests completions; its value is the name of the shell.
pub const VARIABLE: &str = "AVFS_COMPLETE";

/// Answers a shell, if one requests completions.
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

/// The script with which a shell requests completions. `None`: the shell is not supported.
pub fn script(shell: &str) -> Option<Vec<u8>> {
    let shells = Shells::builtins();
    let mut script = Vec::new();
    shells
        .completer(shell)?
        .write_registration(VARIABLE, "avfs", "avfs", "avfs", &mut script)
        .ok()?;
    Some(script)
}

/// All commands, with the possible values of their arguments.
fn definition() -> Command {
    knowing(Cli::definition(), &mut Vec::new())
}

fn knowing(command: Command, path: &mut Vec<String>) -> Command {
    let above: Vec<&str> = path.iter().map(String::as_str).collect();
    let command = command.mut_args(|arg| match names_of(&above, &arg) {
        Some(CompletedNames::VaultsAndDirectories) => arg.add(ArgValueCompleter::new(vaults_and_directories)),
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

/// The kind of names of an argument.
fn names_of(command: &[&str], arg: &Arg) -> Option<CompletedNames> {
    let value = arg
        .get_value_names()
        .and_then(|names| names.first())
        .map(|name| name.as_str());
    Some(match (command, arg.get_id().as_str(), value) {
        // Names that are to be given, not found.
        (_, "name" | "new_name", Some("TASK" | "NEW_NAME")) => return None,
        (_, _, Some("TASK")) => CompletedNames::Tasks,
        (["mount"], "place", _) => CompletedNames::VaultsAndDirectories,
        (["vault", "info" | "use" | "rename" | "export" | "delete"], "name", _) => CompletedNames::Vaults,
        (["vault", "fork"] | ["merge"], "from" | "into", _) => CompletedNames::Vaults,
        ([], "vault", _) | (["stats"], "names", _) => CompletedNames::Vaults,
        (["checkpoint", "show" | "restore" | "delete"], "name" | "names", _) => CompletedNames::Checkpoints,
        (_, _, Some("CHECKPOINT")) => CompletedNames::Checkpoints,
        (["diff"], "words", _) => CompletedNames::TasksAndRevisions,
        (_, _, Some("REV" | "REVISION")) => CompletedNames::Revisions,
        (["run"], "profile", _) | (["profiles", _], "name", _) => CompletedNames::Profiles,
        (["session", _], "id" | "ids", _) => CompletedNames::Sessions,
        (["approvals", _], "id", _) => CompletedNames::Approvals,
        (_, "preset", _) | (["rules", "presets"], "name", _) => CompletedNames::Presets,
        _ => return None,
    })
}

/// The words of the line that is completed.
fn typed() -> Vec<OsString> {
    std::env::args_os()
        .skip_while(|word| word != "--")
        .skip(1)
        .collect()
}

fn vaults_and_directories(current: &std::ffi::OsStr) -> Vec<CompletionCandidate> {
    let start = current.to_string_lossy();
    let mut found = CompletedNames::Vaults.find(&typed());
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
            ("review task", CompletedNames::Tasks),
            ("apply task", CompletedNames::Tasks),
            ("discard tasks", CompletedNames::Tasks),
            ("run profile", CompletedNames::Profiles),
            ("vault use name", CompletedNames::Vaults),
            ("checkpoint restore name", CompletedNames::Checkpoints),
            ("cat at", CompletedNames::Revisions),
            ("approvals allow id", CompletedNames::Approvals),
            ("session exec id", CompletedNames::Sessions),
        ] {
            assert!(found.contains(&(line.to_owned(), names)), "{line}: {found:?}");
        }
        for new in [
            "run name",
            "vault create name",
            "checkpoint save name",
            "task new name",
        ] {
            assert!(!found.iter().any(|(line, _)| line == new), "{new} is a new name");
        }
        definition().debug_assert();
    }

    fn collect(command: &Command, path: &mut Vec<String>, found: &mut Vec<(String, CompletedNames)>) {
        let above: Vec<&str> = path.iter().map(String::as_str).collect();
        for arg in command.get_arguments() {
            let line = above
                .iter()
                .copied()
                .chain([arg.get_id().as_str()])
                .collect::<Vec<_>>()
                .join(" ");
            found.extend(names_of(&above, arg).map(|names| (line, names)));
        }
        for sub in command.get_subcommands() {
            path.push(sub.get_name().to_owned());
            collect(sub, path, found);
            path.pop();
        }
    }
}
