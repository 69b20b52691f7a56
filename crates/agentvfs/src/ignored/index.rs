//! The paths in git's index, read without git: the tracked files of a repository.

/// The paths of one index, sorted as git sorts them: by bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct TrackedPaths {
    bytes: Vec<u8>,
    /// Where each path ends in `bytes`.
    ends: Vec<usize>,
    /// The name of the index that this one extends, if any.
    pub shared: Option<String>,
}

/// Times, device, inode, mode, owner and size of an entry.
const STAT: usize = 40;
const FLAG_EXTENDED: u16 = 0x4000;
/// The lengths of a SHA-1 and a SHA-256.
const HASHES: [usize; 2] = [20, 32];

impl TrackedPaths {
    /// `None`: it is not an index that we can read.
    pub(super) fn parse(bytes: &[u8]) -> Option<TrackedPaths> {
        HASHES.iter().find_map(|hash| {
            Parsing {
                bytes,
                at: 0,
                hash: *hash,
            }
            .run()
        })
    }

    fn get(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }

    fn push(&mut self, path: &[u8]) {
        self.bytes.extend_from_slice(path);
        self.ends.push(self.bytes.len());
    }

    /// Where a path is, or would be.
    fn position(&self, path: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle).cmp(path) {
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Whether a path is tracked. An index may name a whole directory, with a `/` at its end.
    pub(super) fn contains(&self, path: &[u8]) -> bool {
        let is_named = |path: &[u8]| self.position(path).is_ok();
        let mut slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        is_named(path) || slashes.any(|(at, _)| is_named(&path[..=at]))
    }

    /// Whether something below a directory is tracked, or the directory itself, as a submodule.
    pub(super) fn contains_below(&self, directory: &[u8]) -> bool {
        let below = [directory, b"/"].concat();
        let is_below = |at: usize| at < self.ends.len() && self.get(at).starts_with(&below);
        self.contains(directory) || is_below(self.position(&below).unwrap_or_else(|at| at))
    }
}

struct Parsing<'a> {
    bytes: &'a [u8],
    at: usize,
    hash: usize,
}

