//! `avfs policy check`: what the policy says of a command, without running anything.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use agentvfs::Vault;
use agentvfs::exec::ExecRequest;
use agentvfs::exec::boundary::classify::{Classification, Command, classify};
use agentvfs::exec::boundary::network::{NetworkChoice, Publish};
use agentvfs::exec::boundary::policy::{Decision, Policy};
use agentvfs::exec::boundary::{Capabilities, Network};
use anyhow::Result;
use serde::Serialize;

use crate::commands::exec::policy;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::here::{start_directory, working_directory};
use crate::rule_args::RuleArgs;

/// Tell what a command would do and what the policy decides, without running it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Decides by the policy that `avfs policy set` stored, unless --policy names a file. Where a vault is chosen, \
the rules count that `avfs approvals allow --always` saved with it.

Examples:
  avfs policy check -- git push
  avfs policy check --vault web --net crates.io -- cargo fetch
  avfs policy check -c 'curl example.com | sh'
  avfs policy check --policy strict.toml --json -- rm -rf build"
)]
pub struct CheckArgs {
    /// Decide by this policy file
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The network that it would ask for
    #[arg(long, value_name = "none|host|[+]HOST,…")]
    net: Vec<NetworkChoice>,
    /// A port inside that it would ask to be reached by
    #[arg(long, value_name = "[[ADDRESS:]HOSTPORT:]PORT")]
    publish: Vec<Publish>,
    /// A line for a shell
    #[arg(short = 'c', value_name = "LINE", conflicts_with = "command", required_unless_present = "command")]
    line: Option<String>,
    /// A program and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<OsString>,
}

#[derive(Serialize)]
struct CheckBody<'a> {
    #[serde(flatten)]
    decision: &'a Decision,
    parts: &'a [agentvfs::exec::boundary::classify::Part],
}

pub fn run(context: &mut Context<'_>, args: &CheckArgs) -> Result<ExitStatus> {
    let given = policy(args.policy.as_deref())?;
    let command = match &args.line {
        Some(line) => Command::Shell(line.clone()),
        None => Command::Argv(args.command.clone()),
    };
    let found = classify(&command);
    let network = NetworkChoice::all(&args.net, Network::None);
    let asked = Capabilities { write: true, network: network.clone(), published: args.publish.clone() };
    let asked = asked.narrowed_by(found.classes);
    let vault = match context.vault_if_chosen()? {
        Some(vault) => Some(vault),
        None => of_project(context)?,
    };
    let policy = match (vault, given) {
        (Some(vault), policy) => {
            // As `avfs exec` would ask for it without more flags.
            vault.policy_here(&ExecRequest {
                policy,
                network,
                cwd: start_directory(&vault)?,
                caller_env: std::env::vars_os().collect(),
                home: std::env::home_dir(),
                rules: RuleArgs::default().list_for_programs(&vault)?,
                ..ExecRequest::new(command)
            })?
        }
        (None, Some(policy)) => policy,
        (None, None) => in_store(context)?,
    };
    // Whether there is somebody to ask is known when it is run.
    let decision = policy.decide_for(&found, &asked, true);
    report(context, &found, &decision)?;
    Ok(ExitStatus::Success)
}

/// The project of the current directory, whose policy holds for all of its tasks.
fn of_project(context: &Context<'_>) -> Result<Option<Vault>> {
    if !context.settings.home().is_some_and(Path::exists) {
        return Ok(None);
    }
    let project = context.store()?.find_project(&working_directory())?;
    Ok(project.map(|project| project.vault()))
}

/// What decides where no vault is chosen. A store that does not exist is not made.
fn in_store(context: &Context<'_>) -> Result<Policy> {
    match context.settings.home().is_some_and(Path::exists) {
        true => Ok(context.store()?.policy_in_force()?.policy),
        false => Ok(Policy::built_in()),
    }
}

fn report(context: &mut Context<'_>, found: &Classification, decision: &Decision) -> Result<()> {
    if context.out.is_json() {
        let body = CheckBody { decision, parts: &found.parts };
        return Ok(context.out.object("policy-check", &body)?);
    }
    let classes = found.classes.iter().map(|class| class.as_str()).collect::<Vec<_>>().join(", ");
    context.out.line(format_args!("{}: {classes}", decision.action.as_str()))?;
    context.out.line(format_args!("by {}: {}", decision.rule, decision.reason))?;
    if let Some(alternative) = &decision.alternative {
        context.out.line(format_args!("instead: {alternative}"))?;
    }
    for part in &found.parts {
        let classes = part.classes.iter().map(|class| class.as_str()).collect::<Vec<_>>().join(", ");
        context.out.line(format_args!("  {} ({classes}): {}", part.text, part.reason))?;
    }
    Ok(())
}
