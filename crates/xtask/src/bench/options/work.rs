//! The work that shows the value of an option.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Result, ensure};
use rustix::fs::OFlags;

use super::mounted::{FILES, LARGE, file, open};

pub struct Work {
    pub name: &'static str,
    pub prepare: fn(&Path) -> Result<()>,
    pub act: fn(&Path) -> Result<()>,
}

const NOTHING: fn(&Path) -> Result<()> = |_| Ok(());

pub const SMALL_WRITES: Work = Work {
    name: "1,000 writes of 100 bytes",
    prepare: NOTHING,
    act: |mount| {
        let file = File::options().write(true).open(file(mount, 0))?;
        (0..FILES).try_for_each(|number| Ok(file.write_all_at(&[8; 100], 100 * number as u64)?))
    },
};

pub const LONG_LISTING: Work = Work {
    name: "listing 1,000 files with attributes",
    prepare: NOTHING,
    act: |mount| {
        let mut bytes = 0;
        for entry in std::fs::read_dir(mount.join("files"))? {
            bytes += entry?.metadata()?.len();
        }
        ensure!(bytes == 100 * FILES as u64, "{bytes} bytes");
        Ok(())
    },
};

pub const NAMES: Work = Work {
    name: "listing the names of 1,000 files",
    prepare: NOTHING,
    act: |mount| {
        let names = std::fs::read_dir(mount.join("files"))?.count();
        ensure!(names == FILES, "{names} names");
        Ok(())
    },
};

pub const MISSING_NAME: Work = Work {
    name: "asking 1,000 times for a missing name",
    prepare: NOTHING,
    act: |mount| {
        ensure!((0..FILES).all(|_| !mount.join("missing").exists()), "it is there");
        Ok(())
    },
};

pub const LARGE_WRITE: Work = Work {
    name: "writing 16 MiB, 1 MiB at a time",
    prepare: NOTHING,
    act: |mount| {
        let mut file = File::create(mount.join("new"))?;
        let piece = vec![9; 1 << 20];
        (0..LARGE >> 20).try_for_each(|_| Ok(file.write_all(&piece)?))
    },
};

pub const LARGE_READ: Work = Work {
    name: "reading 16 MiB, 1 MiB at a time",
    prepare: NOTHING,
    act: |mount| {
        let (file, mut piece) = (open(&mount.join("large"))?, vec![0; 1 << 20]);
        (0..LARGE >> 20).try_for_each(|number| Ok(file.read_exact_at(&mut piece, (number << 20) as u64)?))
    },
};

pub const DIRECT_READ: Work = Work {
    name: "reading 16 MiB at once with O_DIRECT",
    prepare: NOTHING,
    act: |mount| {
        let mut options = File::options();
        options.read(true).custom_flags(OFlags::DIRECT.bits() as i32);
        Ok(options
            .open(mount.join("large"))?
            .read_exact_at(&mut vec![0; LARGE], 0)?)
    },
};

pub const LINKS: Work = Work {
    name: "reading a symbolic link 1,000 times",
    prepare: NOTHING,
    act: |mount| (0..FILES).try_for_each(|_| Ok(std::fs::read_link(mount.join("link")).map(drop)?)),
};

pub const TWO_IN_A_DIRECTORY: Work = Work {
    name: "two threads, 1,000 missing names each",
    prepare: NOTHING,
    act: |mount| {
        let ask = |word: &str| (0..FILES).all(|number| !mount.join(format!("{word} {number}")).exists());
        let missing = std::thread::scope(|scope| {
            let other = scope.spawn(|| ask("other"));
            ask("one") && other.join().unwrap_or(false)
        });
        ensure!(missing, "a name is there");
        Ok(())
    },
};

pub const SMALL_READS: Work = Work {
    name: "reading 1,000 files again",
    prepare: read_all,
    act: read_all,
};

pub const NEW_FILES: Work = Work {
    name: "creating and writing 1,000 files",
    prepare: read_all,
    act: |mount| {
        (0..FILES).try_for_each(|number| Ok(std::fs::write(mount.join(format!("new {number}")), [7; 100])?))
    },
};

pub const APPENDS: Work = Work {
    name: "adding to 1,000 files",
    prepare: read_all,
    act: |mount| {
        (0..FILES).try_for_each(|number| {
            Ok(File::options()
                .append(true)
                .open(file(mount, number))?
                .write_all(&[8; 100])?)
        })
    },
};

fn read_all(mount: &Path) -> Result<()> {
    let mut buffer = [0; 100];
    (0..FILES).try_for_each(|number| Ok(open(&file(mount, number))?.read_exact_at(&mut buffer, 0)?))
}
