//! `avfs setup`: what a project requests for each new task, and whether that is allowed.

mod agent;
mod change;
mod json_settings;
mod own_command;
mod parts;
mod record;
mod skill;
mod toml_settings;
mod yaml_settings;

use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use self::agent::{Agent, Reach};
use self::change::{SetupChange, print_change};
pub use self::parts::own_program;
use self::parts::{SetupPart, SetupPlace, WantedSetup};
use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::here::working_directory;

/// Set up agents to use avfs
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Shows what would change in the settings of each agent, asks, makes the changes and checks them. An
agent's own command makes them where it has one. Without names, lists the agents that are found here.

--mcp (the default) gives an agent the tools of `avfs mcp`. --hooks runs its shell commands in the sandbox and
saves a checkpoint before each change of a file; --worktrees opens a fork for `claude --worktree`. --skill
teaches it when to checkpoint, fork and restore. --remove takes the same back.

Agents: claude, codex, gemini, cursor, vscode, zed, opencode, copilot, windsurf, kiro, goose.
What a project gives to new tasks: `avfs project setup`.

Examples:
  avfs setup
  avfs setup claude
  avfs setup claude codex --user --yes
  avfs setup cursor --project --dry-run
  avfs setup claude --mcp --hooks --worktrees --skill --project
  avfs setup --all --check
  avfs setup claude --remove"
)]
pub struct SetupArgs {
    /// The agents
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,

    /// All agents that are found on this machine
    #[arg(long, conflicts_with = "agents")]
    all: bool,

    /// Change the settings of the project in this directory
    #[arg(long, conflicts_with = "user")]
    project: bool,

    /// Change your own settings, for all projects (the default)
    #[arg(long)]
    user: bool,

    /// Give the agent the tools of `avfs mcp`
    #[arg(long)]
    mcp: bool,

    /// Run the agent's shell commands in the sandbox, and save a checkpoint before it changes a file
    #[arg(long)]
    hooks: bool,

    /// Open a fork of the project for each worktree of the agent
    #[arg(long)]
    worktrees: bool,

    /// Install the skill that explains checkpoints, forks and restores
    #[arg(long)]
    skill: bool,

    /// Show what would change, and change nothing
    #[arg(long, conflicts_with_all = ["check", "yes"])]
    dry_run: bool,

    /// Remove what setup has added
    #[arg(long)]
    remove: bool,

    /// Exit with status 1 if something is missing, and change nothing
    #[arg(long, conflicts_with = "remove")]
    check: bool,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

#[derive(Serialize)]
struct SetupBody {
    agents: Vec<AgentBody>,
    changed: bool,
}

#[derive(Serialize)]
struct AgentBody {
    agent: &'static str,
    found: bool,
    /// What is set up: of the parts that were asked for.
    parts: Vec<PartBody>,
}

#[derive(Serialize)]
struct PartBody {
    part: &'static str,
    configured: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
}

pub fn run(context: &mut Context<'_>, args: &SetupArgs) -> Result<ExitStatus> {
    if let [word @ ("show" | "allow")] = &args.agents.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return Err(moved(word).into());
    }
    let mut place = SetupPlace::of_user(args.project.then(working_directory))?;
    let agents = args.chosen(&place)?;
    let Some(mut agents) = agents else {
        args.check_list()?;
        return list(context, &place);
    };
    let wanted = WantedSetup {
        parts: args.parts(),
        reach: if args.project { Reach::Project } else { Reach::User },
        home: context.home_flag(),
        remove: args.remove,
    };
    if !args.all {
        agents
            .iter()
            .try_for_each(|agent| supports(*agent, args, &wanted))?;
    }
    if args.check {
        return check(context, &agents, &wanted, &place, !args.names_parts());
    }
    let mut changes = Vec::new();
    let mut status = ExitStatus::Success;
    // All changes are computed first. An unreadable file of one agent stops that agent alone.
    let mut failed = Vec::new();
    for agent in &agents {
        match agent.changes(&wanted, &place) {
            Ok(found) => changes.extend(found),
            Err(error) if agents.len() == 1 => return Err(error),
            Err(error) => {
                status = crate::report(context.out, &error);
                failed.push(*agent);
            }
        }
    }
    agents.retain(|agent| !failed.contains(agent));
    if !context.out.is_json() {
        for change in &changes {
            print_change(context.out, change)?;
        }
    }
    let is_wanted = !changes.is_empty() && !args.dry_run;
    if is_wanted && !confirm(context.out, question(&changes, args.remove), args.yes)? {
        return Ok(ExitStatus::No);
    }
    if is_wanted {
        // Each change checks again that its file is as it was shown.
        for change in &changes {
            change.make(&mut place.records, wanted.remove)?;
        }
        verify(&agents, &wanted, &place)?;
    }
    report(context, &agents, &wanted, &place, is_wanted)?;
    Ok(status)
}

