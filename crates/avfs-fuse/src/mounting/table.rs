//! The table of mounts of this process.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::{FILE_SYSTEM, MountError};

/// The type that `statfs` reports for FUSE file systems.
const FUSE_MAGIC: rustix::fs::FsWord = 0x6573_5546;

/// One of our mounts, as the kernel lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedEntry {
    /// The mount point.
    pub at: PathBuf,
    /// The source that was set at mount time.
    pub source: String,
    /// The device number, `major:minor`; the minor names the connection in `/sys/fs/fuse/connections`.
    pub device: String,
    /// Nothing can be changed through it.
    pub read_only: bool,
    /// Whether the kernel checks permissions by mode and owner.
    pub default_permissions: bool,
    /// The user who mounted it.
    pub user: Option<u32>,
}

/// Our mounts, in the order of their creation.
pub fn mounts() -> Result<Vec<MountedEntry>, MountError> {
    let table = std::fs::read("/proc/self/mountinfo").map_err(MountError::Table)?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

/// Whether a directory shows a copy of one of our mounts, which is mounted elsewhere too.
pub fn is_copy(directory: &Path) -> Result<bool, MountError> {
    // Few directories are on a FUSE file system at all, and the table may be long.
    let system = rustix::fs::statfs(directory);
    if system.is_ok_and(|system| system.f_type == FUSE_MAGIC) {
        Ok(has_copy_at(&mounts()?, directory))
    } else {
        Ok(false)
    }
}

fn has_copy_at(mounts: &[MountedEntry], directory: &Path) -> bool {
    let Some(top) = mounts.iter().rfind(|mount| mount.at == directory) else {
        return false;
    };
    mounts
        .iter()
        .any(|other| other.device == top.device && other.at != directory)
}

/// Fields are separated by spaces: id, parent, device, root, place, options, any number of others, a hyphen,
/// type, source, options of the file system.
fn parse(line: &[u8]) -> Option<MountedEntry> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let hyphen = fields.iter().position(|field| *field == b"-")?;
    let device = fields.get(2)?;
    let at = fields.get(4)?;
    let options = fields.get(5)?;
    let kind = fields.get(hyphen + 1)?;
    let source = fields.get(hyphen + 2)?;
    let of_system = || {
        fields
            .get(hyphen + 3)
            .copied()
            .unwrap_or_default()
            .split(|byte| *byte == b',')
    };
    (*kind == FILE_SYSTEM.as_bytes()).then(|| MountedEntry {
        at: OsString::from_vec(unescape(at)).into(),
        source: String::from_utf8_lossy(&unescape(source)).into_owned(),
        device: String::from_utf8_lossy(device).into_owned(),
        read_only: options.split(|byte| *byte == b',').any(|option| option == b"ro"),
        default_permissions: of_system().any(|option| option == b"default_permissions"),
        user: of_system().find_map(user),
    })
}

fn user(option: &[u8]) -> Option<u32> {
    std::str::from_utf8(option.strip_prefix(b"user_id=")?)
        .ok()?
        .parse()
        .ok()
}

/// The kernel writes a blank, a tab, a line end and a backslash as `\` and three octal digits.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                plain.push(*first);
                rest = tail;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table() {
        let line = br"36 35 0:52 / /mnt/a\040b\134c ro,relatime shared:1 - fuse.avfs vault\0401 rw,user_id=0,default_permissions";
        let mounted = MountedEntry {
            at: r"/mnt/a b\c".into(),
            source: "vault 1".into(),
            device: "0:52".into(),
            read_only: true,
            default_permissions: true,
            user: Some(0),
        };
        assert_eq!(parse(line), Some(mounted));
    }

    #[test]
    fn a_mount_that_stands_in_another_place_too_is_a_copy_there() {
        let mounted = |at: &str, device: &str| MountedEntry {
            at: at.into(),
            source: "avfs:web/try".into(),
            device: device.into(),
            read_only: false,
            default_permissions: false,
            user: None,
        };
        let table = [
            mounted("/data/try", "0:52"),
            mounted("/home/a/mnt", "0:53"),
            mounted("/home/a/web", "0:52"),
        ];
        for (directory, expected) in [("/home/a/web", true), ("/home/a/mnt", false), ("/home/a", false)] {
            assert_eq!(has_copy_at(&table, Path::new(directory)), expected, "{directory}");
        }
    }

    #[test]
    fn other_mounts_and_nonsense() {
        for line in [
            &b"36 35 0:52 / /mnt rw - ext4 /dev/a rw"[..],
            b"",
            b"- fuse.avfs x",
            b"1 2 3 4 5 6 7 -",
        ] {
            assert_eq!(parse(line), None);
        }
    }
}
