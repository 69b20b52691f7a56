//! What the server does, whatever the protocol: tenants with their sandboxes, processes and files.
//!
//! Every interface is a translation of these calls. They are asynchronous and may be dropped at any point; the library is
//! called on threads that may wait.
//!
//! | for | call |
//! |---|---|
//! | the tenant of a caller | [`Tenants::get`] |
//! | a sandbox | [`Tenant::create_sandbox`], [`Tenant::sandbox`], [`Tenant::sandboxes`], [`Tenant::delete_sandbox`] |
//! | copies of one | [`Tenant::fork_sandbox`] |
//! | a command to its end | [`Tenant::exec`] |
//! | a command beside its caller | [`Tenant::start`], [`Process`] |
//! | what a process writes | [`Process::listen`] |
//! | shells that stay | [`Tenant::start_session`], [`Tenant::session_exec`] |
//! | files of a sandbox or vault | [`Files`] |
//! | a vault under a name that its client chose | [`Tenant::create_codebase`], [`Tenant::codebase`] |
//! | changes between a sandbox and its vault | [`Tenant::exchange`], [`GivesBack`] |

mod archive;
mod bundle;
mod codebases;
mod disk;
mod ended;
mod error;
mod exchange;
mod files;
mod metering;
mod output;
mod pausing;
mod pool;
mod preview;
mod process;
mod queue;
mod rate;
mod rules;
mod run;
mod sandbox;
mod sandboxes;
mod search;
mod session;
mod spare;
mod spool;
mod tenant;
mod threads;
mod upkeep;

pub use archive::Unpacked;
pub(crate) use bundle::{Carried, export_vault, import_vault};
pub use codebases::{Codebase, CodebasePage};
pub use error::{ServiceError, ServiceResult};
pub use exchange::{GivesBack, SandboxEnd};
pub use files::{FileAttributes, FileInfo, FileKind, FileRead, Files, WriteOptions};
pub(crate) use files::{shown, tree_path};
pub use metering::Measurement;
pub use output::{Heard, OutputListener, OutputLog, OutputPiece};
pub use pausing::Pausing;
pub use preview::ApprovalPreview;
pub use process::{Process, ProcessEnding};
pub use rules::rule_list;
pub use run::{NewProcess, ProcessStreams, RunEnd, Started};
pub use sandbox::{Sandbox, SandboxSpec};
pub use sandboxes::{NewSandbox, SandboxPage, SandboxSource};
pub use search::{FoundLine, SearchFor};
pub use session::{NewSessionCommand, Session};
pub use spool::Spool;
pub use tenant::{DEFAULT_TENANT, Tenant, Tenants};
pub use threads::on_a_thread;
pub(crate) use threads::{THREADS, stream_on_a_thread};