/// Whether an agent that was named has a place for what was asked for.
fn supports(agent: Agent, args: &SetupArgs, wanted: &WantedSetup) -> Result<(), Failure> {
    if wanted.remove && !args.names_parts() {
        return Ok(());
    }
    let missing = agent.parts_left_out(wanted);
    let Some(part) = missing.first() else {
        return Ok(());
    };
    let of = |reach| {
        let supported = SetupPart::ALL
            .into_iter()
            .filter(|part| agent.has_place(*part, reach));
        let flags: Vec<String> = supported.map(|part| format!("--{}", part.as_str())).collect();
        flags.join(", ")
    };
    let (name, part) = (agent.name(), part.as_str());
    let (text, hint) = match wanted.reach {
        Reach::Project => (
            format!("{name} has no settings of a project for --{part}"),
            match of(Reach::Project) {
                supported if supported.is_empty() => {
                    format!("without --project, it supports {}", of(Reach::User))
                }
                supported => format!("with --project, it supports {supported}"),
            },
        ),
        Reach::User => (
            format!("{name} does not support --{part}"),
            format!("it supports {}", of(Reach::User)),
        ),
    };
    Err(Failure::new("usage", ExitStatus::BadInput, text).hint(Some(hint)))
}

impl SetupArgs {
    fn names_parts(&self) -> bool {
        self.mcp || self.hooks || self.worktrees || self.skill
    }

    /// A list takes no flags that are about agents: it must not look as if they had been set up.
    fn check_list(&self) -> Result<(), Failure> {
        let flags = [
            (self.check, "check"),
            (self.remove, "remove"),
            (self.dry_run, "dry-run"),
            (self.yes, "yes"),
            (self.mcp, "mcp"),
            (self.hooks, "hooks"),
            (self.worktrees, "worktrees"),
            (self.skill, "skill"),
        ];
        let Some((_, flag)) = flags.into_iter().find(|(given, _)| *given) else {
            return Ok(());
        };
        let text = format!("--{flag} needs an agent");
        let hint = format!("`avfs setup --all --{flag}` means all agents that are found here");
        Err(Failure::new("usage", ExitStatus::BadInput, text).hint(Some(hint)))
    }

    fn parts(&self) -> Vec<SetupPart> {
        let chosen = [
            (self.mcp, SetupPart::Mcp),
            (self.hooks, SetupPart::Hooks),
            (self.worktrees, SetupPart::Worktrees),
            (self.skill, SetupPart::Skill),
        ];
        let parts: Vec<SetupPart> = chosen
            .into_iter()
            .filter(|(chosen, _)| *chosen)
            .map(|(_, part)| part)
            .collect();
        match (parts.is_empty(), self.remove) {
            (false, _) => parts,
            // If no part is named, all of them are removed.
            (true, true) => SetupPart::ALL.to_vec(),
            (true, false) => vec![SetupPart::Mcp],
        }
    }

