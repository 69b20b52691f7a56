//! The cost of vaults by their size: costs that must not grow do not grow.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use agentvfs::{CheckpointName, Store, TreePath, Vault, VaultName};
use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{fixture, measure, throughput};

const RUNS: usize = 9;

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = Options::parse(arguments)?;
    std::fs::create_dir_all(&options.dir)?;
    let avfs = build_avfs()?;
    let mut rows = Vec::new();
    for size in &options.sizes {
        eprintln!("{size} files: making the source tree");
        let row = one_size(&options.dir, *size, &avfs)?;
        rows.push(row);
    }
    print_table(&rows);
    let other = throughput::run(&options.dir)?;
    throughput::print(&other);
    let result = json!({ "sizes": rows, "library": other });
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_string_pretty(&result)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Options {
    sizes: Vec<usize>,
    json: Option<PathBuf>,
    dir: PathBuf,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options {
            sizes: vec![1_000, 10_000, 100_000, 1_000_000],
            json: None,
            dir: PathBuf::from("target/bench"),
        };
        let mut rest = arguments.iter();
        while let Some(flag) = rest.next() {
            let value = rest.next().with_context(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--sizes" => options.sizes = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
                "--json" => options.json = Some(value.into()),
                "--dir" => options.dir = value.into(),
                other => anyhow::bail!("unknown option {other}"),
            }
        }
        Ok(options)
    }
}

pub fn build_avfs() -> Result<PathBuf> {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "-q", "-p", "avfs"])
        .status()?;
    anyhow::ensure!(built.success(), "avfs does not build");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(PathBuf::from("target"), PathBuf::from);
    Ok(std::path::absolute(target.join("release/avfs"))?)
}

fn one_size(dir: &Path, size: usize, avfs: &Path) -> Result<Value> {
    let source = dir.join(format!("source-{size}"));
    fixture::source_tree(&source, size)?;
    let home = tempfile::Builder::new().prefix("store-").tempdir_in(dir)?;
    let import = import(&source, home.path(), size)?;
    let stored = measure::disk_bytes(home.path())?;

    let cold_open = cold_open(home.path())?;
    let memory = open_memory(home.path())?;
    let store = Store::open(home.path())?;
    let vault = store.vault("main")?;
    // Earlier data is written to disk, so that its writeback is not measured.
    rustix::fs::sync();
    let probe = measure::Fsync::new(dir)?;
    let fork = probe.beside(|| fork(&vault))?;
    let delete = probe.beside(|| delete(&vault))?;
    let clean = measure::median(
        RUNS,
        |_| Ok(vault.begin()?),
        |open| Ok(open.commit("nothing", "").map(|_| ())?),
    )?;
    let one = probe.beside(|| checkpoint(&vault, size, 1))?;
    let thousand = probe.beside(|| checkpoint(&vault, size, size.min(1000)))?;
    let restore = probe.beside(|| restore(&vault, size))?;
    let diff = diff(&vault, size)?;
    drop((vault, store));
    let gc = gc(home.path())?;
    let (ls, git) = cold_processes(avfs, home.path())?;
    Ok(json!({
        "files": size,
        "import_files_per_s": (size as f64 / import.as_secs_f64()).round(),
        "stored_over_logical": stored as f64 / (size as f64 * 1024.0),
        "fsync_us": measure::micros(fork.fsync),
        "fork_us": measure::micros(fork.time),
        "fork_fsyncs": fork.in_fsyncs(),
        "checkpoint_clean_us": measure::micros(clean),
        "checkpoint_1_us": measure::micros(one.time),
        "checkpoint_1_fsyncs": one.in_fsyncs(),
        "checkpoint_1000_us": measure::micros(thousand.time),
        "checkpoint_1000_fsyncs": thousand.in_fsyncs(),
        "restore_10_us": measure::micros(restore.time),
        "restore_10_fsyncs": restore.in_fsyncs(),
        "diff_10_us": measure::micros(diff),
        "delete_fork_us": measure::micros(delete.time),
        "delete_fork_fsyncs": delete.in_fsyncs(),
        "gc_ms": gc.as_secs_f64() * 1e3,
        "open_cold_us": measure::micros(cold_open),
        "open_memory_bytes": memory,
        "ls_cold_ms": ls.as_secs_f64() * 1e3,
        "git_version_ms": git.as_secs_f64() * 1e3,
    }))
}

/// The source is read once before, so that it is in the cache of the host.
fn import(source: &Path, home: &Path, size: usize) -> Result<Duration> {
    read_all(source)?;
    let store = Store::open(home)?;
    let vault = store.create_vault(&VaultName::new("main")?)?;
    let start = Instant::now();
    let open = vault.begin()?;
    let report = open.imports().directory(source, &TreePath::root(), &())?;
    open.commit("import", "the source tree")?;
    let time = start.elapsed();
    anyhow::ensure!(
        report.files == size as u64,
        "{} files were imported",
        report.files
    );
    Ok(time)
}

fn read_all(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            read_all(&entry.path())?;
        } else {
            std::fs::read(entry.path())?;
        }
    }
    Ok(())
}

