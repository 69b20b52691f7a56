//! Runs of a process that keeps the vault open: nothing but the sandbox is started for each.

use std::sync::Arc;

use agentvfs::exec::sandbox::Cancel;
use agentvfs::exec::sandbox::classify::Command;
use agentvfs::exec::sandbox::launch::InnerProgram;
use agentvfs::exec::{RunContext, RunSpec};
use agentvfs::mount::MountOptions;
use agentvfs::{Store, Vault, VaultName};
use anyhow::{Context, Result, ensure};

use super::{Contestant, Site, vault_name};

pub(super) fn contestant(site: &Site, size: usize) -> Result<Contestant> {
    let kept = VaultName::new(&format!("kept-{size}"))?;
    // A fork, because the commands of the other contestants would ask this process to mount theirs.
    let vault = Store::open(&site.home)?
        .vault(&vault_name(size))?
        .fork(&[kept])?
        .remove(0);
    let place = tempfile::tempdir()?;
    let served = vault.mount(place.path(), &MountOptions::default(), Arc::new(|_| {}))?;
    let inside = InnerProgram::new(&site.avfs);
    let name = format!("a run in a process that keeps the vault open, {size} files");
    Ok(Contestant::in_process(name, move || {
        // Owned by the contestant, so that the vault is served as long as that is measured.
        let _kept = (&served, &place);
        run_true(&vault, &inside)
    }))
}

fn run_true(vault: &Vault, inside: &InnerProgram) -> Result<()> {
    let cancel = Cancel::new()?;
    let spec = RunSpec::new(Command::Argv(vec!["true".into()]));
    let run = vault.exec(&spec, RunContext::new(inside.clone(), &cancel, &mut ()));
    ensure!(run.error.is_none(), "{:?}", run.error);
    let process = run.outcome.process.context("nothing was started")?;
    ensure!(process.status() == 0, "{process:?}");
    run.after.wait();
    Ok(())
}
