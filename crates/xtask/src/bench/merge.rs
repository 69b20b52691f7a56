//! The cost of a merge: two forks with ten changed files each, and a merge that finds nothing to do.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use agentvfs::{MergeOptions, Store, TreePath, Vault, VaultLimits, VaultName};
use anyhow::{Context, Result};

use super::{fixture, measure};

const RUNS: usize = 9;
const CHANGED: usize = 10;

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let (mut sizes, mut dir) = (vec![1_000, 100_000], PathBuf::from("target/bench"));
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().with_context(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--sizes" => sizes = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "--dir" => dir = value.into(),
            other => anyhow::bail!("unknown option {other}"),
        }
    }
    std::fs::create_dir_all(&dir)?;
    println!(
        "{:>9}  {:>10}  {:>10}  {:>14}  {:>10}",
        "files", "merge", "dry run", "nothing to do", "fsync"
    );
    for size in sizes {
        one_size(&dir, size)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn one_size(dir: &std::path::Path, size: usize) -> Result<()> {
    let source = dir.join(format!("source-{size}"));
    fixture::source_tree(&source, size)?;
    let home = tempfile::Builder::new().prefix("store-").tempdir_in(dir)?;
    let store = Store::open(home.path())?;
    let (main, _) =
        store.create_vault_from(&VaultName::new("main")?, &source, VaultLimits::default(), &())?;
    let forks = |name: &str| -> Result<Vec<Vault>> {
        let names = (0..RUNS).map(|run| VaultName::new(&format!("{name}-{run}")));
        Ok(main.fork(&names.collect::<agentvfs::Result<Vec<_>>>()?)?)
    };
    let (ours, theirs) = (forks("ours")?, forks("theirs")?);
    for (run, (mine, yours)) in ours.iter().zip(&theirs).enumerate() {
        write(mine, size, 0, run)?;
        write(yours, size, 1, run)?;
    }
    rustix::fs::sync();
    let probe = measure::Fsync::new(dir)?;
    let dry = timed(
        &ours,
        &theirs,
        &MergeOptions {
            dry_run: true,
            ..MergeOptions::default()
        },
    )?;
    let merge = probe.beside(|| timed(&ours, &theirs, &MergeOptions::default()))?;
    let nothing = timed(&ours, &theirs, &MergeOptions::default())?;
    let shown = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    let (merged, dry, nothing, fsync) = (shown(merge.time), shown(dry), shown(nothing), shown(merge.fsync));
    println!("{size:>9}  {merged:>10}  {dry:>10}  {nothing:>14}  {fsync:>10}");
    Ok(())
}

fn timed(ours: &[Vault], theirs: &[Vault], options: &MergeOptions) -> Result<Duration> {
    measure::median(
        RUNS,
        |run| Ok((&ours[run], &theirs[run])),
        |(ours, theirs)| {
            let report = ours.merge(&[theirs], options)?;
            anyhow::ensure!(report.conflicts.is_empty(), "{:?}", report.conflicts);
            Ok(())
        },
    )
}

fn write(vault: &Vault, size: usize, first: usize, run: usize) -> Result<()> {
    let open = vault.begin()?;
    for index in (first..size).step_by(size / CHANGED) {
        let path = TreePath::parse(fixture::file_path(index).as_bytes())?;
        open.write_bytes(&path, &fixture::file_bytes(size + run + index, 1024))?;
    }
    open.commit("write", "ten files")?;
    Ok(())
}