    /// The agents that are named; `None`: they are only to be listed.
    fn chosen(&self, place: &SetupPlace) -> Result<Option<Vec<Agent>>, Failure> {
        if self.all {
            return Ok(Some(
                Agent::ALL
                    .into_iter()
                    .filter(|agent| agent.is_here(place))
                    .collect(),
            ));
        }
        let named = self
            .agents
            .iter()
            .map(|name| Agent::named(name).ok_or_else(|| unknown(name)));
        let named = named.collect::<Result<Vec<Agent>, Failure>>()?;
        Ok(Some(named).filter(|named| !named.is_empty()))
    }
}

/// An agent of this machine.
pub struct FoundAgent {
    agent: Agent,
    pub name: &'static str,
    /// Its program, if it is one for a terminal.
    pub program: Option<&'static str>,
    /// The file of the user's settings that would change.
    pub file: Option<PathBuf>,
    /// It has the tools of `avfs mcp` for all projects.
    pub is_set_up: bool,
}

/// The agents that are found on this machine.
pub fn found_agents() -> Result<Vec<FoundAgent>> {
    let place = SetupPlace::of_user(None)?;
    let here = Agent::ALL.into_iter().filter(|agent| agent.is_here(&place));
    Ok(here
        .map(|agent| FoundAgent {
            agent,
            name: agent.name(),
            program: agent.terminal_program(),
            file: agent.file_of(SetupPart::Mcp, Reach::User, &place),
            is_set_up: agent
                .is_configured(SetupPart::Mcp, &WantedSetup::tools(), &place)
                .unwrap_or(false),
        })
        .collect())
}

/// Gives an agent the tools of `avfs mcp` for all projects.
pub fn set_up(context: &mut Context<'_>, found: &FoundAgent) -> Result<()> {
    let (mut place, wanted) = (SetupPlace::of_user(None)?, WantedSetup::tools());
    for change in found.agent.changes(&wanted, &place)? {
        print_change(context.out, &change)?;
        change.make(&mut place.records, false)?;
    }
    verify(&[found.agent], &wanted, &place)
}

/// The words of what an earlier `avfs setup` did.
fn moved(word: &str) -> Failure {
    let text = format!("`avfs setup {word}` is now `avfs project setup {word}`");
    Failure::new("usage", ExitStatus::BadInput, text).hint(Some(
        "`avfs setup` sets up agents: `avfs setup --help`".to_owned(),
    ))
}

fn unknown(name: &str) -> Failure {
    let names: Vec<&str> = Agent::ALL.iter().map(|agent| agent.name()).collect();
    let near = crate::suggest::closest(name, names.iter().copied());
    let text = format!(
        "setup knows no agent '{}'",
        crate::escape::printable(name.as_bytes())
    );
    Failure::new("unknown-agent", ExitStatus::NotFound, text).hint(Some(match near {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("it knows {}", names.join(", ")),
    }))
}

fn question(changes: &[SetupChange], remove: bool) -> String {
    let what = if remove { "Remove this" } else { "Make this change" };
    if changes.len() == 1 {
        format!("{what}?")
    } else {
        format!("{what} ({} steps)?", changes.len())
    }
}

/// What was written is read again: a file that the agent could not read would be worse than none.
fn verify(agents: &[Agent], wanted: &WantedSetup, place: &SetupPlace) -> Result<()> {
    for agent in agents {
        for part in agent.parts_of(wanted) {
            let state = agent.is_configured(part, wanted, place)?;
            // After a removal it must not be configured, otherwise it must be.
            if state == wanted.remove {
                let text = format!(
                    "{}: {} is not as it should be after the change",
                    agent.name(),
                    part.as_str()
                );
                return Err(Failure::new("agent-refused", ExitStatus::Refused, text).into());
            }
        }
    }
    Ok(())
}

