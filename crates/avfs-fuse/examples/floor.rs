//! What requests cost over `/dev/fuse` when serving them costs nothing: `floor [threads] [rounds] [spin µs] [follow 0|1]`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use avfs_fuse::mounting::{MountOptions, Unmount, mount, unmount};
use avfs_fuse::null::NullFilesystem;
use avfs_fuse::transport::device::{DeviceOptions, Serving};
use avfs_fuse::{Session, Settings};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse());
    let threads = arguments.next().transpose()?.unwrap_or(2);
    let rounds = arguments.next().transpose()?.unwrap_or(20_000);
    let spin = Duration::from_micros(arguments.next().transpose()?.unwrap_or(0) as u64);
    let follow = arguments.next().transpose()?.unwrap_or(1) == 1;
    let directory = tempfile::tempdir()?;
    let connection = mount(directory.path(), &MountOptions::new("floor"))?;
    let log: avfs_fuse::Log = Arc::new(report);
    let session = Session::new(Arc::new(NullFilesystem::default()), Settings { log, ..Settings::default() });
    let serving = Serving::start(Arc::new(session), connection, DeviceOptions { threads, spin, follow })?;
    let outcome = measure_all(directory.path(), rounds);
    unmount(directory.path(), Unmount::Detach)?;
    serving.stop();
    outcome
}

fn measure_all(at: &Path, rounds: usize) -> Outcome {
    measure("lookup of nothing", rounds, || {
        let _ = std::fs::symlink_metadata(at.join("nothing"));
        Ok(())
    })?;
    measure("getattr", rounds, || std::fs::symlink_metadata(at).map(drop))?;
    let file = File::options().write(true).create(true).truncate(true).open(at.join("new"))?;
    let block = [7; 4096];
    let mut offset = 0;
    measure("write of 4 KiB", rounds, || {
        offset += 4096;
        file.write_all_at(&block, offset)
    })?;
    measure("create and close", rounds, || File::create(at.join("another")).map(drop))?;
    let two = std::thread::scope(|scope| {
        let work =
            || measure("getattr, two at once", rounds, || std::fs::symlink_metadata(at).map(drop)).is_ok();
        let other = scope.spawn(work);
        work() && other.join().unwrap_or(false)
    });
    let zeros = File::open(at.join("file"))?;
    let mut buffer = vec![0; 1 << 20];
    let started = Instant::now();
    for index in 0..64 {
        zeros.read_exact_at(&mut buffer, index << 20)?;
    }
    report(&format!("read: {:.0} MiB/s", 64.0 / started.elapsed().as_secs_f64()));
    if two { Ok(()) } else { Err("two at once failed".into()) }
}

fn measure(
    what: &str,
    rounds: usize,
    mut operation: impl FnMut() -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let started = Instant::now();
        operation()?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    let mean = times.iter().sum::<Duration>() / rounds as u32;
    let (half, most) = (times[rounds / 2], times[rounds * 99 / 100]);
    report(&format!("{what}: mean {mean:?}, median {half:?}, 99 % within {most:?}"));
    Ok(())
}

#[allow(clippy::print_stdout, reason = "this is what the example is for")]
fn report(line: &str) {
    println!("{line}");
}