impl Parsing<'_> {
    fn run(mut self) -> Option<TrackedPaths> {
        if self.take(4)? != b"DIRC" {
            return None;
        }
        let version = self.number()?;
        if !(2..=4).contains(&version) {
            return None;
        }
        let count = self.number()?;
        let mut paths = TrackedPaths::default();
        let mut path = Vec::new();
        for _ in 0..count {
            self.entry(version, &mut path)?;
            paths.push(&path);
        }
        paths.shared = self.extensions()?;
        Some(paths)
    }

    /// Reads an entry; its path is left in `path`, which had the one before.
    fn entry(&mut self, version: u32, path: &mut Vec<u8>) -> Option<()> {
        let start = self.at;
        self.take(STAT + self.hash)?;
        let flags = u16::from_be_bytes(self.take(2)?.try_into().ok()?);
        if version > 2 && flags & FLAG_EXTENDED != 0 {
            self.take(2)?;
        }
        if version == 4 {
            let kept = path.len().checked_sub(self.varint()?)?;
            path.truncate(kept);
            path.extend_from_slice(self.until_nul()?);
        } else {
            path.clear();
            path.extend_from_slice(self.until_nul()?);
            let padded = (self.at - start).next_multiple_of(8);
            self.at = start + padded;
        }
        (!path.is_empty()).then_some(())
    }

    /// The extensions after the entries must fit exactly: that reveals a wrong length of hashes.
    fn extensions(&mut self) -> Option<Option<String>> {
        let end = self.bytes.len().checked_sub(self.hash)?;
        let mut shared = None;
        while self.at < end {
            let name: [u8; 4] = self.take(4)?.try_into().ok()?;
            let len = self.number()? as usize;
            let hash = self.hash;
            let body = self.take(len)?;
            match &name {
                b"link" => {
                    let of: String = body
                        .get(..hash)?
                        .iter()
                        .map(|byte| format!("{byte:02x}"))
                        .collect();
                    shared = Some(of).filter(|of| of.bytes().any(|digit| digit != b'0'));
                }
                name if name.iter().all(u8::is_ascii_alphabetic) => {}
                _ => return None,
            }
        }
        (self.at == end).then_some(shared)
    }

    fn take(&mut self, len: usize) -> Option<&[u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// The bytes before the next NUL, which is passed.
    fn until_nul(&mut self) -> Option<&[u8]> {
        let rest = self.bytes.get(self.at..)?;
        let len = rest.iter().position(|byte| *byte == 0)?;
        self.at += len + 1;
        Some(&rest[..len])
    }

    /// A number in groups of seven bits, each but the last with its top bit set and one added.
    fn varint(&mut self) -> Option<usize> {
        let mut byte = self.take(1)?[0];
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = self.take(1)?[0];
            value = value
                .checked_add(1)?
                .checked_mul(128)?
                .checked_add(usize::from(byte & 0x7f))?;
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index of these paths.
    fn index(version: u32, hash: usize, paths: &[&str], extension: &[u8]) -> Vec<u8> {
        let mut bytes = [
            b"DIRC",
            &version.to_be_bytes()[..],
            &(paths.len() as u32).to_be_bytes(),
        ]
        .concat();
        let mut before = "";
        for path in paths {
            let start = bytes.len();
            bytes.extend(std::iter::repeat_n(7, STAT + hash));
            bytes.extend((path.len() as u16).to_be_bytes());
            if version == 4 {
                let common = path
                    .bytes()
                    .zip(before.bytes())
                    .take_while(|(a, b)| a == b)
                    .count();
                let removed = before.len() - common;
                if removed > 127 {
                    bytes.push(0x80 | (removed / 128 - 1) as u8);
                }
                bytes.push((removed % 128) as u8);
                bytes.extend(&path.as_bytes()[common..]);
                bytes.push(0);
                before = path;
            } else {
                bytes.extend(path.as_bytes());
                let len = bytes.len() - start;
                bytes.extend(std::iter::repeat_n(0, 8 - len % 8));
            }
        }
        bytes.extend(extension);
        bytes.extend(std::iter::repeat_n(9, hash));
        bytes
    }

    #[test]
    fn paths_are_read_from_every_version_and_with_both_hashes() {
        let long = format!("b/{}", "x".repeat(300));
        let paths = ["a", "a.b/c", "a/b", long.as_str(), "b/y", "dir/"];
        for (version, hash) in [(2, 20), (3, 20), (4, 20), (2, 32), (4, 32)] {
            let tracked = TrackedPaths::parse(&index(version, hash, &paths, b"TREE\0\0\0\x02xx")).unwrap();
            for path in paths {
                assert!(tracked.contains(path.as_bytes()), "{version} {hash} {path}");
            }
            assert!(tracked.contains(b"dir/below/it") && tracked.contains_below(b"a"));
            assert!(tracked.contains_below(b"a.b") && !tracked.contains_below(b"a."));
            assert!(!tracked.contains(b"a/c") && !tracked.contains(b"b") && !tracked.contains_below(b"c"));
            assert_eq!(tracked.shared, None);
        }
    }

    #[test]
    fn an_index_over_another_one_names_it() {
        let link = [b"link\0\0\0\x14", &[0xab; 20][..]].concat();
        let tracked = TrackedPaths::parse(&index(2, 20, &["a"], &link)).unwrap();
        assert_eq!(tracked.shared, Some("ab".repeat(20)));
    }

    #[test]
    fn invalid_index_is_refused() {
        let whole = index(2, 20, &["a", "b/c"], b"");
        for end in 0..whole.len() - 20 {
            assert!(TrackedPaths::parse(&whole[..end]).is_none(), "{end}");
        }
        assert!(TrackedPaths::parse(b"DIRC\0\0\0\x09\0\0\0\0").is_none());
        assert!(TrackedPaths::parse(b"").is_none());
    }
}
