//! The arguments of `avfs run`, and what they come to.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentvfs::exec::boundary::limits::memory_gap;
use agentvfs::exec::boundary::profile::{FALLBACK, Profile};
use agentvfs::exec::boundary::{Limits, Network};
use agentvfs::exec::{Program, ProgramError, PublishedBody};
use agentvfs::hidden::with_tracked_opened;
use agentvfs::rules::Rule;
use agentvfs::{Error, Task};
use anyhow::Result;

use super::making::{WantedTask, given_rules};
use super::surroundings::Surroundings;
use super::withdrawing::Made;
use crate::commands::profiles;
use crate::context::Context;
use crate::env_args::EnvArgs;
use crate::network_args::{self, NetworkArgs, warn_of_proxies};
use crate::printer::Printer;
use crate::rule_args::{Chosen, RuleArgs};
use crate::size::parse_size;
use crate::time::parse_span;
use crate::unreached::{quoted, typed};

/// Run a program on a private fork of this project
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The project is the one that the working directory belongs to: a git repository, or the
directory itself. Inside, it is at its own path; nothing in it changes until
`avfs apply`. Without a command, your shell is run.

The exit status is the program's own.

Examples:
  avfs run
  avfs run -- claude
  avfs run --name fix-login -- codex
  avfs run --detach -- claude \"fix the login\"       in the background; `avfs task attach`
  avfs run --task fix-login
  avfs run --net none -- make test
  avfs run --net +npm,+github -- claude
  avfs run --net 127.0.0.1:11434 -- aider
  avfs run --publish 5173 -- npm run dev
  avfs run --apply-on-success -- npm run format
  avfs run --json -- ./build.sh | jq .changed_files"
)]
pub struct RunArgs {
    #[command(flatten)]
    pub rules: RuleArgs,
    /// Name the new task
    #[arg(long, value_name = "TASK", conflicts_with = "task")]
    name: Option<String>,
    /// Go on with a task
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    #[command(flatten)]
    network: NetworkArgs,
    /// What the program needs of this machine [default: the profile for its name]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Start it in the background, in a terminal of its own: `avfs task attach` joins it
    #[arg(short, long)]
    pub(super) detach: bool,
    /// Memory for all its processes together, such as 4G [default: the setting run.memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// End it after so long, such as 30m [default: the setting run.timeout]
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    timeout: Option<Duration>,
    /// How many processes it may have at a time [default: the setting run.pids]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pids: Option<u64>,
    /// If the program ends with status 0, apply what it changed to the project
    #[arg(long)]
    pub(super) apply_on_success: bool,
    #[command(flatten)]
    env: EnvArgs,
    /// A program and its arguments [default: your shell]
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// What is about to be run.
pub(super) struct Start {
    pub(super) task: Task,
    /// What was made for this run.
    pub(super) made: Option<Made>,
    pub(super) program: Program,
    pub(super) profile: Profile,
}

impl RunArgs {
    pub(super) fn start(&self, context: &mut Context<'_>) -> Result<Start> {
        let command = self.command();
        let here = std::env::current_dir().map_err(|source| Error::Host {
            action: "finding",
            place: "the working directory".to_owned(),
            source,
        })?;
        let profile = self.profile(context.out, &command)?;
        let network = self.network.network(reached(&profile));
        let published = self.network.publish(&network)?;
        self.env.warn(context.out);
        warn_of_proxies(context.out, &network);
        let (task, made) = self.task(context, &here, &command, &profile)?;
        let surroundings = Surroundings::of(&profile, &command, task.root());
        let program = Program {
            cwd: within(&here, task.root()),
            env: surroundings.env.into_iter().chain(self.env.given()).chain(self.env.passed()).collect(),
            caller_env: std::env::vars_os().collect(),
            toolchains: surroundings.toolchains,
            network,
            published,
            limits: self.limits(context),
            rules: self.rules_for(&task)?,
            user: surroundings.user,
            home: surroundings.home,
            transport: context.settings.transport(),
            command,
        };
        Ok(Start { task, made, program, profile })
    }

    /// As long as it takes, and as much memory as there is, unless the user says otherwise: a person watches.
    fn limits(&self, context: &Context<'_>) -> Limits {
        let usual = context.settings.run_limits();
        Limits {
            timeout: self.timeout.or(usual.timeout),
            memory: self.memory.or(usual.memory),
            pids: self.pids.or(usual.pids),
            output_bytes: 64 << 10,
            ..Limits::default()
        }
    }

