//! Small files, many vaults, search and large things through the library.

use std::path::Path;
use std::time::{Duration, Instant};

use agentvfs::query::search::{Query, SearchIndex, SearchOptions, SearchScope};
use agentvfs::{Store, TreePath, Vault, VaultName};
use anyhow::Result;
use serde_json::{Value, json};

use super::{fixture, measure};

pub fn run(dir: &Path) -> Result<Value> {
    let home = tempfile::Builder::new().prefix("library-").tempdir_in(dir)?;
    let store = Store::open(home.path())?;
    let sizes = [1 << 10, 10 << 10, 100 << 10, 1 << 20];
    let files: Vec<Value> = sizes
        .iter()
        .map(|size| small_files(&store, *size))
        .collect::<Result<_>>()?;
    let vaults = hundred_vaults(&store)?;
    let search = [100, 100_000]
        .iter()
        .map(|count| search(dir, *count))
        .collect::<Result<Vec<Value>>>()?;
    Ok(json!({
        "small_files": files,
        "operations_per_s_over_100_vaults": vaults,
        "search": search,
        "one_name_in_100000_bytes": large_directory(dir)?,
        "one_page_in_1_gib_bytes": large_file(dir)?,
        "overhead_10000_x_1_kb": overhead(dir)?,
    }))
}

pub fn print(result: &Value) {
    println!("\n{}", serde_json::to_string_pretty(result).unwrap_or_default());
}

fn path(text: &str) -> Result<TreePath> {
    Ok(TreePath::parse(text.as_bytes())?)
}

/// Writes and reads files of one size. The writes end with one durable snapshot; for comparison, the same
/// number of bytes is written to one file of the host and synced.
fn small_files(store: &Store, size: usize) -> Result<Value> {
    const BYTES: usize = 32 << 20;
    let count = (BYTES / size).min(20_000);
    let vault = store.create_vault(&VaultName::new(&format!("files-{size}"))?)?;
    let contents: Vec<Vec<u8>> = (0..count).map(|index| fixture::file_bytes(index, size)).collect();
    let paths = (0..count)
        .map(|index| path(&format!("/f{index}")))
        .collect::<Result<Vec<_>>>()?;
    let host = write_to_host(store, &contents)?;
    let start = Instant::now();
    let open = vault.begin()?;
    for (path, bytes) in paths.iter().zip(&contents) {
        open.write_bytes(path, bytes)?;
    }
    open.commit("write", "files")?;
    let write = start.elapsed();
    let open = Store::open(store.home().unwrap_or(Path::new(".")))?
        .vault(vault.name()?.as_str())?
        .begin()?;
    let read = |_: usize| -> Result<Duration> {
        let start = Instant::now();
        let mut total = 0;
        for path in &paths {
            total += open.read(path)?.len();
        }
        anyhow::ensure!(total == count * size, "read {total} bytes");
        Ok(start.elapsed())
    };
    let first = read(0)?;
    let again = (1..6)
        .map(read)
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .min()
        .unwrap_or(first);
    let rate = |time: Duration| (count * size) as f64 / (1 << 20) as f64 / time.as_secs_f64();
    Ok(json!({
        "bytes": size,
        "write_mib_per_s": rate(write),
        "host_write_mib_per_s": rate(host),
        "first_read_mib_per_s": rate(first),
        "read_mib_per_s": rate(again),
    }))
}

fn write_to_host(store: &Store, contents: &[Vec<u8>]) -> Result<Duration> {
    let place = store.home().unwrap_or(Path::new(".")).join("host.probe");
    let mut file = std::fs::File::create(&place)?;
    let start = Instant::now();
    for bytes in contents {
        std::io::Write::write_all(&mut file, bytes)?;
    }
    file.sync_data()?;
    let time = start.elapsed();
    std::fs::remove_file(place)?;
    Ok(time)
}

/// Reads, writes and lists in turns, over a hundred open vaults.
fn hundred_vaults(store: &Store) -> Result<f64> {
    const OPERATIONS: usize = 50_000;
    let names = (0..100)
        .map(|index| VaultName::new(&format!("many-{index}")))
        .collect::<Result<Vec<_>, _>>()?;
    let main = store.create_vault(&VaultName::new("many")?)?;
    let vaults: Vec<Vault> = main.fork(&names)?;
    let mut open = vaults.iter().map(Vault::begin).collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    for index in 0..OPERATIONS {
        let vault = &mut open[index % 100];
        let at = path(&format!("/f{}", index / 200 % 50))?;
        if index / 100 % 2 == 0 {
            vault.write_bytes(&at, &fixture::file_bytes(index, 256))?;
        } else {
            vault.read(&at)?;
        }
    }
    for vault in &mut open {
        vault.save("write", "files")?;
    }
    Ok(OPERATIONS as f64 / start.elapsed().as_secs_f64())
}

