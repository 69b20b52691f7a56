//! One large file: from its beginning to its end, and here and there.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Result, ensure};

use super::Step;
use super::floor::Bulk;

const MIB: usize = 1 << 20;
const SIZE: usize = 256 * MIB;
const PAGE: usize = 4096;
const PAGES: u64 = 4_096;

pub fn steps() -> Vec<Step> {
    vec![
        Step::new("write 256 MiB", |dir, _| write(dir))
            .needed()
            .copying(Bulk::Write(SIZE / MIB)),
        Step::new("read 256 MiB", |dir, _| read(dir))
            .warm()
            .copying(Bulk::WarmRead(SIZE / MIB)),
        Step::new("4,096 random 4 KiB reads", |dir, _| random_reads(dir)).warm(),
        Step::new("4,096 random 4 KiB writes", |dir, _| random_writes(dir)),
    ]
}

pub fn cold_steps() -> Vec<Step> {
    vec![
        Step::new("read 256 MiB, cold", |dir, _| read(dir))
            .cold()
            .copying(Bulk::ColdRead(SIZE / MIB)),
        Step::new("4,096 random 4 KiB reads, cold", |dir, _| random_reads(dir)).cold(),
        Step::new("delete 256 MiB", |dir, _| {
            Ok(fs::remove_file(dir.join("large")).map(|()| None)?)
        })
        .needed(),
    ]
}

/// Durable at its end.
fn write(dir: &Path) -> Result<Option<u64>> {
    let mut file = File::create(dir.join("large"))?;
    let mut piece = vec![0; MIB];
    for index in 0..SIZE / MIB {
        let mut hash = blake3::Hasher::new();
        hash.update(&index.to_le_bytes());
        hash.finalize_xof().fill(&mut piece[..64 * 1024]);
        file.write_all(&piece)?;
    }
    file.sync_data()?;
    Ok(None)
}

fn read(dir: &Path) -> Result<Option<u64>> {
    let mut file = File::open(dir.join("large"))?;
    let mut piece = vec![0; MIB];
    let mut total = 0;
    loop {
        match file.read(&mut piece)? {
            0 => break,
            length => total += length,
        }
    }
    ensure!(total == SIZE, "{total} bytes were read");
    Ok(None)
}

/// Places all over the file, the same each time.
fn offsets() -> impl Iterator<Item = u64> {
    let pages = (SIZE / PAGE) as u64;
    (0..PAGES).map(move |index| index.wrapping_mul(0x9E37_79B9_7F4A_7C15) % pages * PAGE as u64)
}

fn random_reads(dir: &Path) -> Result<Option<u64>> {
    let file = File::open(dir.join("large"))?;
    let mut page = [0; PAGE];
    offsets().try_for_each(|offset| file.read_exact_at(&mut page, offset))?;
    Ok(Some(PAGES))
}

/// Durable at their end, all together.
fn random_writes(dir: &Path) -> Result<Option<u64>> {
    let file = OpenOptions::new().write(true).open(dir.join("large"))?;
    offsets().try_for_each(|offset| file.write_all_at(&[7; PAGE], offset))?;
    file.sync_data()?;
    Ok(Some(PAGES))
}
