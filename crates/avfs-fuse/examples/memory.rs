//! Mounts an empty tree that lives in memory until it is unmounted: `memory DIRECTORY`.

use std::path::PathBuf;
use std::sync::Arc;

use avfs_core::{Entry, Meta, Root, Totals};
use avfs_fuse::mounting::{FuseMountOptions, mount};
use avfs_fuse::transport::{FuseServing, ServingOptions};
use avfs_fuse::{FuseSession, SessionLog, SessionSettings, Skin, SkinOptions};
use avfs_store::MemoryStore;
use avfs_tree::{BaseTree, Objects, SystemClock, WorkTree};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let at = PathBuf::from(std::env::args_os().nth(1).ok_or("say where to mount")?);
    let log: SessionLog = Arc::new(report);
    let options = SkinOptions {
        access: avfs_fuse::MountAccess::Everything,
        rules: None,
        owner: None,
        checks_modes: false,
        exclusive: false,
        free_bytes: Arc::new(|| 1 << 40),
        log: log.clone(),
    };
    let skin = Skin::new(&empty_tree()?, options);
    let session = Arc::new(FuseSession::new(
        skin,
        SessionSettings {
            log,
            ..SessionSettings::default()
        },
    ));
    let connection = mount(
        &at,
        &FuseMountOptions {
            allow_other: true,
            ..FuseMountOptions::new("memory")
        },
    )?;
    FuseServing::start(session.clone(), connection, ServingOptions::default())?.wait();
    for one in session.counters().operations() {
        let mean = one.nanos / one.requests;
        report(&format!(
            "{:?}: {} requests, {mean} ns each",
            one.opcode, one.requests
        ));
    }
    Ok(())
}

fn empty_tree() -> Result<WorkTree, avfs_tree::FsError> {
    let meta = Meta {
        mode: 0o755,
        ..Meta::default()
    };
    let root = Root {
        directory: Entry::empty_directory(meta),
        links: None,
        totals: Totals::default(),
    };
    let objects = Objects::new(Arc::new(MemoryStore::new()));
    WorkTree::in_memory(objects, BaseTree { root, inodes: None }, Arc::new(SystemClock))
}

#[allow(clippy::print_stderr, reason = "this is what the example is for")]
fn report(line: &str) {
    eprintln!("{line}");
}
