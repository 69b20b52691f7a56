//! The mount points of vaults on this host.

use std::ffi::CString;

/// The kernel's name for the type of a mounted vault.
const FILE_SYSTEM: &[u8] = b"fuse.avfs";

/// Directories on which vaults are mounted, parents first. Empty if the system does not list mounts.
pub(super) fn mounted_vaults() -> Vec<CString> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    table
        .split(|byte| *byte == b'\n')
        .filter_map(place_of_vault)
        .collect()
}

/// The fifth field of a line is the mount point; the type follows a hyphen, before which there may be any
/// number of fields.
fn place_of_vault(line: &[u8]) -> Option<CString> {
    let mut fields = line.split(|byte| *byte == b' ');
    let place = fields.nth(4)?;
    let file_system = fields.skip_while(|field| *field != b"-").nth(1)?;
    (file_system == FILE_SYSTEM).then(|| CString::new(plain(place)).ok())?
}

/// The kernel writes a blank, a tab, a line end and a backslash as `\` and three octal digits.
fn plain(place: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(place.len());
    let mut rest = place;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[3..] } else { tail };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, place: Option<&str>) {
        assert_eq!(
            place_of_vault(line.as_bytes()),
            place.map(|place| CString::new(place).unwrap()),
            "{line}"
        );
    }

    #[test]
    fn vaults_are_found_by_their_type() {
        check(
            "36 35 0:52 / /mnt/web rw,relatime - fuse.avfs avfs:web rw",
            Some("/mnt/web"),
        );
        check(
            "36 35 0:52 / /mnt/web rw shared:1 master:2 - fuse.avfs avfs:web rw",
            Some("/mnt/web"),
        );
        check(
            r"36 35 0:52 / /mnt/a\040b\134c\9 rw - fuse.avfs avfs:web rw",
            Some(r"/mnt/a b\c\9"),
        );
        for other in [
            "36 35 0:52 / /mnt rw - ext4 fuse.avfs rw",
            "",
            "1 2 3",
            "1 2 3 4 5 6 -",
        ] {
            check(other, None);
        }
    }
}
