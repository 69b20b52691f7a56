//! `avfs policy check`: the decision of the policy on a command, without running anything.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use agentvfs::Vault;
use agentvfs::exec::RunSpec;
use agentvfs::exec::sandbox::classify::{Classification, Command, classify};
use agentvfs::exec::sandbox::network::{NetworkChoice, PortPublication};
use agentvfs::exec::sandbox::policy::{Policy, PolicyDecision};
use agentvfs::exec::sandbox::{Capabilities, Network};
use anyhow::Result;
use serde::Serialize;

use crate::commands::exec::policy;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::here::{start_directory, working_directory};
use crate::rule_args::RuleArgs;

/// Show how a command is classified and what the policy decides, without running it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Uses the policy that `avfs policy set` stored, unless --policy names a file. If a vault is chosen, the rules that \
`avfs approvals allow --always` saved with it count too.

Examples:
  avfs policy check -- git push
  avfs policy check --vault web --net crates.io -- cargo fetch
  avfs policy check -c 'curl example.com | sh'
  avfs policy check --policy strict.toml --json -- rm -rf build"
)]
pub struct PolicyCheckArgs {
    /// Use this policy file [default: the policy that `avfs policy set` stored]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Assume that the command requests this network
    #[arg(long, value_name = "none|host|[+]HOST,…")]
    net: Vec<NetworkChoice>,
    /// Assume that it asks to publish this port; can be repeated
    #[arg(long, value_name = "[[ADDRESS:]HOSTPORT:]PORT")]
    publish: Vec<PortPublication>,
    /// Run this line in a shell
    #[arg(
        short = 'c',
        value_name = "LINE",
        conflicts_with = "command",
        required_unless_present = "command"
    )]
    line: Option<String>,
    /// A program and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<OsString>,
}

#[derive(Serialize)]
struct PolicyCheckBody<'a> {
    #[serde(flatten)]
    decision: &'a PolicyDecision,
    parts: &'a [agentvfs::exec::sandbox::classify::CommandPart],
}

pub fn run(context: &mut Context<'_>, args: &PolicyCheckArgs) -> Result<ExitStatus> {
    if let [word] = &args.command[..] {
        check_is_program(word)?;
    }
    let given = policy(args.policy.as_deref())?;
    let command = match &args.line {
        Some(line) => Command::Shell(line.clone()),
        None => Command::Argv(args.command.clone()),
    };
    let found = classify(&command);
    let network = NetworkChoice::all(&args.net, Network::None);
    let asked = Capabilities {
        write: true,
        network: network.clone(),
        published: args.publish.clone(),
    };
    let asked = asked.narrowed_by(found.classes);
    let vault = match context.vault_if_chosen()? {
        Some(vault) => Some(vault),
        None => of_project(context)?,
    };
    let policy = match (vault, given) {
        (Some(vault), policy) => {
            // As `avfs exec` would ask for it without more flags.
            vault.approvals().policy_here(&RunSpec {
                policy,
                network,
                cwd: start_directory(&vault)?,
                caller_env: std::env::vars_os().collect(),
                home: std::env::home_dir(),
                rules: RuleArgs::default().list_for_programs(&vault)?,
                ..RunSpec::new(command)
            })?
        }
        (None, Some(policy)) => policy,
        (None, None) => in_store(context)?,
    };
    // Whether approval is possible is only known at run time.
    let decision = policy.decide_for(&found, &asked, true);
    report(context, &found, &decision)?;
    Ok(ExitStatus::Success)
}

/// A whole line in quotes is not the name of a program, and would be judged too mildly as one.
fn check_is_program(word: &OsStr) -> Result<(), Failure> {
    let text = word.to_string_lossy();
    let is_line = text.is_empty()
        || text
            .chars()
            .any(|char| char.is_whitespace() || ";|&<>()$`".contains(char));
    let is_there = || Path::new(word).is_file() || program_on_path(word);
    if !is_line || (!text.is_empty() && is_there()) {
        return Ok(());
    }
    let shown = crate::escape::printable(text.as_bytes());
    let text = format!("'{shown}' is not the name of a program");
    let line = avfs_core::shell_word(&shown.to_string());
    let hint = format!("for a line of a shell: `avfs policy check -c {line}`");
    Err(Failure::new("usage", ExitStatus::BadInput, text).hint(Some(hint)))
}

fn program_on_path(name: &OsStr) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

/// The project of the current directory, whose policy applies to all of its tasks.
fn of_project(context: &Context<'_>) -> Result<Option<Vault>> {
    if !context.settings.home().is_some_and(Path::exists) {
        return Ok(None);
    }
    let project = context.store()?.projects().find(&working_directory())?;
    Ok(project.map(|project| project.vault()))
}

/// The policy that applies if no vault is chosen. A store that does not exist is not created.
fn in_store(context: &Context<'_>) -> Result<Policy> {
    if context.settings.home().is_some_and(Path::exists) {
        Ok(context.store()?.policy_in_force()?.policy)
    } else {
        Ok(Policy::built_in())
    }
}

fn report(context: &mut Context<'_>, found: &Classification, decision: &PolicyDecision) -> Result<()> {
    if context.out.is_json() {
        let body = PolicyCheckBody {
            decision,
            parts: &found.parts,
        };
        return Ok(context.out.object("policy-check", &body)?);
    }
    let classes = found
        .classes
        .iter()
        .map(|class| class.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    context
        .out
        .line(format_args!("{}: {classes}", decision.action.as_str()))?;
    context
        .out
        .line(format_args!("by {}: {}", decision.rule, decision.reason))?;
    if let Some(alternative) = &decision.alternative {
        context.out.line(format_args!("instead: {alternative}"))?;
    }
    for part in &found.parts {
        let classes = part
            .classes
            .iter()
            .map(|class| class.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        context
            .out
            .line(format_args!("  {} ({classes}): {}", part.text, part.reason))?;
    }
    Ok(())
}
