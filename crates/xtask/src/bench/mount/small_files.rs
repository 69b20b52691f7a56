//! Small files by the thousand, without another program in between: the cost of one operation.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::{Step, Work};

const COUNT: u64 = 2_000;
/// How many each client makes and reads.
const CLIENT_COUNT: u64 = 1_000;
const BYTES: [u8; 1024] = [b'x'; 1024];

pub fn steps() -> Vec<Step> {
    let each: [(&str, Work); 6] = [
        ("create 2,000", |dir, _| {
            fs::create_dir(dir.join("small"))?;
            each(|index| Ok(fs::write(name(dir, 'f', index), BYTES)?))
        }),
        ("stat 2,000", |dir, _| {
            each(|index| Ok(fs::metadata(name(dir, 'f', index)).map(|_| ())?))
        }),
        ("read 2,000", |dir, _| {
            each(|index| {
                ensure!(fs::read(name(dir, 'f', index))? == BYTES, "other bytes were read");
                Ok(())
            })
        }),
        ("append to 2,000", |dir, _| {
            each(|index| {
                Ok(OpenOptions::new()
                    .append(true)
                    .open(name(dir, 'f', index))?
                    .write_all(b"more\n")?)
            })
        }),
        ("rename 2,000", |dir, _| {
            each(|index| Ok(fs::rename(name(dir, 'f', index), name(dir, 'g', index))?))
        }),
        ("delete 2,000", |dir, _| {
            each(|index| Ok(fs::remove_file(name(dir, 'g', index))?))?;
            fs::remove_dir(dir.join("small"))?;
            Ok(Some(COUNT))
        }),
    ];
    let mut steps: Vec<Step> = each
        .into_iter()
        .map(|(name, work)| {
            let step = Step::new(name, work).needed();
            if name.starts_with("stat") || name.starts_with("read") {
                step.warm()
            } else {
                step
            }
        })
        .collect();
    steps.push(Step::new("100 fsyncs", |dir, _| fsyncs(dir)));
    steps.push(Step::new(ONE_CLIENT, |dir, _| clients(dir, 1)));
    steps.push(Step::new(TWO_CLIENTS, |dir, _| clients(dir, 2)));
    steps
}

/// The two steps whose rates show how concurrent clients affect each other.
pub const ONE_CLIENT: &str = "one client";
pub const TWO_CLIENTS: &str = "two clients";

fn name(dir: &Path, letter: char, index: u64) -> PathBuf {
    dir.join(format!("small/{letter}{index}"))
}

fn each(operation: impl Fn(u64) -> Result<()>) -> Result<Option<u64>> {
    (0..COUNT).try_for_each(operation)?;
    Ok(Some(COUNT))
}

fn fsyncs(dir: &Path) -> Result<Option<u64>> {
    let mut file = File::create(dir.join("log"))?;
    for _ in 0..100 {
        file.write_all(&BYTES[..100])?;
        file.sync_data()?;
    }
    Ok(Some(100))
}

/// Each client makes, reads and deletes files in a directory of its own.
fn clients(dir: &Path, count: u64) -> Result<Option<u64>> {
    let client = |number: u64| -> Result<()> {
        let place = dir.join(format!("client{count}-{number}"));
        fs::create_dir(&place)?;
        for index in 0..CLIENT_COUNT {
            let path = place.join(index.to_string());
            fs::write(&path, BYTES)?;
            ensure!(fs::read(&path)? == BYTES, "other bytes were read");
            fs::remove_file(&path)?;
        }
        Ok(fs::remove_dir(&place)?)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..count)
            .map(|number| scope.spawn(move || client(number)))
            .collect();
        running
            .into_iter()
            .try_for_each(|client| client.join().map_err(|_| anyhow::anyhow!("a client panicked"))?)
    })?;
    Ok(Some(count * CLIENT_COUNT))
}
