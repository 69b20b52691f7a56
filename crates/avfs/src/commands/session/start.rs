//! `avfs session start`.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use agentvfs::exec::boundary::classify;
use agentvfs::exec::boundary::network::Published;
use agentvfs::exec::boundary::{Limits, Network};
use agentvfs::exec::{CheckpointMode, ExecRequest, IsolationChoice, PublishedBody};
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
use crate::here::start_directory;
use crate::network_args::{NetworkArgs, announce, warn_of_proxies};
use crate::rule_args::RuleArgs;
use crate::size::parse_size;

/// Start a shell in the sandbox that keeps its directory and variables between commands
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The id of the session is printed; `avfs session exec ID` runs commands in it. What the vault \
looks like, what can be reached and how much may be used up is fixed now and holds for all of them; what each of them \
may do is decided one by one. A network or a port that the policy does not grant takes an approval (status 121), on a \
terminal right here.

The session lives in a process of its own, until `avfs session stop`, until its shell ends (`exit`), or until nobody \
has used it for a while. The vault can be used meanwhile, by others too.

Examples:
  avfs session start
  avfs session start --vault web --preset development --cwd src
  avfs session start --net +crates --idle 600
  avfs session start --publish 5173
  id=$(avfs session start) && avfs session exec $id -c 'cd src && make'"
)]
pub struct StartArgs {
    #[command(flatten)]
    pub rules: RuleArgs,
    /// Who uses it, for the audit log
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Start in this directory of the vault, or at an absolute path of the sandbox
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    #[command(flatten)]
    env: EnvArgs,
    /// How long a command may take that does not say so, in milliseconds (default 10 minutes)
    #[arg(long, value_name = "MS")]
    timeout: Option<u64>,
    /// Memory for all its processes together, such as 512M
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    memory: Option<u64>,
    /// How many processes it may have at a time
    #[arg(long, value_name = "N")]
    pids: Option<u64>,
    /// How much is kept of each stream of a command's output (default 1M)
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    output_limit: Option<u64>,
    #[command(flatten)]
    network: NetworkArgs,
    /// When a checkpoint is saved before a command: auto, always or never
    #[arg(long, value_name = "WHEN", value_parser = checkpoint_mode, default_value = "auto")]
    checkpoint: CheckpointMode,
    /// Decide by this policy file [default: the one that `avfs policy set` stored]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// What stands around it: bubblewrap
    #[arg(long, value_name = "WHAT", value_parser = isolation, default_value = "bubblewrap")]
    isolation: IsolationChoice,
    /// End it after so many seconds without a command (default 30 minutes)
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    idle: Option<u64>,
    /// Said by a process to the one that it starts in the background
    #[arg(long, hide = true)]
    background_child: bool,
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

pub fn run(context: &mut Context<'_>, args: &StartArgs) -> Result<ExitStatus> {
    let vault = context.whole_vault()?;
    if args.background_child {
        let published = args.network.publish(&args.network.network(Network::None))?;
        let request = args.request(context, &vault, published)?;
        let (home, rules) = (context.home()?.to_owned(), request.exec.rules.clone());
        let door = HostDoor { home, vault: vault.name()?.to_string(), rules };
        return serve::in_background(&vault, request, door);
    }
    // What is wrong with it is told once, by the process that has the session.
    args.env.warn(context.out);
    warn_of_proxies(context.out, &args.network.network(Network::None));
    if in_place::is_possible(context.out) {
        ask_first(context, args, &vault)?;
    }
    let said = start_process()?;
    let Some(id) = said.text.strip_prefix(serve::READY).map(str::trim) else {
        // It has told the user in our place; what it said for programs comes from here.
        std::io::stdout().write_all(said.text.as_bytes())?;
        return Ok(said.status);
    };
    let session = vault.store().session(id)?;
    if context.out.is_json() {
        let record = session.record();
        let SessionRecord { vault, idle_limit_ms, published, pid, .. } = record;
        let (idle_limit_ms, pid) = (*idle_limit_ms, *pid);
        context.out.object("session", &SessionBody { id, vault, pid, idle_limit_ms, published })?;
    } else {
        announce(context.out, &session.record().published);
        context.out.line(id)?;
    }
    Ok(ExitStatus::Success)
}

/// Asks the person at this terminal what the process in the background cannot ask.
fn ask_first(context: &Context<'_>, args: &StartArgs, vault: &Vault) -> Result<()> {
    let request = args.request(context, vault, args.network.published_unopened())?;
    match vault.question_of_session(&request)? {
        Some(id) => in_place::ask(vault.store(), &id, &|_| false),
        None => Ok(()),
    }
}

impl StartArgs {
    fn request(
        &self,
        context: &Context<'_>,
        vault: &Vault,
        published: Vec<Published>,
    ) -> Result<SessionRequest> {
        let none = classify::Command::Shell(String::new());
        let network = self.network.network(Network::None);
        let cwd = match &self.cwd {
            Some(given) => Some(given.clone()),
            None => start_directory(vault)?,
        };
        let exec = ExecRequest {
            cwd,
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
            transport: context.settings.transport(),
            ..ExecRequest::new(none)
        };
        let idle = self.idle.map_or(agentvfs::session::IDLE, Duration::from_secs);
        Ok(SessionRequest { exec, idle })
    }

    fn limits(&self) -> Limits {
        let usual = Limits::default();
        let output = self.output_limit.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        Limits {
            timeout: self.timeout.map(Duration::from_millis).or(usual.timeout),
            memory: self.memory.or(usual.memory),
            pids: self.pids.or(usual.pids),
            output_bytes: output.unwrap_or(usual.output_bytes),
            ..usual
        }
    }
}

/// A copy of the vault, as a run under Landlock alone works on, would have to be taken back after each command.
fn isolation(text: &str) -> Result<IsolationChoice, String> {
    match exec::isolation(text)? {
        IsolationChoice::Bubblewrap => Ok(IsolationChoice::Bubblewrap),
        IsolationChoice::Landlock => {
            Err("a session needs namespaces; `avfs exec --isolation landlock` runs single commands"
                .to_owned())
        }
    }
}

/// What the process in the background said before it let go of us.
struct Said {
    text: String,
    status: ExitStatus,
}

/// Starts the same command as a process that stays, and waits until it is ready or has failed.
fn start_process() -> Result<Said> {
    let host = |action, source| Error::Host { action, place: "avfs".into(), source };
    let program = std::env::current_exe().map_err(|source| host("finding", source))?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).arg("--background-child");
    // Memory that each thread keeps for itself is memory that an idle session does not give back.
    command.env("MALLOC_ARENA_MAX", "2");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().map_err(|source| host("starting", source))?;
    let mut text = String::new();
    if let Some(mut output) = child.stdout.take() {
        output.read_to_string(&mut text).map_err(|source| host("listening to", source))?;
    }
    if text.starts_with(serve::READY) {
        return Ok(Said { text, status: ExitStatus::Success });
    }
    let status = child.wait().map_err(|source| host("waiting for", source))?;
    let number = status.code().and_then(|code| u8::try_from(code).ok());
    let known = ExitStatus::ALL.into_iter().find(|status| Some(status.number()) == number);
    let status = known.filter(|status| *status != ExitStatus::Success).unwrap_or(ExitStatus::Internal);
    Ok(Said { text, status })
}
