//! Many mounts at once: of one vault, in one process, and of as many vaults.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::many_files::{megabytes, millis};
use super::served::memory;
use super::site::{Mount, Site};
use super::{Options, Report};

pub fn measure(site: &Site, options: &Options, report: &mut Report) -> Result<()> {
    one_vault(site, options.mounts, report)?;
    many_vaults(site, options.mounts, report)
}

fn one_vault(site: &Site, count: usize, report: &mut Report) -> Result<()> {
    let first = site.mount_new("shared")?;
    first.create("file")?;
    let pid = first.served()?.pid;
    let alone = memory(pid)?;
    let start = Instant::now();
    let mounts: Vec<Mount<'_>> = (1..count)
        .map(|number| site.mount_at("shared", &format!("shared-{number}")))
        .collect::<Result<_>>()?;
    let took = start.elapsed() / count as u32;
    report.add(format!("one of {count} mounts of one vault"), millis(took), "ms");
    ensure!(
        mounts.iter().all(|mount| mount.path("file").exists()),
        "a mount does not show the file"
    );
    let all = memory(pid)?;
    report.add("  all in one process", megabytes(all.resident), "MB");
    let each = (all.resident - alone.resident) as f64 / (count - 1).max(1) as f64;
    report.add("  each mount more", each / 1e3, "kB");
    Ok(())
}

fn many_vaults(site: &Site, count: usize, report: &mut Report) -> Result<()> {
    let start = Instant::now();
    let mounts: Vec<Mount<'_>> = (0..count)
        .map(|number| site.mount_new(&format!("vault-{number}")))
        .collect::<Result<_>>()?;
    let took = start.elapsed() / count as u32;
    report.add(
        format!("one of {count} vaults made and mounted"),
        millis(took),
        "ms",
    );
    let mut sum = (0, 0);
    for mount in &mounts {
        mount.create("file")?;
        let memory = mount.served()?.memory()?;
        sum = (sum.0 + memory.resident, sum.1 + memory.own);
    }
    let count = count as u64;
    report.add_with_goal("  each process", megabytes(sum.0 / count), "MB", 15.0);
    report.add(
        "  of which not the program itself",
        megabytes(sum.1 / count),
        "MB",
    );
    Ok(())
}
