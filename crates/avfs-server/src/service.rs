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
//! | a command to its end | [`TenantCommands::exec`] |
//! | a command beside its caller | [`TenantCommands::start`], [`Process`] |
//! | what a process writes | [`Process::listen`] |
//! | shells that stay | [`TenantSessions::start`], [`TenantSessions::exec`] |
//! | files of a sandbox or vault | [`Files`] |
//! | a vault under a name that its client chose | [`TenantCodebases::create`], [`TenantCodebases::get`] |
//! | changes between a sandbox and its vault | [`TenantExchanges::merge`], [`GivesBack`] |

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
mod parts;
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
pub use codebases::{Codebase, CodebasePage, TenantCodebases};
pub use error::{ServiceError, ServiceResult};
pub use exchange::{GivesBack, SandboxEnd, TenantExchanges};
pub use files::{FileAttributes, FileInfo, FileKind, FileRead, Files, WriteOptions};
pub(crate) use files::{shown, tree_path};
pub use metering::Measurement;
pub use output::{Heard, OutputListener, OutputLog, OutputPiece};
pub use pausing::{Pausing, TenantPauses};
pub use preview::{ApprovalPreview, TenantPreviews};
pub use process::{Process, ProcessEnding};
pub use rules::rule_list;
pub use run::{NewProcess, ProcessStreams, RunEnd, Started, TenantCommands};
pub use sandbox::{Sandbox, SandboxSpec};
pub use sandboxes::{NewSandbox, SandboxPage, SandboxSource};
pub use search::{FoundLine, SearchFor};
pub use session::{NewSessionCommand, Session, TenantSessions};
pub use spool::Spool;
pub use tenant::{DEFAULT_TENANT, Tenant, Tenants};
pub use threads::on_a_thread;
pub(crate) use threads::{THREADS, stream_on_a_thread};
