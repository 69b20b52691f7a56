//! `avfs --server URL`: commands that a server carries out.
//!
//! A line is read twice: first as any other, and then by a definition that has only the commands and flags that work on a
//! server ([`Verb`]). What that refuses is an error, and never done on this machine instead.

mod approvals;
mod client;
mod endpoint;
mod exec;
mod files;
mod http;
mod sandboxes;
mod states;
mod vaults;

use std::ffi::OsString;

use anyhow::Result;
use clap::Parser;
use clap::error::{ContextKind, ErrorKind};

pub use sandboxes::SandboxCommand;

use self::client::Client;
use self::endpoint::Endpoint;
use crate::commands::Command;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::printer::Printer;

/// A line for a server.
#[derive(Debug, Parser)]
#[command(name = "avfs", disable_help_subcommand = true)]
struct ServerLine {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    verb: Verb,
}

/// What a server can do.
#[derive(Debug, clap::Subcommand)]
enum Verb {
    #[command(subcommand)]
    Sandbox(SandboxCommand),
    Tasks(sandboxes::SandboxTasksArgs),
    #[command(subcommand)]
    Vault(vaults::VaultVerb),
    Exec(exec::ExecVerb),
    Ls(files::LsVerb),
    Cat(files::CatVerb),
    Write(files::WriteVerb),
    Rm(files::RmVerb),
    Mkdir(files::MkdirVerb),
    Mv(files::MvVerb),
    Grep(files::GrepVerb),
    #[command(subcommand)]
    Checkpoint(states::CheckpointVerb),
    Log(states::LogVerb),
    Diff(states::DiffVerb),
    Audit(states::AuditVerb),
    #[command(subcommand)]
    Approvals(approvals::ApprovalsVerb),
}

/// The server that a line is for: the one of `--server`, or that of the environment unless the command is about this machine.
pub fn chosen(global: &GlobalArgs, command: &Command) -> Option<String> {
    if let Some(server) = &global.server {
        return Some(server.clone());
    }
    let of_environment = std::env::var("AVFS_SERVER").ok().filter(|text| !text.is_empty());
    of_environment.filter(|_| !command.is_about_this_machine())
}

/// Has a server carry the line of this process out.
pub fn run(server: &str, global: &GlobalArgs, out: &mut Printer) -> Result<ExitStatus> {
    let line = read(std::env::args_os())?;
    let mut session = Session {
        client: Client::new(Endpoint::parse(server)?),
        vault: global.vault.clone().or_else(|| variable("AVFS_VAULT")),
        out,
    };
    match &line.verb {
        Verb::Sandbox(command) => sandboxes::run(&mut session, command),
        Verb::Tasks(_) => sandboxes::list(&mut session),
        Verb::Vault(verb) => vaults::run(&mut session, verb),
        Verb::Exec(verb) => exec::run(&mut session, verb),
        Verb::Ls(verb) => files::ls(&mut session, verb),
        Verb::Cat(verb) => files::cat(&mut session, verb),
        Verb::Write(verb) => files::write(&mut session, verb),
        Verb::Rm(verb) => files::rm(&mut session, verb),
        Verb::Mkdir(verb) => files::mkdir(&mut session, verb),
        Verb::Mv(verb) => files::mv(&mut session, verb),
        Verb::Grep(verb) => files::grep(&mut session, verb),
        Verb::Checkpoint(verb) => states::checkpoint(&mut session, verb),
        Verb::Log(verb) => states::log(&mut session, verb),
        Verb::Diff(verb) => states::diff(&mut session, verb),
        Verb::Audit(verb) => states::audit(&mut session, verb),
        Verb::Approvals(verb) => approvals::run(&mut session, verb),
    }
}

/// A command of `avfs sandbox`, on the server of the own store.
pub fn run_here(home: &std::path::Path, command: &SandboxCommand, out: &mut Printer) -> Result<ExitStatus> {
    let mut session = Session {
        client: Client::new(Endpoint::of_store(home)),
        vault: None,
        out,
    };
    sandboxes::run(&mut session, command)
}

