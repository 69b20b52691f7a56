//! A disk that stops taking writes: an ext4 in a file, whose journal is aborted while it is used.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted disk that goes away with this value.
pub struct DyingDisk {
    image: PathBuf,
    path: PathBuf,
    _place: tempfile::TempDir,
}

impl DyingDisk {
    /// A disk of so many bytes, which take room only as they are written. Root, loop devices and `mkfs.ext4` are
    /// needed; a test fails where they are missing.
    pub fn new(bytes: u64) -> DyingDisk {
        let place = tempfile::tempdir().unwrap();
        let (image, path) = (place.path().join("disk.img"), place.path().join("disk"));
        std::fs::File::create_new(&image).unwrap().set_len(bytes).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        std::fs::create_dir(&path).unwrap();
        let disk = DyingDisk { image, path, _place: place };
        disk.mount();
        disk
    }

    /// Where the disk is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on every write fails, and what is new cannot be opened for writing.
    pub fn die(&self) {
        run(Command::new("mount").args(["-o", "remount,abort"]).arg(&self.path));
    }

    /// From now on nothing can be written, and nobody may be writing.
    pub fn make_read_only(&self) {
        run(Command::new("mount").args(["-o", "remount,ro"]).arg(&self.path));
    }

    /// Repairs the disk, which nobody may use: what it had when it died is there.
    pub fn revive(&self) {
        run(Command::new("umount").arg(&self.path));
        self.mount();
    }

    fn mount(&self) {
        run(Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.path));
    }
}

impl Drop for DyingDisk {
    fn drop(&mut self) {
        let unmount = |how: &[&str]| Command::new("umount").args(how).arg(&self.path).output();
        if !unmount(&[]).is_ok_and(|output| output.status.success()) {
            // In use by something that a failed test left: it goes when that goes.
            _ = unmount(&["--lazy"]);
        }
    }
}

#[track_caller]
fn run(command: &mut Command) {
    let needs = "a dying disk needs root, loop devices and the packages mount and e2fsprogs";
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!("{needs}: {command:?}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => panic!("{needs}: {command:?}: {error}"),
    }
}
