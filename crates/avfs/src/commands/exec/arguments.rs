//! The arguments of `avfs exec`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentvfs::Vault;
use agentvfs::exec::sandbox::classify::Command;
use agentvfs::exec::sandbox::policy::Policy;
use agentvfs::exec::sandbox::{Network, RunLimits};
use agentvfs::exec::{Asking, CheckpointMode, IsolationChoice, RunSpec};
use agentvfs::rules::{Rule, Rules};
use anyhow::Result;

use crate::args::{PathArg, path_arg};
use crate::context::Context;
use crate::env_args::EnvArgs;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::here::start_directory;
use crate::image_args::ImageArgs;
use crate::network_args::{NetworkArgs, warn_of_proxies};
use crate::rule_args::{RuleArgs, SHOW_THE_REST, hide_everything};
use crate::size::{parse_memory, parse_size};
use crate::time::{span_or_milliseconds, span_or_seconds};
use crate::unreached::{quoted, typed};

/// Run a command on a vault, in a sandbox
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The command sees the vault through the rules: a task or the vault of a project at the path of \
its directory, any other vault at /workspace. It can change nothing else on this machine. Compilers and tool caches are \
available as in `avfs run`.

The policy decides first what the command may do. A command that only reads runs on a read-only vault. A command that \
changes files runs after a checkpoint. Network access or a port that the policy does not grant, and anything that might \
affect the host, needs an approval: on a terminal you are asked; otherwise a person approves it with `avfs approvals \
allow`, and the same command then runs. `avfs policy check` shows the decision without running anything.

With `--image`, the sandbox has the root directory of an image instead of this machine's system. It keeps what commands \
change in it, as the vault VAULT.IMAGE; without a command, the image's own is run.

The exit status is the command's own, or else 121 if it needs an approval, 122 if the policy denies it, 123 if it cannot \
be isolated, and 124 if it took too long.

