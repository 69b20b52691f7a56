//! What a server is given by the program around it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentvfs::StoreOptions;
use agentvfs::exec::sandbox::launch::InnerProgram;

use crate::agentfense::AgentfenseOptions;
use crate::tls::Tls;

/// Everything that a server is made of.
#[derive(Clone)]
pub struct ServerOptions {
    /// The directory of the user's own store, which is that of the tenant `default`. Everything else that the server keeps
    /// is in `server` below it.
    pub home: PathBuf,
    /// How stores are opened.
    pub store: StoreOptions,
    /// The first program in a sandbox.
    pub inside: InnerProgram,
    /// The container runtime that builds sandboxes with `oci`: its name or its path. Nothing: the first that is installed.
    pub container_runtime: Option<String>,
    /// The environment of the caller, of which sandboxes have only what says how to talk to people.
    pub caller_env: Vec<(OsString, OsString)>,
    /// What each tenant may use.
    pub limits: TenantLimits,
    /// Names besides those of this machine under which clients may call the server.
    pub host_names: Vec<String>,
    /// How long commands that run may take to end when the server ends.
    pub grace: Duration,
    /// With it, connections at the address are encrypted.
    pub tls: Option<Arc<Tls>>,
    /// How often expired sandboxes are removed; nothing: every second. They are gone for everybody when they expire.
    pub cleanup: Option<Duration>,
    /// The name of a tenant and its database, if that is not in its store.
    pub database: Option<(String, PathBuf)>,
    /// What holds for the sandboxes of AgentFense's clients.
    pub agentfense: AgentfenseOptions,
    /// Hears the log, one line of JSON for each request.
    pub log: LogLines,
}

/// Hears lines of a log.
pub type LogLines = Arc<dyn Fn(&str) + Send + Sync>;

/// What a tenant may use at most. One tenant that is at its limits takes nothing from another.
#[derive(Clone, Debug)]
pub struct TenantLimits {
    /// Sandboxes that exist.
    pub sandboxes: usize,
    /// Commands that run at the same time, of all its sandboxes.
    pub running: usize,
    /// Commands that wait for one of those to end. More are refused at once.
    pub waiting: usize,
    /// Sandboxes that are ready before anybody asks for them, of each kind that was asked for twice lately.
    pub warm: usize,
    /// Bytes of memory of all processes of one sandbox.
    pub memory: u64,
    /// Bytes of the files of one sandbox.
    pub disk: Option<u64>,
    /// Bytes of one file that is uploaded.
    pub upload: u64,
    /// Bytes of everything that is stored for it.
    pub total_disk: Option<u64>,
    /// Requests a second.
    pub requests: Option<u64>,
}

impl Default for TenantLimits {
    fn default() -> TenantLimits {
        TenantLimits {
            sandboxes: 1000,
            running: 64,
            waiting: 256,
            warm: 0,
            memory: 4 << 30,
            disk: None,
            upload: 16 << 30,
            total_disk: None,
            requests: Some(2000),
        }
    }
}
