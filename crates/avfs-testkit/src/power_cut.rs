//! Power cuts, without pulling a plug: a disk whose bytes can be copied at any moment, while it is written.
//!
//! The disk is an ext4 file system in a file, and that file lies on an XFS, which clones files atomically. A
//! clone contains everything that had been sent to the disk at that moment and nothing that was only in
//! memory: dirty pages of the page cache, a journal of ext4 that was not yet committed. Mounting it replays
//! its journal, as after a power loss. It cannot simulate a disk that loses or reorders writes before a
//! flush.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A mounted disk that is removed with this value. The fields are unmounted in their order.
pub struct PowerCut {
    disk: Mount,
    clones: Mount,
    cuts: AtomicU32,
    _place: tempfile::TempDir,
}

impl PowerCut {
    /// A disk of this many bytes, which occupy space only once they are written. Needs root, loop devices,
    /// `mkfs.ext4` and `mkfs.xfs`; a test fails without them.
    pub fn new(bytes: u64) -> PowerCut {
        /// `mkfs.xfs` refuses smaller file systems.
        const CLONES_MIN: u64 = 320 << 20;
        let place = tempfile::tempdir().unwrap();
        let clones = place.path().join("clones.img");
        sparse_file(&clones, CLONES_MIN.max(8 * bytes));
        run(Command::new("mkfs.xfs")
            .args(["-q", "-m", "reflink=1"])
            .arg(&clones));
        let clones = Mount::new(&clones, &place.path().join("clones"));
        let disk = clones.path.join("disk.img");
        sparse_file(&disk, bytes);
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&disk));
        let disk = Mount::new(&disk, &place.path().join("disk"));
        PowerCut {
            disk,
            clones,
            cuts: AtomicU32::new(0),
            _place: place,
        }
    }

    /// The mount point of the disk.
    pub fn path(&self) -> &Path {
        &self.disk.path
    }

    /// The disk as it would be if the power failed now. Writing continues.
    pub fn cut(&self) -> Image<'_> {
        let number = self.cuts.fetch_add(1, Ordering::Relaxed);
        let path = self.clones.path.join(format!("cut-{number}.img"));
        let clone = File::create_new(&path).unwrap();
        let disk = File::open(self.clones.path.join("disk.img")).unwrap();
        rustix::fs::ioctl_ficlone(&clone, &disk).unwrap();
        Image {
            mounted: None,
            path,
            _of: self,
        }
    }
}

/// A disk as a power cut left it. Removed with this value.
pub struct Image<'a> {
    mounted: Option<Mount>,
    path: PathBuf,
    _of: &'a PowerCut,
}

impl Image<'_> {
    /// Mounts it, once, and returns the mount point.
    pub fn mount(&mut self) -> &Path {
        let at = self.path.with_extension("mounted");
        &self
            .mounted
            .get_or_insert_with(|| Mount::new(&self.path, &at))
            .path
    }
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        self.mounted = None;
        _ = std::fs::remove_file(&self.path);
    }
}

/// A mounted image of a file system.
struct Mount {
    path: PathBuf,
}

impl Mount {
    fn new(image: &Path, at: &Path) -> Mount {
        std::fs::create_dir(at).unwrap();
        run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(at));
        Mount { path: at.to_owned() }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmount = |how: &[&str]| Command::new("umount").args(how).arg(&self.path).output();
        if !unmount(&[]).is_ok_and(|output| output.status.success()) {
            // A failed test may have left something that uses it: the mount ends with that.
            _ = unmount(&["--lazy"]);
        }
        _ = std::fs::remove_dir(&self.path);
    }
}

fn sparse_file(path: &Path, bytes: u64) {
    File::create_new(path).unwrap().set_len(bytes).unwrap();
}

#[track_caller]
fn run(command: &mut Command) {
    let needs = "a power cut needs root, loop devices and the packages mount, e2fsprogs and xfsprogs";
    match command.output() {
        Ok(Output { status, .. }) if status.success() => {}
        Ok(output) => panic!(
            "{needs}: {command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => panic!("{needs}: {command:?}: {error}"),
    }
}
