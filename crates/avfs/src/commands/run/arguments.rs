//! The arguments of `avfs run`, and the resulting run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentvfs::exec::sandbox::limits::memory_gap;
use agentvfs::exec::sandbox::profile::{FALLBACK, Profile};
use agentvfs::exec::sandbox::{Network, RunLimits};
use agentvfs::exec::{Program, PublishedBody};
use agentvfs::hidden::with_tracked_opened;
use agentvfs::rules::Rule;
use agentvfs::{Error, Task};
use anyhow::Result;

use super::making::{WantedTask, given_rules};
use super::surroundings::Surroundings;
use super::withdrawing::MadeObjects;
use crate::commands::profiles;
use crate::context::Context;
use crate::env_args::EnvArgs;
use crate::network_args::{self, NetworkArgs, warn_of_proxies};
use crate::printer::Printer;
use crate::rule_args::{Chosen, RuleArgs};
use crate::size::parse_memory;
use crate::time::span_or_seconds;
use crate::unreached::{quoted, typed};

/// Run a program on a private fork of this project
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The project is the one to which the working directory belongs: a git repository, or the
directory itself. The program sees it at its own path; your files do not change until
`avfs apply`. Without a command, your shell runs.

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
    /// Continue in this task
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    #[command(flatten)]
    network: NetworkArgs,
    /// Use this profile, which says what the program needs [default: the profile for its name]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Run it in the background, in a terminal of its own; `avfs task attach` joins it
    #[arg(short, long)]
    pub(super) detach: bool,
    /// Limit the memory of all its processes together, such as 4G [default: the setting run.memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    memory: Option<u64>,
    /// End it after this long, such as 90s, 5m or 1h30m; a bare number is seconds [default: the setting run.timeout]
    #[arg(long, value_name = "DURATION", value_parser = span_or_seconds)]
    timeout: Option<Duration>,
    /// Limit how many processes it has at once [default: the setting run.pids]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pids: Option<u64>,
    /// If the program exits with status 0, apply what it changed to the project
    #[arg(long)]
    pub(super) apply_on_success: bool,
    #[command(flatten)]
    env: EnvArgs,
    /// A program and its arguments [default: your shell]
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub(super) command: Vec<OsString>,
}

/// The run that is about to start.
pub(super) struct Start {
    pub(super) task: Task,
    /// The objects that were created for this run.
    pub(super) made: Option<MadeObjects>,
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
        // Git's settings and the like are looked up on this machine while the task is being made.
        let root = context.task_store()?.projects().root_of(&here).ok();
        let (task, ahead) = std::thread::scope(|scope| {
            let (profile, command) = (&profile, &command[..]);
            let look = |root| scope.spawn(move || Surroundings::of(profile, command, root));
            let ahead = root.as_deref().map(look);
            let task = self.task(context, &here, command, profile);
            (task, ahead.and_then(|ahead| ahead.join().ok()))
        });
        let (task, made) = task?;
        let ahead = ahead.filter(|_| root.as_deref() == Some(task.root()));
        let surroundings = ahead.unwrap_or_else(|| Surroundings::of(&profile, &command, task.root()));
        let program = Program {
            cwd: within(&here, task.root()),
            env: surroundings
                .env
                .into_iter()
                .chain(self.env.given())
                .chain(self.env.passed())
                .collect(),
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
        Ok(Start {
            task,
            made,
            program,
            profile,
        })
    }

    /// Without time and memory limits, unless the user sets them: a person watches.
    fn limits(&self, context: &Context<'_>) -> RunLimits {
        let usual = context.settings.run_limits();
        RunLimits {
            timeout: self.timeout.or(usual.timeout),
            memory: self.memory.or(usual.memory),
            pids: self.pids.or(usual.pids),
            output_bytes: 64 << 10,
            ..RunLimits::default()
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
            out.warn(format_args!(
                "profile '{}' is not used: {}",
                broken.name, broken.error
            ));
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

    /// The named task, or a new one of the project of the current directory, with the project's set-up.
    fn task(
        &self,
        context: &mut Context<'_>,
        here: &Path,
        command: &[OsString],
        profile: &Profile,
    ) -> Result<(Task, Option<MadeObjects>)> {
        if let Some(name) = &self.task {
            let here = context.task_store()?.projects().here(here)?;
            let task = here.task(name)?;
            context.refuse_other_vault(&here, name, &task)?;
            return Ok((task.beginning_now()?, None));
        }
        let words: Vec<String> = command
            .iter()
            .map(|word| crate::escape::printable_os(word))
            .collect();
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

    /// The rules with which a new task was made; for an existing one, those of the flags or those stored with
    /// it, if any. Files that git tracks are visible in both cases, unless they are keys or credentials.
    fn rules_for(&self, task: &Task) -> Result<Option<Vec<Rule>>> {
        let usual = task.vault().rules_for_programs()?;
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
    /// One line about the run that is about to start.
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
        out.talk(format_args!(
            "task {}, profile {}, {network}",
            self.task.name(),
            self.profile.name
        ));
        network_args::announce(out, &self.published());
        if let Some(gap) = memory_gap(&self.program.limits) {
            out.talk(format_args!("{gap}; `avfs doctor` says how to get them"));
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
        words.extend(
            task.into_iter()
                .flat_map(|task| ["--task".to_owned(), task.to_owned()]),
        );
        let profile = self
            .profile
            .iter()
            .flat_map(|name| ["--profile".to_owned(), name.clone()]);
        words.extend(
            profile
                .chain(self.network.typed())
                .chain(["--net".to_owned(), net.to_owned()]),
        );
        if !self.command.is_empty() {
            words.push("--".to_owned());
            words.extend(self.command.iter().map(|word| typed(word)));
        }
        quoted(&words)
    }
}

fn reached(profile: &Profile) -> Network {
    if profile.hosts.is_empty() {
        Network::None
    } else {
        Network::Hosts(profile.hosts.clone())
    }
}

/// The directory that one is in, if it is in the project.
fn within(here: &Path, root: &Path) -> PathBuf {
    let here = here.canonicalize().unwrap_or_else(|_| here.to_owned());
    if here.starts_with(root) {
        here
    } else {
        root.to_owned()
    }
}