fn search(dir: &Path, count: usize) -> Result<Value> {
    let home = tempfile::Builder::new().prefix("search-").tempdir_in(dir)?;
    let store = Store::open(home.path())?;
    let source = dir.join(format!("source-{count}"));
    fixture::source_tree(&source, count)?;
    let vault = store.create_vault(&VaultName::new("docs")?)?;
    let open = vault.begin()?;
    open.imports().directory(&source, &TreePath::root(), &())?;
    open.commit("import", "documents")?;
    let reader = vault.reader()?;
    let index = SearchIndex::open(home.path())?;
    let start = Instant::now();
    let scope = SearchScope {
        key: "docs",
        parent: None,
        reader: &reader,
    };
    index.search(scope, &Query::parse("vault17")?, SearchOptions::default())?;
    let first = start.elapsed();
    let ask = |text: &str| -> Result<Duration> {
        let query = Query::parse(text)?;
        measure::median(
            15,
            |_| Ok(()),
            |()| {
                let scope = SearchScope {
                    key: "docs",
                    parent: None,
                    reader: &reader,
                };
                index.search(scope, &query, SearchOptions::default())?;
                Ok(())
            },
        )
    };
    Ok(json!({
        "documents": count,
        "index_ms": first.as_secs_f64() * 1e3,
        "word_us": measure::micros(ask("vault17")?),
        "two_words_us": measure::micros(ask("vault17 fork99")?),
    }))
}

/// The growth of the store for one changed name in a directory of 100,000.
fn large_directory(dir: &Path) -> Result<u64> {
    let home = tempfile::Builder::new().prefix("wide-").tempdir_in(dir)?;
    let source = tempfile::Builder::new().prefix("wide-source-").tempdir_in(dir)?;
    for index in 0..100_000 {
        std::fs::write(source.path().join(format!("name{index}")), b"")?;
    }
    let store = Store::open(home.path())?;
    let vault = store.create_vault(&VaultName::new("wide")?)?;
    let open = vault.begin()?;
    open.imports().directory(source.path(), &TreePath::root(), &())?;
    open.commit("import", "names")?;
    let before = measure::disk_bytes(&home.path().join("packs"))?;
    let open = vault.begin()?;
    open.write_bytes(&path("/name54321")?, b"changed")?;
    open.commit("write", "one file")?;
    Ok(measure::disk_bytes(&home.path().join("packs"))? - before)
}

/// The growth of the store for four changed kilobytes in a file of 1 GiB.
fn large_file(dir: &Path) -> Result<Value> {
    let home = tempfile::Builder::new().prefix("large-").tempdir_in(dir)?;
    let store = Store::open(home.path())?;
    let vault = store.create_vault(&VaultName::new("large")?)?;
    let open = vault.begin()?;
    let mut noise = blake3::Hasher::new().update(b"large").finalize_xof();
    let mut source = std::io::Read::take(&mut noise, 1 << 30);
    let at = path("/large")?;
    open.write(&at, &mut source, agentvfs::WriteMode::Replace, None)?;
    open.commit("write", "1 GiB")?;
    let before = measure::disk_bytes(&home.path().join("packs"))?;
    let open = vault.begin()?;
    let ino = open.stat(&at)?.ino;
    let start = Instant::now();
    open.tree().write(ino, 500 << 20, &[1; 4096])?;
    open.save("write", "4 KiB")?;
    let time = start.elapsed();
    let added = measure::disk_bytes(&home.path().join("packs"))? - before;
    Ok(json!({ "added": added, "us": measure::micros(time) }))
}

/// The size of a store over the bytes of 10,000 files of 1 KB in it.
fn overhead(dir: &Path) -> Result<f64> {
    let home = tempfile::Builder::new().prefix("overhead-").tempdir_in(dir)?;
    let source = dir.join("source-10000");
    fixture::source_tree(&source, 10_000)?;
    {
        let store = Store::open(home.path())?;
        let vault = store.create_vault(&VaultName::new("main")?)?;
        let open = vault.begin()?;
        open.imports().directory(&source, &TreePath::root(), &())?;
        open.commit("import", "files")?;
    }
    Ok(measure::disk_bytes(home.path())? as f64 / (10_000.0 * 1024.0))
}
