//! `avfs session start`.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use agentvfs::exec::sandbox::classify;
use agentvfs::exec::sandbox::network::PublishedPort;
use agentvfs::exec::sandbox::{Network, RunLimits};
use agentvfs::exec::{CheckpointMode, IsolationChoice, PublishedBody, RunSpec};
use agentvfs::session::{SessionRecord, SessionRequest};
use agentvfs::{Error, Vault};
use anyhow::Result;
use serde::Serialize;

use super::serve;
use crate::commands::approvals::in_place;
use crate::commands::exec::{self, HostDoor, checkpoint_mode, policy};
use crate::context::Context;
use crate::env_args::EnvArgs;
use crate::exit::ExitStatus;
use crate::here::{Decided, VaultReason, start_directory, working_directory};
use crate::image_args::ImageArgs;
use crate::network_args::{NetworkArgs, announce, warn_of_proxies};
use crate::rule_args::RuleArgs;
use crate::size::{parse_memory, parse_size};
use crate::time::{BadSpan, span_or_milliseconds, span_or_seconds};

/// Start a shell in a sandbox that keeps its directory and variables between commands
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints the id of the session; `avfs session exec ID` runs commands in it. The rules, the \
network and the limits are fixed now and apply to all its commands; what each command may do is decided one by one. \
Network access or a port that the policy does not grant needs an approval: on a terminal you are asked; otherwise the \
command exits with status 121.

The session runs in the background until `avfs session stop`, until its shell exits, or until it has been idle for \
too long. Other programs can use the vault at the same time.

Examples:
  avfs session start
  avfs session start --vault web --preset development --cwd src
  avfs session start --net +crates --idle 10m
  avfs session start --publish 5173
  id=$(avfs session start) && avfs session exec $id -c 'cd src && make'"
)]
pub struct SessionStartArgs {
    #[command(flatten)]
    pub rules: RuleArgs,
    /// Record this name in the audit log as the principal who uses it
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Start in this directory of the vault, or at an absolute path in the sandbox
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    #[command(flatten)]
    image: ImageArgs,
    #[command(flatten)]
    env: EnvArgs,
    /// End each command after this long unless it says otherwise; a bare number is milliseconds [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = span_or_milliseconds)]
    timeout: Option<Duration>,
    /// Limit the memory of all its processes together, such as 512M
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    memory: Option<u64>,
    /// Limit how many processes it has at a time
    #[arg(long, value_name = "N")]
    pids: Option<u64>,
    /// Keep at most this much of each output stream of a command [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    output_limit: Option<u64>,
    #[command(flatten)]
    network: NetworkArgs,
    /// When to save a checkpoint before a command: auto, always or never
    #[arg(long, value_name = "WHEN", value_parser = checkpoint_mode, default_value = "auto")]
    checkpoint: CheckpointMode,
    /// Use this policy file [default: the policy that `avfs policy set` stored]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The kind of sandbox: bubblewrap, oci for a container on an image, or docker for one by Docker's or Podman's daemon
    #[arg(long, value_name = "WHAT", value_parser = isolation, default_value = "bubblewrap")]
    isolation: IsolationChoice,
    /// End it after this long without a command, such as 10m; a bare number is seconds [default: 30m]
    #[arg(long, value_name = "DURATION", value_parser = idle_limit)]
    idle: Option<Duration>,
    /// Said by a process to the one that it starts in the background
    #[arg(long, hide = true)]
    background_child: bool,
}

/// A session that ends immediately would be a mistake.
fn idle_limit(text: &str) -> Result<Duration, BadSpan> {
    span_or_seconds(text).and_then(|span| {
        if span.is_zero() {
            Err(BadSpan::new(text))
        } else {
            Ok(span)
        }
    })
}

/// A session that was started, in JSON.
#[derive(Serialize)]
struct SessionBody<'a> {
    id: &'a str,
    vault: &'a str,
    pid: u32,
    idle_limit_ms: u64,
    published: &'a [PublishedBody],
}

pub fn run(context: &mut Context<'_>, args: &SessionStartArgs) -> Result<ExitStatus> {
    let vault = context.whole_vault()?;
    vault.store().projects().check_directory_of(&vault)?;
    // The same arguments, read in the process that stays: it opens the ports and holds the sandbox.
    if args.background_child {
        let published = args.network.publish(&args.network.network(Network::None))?;
        let request = args.request(context, &vault, published)?;
        let (home, rules) = (context.home()?.to_owned(), request.exec.rules.clone());
        let door = HostDoor {
            home,
            vault: vault.name()?.to_string(),
            rules,
        };
        return serve::in_background(&vault, request, door);
    }
    // Warnings are printed once, by the process that has the session.
    args.env.warn(context.out);
    warn_of_proxies(context.out, &args.network.network(Network::None));
    if in_place::is_possible(context.out) {
        ask_first(context, args, &vault)?;
    }
    let said = start_process(context)?;
    let Some(id) = said.text.strip_prefix(serve::READY).map(str::trim) else {
        // It has already printed messages for the user; its output for programs is printed here.
        std::io::stdout().write_all(said.text.as_bytes())?;
        return Ok(said.status);
    };
    // Read from the record: the process that stays has written it before it reported the id.
    let session = vault.store().sessions().get(id)?;
    if context.out.is_json() {
        let record = session.record();
        let SessionRecord {
            vault,
            idle_limit_ms,
            published,
            pid,
            ..
        } = record;
        let (idle_limit_ms, pid) = (*idle_limit_ms, *pid);
        context.out.object(
            "session",
            &SessionBody {
                id,
                vault,
                pid,
                idle_limit_ms,
                published,
            },
        )?;
    } else {
        announce(context.out, &session.record().published);
        context.out.line(id)?;
    }
    Ok(ExitStatus::Success)
}

