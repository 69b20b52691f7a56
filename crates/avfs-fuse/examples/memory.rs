//! Mounts an empty tree that lives in memory until it is unmounted: `memory DIRECTORY`.

use std::path::PathBuf;
use std::sync::Arc;

use avfs_core::{Entry, Meta, Root, Totals};
use avfs_fuse::mounting::{MountOptions, mount};
use avfs_fuse::transport::{Serving, ServingOptions};
use avfs_fuse::{Log, Session, Settings, Skin, SkinOptions};
use avfs_store::MemoryStore;
use avfs_tree::{Base, Objects, SystemClock, WorkTree};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let at = PathBuf::from(std::env::args_os().nth(1).ok_or("say where to mount")?);
    let log: Log = Arc::new(report);
    let options = SkinOptions {
        access: avfs_fuse::Access::Everything,
        rules: None,
        owner: None,
        checks_modes: false,
        alone: false,
        free_bytes: Arc::new(|| 1 << 40),
        log: log.clone(),
    };
    let skin = Skin::new(&empty_tree()?, options);
    let session = Arc::new(Session::new(skin, Settings { log, ..Settings::default() }));
    let connection = mount(&at, &MountOptions { allow_other: true, ..MountOptions::new("memory") })?;
    Serving::start(session.clone(), connection, ServingOptions::default())?.wait();
    for one in session.counters().operations() {
        let mean = one.nanos / one.requests;
        report(&format!("{:?}: {} requests, {mean} ns each", one.opcode, one.requests));
    }
    Ok(())
}

fn empty_tree() -> Result<WorkTree, avfs_tree::FsError> {
    let meta = Meta { mode: 0o755, ..Meta::default() };
    let root = Root { directory: Entry::empty_directory(meta), links: None, totals: Totals::default() };
    let objects = Objects::new(Arc::new(MemoryStore::new()));
    WorkTree::in_memory(objects, Base { root, inodes: None }, Arc::new(SystemClock))
}

#[allow(clippy::print_stderr, reason = "this is what the example is for")]
fn report(line: &str) {
    eprintln!("{line}");
}
