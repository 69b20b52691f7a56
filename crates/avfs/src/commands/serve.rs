//! `avfs serve`: sandboxes and files over HTTP.

mod agentfense;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentvfs::exec::sandbox::launch::InnerProgram;
use anyhow::Result;
use avfs_server::auth::Tokens;
use avfs_server::{Listening, ListeningError, LogWriter, ServerOptions, TenantLimits, Tls, serve};
use serde::Serialize;

use self::agentfense::{AgentfenseArgs, mount_below};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::foreground::{self, Side, Worker};
use crate::size::{BadSize, parse_size};
use crate::time::{BadSpan, parse_span};

/// Serve sandboxes, files and versions over HTTP, until it is interrupted
#[derive(Debug, clap::Args)]
#[command(
    group(clap::ArgGroup::new("addresses").multiple(true)),
    after_help = "The server listens at a Unix socket, which only you and root can use. With --listen, it also listens at
an address, where every request needs a token from `avfs token create`. Your own store is that of the tenant
`default`; each other tenant has a store of its own. The log goes to standard error, one JSON object per line.

The API is described at /api/v1/docs and, for programs, at /api/v1/openapi.json; see docs/server.md.

Examples:
  avfs serve
  avfs serve --listen 127.0.0.1:8010
  avfs serve --listen 0.0.0.0:8443 --host box.example.com --tls-cert box.pem --tls-key box.key
  avfs serve --insecure-agentfense
  avfs serve --insecure-agentfense=builds --config agentfense-server.yaml"
)]
pub struct ServeArgs {
    /// Listen at this Unix socket [default: server/socket in the store's directory]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Also listen at this address, for requests with a token; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", group = "addresses")]
    listen: Option<SocketAddr>,

    /// Accept requests for this host name; addresses and `localhost` are always accepted
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,

    /// Encrypt connections to the addresses with this certificate and those that vouch for it (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "addresses")]
    tls_cert: Option<PathBuf>,

    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// How many sandboxes a tenant may have
    #[arg(long, value_name = "N", default_value_t = TenantLimits::default().sandboxes)]
    max_sandboxes: usize,

    /// How many commands of a tenant may run at the same time
    #[arg(long, value_name = "N", default_value_t = TenantLimits::default().running)]
    max_running: usize,

    /// How many more may wait before requests are refused
    #[arg(long, value_name = "N", default_value_t = TenantLimits::default().waiting)]
    max_waiting: usize,

    /// Keep this many sandboxes ready of each kind that was asked for twice lately: the same files, the same settings
    #[arg(long, value_name = "N", default_value_t = 0)]
    warm: usize,

    /// How much memory the processes of one sandbox may use together
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = size)]
    max_memory: u64,

    /// How much the files of one sandbox may take up
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_disk: Option<u64>,

    /// How large an uploaded file may be
    #[arg(long, value_name = "SIZE", default_value = "16G", value_parser = size)]
    max_upload: u64,

    /// How much everything that is stored for a tenant may take up, its own store as the tenant `default` included
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_total_disk: Option<u64>,

    /// How many requests a tenant may make in a second; 0 means any number
    #[arg(long, value_name = "N", default_value_t = 2000)]
    max_requests: u64,

    /// How long running commands may take to finish when the server ends
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    grace: Duration,

    #[command(flatten)]
    agentfense: AgentfenseArgs,
}

fn size(text: &str) -> Result<u64, BadSize> {
    parse_size(text)
}

fn span(text: &str) -> Result<Duration, BadSpan> {
    parse_span(text)
}

/// Where clients find the server, in JSON.
#[derive(Serialize)]
struct ServeBody {
    socket: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Where AgentFense's clients are served without a credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    agentfense_grpc: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agentfense_rest: Option<String>,
}

pub fn run(context: &mut Context<'_>, args: &ServeArgs) -> Result<ExitStatus> {
    match foreground::split()? {
        Side::Foreground(front) => front.wait(),
        Side::Worker(worker) => work(context, args, &worker),
    }
}