/// Asks the user at this terminal, because the process in the background cannot.
fn ask_first(context: &Context<'_>, args: &SessionStartArgs, vault: &Vault) -> Result<()> {
    // The ports are not opened for the question: the process that stays opens them.
    let request = args.request(context, vault, args.network.published_unopened())?;
    match vault.sessions().question(&request)? {
        Some(id) => in_place::ask(vault.store(), &id, &|_| false),
        None => Ok(()),
    }
}

impl SessionStartArgs {
    fn request(
        &self,
        context: &Context<'_>,
        vault: &Vault,
        published: Vec<PublishedPort>,
    ) -> Result<SessionRequest> {
        let none = classify::Command::Shell(String::new());
        let network = self.network.network(Network::None);
        let cwd = match &self.cwd {
            Some(given) => Some(given.clone()),
            // What this machine calls its directories means nothing in an image.
            None if self.image.image.is_some() => None,
            None => start_directory(vault)?,
        };
        let exec = RunSpec {
            cwd,
            image: self.image.image.clone(),
            read_only_root: self.image.read_only_root,
            env: self.env.given(),
            passed: self.env.passed(),
            caller_env: std::env::vars_os().collect(),
            home: std::env::home_dir(),
            limits: self.limits(),
            network,
            published,
            checkpoint: self.checkpoint,
            rules: self.rules.list_for_programs(vault)?,
            principal: self.principal.clone(),
            policy: policy(self.policy.as_deref())?,
            isolation: self.isolation,
            container_runtime: context.settings.container_runtime(),
            transport: context.settings.transport(),
            ..RunSpec::new(none)
        };
        let idle = self.idle.unwrap_or(agentvfs::session::IDLE);
        Ok(SessionRequest { exec, idle })
    }

    fn limits(&self) -> RunLimits {
        let usual = RunLimits::default();
        let output = self
            .output_limit
            .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        RunLimits {
            timeout: self.timeout.or(usual.timeout),
            memory: self.memory.or(usual.memory),
            pids: self.pids.or(usual.pids),
            output_bytes: output.unwrap_or(usual.output_bytes),
            ..usual
        }
    }
}

/// With a copy of the vault, as Landlock alone needs it, changes would have to be copied back after each
/// command.
fn isolation(text: &str) -> Result<IsolationChoice, String> {
    match exec::isolation(text)? {
        choice @ (IsolationChoice::Bubblewrap | IsolationChoice::Oci | IsolationChoice::Docker) => Ok(choice),
        IsolationChoice::Landlock => Err(
            "a session needs namespaces; `avfs exec --isolation landlock` runs single commands".to_owned(),
        ),
    }
}

/// The output of the process in the background before it detached from us.
struct Said {
    text: String,
    status: ExitStatus,
}

/// Starts the same command as a process that stays, and waits until it is ready or has failed.
fn start_process(context: &Context<'_>) -> Result<Said> {
    let host = |action, source| Error::Host {
        action,
        place: "avfs".into(),
        source,
    };
    let program = std::env::current_exe().map_err(|source| host("finding", source))?;
    let mut command = Command::new(program);
    command
        // The original words, so that both processes come to the same request.
        .args(std::env::args_os().skip(1))
        .arg("--background-child");
    // Questions and messages about the vault are not repeated. In a mount of it, paths are relative to the
    // current directory.
    let Decided { vault, reason } = context.decided()?;
    if !matches!(reason, VaultReason::Flag | VaultReason::Mount(_)) {
        let here = vault.store().projects().here(&working_directory())?;
        command.args(["--vault", &here.full_name(&vault)?]);
    }
    // Memory that each thread keeps for itself is memory that an idle session does not give back.
    command.env("MALLOC_ARENA_MAX", "2");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut child = command.spawn().map_err(|source| host("starting", source))?;
    let mut text = String::new();
    if let Some(mut output) = child.stdout.take() {
        output
            .read_to_string(&mut text)
            .map_err(|source| host("listening to", source))?;
    }
    if text.starts_with(serve::READY) {
        return Ok(Said {
            text,
            status: ExitStatus::Success,
        });
    }
    // Its output has ended without the expected word, so it ends as well.
    let status = child.wait().map_err(|source| host("waiting for", source))?;
    let number = status.code().and_then(|code| u8::try_from(code).ok());
    let known = ExitStatus::ALL
        .into_iter()
        .find(|status| Some(status.number()) == number);
    let status = known
        .filter(|status| *status != ExitStatus::Success)
        .unwrap_or(ExitStatus::Internal);
    Ok(Said { text, status })
}