Examples:
  avfs exec -- cargo test
  avfs exec -c 'make && ls -l out'
  avfs exec --preset development --timeout 5m -- npm test
  avfs exec --net +crates -- cargo fetch
  avfs exec --net 127.0.0.1:5432 --env DATABASE_URL -- npm test
  avfs exec --image bookworm -c 'apt-get install -y ./tool.deb'
  avfs exec --wait 5m --net example.com -- curl https://example.com
  avfs exec --json -- python3 /src/main.py"
)]
pub struct ExecCommandArgs {
    #[command(flatten)]
    pub rules: RuleArgs,
    /// Record this name in the audit log as the principal of the run
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Start in this directory of the vault, or at an absolute path in the sandbox [default: this directory, if the
    /// vault is a copy of the project that it is in]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Show only this directory of the vault to the command
    #[arg(long, value_name = "DIR", value_parser = path_arg())]
    path: Option<PathArg>,
    #[command(flatten)]
    pub image: ImageArgs,
    #[command(flatten)]
    env: EnvArgs,
    /// Pass standard input to the command
    #[arg(long)]
    pub stdin: bool,
    /// End it after this long, such as 90s, 5m or 1h30m; a bare number is milliseconds [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = span_or_milliseconds)]
    timeout: Option<Duration>,
    /// Limit the memory of all its processes together, such as 512M
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<u64>,
    /// Limit how many processes it has at a time
    #[arg(long, value_name = "N")]
    pids: Option<u64>,
    /// Limit the processor time, such as 90s or 5m; a bare number is seconds
    #[arg(long, value_name = "DURATION", value_parser = span_or_seconds)]
    cpu: Option<Duration>,
    /// Keep at most this much of each output stream [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    output_limit: Option<u64>,
    #[command(flatten)]
    network: NetworkArgs,
    /// Do not allow changes, whatever the command is
    #[arg(long)]
    read_only: bool,
    /// When to save a checkpoint first: auto, always or never
    #[arg(long, value_name = "WHEN", value_parser = checkpoint_mode, default_value = "auto")]
    checkpoint: CheckpointMode,
    /// Use this policy file [default: the policy that `avfs policy set` stored]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// If it needs an approval, wait for the answer: this long (90s, 5m; a bare number is seconds), or as long as it takes
    #[arg(long, value_name = "DURATION", num_args = 0..=1, value_parser = span_or_seconds)]
    wait: Option<Option<Duration>>,
    /// Do not ask anyone: deny what needs an approval
    #[arg(long, conflicts_with = "wait")]
    no_ask: bool,
    /// Report the decision without running the command
    #[arg(long)]
    dry_run: bool,
    /// If the command exits with status 0, apply what the task changed to its directory, all or nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub apply_on_success: bool,
    /// The kind of sandbox: bubblewrap, oci for a container on an image, docker for one by Docker's or Podman's daemon, or
    /// landlock where there are no namespaces
    #[arg(long, value_name = "WHAT", value_parser = isolation, default_value = "bubblewrap")]
    isolation: IsolationChoice,
    /// Print one JSON object per piece of output, and the result at the end
    #[arg(long)]
    pub stream: bool,
    /// Run this line in a shell
    #[arg(short = 'c', value_name = "LINE", conflicts_with = "command")]
    line: Option<String>,
    /// A program and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl ExecCommandArgs {
    /// Checks that there is something to run: an image has a command of its own.
    pub fn check_command(&self) -> Result<(), Failure> {
        if self.line.is_some() || !self.command.is_empty() || self.image.image.is_some() {
            return Ok(());
        }
        let hint = "name it with `avfs exec -- COMMAND`, or a line for a shell with `avfs exec -c 'LINE'`";
        Err(
            Failure::new("usage", ExitStatus::BadInput, "there is no command to run")
                .hint(Some(hint.to_owned())),
        )
    }

    pub fn request(&self, context: &mut Context<'_>, vault: &Vault) -> Result<RunSpec> {
        let mut cwd = self.cwd.clone();
        let command = match (&self.line, &self.image.image) {
            (Some(line), _) => Command::Shell(line.clone()),
            (None, Some(image)) if self.command.is_empty() => {
                let (words, directory) = command_of_image(vault, image)?;
                cwd = cwd.or(directory);
                Command::Argv(words)
            }
            (None, _) => Command::Argv(self.command.clone()),
        };
        let network = self.network.network(Network::None);
        let published = if self.dry_run {
            self.network.published_unopened()
        } else {
            self.network.publish(&network)?
        };
        self.env.warn(context.out);
        warn_of_proxies(context.out, &network);
        let cwd = match (&cwd, &self.path) {
            // What this machine calls its directories means nothing in an image.
            (None, None) if self.image.image.is_some() => None,
            (None, None) => start_directory(vault)?,
            (given, _) => given.clone(),
        };
        Ok(RunSpec {
            cwd,
            path: self.path.as_ref().map(|path| context.path(path)).transpose()?,
            image: self.image.image.clone(),
            read_only_root: self.image.read_only_root,
            env: self.env.given(),
            passed: self.env.passed(),
            caller_env: std::env::vars_os().collect(),
            home: std::env::home_dir(),
            limits: self.limits(),
            network,
            published,
            read_only: self.read_only,
            checkpoint: self.checkpoint,
            rules: shown_to_programs(&self.rules, vault)?,
            principal: self.principal.clone(),
            policy: policy(self.policy.as_deref())?,
            asking: self.asking(),
            dry_run: self.dry_run,
            isolation: self.isolation,
            container_runtime: context.settings.container_runtime(),
            transport: context.settings.transport(),
            ..RunSpec::new(command)
        })
    }

    /// Whether the user's terminal is available for a question.
    pub fn may_ask_here(&self) -> bool {
        !self.stdin && !self.no_ask && !self.dry_run
    }

    /// The same command with more to reach, as one types it.
    pub fn again(&self, vault: &str, net: &str) -> String {
        let mut words: Vec<String> = ["avfs", "exec", "--vault", vault].map(str::to_owned).to_vec();
        words.extend(
            self.network
                .typed()
                .into_iter()
                .chain(["--net".to_owned(), net.to_owned()]),
        );
        words.extend(self.image.typed());
        match &self.line {
            Some(line) => words.extend(["-c".to_owned(), line.clone()]),
            None => {
                words.push("--".to_owned());
                words.extend(self.command.iter().map(|word| typed(word)));
            }
        }
        quoted(&words)
    }

    fn asking(&self) -> Asking {
        match (self.no_ask, self.wait) {
            (true, _) => Asking::Never,
            (false, None) => Asking::Ask,
            (false, Some(most)) => Asking::Wait(most),
        }
    }

    fn limits(&self) -> RunLimits {
        let usual = RunLimits::default();
        RunLimits {
            timeout: self.timeout.or(usual.timeout),
            memory: self.memory.or(usual.memory),
            pids: self.pids.or(usual.pids),
            cpu_seconds: self
                .cpu
                .map(|time| time.as_secs_f64().ceil() as u64)
                .or(usual.cpu_seconds),
            output_bytes: self.output_limit.map_or(usual.output_bytes, |bytes| {
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }),
            ..usual
        }
    }
}

/// The command of an image, and where it starts.
fn command_of_image(vault: &Vault, name: &str) -> Result<(Vec<OsString>, Option<PathBuf>)> {
    let image = vault.store().images().get(name)?.image().info()?;
    let config = image.map(|image| image.config).unwrap_or_default();
    let words: Vec<OsString> = config
        .entrypoint
        .iter()
        .chain(&config.cmd)
        .map(OsString::from)
        .collect();
    if words.is_empty() {
        let text = format!("image '{name}' has no command of its own");
        let hint = "name one behind `--`".to_owned();
        let failure = Failure::new("usage", ExitStatus::BadInput, text);
        return Err(failure.hint(Some(hint)).into());
    }
    let directory = PathBuf::from(&config.working_dir);
    Ok((words, directory.is_absolute().then_some(directory)))
}

/// The rules for a program. Where they hide everything, there is nothing to run it in.
fn shown_to_programs(args: &RuleArgs, vault: &Vault) -> Result<Option<Vec<Rule>>> {
    let Some(rules) = args.list_for_programs(vault)? else {
        return Ok(None);
    };
    if hide_everything(&Rules::shared(rules.clone()).map_err(agentvfs::Error::from)?) {
        let text = format!(
            "the rules hide all of vault '{}', so that nothing can run in it",
            vault.name()?
        );
        let hint = format!("{SHOW_THE_REST}; `avfs rules show` lists the stored rules");
        return Err(Failure::new("denied", ExitStatus::Denied, text)
            .hint(Some(hint))
            .into());
    }
    Ok(Some(rules))
}

/// The policy of a file; `None`: the one that is stored, or the built-in one.
pub fn policy(file: Option<&Path>) -> Result<Option<Policy>> {
    let Some(file) = file else { return Ok(None) };
    Ok(Some(
        Policy::parse(file, &policy_text(file)?).map_err(agentvfs::Error::from)?,
    ))
}

pub fn policy_text(file: &Path) -> Result<String> {
    let place = crate::escape::printable_path(file);
    let read = std::fs::read_to_string(file);
    Ok(read.map_err(|source| agentvfs::Error::Host {
        action: "reading",
        place,
        source,
    })?)
}

pub fn checkpoint_mode(text: &str) -> Result<CheckpointMode, String> {
    let known = CheckpointMode::ALL.into_iter().find(|mode| mode.as_str() == text);
    known.ok_or_else(|| "one of auto, always and never".to_owned())
}

pub fn isolation(text: &str) -> Result<IsolationChoice, String> {
    let known = IsolationChoice::ALL
        .into_iter()
        .find(|choice| choice.as_str() == text);
    known.ok_or_else(|| "one of bubblewrap, oci, docker and landlock".to_owned())
}
