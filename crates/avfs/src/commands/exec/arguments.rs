//! The arguments of `avfs exec`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentvfs::exec::boundary::classify::Command;
use agentvfs::exec::boundary::policy::Policy;
use agentvfs::exec::boundary::{Limits, Network};
use agentvfs::exec::{Asking, CheckpointMode, ExecRequest, IsolationChoice};
use agentvfs::{TreePath, Vault};
use anyhow::Result;

use crate::args::vault_path;
use crate::context::Context;
use crate::env_args::EnvArgs;
use crate::here::start_directory;
use crate::network_args::{NetworkArgs, warn_of_proxies};
use crate::rule_args::RuleArgs;
use crate::size::parse_size;
use crate::unreached::{quoted, typed};

/// Run a command in a sandbox, on a vault
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A task, and the vault of a project, is at the path of its directory, any other vault at \
/workspace, seen through the rules, and nothing else of this machine can be changed. Compilers and caches of \
tools are there as in `avfs run`. What the command may do is decided first: reading is allowed and gets a vault that cannot be \
written to; changing is allowed after a checkpoint; a network or a port that the policy does not grant, and what might reach the \
host, takes an approval, whatever the command is: on a terminal you are asked right there, otherwise a person gives it with `avfs approvals allow`, and the same \
command runs then. `avfs policy check` tells \
without running anything.

The exit status is the command's own. If there is none: 121 it takes an approval, 122 the policy denies it,
123 it could not be isolated, 124 it took too long.

Examples:
  avfs exec -- cargo test
  avfs exec -c 'make && ls -l out'
  avfs exec --preset development --timeout 60000 -- npm test
  avfs exec --net +crates -- cargo fetch
  avfs exec --net 127.0.0.1:5432 --env DATABASE_URL -- npm test
  avfs exec --wait 300 --net example.com -- curl https://example.com
  avfs exec --json -- python3 /src/main.py"
)]
pub struct ExecArgs {
    #[command(flatten)]
    pub rules: RuleArgs,
    /// Who runs it, for the audit log
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Start in this directory of the vault, or at an absolute path of the sandbox [default: this directory, if the
    /// vault is a copy of the project that it is in]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Work on this directory of the vault alone: it is all that is there
    #[arg(long, value_name = "DIR", value_parser = vault_path())]
    path: Option<TreePath>,
    #[command(flatten)]
    env: EnvArgs,
    /// Give standard input to the command
    #[arg(long)]
    pub stdin: bool,
    /// End it after so many milliseconds
    #[arg(long, value_name = "MS")]
    timeout: Option<u64>,
    /// Memory for all its processes together, such as 512M
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// How many processes it may have at a time
    #[arg(long, value_name = "N")]
    pids: Option<u64>,
    /// Seconds of processor time
    #[arg(long, value_name = "SECONDS")]
    cpu: Option<u64>,
    /// How much is kept of each stream of output (default 1M)
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    output_limit: Option<u64>,
    #[command(flatten)]
    network: NetworkArgs,
    /// Allow no changes, whatever the command is
    #[arg(long)]
    read_only: bool,
    /// When a checkpoint is saved before: auto, always or never
    #[arg(long, value_name = "WHEN", value_parser = checkpoint_mode, default_value = "auto")]
    checkpoint: CheckpointMode,
    /// Decide by this policy file [default: the one that `avfs policy set` stored]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// If it takes an approval, wait for the answer; for so many seconds, or as long as it takes
    #[arg(long, value_name = "SECONDS", num_args = 0..=1)]
    wait: Option<Option<u64>>,
    /// Nobody is there to ask: deny what takes an approval
    #[arg(long, conflicts_with = "wait")]
    no_ask: bool,
    /// Decide, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Bring what the task has changed into its directory if the command ends well, all of it or nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub apply_on_success: bool,
    /// What stands around the command: bubblewrap, or landlock where there are no namespaces
    #[arg(long, value_name = "WHAT", value_parser = isolation, default_value = "bubblewrap")]
    isolation: IsolationChoice,
    /// Print one JSON object for each piece of output, and the result at the end
    #[arg(long)]
    pub stream: bool,
    /// A line for a shell
    #[arg(short = 'c', value_name = "LINE", conflicts_with = "command", required_unless_present = "command")]
    line: Option<String>,
    /// A program and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl ExecArgs {
    pub fn request(&self, context: &mut Context<'_>, vault: &Vault) -> Result<ExecRequest> {
        let command = match &self.line {
            Some(line) => Command::Shell(line.clone()),
            None => Command::Argv(self.command.clone()),
        };
        let network = self.network.network(Network::None);
        let published = match self.dry_run {
            true => self.network.published_unopened(),
            false => self.network.publish(&network)?,
        };
        self.env.warn(context.out);
        warn_of_proxies(context.out, &network);
        let cwd = match (&self.cwd, &self.path) {
            (None, None) => start_directory(vault)?,
            (given, _) => given.clone(),
        };
        Ok(ExecRequest {
            cwd,
            path: self.path.clone(),
            env: self.env.given(),
            passed: self.env.passed(),
            caller_env: std::env::vars_os().collect(),
            home: std::env::home_dir(),
            limits: self.limits(),
            network,
            published,
            read_only: self.read_only,
            checkpoint: self.checkpoint,
            rules: self.rules.list_for_programs(vault)?,
            principal: self.principal.clone(),
            policy: policy(self.policy.as_deref())?,
            asking: self.asking(),
            dry_run: self.dry_run,
            isolation: self.isolation,
            transport: context.settings.transport(),
            ..ExecRequest::new(command)
        })
    }

    /// Whether the user's terminal is free for a question.
    pub fn may_ask_here(&self) -> bool {
        !self.stdin && !self.no_ask && !self.dry_run
    }

    /// The same command with more to reach, as one types it.
    pub fn again(&self, vault: &str, net: &str) -> String {
        let mut words: Vec<String> = ["avfs", "exec", "--vault", vault].map(str::to_owned).to_vec();
        words.extend(self.network.typed().into_iter().chain(["--net".to_owned(), net.to_owned()]));
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
            (false, Some(most)) => Asking::Wait(most.map(Duration::from_secs)),
        }
    }

    fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            timeout: self.timeout.map(Duration::from_millis).or(usual.timeout),
            memory: self.memory.or(usual.memory),
            pids: self.pids.or(usual.pids),
            cpu_seconds: self.cpu.or(usual.cpu_seconds),
            output_bytes: self
                .output_limit
                .map_or(usual.output_bytes, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            ..usual
        }
    }
}

/// The policy of a file; `None`: the one that is stored, or the built-in one.
pub fn policy(file: Option<&Path>) -> Result<Option<Policy>> {
    let Some(file) = file else { return Ok(None) };
    Ok(Some(Policy::parse(file, &policy_text(file)?).map_err(agentvfs::Error::from)?))
}

pub fn policy_text(file: &Path) -> Result<String> {
    let place = crate::escape::printable_path(file);
    let read = std::fs::read_to_string(file);
    Ok(read.map_err(|source| agentvfs::Error::Host { action: "reading", place, source })?)
}

pub fn checkpoint_mode(text: &str) -> Result<CheckpointMode, String> {
    let known = CheckpointMode::ALL.into_iter().find(|mode| mode.as_str() == text);
    known.ok_or_else(|| "one of auto, always and never".to_owned())
}

pub fn isolation(text: &str) -> Result<IsolationChoice, String> {
    let known = IsolationChoice::ALL.into_iter().find(|choice| choice.as_str() == text);
    known.ok_or_else(|| "one of bubblewrap and landlock".to_owned())
}
