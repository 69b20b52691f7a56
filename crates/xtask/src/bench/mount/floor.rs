//! The cost of requests that need no serving: the null file system, over the same transport and in the same
//! run. No file system can be faster that way.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use avfs_fuse::abi::Opcode;
use avfs_fuse::mounting::{self, FuseMountOptions, UnmountMode};
use avfs_fuse::null::{FILE_SIZE, NullFilesystem};
use avfs_fuse::transport::{FuseServing, ServingOptions, Transport};
use avfs_fuse::{FuseSession, SessionSettings};
use serde::Serialize;

const MIB: usize = 1 << 20;
/// How many MiB are copied at a time.
const COPIED: usize = FILE_SIZE as usize / MIB;
/// The repetitions of each operation of the mix.
const COUNT: u64 = 2_000;

/// Work that is nearly all copying, and of how many MiB.
#[derive(Clone, Copy)]
pub enum Bulk {
    Write(usize),
    ColdRead(usize),
    WarmRead(usize),
}

/// All in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Floor {
    /// One request, as the mean of a mix: missing names, attributes, short writes, files created and deleted.
    pub request: f64,
    /// A MiB of one large file.
    pub written_mib: f64,
    pub read_mib: f64,
    /// From the kernel's cache, without any request.
    pub warm_mib: f64,
}

impl Floor {
    pub fn measure(transport: &str) -> Result<Floor> {
        let transport = match transport {
            "auto" => Transport::Auto,
            "device" => Transport::Device,
            "uring" => Transport::Uring,
            other => bail!("no transport {other}"),
        };
        let mut mix = mounted(transport, false, asking)?;
        mix.extend(mounted(transport, true, changing)?);
        let [written_mib, read_mib, warm_mib] = mounted(transport, true, copying)?;
        Ok(Floor {
            request: mix.iter().sum::<f64>() / mix.len() as f64,
            written_mib,
            read_mib,
            warm_mib,
        })
    }

    pub fn median(floors: &[Floor]) -> Floor {
        let middle = |part: fn(&Floor) -> f64| super::report::median(floors.iter().map(part));
        Floor {
            request: middle(|floor| floor.request),
            written_mib: middle(|floor| floor.written_mib),
            read_mib: middle(|floor| floor.read_mib),
            warm_mib: middle(|floor| floor.warm_mib),
        }
    }

    /// The minimum time for these requests, or this copying.
    pub fn micros(&self, requests: u64, bulk: Option<Bulk>) -> f64 {
        match bulk {
            None => requests as f64 * self.request,
            Some(Bulk::Write(mib)) => mib as f64 * self.written_mib,
            Some(Bulk::ColdRead(mib)) => mib as f64 * self.read_mib,
            Some(Bulk::WarmRead(mib)) => mib as f64 * self.warm_mib,
        }
    }
}

/// Mounts the null file system during the measurement.
fn mounted<T>(
    transport: Transport,
    cached: bool,
    measure: fn(&Path, &FuseSession) -> Result<T>,
) -> Result<T> {
    let directory = tempfile::tempdir()?;
    let options = FuseMountOptions {
        default_permissions: false,
        ..FuseMountOptions::new("floor")
    };
    let connection = mounting::mount(directory.path(), &options)?;
    let mut null = NullFilesystem::default();
    null.cached = cached;
    let session = Arc::new(FuseSession::new(Arc::new(null), SessionSettings::default()));
    let options = ServingOptions {
        transport,
        ..ServingOptions::default()
    };
    let outcome = FuseServing::start(session.clone(), connection, options)
        .map_err(anyhow::Error::from)
        .and_then(|serving| Ok((serving, measure(directory.path(), &session)?)));
    mounting::unmount(directory.path(), UnmountMode::Detach)?;
    let (serving, outcome) = outcome?;
    serving.wait();
    Ok(outcome)
}

/// Of a file system whose answers the kernel may not cache.
fn asking(at: &Path, session: &FuseSession) -> Result<Vec<f64>> {
    let missing = at.join("nothing");
    let (file, block) = (File::create(at.join("new"))?, [7; 4096]);
    Ok(vec![
        per_request(session, |_| {
            _ = fs::symlink_metadata(&missing);
            Ok(())
        })?,
        per_request(session, |_| fs::symlink_metadata(at).map(drop))?,
        per_request(session, |index| file.write_all_at(&block, index * 4096))?,
    ])
}

/// Only a name that the kernel has cached can be deleted: this file system itself knows none.
fn changing(at: &Path, session: &FuseSession) -> Result<Vec<f64>> {
    let new = at.join("new");
    let made = per_request(session, |_| {
        drop(File::create(&new)?);
        fs::remove_file(&new)
    })?;
    Ok(vec![made])
}

fn per_request(session: &FuseSession, operation: impl Fn(u64) -> io::Result<()>) -> Result<f64> {
    let before = session.counters().total();
    let start = Instant::now();
    (0..COUNT).try_for_each(operation)?;
    let micros = start.elapsed().as_secs_f64() * 1e6;
    let requests = session.counters().total() - before;
    ensure!(requests >= COUNT, "{COUNT} operations made {requests} requests");
    Ok(micros / requests as f64)
}

/// Requests of a read that are counted after its end.
const LATE: u64 = 4;

/// Writes, reads, and reads cached data again.
fn copying(at: &Path, session: &FuseSession) -> Result<[f64; 3]> {
    let mut piece = vec![0; MIB];
    let start = Instant::now();
    let mut new = File::create(at.join("new"))?;
    (0..COPIED).try_for_each(|_| new.write_all(&piece))?;
    drop(new);
    let written = per_mib(start);
    let mut read = || -> Result<f64> {
        let start = Instant::now();
        let mut file = File::open(at.join("file"))?;
        (0..COPIED).try_for_each(|_| file.read_exact(&mut piece))?;
        Ok(per_mib(start))
    };
    let cold = read()?;
    let before = session.counters().requests(Opcode::Read);
    let warm = read()?;
    // Readahead may still be counted when the reader has its data.
    let again = session.counters().requests(Opcode::Read) - before;
    ensure!(
        again <= LATE,
        "the kernel did not remember what it read: {again} requests"
    );
    Ok([written, cold, warm])
}

fn per_mib(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6 / COPIED as f64
}