    /// The profile of the flag, or the one for the program.
    fn profile(&self, out: &mut Printer, command: &[OsString]) -> Result<Profile> {
        let profiles = profiles::load()?;
        let found = match (&self.profile, command.first()) {
            (Some(name), _) => profiles::named(&profiles, name)?,
            (None, Some(program)) => match profiles.for_command(program)? {
                Some(profile) => profile,
                None => profiles::named(&profiles, FALLBACK)?,
            },
            (None, None) => profiles::named(&profiles, FALLBACK)?,
        };
        for broken in profiles.broken() {
            out.warn(format_args!("profile '{}' is not used: {}", broken.name, broken.error));
        }
        Ok(found.clone())
    }

    fn command(&self) -> Vec<OsString> {
        if !self.command.is_empty() {
            return self.command.clone();
        }
        let shell = std::env::var_os("SHELL").filter(|shell| Path::new(shell).is_absolute());
        vec![shell.unwrap_or_else(|| "/bin/sh".into())]
    }

    /// The task that was named, or a new one of the project that we are in, with what the project gives to each.
    fn task(
        &self,
        context: &mut Context<'_>,
        here: &Path,
        command: &[OsString],
        profile: &Profile,
    ) -> Result<(Task, Option<Made>)> {
        if let Some(name) = &self.task {
            return Ok((context.task_store()?.here(here)?.task(name)?.beginning_now()?, None));
        }
        let words: Vec<String> = command.iter().map(|word| crate::escape::printable_os(word)).collect();
        let wanted = WantedTask {
            name: self.name.as_deref(),
            command: words.join(" "),
            automatic: self.name.is_none(),
            profile: Some(profile.name.clone()),
            rules: given_rules(&self.rules)?,
        };
        let (task, made) = wanted.make(context, here)?;
        Ok((task, Some(made)))
    }

    /// The rules that a new task was made with; for one that goes on, those of the flags, if there are any. What git tracks
    /// is opened in both cases, unless it is a key or a credential.
    fn rules_for(&self, task: &Task) -> Result<Option<Vec<Rule>>> {
        let usual = task.rules()?.map(|rules| rules.list().to_vec());
        match self.rules.read_on_top_of(usual.as_deref().unwrap_or_default())? {
            Chosen::These(rules) if self.task.is_some() => {
                Ok(Some(with_tracked_opened(task.root(), rules.list())))
            }
            Chosen::Stored | Chosen::These(_) => Ok(usual),
            Chosen::Everything => Ok(None),
        }
    }
}

impl Start {
    /// One line about what is about to happen.
    pub(super) fn announce(&self, out: &mut Printer) {
        let network = match &self.program.network {
            Network::None => "no network".to_owned(),
            Network::Host => "network of the host".to_owned(),
            Network::Hosts(hosts) => match &hosts[..] {
                [] => "no network".to_owned(),
                [one] => format!("network: {one}"),
                [first, rest @ ..] => format!("network: {first} and {} more", rest.len()),
            },
        };
        out.talk(format_args!("task {}, profile {}, {network}", self.task.name(), self.profile.name));
        network_args::announce(out, &self.published());
        if let Some(gap) = memory_gap(&self.program.limits) {
            out.talk(gap);
        }
    }
}

impl Start {
    pub(super) fn published(&self) -> Vec<PublishedBody> {
        self.program.published.iter().map(PublishedBody::from).collect()
    }
}

impl RunArgs {
    /// The same run with more to reach, as one types it: in the task, if that stays.
    pub(super) fn again(&self, task: Option<&str>, net: &str) -> String {
        let mut words: Vec<String> = vec!["avfs".to_owned(), "run".to_owned()];
        words.extend(task.into_iter().flat_map(|task| ["--task".to_owned(), task.to_owned()]));
        let profile = self.profile.iter().flat_map(|name| ["--profile".to_owned(), name.clone()]);
        words.extend(profile.chain(self.network.typed()).chain(["--net".to_owned(), net.to_owned()]));
        if !self.command.is_empty() {
            words.push("--".to_owned());
            words.extend(self.command.iter().map(|word| typed(word)));
        }
        quoted(&words)
    }
}

fn reached(profile: &Profile) -> Network {
    match profile.hosts.is_empty() {
        true => Network::None,
        false => Network::Hosts(profile.hosts.clone()),
    }
}

/// The directory that one is in, if it is in the project.
fn within(here: &Path, root: &Path) -> PathBuf {
    let here = here.canonicalize().unwrap_or_else(|_| here.to_owned());
    if here.starts_with(root) { here } else { root.to_owned() }
}

/// The codes that programs decide by.
pub(super) fn code_of(error: &ProgramError) -> &'static str {
    match error {
        ProgramError::Library(error) => error.code(),
        ProgramError::Launch(error) => error.code(),
    }
}
