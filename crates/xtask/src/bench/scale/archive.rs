//! Archives of many small files, generated while they are read: they are never in a host directory.

use std::io::Write;

use anyhow::Result;

/// A hundred files to a directory, a hundred directories to one above.
pub fn write(count: usize, out: &mut dyn Write) -> Result<()> {
    let mut archive = tar::Builder::new(out);
    for index in 0..count {
        let bytes = format!("document {index}\n").repeat(8);
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(1_000_000_000);
        archive.append_data(&mut header, path(index), bytes.as_bytes())?;
    }
    Ok(archive.into_inner()?.flush()?)
}

pub fn path(index: usize) -> String {
    format!(
        "d{:03}/e{:03}/file{index:07}.txt",
        index / 10_000,
        index / 100 % 100
    )
}
