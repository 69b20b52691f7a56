//! `avfs mcp`: vaults as tools for agents, by the Model Context Protocol.

mod front_end;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentvfs::Store;
use agentvfs::exec::sandbox::Network;
use agentvfs::exec::sandbox::classify::Command;
use agentvfs::exec::sandbox::launch::InnerProgram;
use agentvfs::exec::sandbox::network::NetworkChoice;
use agentvfs::exec::{AfterRun, RunSpec};
use anyhow::Result;
use avfs_mcp::{HttpServer, RuleChoice, Scope, ServerOptions, serve_http, serve_stdio};
use serde::Serialize;

use self::front_end::CommandLine;
use crate::commands::exec::policy;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::foreground::{self, Side, Worker};
use crate::here::working_directory;
use crate::rule_args::{Chosen, RuleArgs};

/// Serve vaults to agents over the Model Context Protocol
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Agents start this command themselves, once it is in their settings, and speak to it over standard
input and output. Its tools read and change files, run commands in the sandbox, and save, compare, fork and
restore states. Applying, merging and discarding work stays with you, and so does answering approvals.

Without --vault, the tools work on a task of the project in this directory, which is created when it is first
needed and discarded at the end if nothing changed. docs/mcp.md describes the tools.

Examples:
  avfs mcp
  avfs mcp --project ~/src/web --preset agent-safe
  avfs mcp --vault web
  avfs mcp --http 127.0.0.1:0"
)]
pub struct McpArgs {
    #[command(flatten)]
    pub rules: RuleArgs,

    /// Work on tasks of the project in this directory [default: the working directory]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,

    /// The network that commands may reach: none, host (everything), or a list of hosts, as for `avfs exec`
    #[arg(long, value_name = "none|host|[+]HOST,…")]
    net: Vec<NetworkChoice>,

    /// Use this policy file [default: the policy that `avfs policy set` stored]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,

    /// Serve clients on this machine over HTTP instead; port 0 takes a free one [token env: AVFS_MCP_TOKEN]
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<SocketAddr>,
}

/// Where clients find the server, in JSON.
#[derive(Serialize)]
struct ListeningBody<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

/// Brings the token, where the one that is printed would have to be copied.
const TOKEN_VARIABLE: &str = "AVFS_MCP_TOKEN";

pub fn run(context: &mut Context<'_>, args: &McpArgs) -> Result<ExitStatus> {
    match foreground::split()? {
        Side::Foreground(front) => front.wait(),
        Side::Worker(worker) => work(context, args, worker),
    }
}

fn work(context: &mut Context<'_>, args: &McpArgs, worker: Worker) -> Result<ExitStatus> {
    let stop = worker.stopping()?;
    let options = options(context, args)?;
    let after = match args.http {
        Some(address) => {
            let server = listen(context, address)?;
            serve_http(server, options, &stop)?
        }
        None => serve_stdio(options, &stop)?,
    };
    context.out.flush()?;
    // Others may still need this process for a vault; the client does not wait for that.
    worker.release(ExitStatus::Success);
    after.into_iter().for_each(AfterRun::wait);
    Ok(ExitStatus::Success)
}

fn options(context: &mut Context<'_>, args: &McpArgs) -> Result<ServerOptions> {
    let store = context.task_store()?;
    let rules = match args.rules.read()? {
        Chosen::Stored => RuleChoice::OfVault,
        Chosen::These(rules) => RuleChoice::These(rules),
        Chosen::Everything => RuleChoice::None,
    };
    let scope = scope(context, args, &store)?;
    let root = match &scope {
        Scope::Project(root) => Some(root.clone()),
        Scope::Vault(_) => None,
    };
    let command = RunSpec {
        caller_env: std::env::vars_os().collect(),
        home: std::env::home_dir(),
        network: NetworkChoice::all(&args.net, Network::None),
        policy: policy(args.policy.as_deref())?,
        transport: context.settings.transport(),
        ..RunSpec::new(Command::Shell(String::new()))
    };
    let front_end = CommandLine {
        home: context.home()?.to_owned(),
        rules: args.rules.clone(),
        root,
    };
    Ok(ServerOptions {
        store,
        scope,
        rules,
        command,
        inside: InnerProgram::new(std::env::current_exe()?),
        front_end: Arc::new(front_end),
    })
}

/// The vault that the user named, or the project. If the directory is neither, the agent learns it when it calls a tool:
/// to its client, a server that ends immediately is only a broken one.
fn scope(context: &Context<'_>, args: &McpArgs, store: &Store) -> Result<Scope> {
    if let Some(directory) = &args.project {
        if context.vault_flag().is_some() {
            let text = "--vault and --project both say what to work on";
            return Err(Failure::new("usage", ExitStatus::BadInput, text)
                .hint(Some("leave one of them out".to_owned()))
                .into());
        }
        return Ok(Scope::Project(store.projects().root_of(directory)?));
    }
    let decided = context.decided_already(store)?;
    let here = working_directory();
    if let Some(decided) = decided.as_ref().filter(|decided| decided.reason.is_explicit()) {
        return Ok(Scope::Vault(decided.vault.clone()));
    }
    match store.projects().root_of(&here) {
        Ok(root) => Ok(Scope::Project(root)),
        Err(_) => Ok(match decided {
            Some(decided) => Scope::Vault(decided.vault),
            None => Scope::Project(absolute(&here)),
        }),
    }
}

fn absolute(directory: &Path) -> PathBuf {
    // A directory that is missing is refused later, by the name that the user gave.
    directory.canonicalize().unwrap_or_else(|_| directory.to_owned())
}

fn listen(context: &mut Context<'_>, address: SocketAddr) -> Result<HttpServer> {
    let given = std::env::var(TOKEN_VARIABLE)
        .ok()
        .filter(|token| !token.is_empty());
    let is_given = given.is_some();
    let server = HttpServer::listen(address, given).map_err(|error| {
        let text = format!("cannot serve at {address}: {error}");
        Failure::new("cannot-listen", ExitStatus::BadInput, text).hint(Some(
            "`--http 127.0.0.1:0` takes a free port of this machine".to_owned(),
        ))
    })?;
    let url = server.url()?;
    // A token that the caller has given is known to the caller.
    let token = (!is_given).then(|| server.token());
    if context.out.is_json() {
        context.out.object("mcp", &ListeningBody { url: &url, token })?;
    } else {
        context.out.line(format_args!("url={url}"))?;
        if let Some(token) = token {
            context.out.line(format_args!("token={token}"))?;
        }
    }
    context.out.flush()?;
    Ok(server)
}
