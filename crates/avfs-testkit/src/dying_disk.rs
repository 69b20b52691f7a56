//! A disk that stops accepting writes: an ext4 in a file, whose journal is aborted while it is in use.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted disk that is removed with this value.
pub struct DyingDisk {
    image: PathBuf,
    path: PathBuf,
    _place: tempfile::TempDir,
}

impl DyingDisk {
    /// A disk of this many bytes, which occupy space only once they are written. Needs root, loop devices and
    /// `mkfs.ext4`; a test fails without them.
    pub fn new(bytes: u64) -> DyingDisk {
        DyingDisk::made_with(bytes, &[])
    }

    /// The same, with blocks of 1 KiB: less than a page of memory.
    pub fn with_small_blocks(bytes: u64) -> DyingDisk {
        DyingDisk::made_with(bytes, &["-b", "1024"])
    }

    fn made_with(bytes: u64, options: &[&str]) -> DyingDisk {
        let place = tempfile::tempdir().unwrap();
        let (image, path) = (place.path().join("disk.img"), place.path().join("disk"));
        std::fs::File::create_new(&image).unwrap().set_len(bytes).unwrap();
        run(Command::new("mkfs.ext4")
            .args(["-q", "-F"])
            .args(options)
            .arg(&image));
        std::fs::create_dir(&path).unwrap();
        let disk = DyingDisk {
            image,
            path,
            _place: place,
        };
        disk.mount();
        disk
    }

    /// The mount point of the disk.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on every write fails, and new files cannot be opened for writing.
    pub fn die(&self) {
        run(Command::new("mount")
            .args(["-o", "remount,abort"])
            .arg(&self.path));
    }

    /// From now on nothing can be written, and no process may be writing.
    pub fn make_read_only(&self) {
        run(Command::new("mount").args(["-o", "remount,ro"]).arg(&self.path));
    }

    /// Repairs the disk, which must not be in use: it has the contents from when it died.
    pub fn revive(&self) {
        run(Command::new("umount").arg(&self.path));
        self.mount();
    }

    /// On a loop device of its own: a copy of the earlier mount in a namespace of another process keeps the earlier
    /// device, and `mount -o loop` would take that one again, with the aborted journal.
    fn mount(&self) {
        let device = run(Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&self.image));
        run(Command::new("mount").arg(device.trim()).arg(&self.path));
        // The device goes with the last mount of it.
        run(Command::new("losetup").args(["--detach", device.trim()]));
    }
}

impl Drop for DyingDisk {
    fn drop(&mut self) {
        let unmount = |how: &[&str]| Command::new("umount").args(how).arg(&self.path).output();
        if !unmount(&[]).is_ok_and(|output| output.status.success()) {
            // A failed test may have left something that uses it: the mount ends with that.
            _ = unmount(&["--lazy"]);
        }
    }
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let needs = "a dying disk needs root, loop devices and the packages mount and e2fsprogs";
    match command.output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(output) => panic!(
            "{needs}: {command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => panic!("{needs}: {command:?}: {error}"),
    }
}
