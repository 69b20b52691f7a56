//! The native part of the Python package `agentvfs`: the library `agentvfs` as a few classes, which the Python part
//! gives its words, types and defaults.
//!
//! Everything here runs in the Python process. Nothing waits, or reads a store, while it holds the interpreter's lock
//! (`waiting`), and every error becomes one of the package's own exceptions (`errors`).

mod approvals;
mod changes;
mod errors;
mod files;
mod forked;
mod hints;
mod inside;
mod mount;
mod numbers;
mod options;
mod paths;
mod process;
mod rules;
mod run;
mod sandbox;
mod searching;
mod session;
mod shell;
mod store;
mod task;
mod vault;
mod versions;
mod vfs;
mod waiting;

use pyo3::prelude::*;

/// What only the Python part of the package uses.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::approvals::Approvals;
    #[pymodule_export]
    use crate::changes::Change;
    #[pymodule_export]
    use crate::files::{FileInfo, Files};
    #[pymodule_export]
    use crate::mount::Mount;
    #[pymodule_export]
    use crate::options::check_options;
    #[pymodule_export]
    use crate::process::{OutputReader, Process};
    #[pymodule_export]
    use crate::rules::{explain, parse_rule, preset_rules, presets};
    #[pymodule_export]
    use crate::run::RunReport;
    #[pymodule_export]
    use crate::sandbox::{OpenSandbox, await_served};
    #[pymodule_export]
    use crate::searching::search;
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::shell::Shell;
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::task::{Applied, Task};
    #[pymodule_export]
    use crate::vault::{Vault, VaultInfo};
    #[pymodule_export]
    use crate::versions::{Checkpoint, HistoryEntry};
    #[pymodule_export]
    use crate::vfs::{
        DirEntry, DirectoryStorage, Handle, Hook, NodeContext, PathChange, PathEvent, Snapshot, Stat, Vfs,
        WriteEvent,
    };
    #[pymodule_export]
    use crate::waiting::CancelToken;
}