/// Opening the store and reading one name, with nothing in this process's memory.
fn cold_open(home: &Path) -> Result<Duration> {
    measure::median(
        RUNS,
        |_| Ok(()),
        |()| {
            let vault = Store::open(home)?.vault("main")?;
            let first = vault.reader()?.list(&TreePath::root())?.next();
            anyhow::ensure!(first.is_some(), "the vault is empty");
            Ok(())
        },
    )
}

/// The memory of a process that has opened the vault and read one name: this program, started again.
fn open_memory(home: &Path) -> Result<u64> {
    let mut probe = Command::new(std::env::current_exe()?);
    let output = probe.args(["bench", "open-memory"]).arg(home).output()?;
    anyhow::ensure!(output.status.success(), "the probe failed");
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// The code that the probe process runs.
pub fn print_open_memory(home: &Path) -> Result<ExitCode> {
    let open = Store::open(home)?.vault("main")?.open()?;
    anyhow::ensure!(
        open.tree().read_directory(agentvfs::Ino::ROOT, None, 1)?.len() == 1,
        "the vault is empty"
    );
    println!("{}", measure::resident_bytes()?);
    Ok(ExitCode::SUCCESS)
}

fn fork(vault: &Vault) -> Result<Duration> {
    measure::median(
        RUNS,
        |run| Ok(vec![VaultName::new(&format!("fork-{run}"))?]),
        |names| Ok(vault.fork(&names).map(|_| ())?),
    )
}

fn delete(vault: &Vault) -> Result<Duration> {
    measure::median(
        RUNS,
        |run| Ok(vault.store().vault(&format!("fork-{run}"))?),
        |fork| Ok(fork.delete(false)?),
    )
}

/// Writes `dirty` files and takes a durable snapshot; only the snapshot is timed.
fn checkpoint(vault: &Vault, size: usize, dirty: usize) -> Result<Duration> {
    measure::median(
        RUNS,
        |run| {
            let open = vault.begin()?;
            write_files(&open, size, dirty, run)?;
            Ok(open)
        },
        |open| Ok(open.save("write", "some files").map(|_| ())?),
    )
}

fn write_files(open: &agentvfs::OpenVault, size: usize, dirty: usize, run: usize) -> Result<()> {
    for index in (0..size).step_by((size / dirty).max(1)).take(dirty) {
        let path = TreePath::parse(fixture::file_path(index).as_bytes())?;
        open.write_bytes(&path, &fixture::file_bytes(index + 1_000_000 * (run + 7), 1024))?;
    }
    Ok(())
}

/// Restores a state with ten changed files.
fn restore(vault: &Vault, size: usize) -> Result<Duration> {
    measure::median(
        RUNS,
        |run| {
            vault.save_checkpoint(&CheckpointName::new(&format!("r{run}"))?, None)?;
            let target = vault.revision(&format!("r{run}"))?;
            let open = vault.begin()?;
            write_files(&open, size, 10, run + 50)?;
            open.commit("write", "ten files")?;
            Ok(target)
        },
        |target| Ok(vault.restore(&target, "back").map(|_| ())?),
    )
}

fn diff(vault: &Vault, size: usize) -> Result<Duration> {
    let before = vault.revision("@")?;
    let open = vault.begin()?;
    write_files(&open, size, 10, 99)?;
    open.commit("write", "ten files")?;
    let after = vault.revision("@")?;
    measure::median(
        RUNS,
        |_| Ok(()),
        |()| {
            let changes = before.diff(&after)?;
            anyhow::ensure!(changes.len() >= 10, "{} changes", changes.len());
            Ok(())
        },
    )
}

fn gc(home: &Path) -> Result<Duration> {
    let store = Store::open(home)?;
    let start = Instant::now();
    store.collect_garbage(&mut |_| true)?;
    Ok(start.elapsed())
}

/// `avfs ls` and `git --version` as cold processes, one after the other in turns.
fn cold_processes(avfs: &Path, home: &Path) -> Result<(Duration, Duration)> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..25 {
        let mut ls = Command::new(avfs);
        ls.args(["ls", "--vault", "main"]).env("AVFS_HOME", home);
        ours.push(time_process(&mut ls)?);
        theirs.push(time_process(Command::new("git").arg("--version"))?);
    }
    ours.sort();
    theirs.sort();
    Ok((ours[ours.len() / 2], theirs[theirs.len() / 2]))
}

fn time_process(command: &mut Command) -> Result<Duration> {
    let start = Instant::now();
    let status = command.stdout(Stdio::null()).status()?;
    let time = start.elapsed();
    anyhow::ensure!(status.success(), "{command:?} failed");
    Ok(time)
}

fn print_table(rows: &[Value]) {
    let Some(Value::Object(first)) = rows.first() else {
        return;
    };
    for key in first.keys() {
        let cells: Vec<String> = rows
            .iter()
            .map(|row| {
                row.get(key)
                    .and_then(Value::as_f64)
                    .map_or(String::new(), |number| format!("{number:>14.2}"))
            })
            .collect();
        println!("{key:<22}{}", cells.join(""));
    }
}
