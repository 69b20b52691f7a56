//! Source trees of any size: 1 KB files, a hundred to a directory.

use std::fs;
use std::path::Path;

use anyhow::Result;

/// Creates `count` files below `dir`, unless they exist already.
pub fn source_tree(dir: &Path, count: usize) -> Result<()> {
    let done = dir.with_extension("done");
    if done.exists() {
        return Ok(());
    }
    for index in 0..count {
        let parent = dir.join(directory_name(index));
        if index % 100 == 0 {
            fs::create_dir_all(&parent)?;
        }
        fs::write(
            parent.join(format!("file{index:07}.txt")),
            file_bytes(index, 1024),
        )?;
    }
    fs::write(done, b"")?;
    Ok(())
}

fn directory_name(index: usize) -> String {
    format!("d{:03}/e{:03}", index / 10_000, index / 100 % 100)
}

/// The path of a file in the vault.
pub fn file_path(index: usize) -> String {
    format!("/{}/file{index:07}.txt", directory_name(index))
}

/// Text that differs from file to file: words from a small list.
pub fn file_bytes(seed: usize, len: usize) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "vault",
        "fork",
        "checkpoint",
        "snapshot",
        "journal",
        "inode",
        "object",
        "ref",
        "owner",
        "source",
        "rule",
        "view",
        "run",
        "session",
        "task",
        "store",
    ];
    let mut bytes = Vec::with_capacity(len + 16);
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    let mut stream = hasher.finalize_xof();
    bytes.extend_from_slice(format!("document {seed}\n").as_bytes());
    while bytes.len() < len {
        let mut random = [0u8; 4];
        stream.fill(&mut random);
        let number = u32::from_le_bytes(random);
        bytes.extend_from_slice(WORDS[number as usize % WORDS.len()].as_bytes());
        bytes.extend_from_slice(format!("{} ", number >> 4 & 0xfff).as_bytes());
    }
    bytes.truncate(len);
    bytes
}