fn check(
    context: &mut Context<'_>,
    agents: &[Agent],
    wanted: &WantedSetup,
    place: &SetupPlace,
    with_traces: bool,
) -> Result<ExitStatus> {
    let mut body = body(agents, wanted, place, false)?;
    if with_traces {
        for (agent, body) in agents.iter().zip(&mut body.agents) {
            for part in agent.traced_parts(wanted, place) {
                body.parts.push(PartBody {
                    part: part.as_str(),
                    configured: agent.is_configured(part, wanted, place).unwrap_or(false),
                    file: agent.file_of(part, wanted.reach, place),
                });
            }
        }
    }
    let is_complete = body
        .agents
        .iter()
        .flat_map(|agent| &agent.parts)
        .all(|part| part.configured);
    if context.out.is_json() {
        context.out.object("agent-setup", &body)?;
    } else {
        print_states(context, &body)?;
    }
    Ok(if is_complete {
        ExitStatus::Success
    } else {
        ExitStatus::No
    })
}

fn list(context: &mut Context<'_>, place: &SetupPlace) -> Result<ExitStatus> {
    let wanted = WantedSetup::tools();
    let body = body(&Agent::ALL, &wanted, place, false)?;
    if context.out.is_json() {
        context.out.object("agent-setup", &body)?;
        return Ok(ExitStatus::Success);
    }
    for agent in body.agents.iter().filter(|agent| agent.found) {
        let state = if agent.parts.iter().all(|part| part.configured) {
            "set up"
        } else {
            "not set up"
        };
        context.out.line(format_args!("{:<10} {state}", agent.agent))?;
    }
    if body.agents.iter().any(|agent| agent.found) {
        context
            .out
            .talk("set one up with `avfs setup AGENT`, or all of them with `avfs setup --all`");
    } else {
        context
            .out
            .talk("no agent is found here; `avfs setup AGENT` sets one up all the same");
    }
    Ok(ExitStatus::Success)
}

fn print_states(context: &mut Context<'_>, body: &SetupBody) -> Result<()> {
    for agent in &body.agents {
        for part in &agent.parts {
            let state = if part.configured { "set up" } else { "missing" };
            context
                .out
                .line(format_args!("{:<10} {:<10} {state}", agent.agent, part.part))?;
        }
    }
    Ok(())
}

fn report(
    context: &mut Context<'_>,
    agents: &[Agent],
    wanted: &WantedSetup,
    place: &SetupPlace,
    changed: bool,
) -> Result<ExitStatus> {
    if context.out.is_json() {
        context
            .out
            .object("agent-setup", &body(agents, wanted, place, changed)?)?;
        return Ok(ExitStatus::Success);
    }
    for agent in agents {
        for part in agent.parts_of(wanted).into_iter().filter(|_| changed) {
            let (name, part_name) = (agent.name(), part.as_str());
            let state = if wanted.remove { "removed" } else { "set up" };
            // `verify` has read it.
            if let Some(file) = agent.file_of(part, wanted.reach, place) {
                context.out.talk(format_args!(
                    "{name}: {part_name} {state} and checked ({})",
                    crate::escape::printable_path(&file)
                ));
            }
        }
        for part in agent
            .parts_left_out(wanted)
            .into_iter()
            .filter(|_| !wanted.remove)
        {
            let name = agent.name();
            context
                .out
                .talk(format_args!("{name} has no place for {}", part.as_str()));
        }
        for note in agent.notes(wanted).iter().filter(|_| changed && !wanted.remove) {
            context.out.talk(format_args!("{}: {note}", agent.name()));
        }
    }
    if !changed {
        context.out.talk("nothing was changed");
    }
    Ok(ExitStatus::Success)
}

fn body(agents: &[Agent], wanted: &WantedSetup, place: &SetupPlace, changed: bool) -> Result<SetupBody> {
    let mut bodies = Vec::new();
    for agent in agents {
        let mut parts = Vec::new();
        for part in agent.parts_of(wanted) {
            parts.push(PartBody {
                part: part.as_str(),
                // A file that cannot be read has nothing of ours in it that would work.
                configured: agent.is_configured(part, wanted, place).unwrap_or(false),
                file: agent.file_of(part, wanted.reach, place),
            });
        }
        bodies.push(AgentBody {
            agent: agent.name(),
            found: agent.is_here(place),
            parts,
        });
    }
    Ok(SetupBody {
        agents: bodies,
        changed,
    })
}