fn work(context: &mut Context<'_>, args: &ServeArgs, worker: &Worker) -> Result<ExitStatus> {
    let stop = worker.stopping()?;
    let config = args.agentfense.config()?;
    let home = match (context.home_flag(), &config.codebases) {
        (None, Some(codebases)) => codebases.clone(),
        _ => context.home()?.to_owned(),
    };
    let tls = tls(args)?;
    let listening = Listening::begin(&home, args.socket.as_deref(), args.listen);
    let mut listening = listening.map_err(not_listening)?;
    if let Some(ports) = args.agentfense.ports(&config).map_err(not_listening)? {
        listening = listening.with_agentfense(ports);
    }
    if let Some(mounts) = &config.mounts {
        mount_below(&home, mounts)?;
    }
    let tokens = Tokens::open(&home)?;
    tell(context, &listening, tls.is_some())?;
    if tls.is_none()
        && listening
            .address()
            .is_some_and(|address| !address.ip().is_loopback())
    {
        context.out.warn(
            "other machines can connect, and tokens and files travel unencrypted; --tls-cert and --tls-key encrypt them",
        );
    }
    if listening.address().is_some() && tokens.list()?.is_empty() {
        context.out.warn(
            "there is no token yet, so every request over TCP is refused; `avfs token create` makes one",
        );
    }
    context.out.flush()?;
    let log = LogWriter::to(io::stderr())?;
    let options = ServerOptions {
        store: context.store_options(),
        home,
        inside: match &config.bubblewrap {
            Some(bubblewrap) => InnerProgram::new(std::env::current_exe()?).started_by(bubblewrap),
            None => InnerProgram::new(std::env::current_exe()?),
        },
        container_runtime: context.settings.container_runtime(),
        caller_env: std::env::vars_os().collect(),
        limits: TenantLimits {
            sandboxes: args.max_sandboxes,
            running: args.max_running,
            waiting: args.max_waiting,
            warm: args.warm,
            memory: args.max_memory,
            disk: args.max_disk,
            upload: args.max_upload,
            total_disk: args.max_total_disk,
            requests: Some(args.max_requests).filter(|most| *most > 0),
        },
        host_names: args.host.clone(),
        grace: args.grace,
        tls,
        cleanup: config.cleanup,
        database: args.agentfense.database(&config),
        agentfense: args.agentfense.options(&config),
        log: agentfense::log(&config, log.clone()),
    };
    let served = serve(listening, options, tokens, &stop);
    log.end();
    served?;
    Ok(ExitStatus::Success)
}

/// The certificate, if there is one. Its files are read before anybody is told where to connect.
fn tls(args: &ServeArgs) -> Result<Option<Arc<Tls>>> {
    let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else {
        return Ok(None);
    };
    let loaded = Tls::load(certificate, key).map_err(|error| {
        let hint =
            "`--tls-cert` is the certificate and those that vouch for it, `--tls-key` its key, both as PEM";
        let status = if certificate.exists() && key.exists() {
            ExitStatus::BadInput
        } else {
            ExitStatus::NotFound
        };
        Failure::new("bad-certificate", status, avfs_core::with_causes(&error)).hint(Some(hint.to_owned()))
    });
    Ok(Some(Arc::new(loaded?)))
}

fn tell(context: &mut Context<'_>, listening: &Listening, is_encrypted: bool) -> Result<()> {
    let scheme = if is_encrypted { "https" } else { "http" };
    let ports = listening.agentfense_addresses();
    let body = ServeBody {
        agentfense_grpc: ports.map(|[grpc, _]| grpc.to_string()),
        agentfense_rest: ports.map(|[_, rest]| format!("{scheme}://{rest}")),
        socket: listening.socket().display().to_string(),
        url: listening.address().map(|address| format!("{scheme}://{address}")),
    };
    if context.out.is_json() {
        return Ok(context.out.object("serve", &body)?);
    }
    context.out.line(format_args!("socket={}", body.socket))?;
    let others = [
        ("url", &body.url),
        ("agentfense-grpc", &body.agentfense_grpc),
        ("agentfense-rest", &body.agentfense_rest),
    ];
    for (name, address) in others {
        if let Some(address) = address {
            context.out.line(format_args!("{name}={address}"))?;
        }
    }
    Ok(())
}

fn not_listening(error: ListeningError) -> Failure {
    let hint = match &error {
        ListeningError::Running => Some("end it first, or use another store with `--home`".to_owned()),
        ListeningError::NoSocket(_) => Some("name another path with `--socket`".to_owned()),
        ListeningError::NotLoopback(_) => Some(
            "AgentFense's clients send no credential; those of other machines use `--listen` and a token"
                .to_owned(),
        ),
        ListeningError::Tenant(_) | ListeningError::Host { .. } => None,
    };
    let status = match &error {
        ListeningError::Running => ExitStatus::Busy,
        ListeningError::Host { source, .. } => match source.kind() {
            io::ErrorKind::AddrInUse => ExitStatus::Busy,
            io::ErrorKind::AddrNotAvailable | io::ErrorKind::InvalidInput => ExitStatus::BadInput,
            io::ErrorKind::NotFound => ExitStatus::NotFound,
            _ => ExitStatus::Refused,
        },
        ListeningError::NoSocket(_) => ExitStatus::Conflict,
        ListeningError::NotLoopback(_) | ListeningError::Tenant(_) => ExitStatus::BadInput,
    };
    Failure::new("cannot-listen", status, avfs_core::with_causes(&error)).hint(hint)
}
