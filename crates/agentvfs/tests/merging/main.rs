//! Merging vaults: which changes combine, which conflict, and the laws that always hold.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells its seed"
)]

mod ancestry;
mod conflicts;
mod laws;
mod like_git;
mod together;

#[path = "../support/mod.rs"]
mod support;

use agentvfs::{MergeConflictKind, MergeOptions, MergeReport, OpenVault, Store, Vault};
use support::{change, name, path};

/// A vault that starts with `base`, and a fork of it.
fn pair(base: impl FnOnce(&OpenVault)) -> (Vault, Vault) {
    let vault = Store::in_memory().create_vault(&name("main")).unwrap();
    change(&vault, base);
    let fork = vault.fork(&[name("fork")]).unwrap().remove(0);
    (vault, fork)
}

fn make(open: &OpenVault, at: &str, bytes: &str) {
    let path = path(at);
    open.make_directory(&path.split_last().unwrap().0, true).unwrap();
    open.write_bytes(&path, bytes.as_bytes()).unwrap();
}

fn merge(into: &Vault, from: &Vault) -> MergeReport {
    into.merge(&[from], &MergeOptions::default()).unwrap()
}

/// Performs a merge that must be clean.
#[track_caller]
fn clean(into: &Vault, from: &Vault) -> MergeReport {
    let report = merge(into, from);
    assert_eq!(report.conflicts, []);
    report
}

fn kinds(report: &MergeReport) -> Vec<(String, MergeConflictKind)> {
    report
        .conflicts
        .iter()
        .map(|open| (open.conflict.path.to_string(), open.conflict.kind))
        .collect()
}

fn mode_of(vault: &Vault, at: &str) -> u32 {
    vault.begin().unwrap().stat(&path(at)).unwrap().meta.mode
}

fn exists(vault: &Vault, at: &str) -> bool {
    vault.begin().unwrap().exists(&path(at)).unwrap()
}
