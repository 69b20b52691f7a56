//! What a filesystem in memory costs: `cargo run --release -p avfs-vfs --example vfs_speed`.
//!
//! Prints one line for each measurement, `NAME NANOSECONDS`, the median of several rounds. `crates/avfs-python/bench/vfs.py`
//! runs it beside the same calls from Python.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Instant;

use avfs_vfs::{Result, Vfs};

const FILES: usize = 10_000;
const ROUNDS: usize = 11;

fn main() -> Result<()> {
    let names: Vec<String> = (0..FILES)
        .map(|number| format!("/work/file-{number:05}.txt"))
        .collect();
    let content = vec![b'x'; 100];
    let mut vfs = Vfs::new();
    report("write 10,000 files", FILES, || {
        vfs = Vfs::new();
        let start = Instant::now();
        for name in &names {
            vfs.write_file(name, content.clone(), None)?;
        }
        Ok(start.elapsed().as_nanos())
    })?;
    report("read 10,000 files", FILES, || {
        let start = Instant::now();
        let mut bytes = 0;
        for name in &names {
            bytes += vfs.read_file(name)?.to_vec().len();
        }
        assert_eq!(bytes, FILES * content.len());
        Ok(start.elapsed().as_nanos())
    })?;
    report("list 10,000 files", FILES, || {
        let start = Instant::now();
        assert_eq!(vfs.ls("/work")?.len(), FILES);
        Ok(start.elapsed().as_nanos())
    })?;
    report("fork", 1, || {
        let start = Instant::now();
        let fork = vfs.fork()?;
        let spent = start.elapsed().as_nanos();
        drop(fork);
        Ok(spent)
    })?;
    report("snapshot", 1, || {
        let start = Instant::now();
        let snapshot = vfs.snapshot()?;
        let spent = start.elapsed().as_nanos();
        drop(snapshot);
        Ok(spent)
    })?;
    report("first write after a fork", 1, || {
        let fork = vfs.fork()?;
        let data = content.clone();
        let start = Instant::now();
        fork.write_file(&names[FILES / 2], data, None)?;
        Ok(start.elapsed().as_nanos())
    })?;
    report("changes after one write", 1, || {
        let before = vfs.snapshot()?;
        let fork = vfs.fork()?;
        fork.write_file(&names[FILES / 3], content.clone(), None)?;
        let start = Instant::now();
        let changes = fork.changes(&before)?;
        let spent = start.elapsed().as_nanos();
        assert!(changes.is_empty(), "the content is the same");
        Ok(spent)
    })?;
    Ok(())
}

/// The median of some rounds after one that warms up, for each of `parts`.
fn report(name: &str, parts: usize, mut round: impl FnMut() -> Result<u128>) -> Result<()> {
    round()?;
    let mut spent = Vec::new();
    for _ in 0..ROUNDS {
        spent.push(round()?);
    }
    spent.sort_unstable();
    println!("{name}\t{:.1}", spent[ROUNDS / 2] as f64 / parts as f64);
    Ok(())
}