fn read(arguments: impl Iterator<Item = OsString>) -> Result<ServerLine, Failure> {
    ServerLine::try_parse_from(arguments).map_err(|error| {
        let word = |kind: ContextKind| error.get(kind).map(ToString::to_string);
        let refused = match error.kind() {
            ErrorKind::InvalidSubcommand => word(ContextKind::InvalidSubcommand),
            ErrorKind::UnknownArgument => word(ContextKind::InvalidArg),
            _ => None,
        };
        match refused {
            Some(word) => {
                let text = format!(
                    "a server cannot do this: '{}'",
                    crate::escape::printable(word.as_bytes())
                );
                let hint = "leave out `--server` and AVFS_SERVER to do it on this machine";
                Failure::new("not-on-server", ExitStatus::BadInput, text).hint(Some(hint.to_owned()))
            }
            None => Failure::of_usage(&error),
        }
    })
}

/// A variable that is set.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// A line that is being carried out.
struct Session<'a> {
    client: Client,
    vault: Option<String>,
    out: &'a mut Printer,
}

impl Session<'_> {
    /// The path of the sandbox or vault that the line is about.
    fn subject(&self) -> Result<String, Failure> {
        let name = self.vault.as_deref().ok_or_else(|| {
            let hint =
                "name it with `--vault NAME`; `avfs sandbox list` and `avfs vault list` show what there is";
            Failure::new(
                "no-vault",
                ExitStatus::BadInput,
                "no sandbox or vault of the server is named",
            )
            .hint(Some(hint.to_owned()))
        })?;
        Ok(of_name(name))
    }

    /// Something was done: told to programs only.
    fn done(&mut self, kind: &'static str, body: &serde_json::Value) -> Result<ExitStatus> {
        if self.out.is_json() {
            self.out.object(kind, body)?;
        }
        Ok(ExitStatus::Success)
    }

    /// An answer as it is, for programs.
    fn object(&mut self, kind: &'static str, body: &serde_json::Value) -> Result<ExitStatus> {
        self.out.object(kind, body)?;
        Ok(ExitStatus::Success)
    }
}

/// The path of what has this name: sandboxes are called `sb` and twenty digits.
fn of_name(name: &str) -> String {
    let digits = name.strip_prefix("sb").unwrap_or_default();
    let is_sandbox = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let kind = if is_sandbox { "sandboxes" } else { "vaults" };
    format!("/{kind}/{}", client::part(name))
}

/// A text of an answer, safe to show.
fn text(value: &serde_json::Value) -> String {
    crate::escape::printable(value.as_str().unwrap_or_default().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> impl Iterator<Item = OsString> {
        line.split(' ').map(OsString::from)
    }

    #[test]
    fn every_line_for_a_server_is_one_for_this_machine_too() {
        for line in [
            "avfs --server unix:/s ls -l src --vault web",
            "avfs --server http://h:1 exec --vault sb0 --timeout 5s -- make test",
            "avfs exec --server http://h:1 -c true --stdin --json",
            "avfs --server http://h:1 write a text --expect 12ab",
            "avfs --server http://h:1 checkpoint save v1 -m text",
            "avfs --server http://h:1 diff v1 @ --patch",
            "avfs --server http://h:1 log -n 3",
            "avfs --server http://h:1 approvals allow a1-5f0c21d8 --once",
            "avfs --server http://h:1 tasks",
            "avfs --server http://h:1 sandbox create --from web --network example.com --expires 1h",
            "avfs --server http://h:1 vault create web",
            "avfs --server http://h:1 rm -r target",
            "avfs --server http://h:1 grep -i pattern src",
        ] {
            read(words(line)).expect(line);
            crate::cli::Cli::try_parse_from(words(line)).expect(line);
        }
    }

    #[test]
    fn unsupported_remote_command_is_refused_by_name() {
        for (line, word) in [
            ("avfs --server http://h:1 mount web", "mount"),
            ("avfs --server http://h:1 ls --at v1", "--at"),
            ("avfs --server http://h:1 write a --append", "--append"),
        ] {
            let failure = read(words(line)).unwrap_err();
            assert_eq!(failure.code, "not-on-server", "{line}");
            assert!(failure.message.contains(word), "{line}: {failure}");
        }
    }

    #[test]
    fn sandboxes_and_vaults_are_told_apart_by_their_names() {
        assert_eq!(
            of_name("sb0123456789abcdef0123"),
            "/sandboxes/sb0123456789abcdef0123"
        );
        assert_eq!(of_name("sb0123"), "/vaults/sb0123");
        assert_eq!(of_name("a/b"), "/vaults/a%2Fb");
    }
}
