//! Finds the program that becomes the first one in sandboxes, for a process that is not ours.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::InnerProgram;

/// Programs that can be the first one, in the order of the search.
const NAMES: [&str; 2] = ["avfs-inside", "avfs"];

impl InnerProgram {
    /// The program for a process that embeds the library: `given` if set, or else a program of ours next to
    /// the executable of this process, or in a directory of `path` (the value of `PATH`).
    pub fn find(given: Option<&Path>, path: Option<&std::ffi::OsStr>) -> Option<InnerProgram> {
        if let Some(given) = given {
            return Some(InnerProgram::new(given));
        }
        let beside = std::env::current_exe().ok();
        // Examples and tests are one directory below the programs that were built with them.
        let beside = beside
            .iter()
            .flat_map(|program| program.ancestors().skip(1).take(2))
            .map(Path::to_owned);
        let listed = path.into_iter().flat_map(std::env::split_paths);
        let found = beside.chain(listed).find_map(|directory| program_in(&directory));
        found.map(InnerProgram::new)
    }
}

impl InnerProgram {
    /// The loader that the program names, if it is linked dynamically: a sandbox with another system needs it there.
    pub fn loader(&self) -> Option<PathBuf> {
        let mut beginning = Vec::new();
        let read =
            File::open(&self.program).and_then(|file| file.take(BEGINNING).read_to_end(&mut beginning));
        read.ok().and_then(|_| loader_in(&beginning))
    }
}

/// How much of a program has its list of segments and the name of its loader.
const BEGINNING: u64 = 64 << 10;

/// The text of the segment that names the loader, in a program for 64 bits of this byte order.
fn loader_in(program: &[u8]) -> Option<PathBuf> {
    const NAMES_LOADER: u32 = 3;
    let number = |at: usize| {
        let bytes = program.get(at..at.checked_add(8)?)?;
        usize::try_from(u64::from_ne_bytes(bytes.try_into().ok()?)).ok()
    };
    let small = |at: usize| {
        let bytes = program.get(at..at.checked_add(2)?)?;
        Some(usize::from(u16::from_ne_bytes(bytes.try_into().ok()?)))
    };
    if program.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let (list, size, count) = (number(32)?, small(54)?, small(56)?);
    let segments = (0..count).map(|index| list.saturating_add(index * size));
    let kind = |at: &usize| program.get(*at..at.saturating_add(4)) == Some(&NAMES_LOADER.to_ne_bytes());
    let segment = segments.into_iter().find(kind)?;
    let (start, len) = (
        number(segment.checked_add(8)?)?,
        number(segment.checked_add(32)?)?,
    );
    let name = program.get(start..start.checked_add(len)?)?;
    Some(PathBuf::from(OsStr::from_bytes(name.strip_suffix(b"\0")?)))
}

fn program_in(directory: &Path) -> Option<PathBuf> {
    let programs = NAMES.iter().map(|name| directory.join(name));
    programs.into_iter().find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_given_counts_whatever_is_found() {
        let given = Path::new("/some/where");
        assert_eq!(
            InnerProgram::find(Some(given), None),
            Some(InnerProgram::new(given))
        );
    }

    #[test]
    fn the_loader_is_the_one_that_the_program_names() {
        let own = InnerProgram::new(std::env::current_exe().unwrap()).loader();
        if cfg!(target_feature = "crt-static") {
            assert_eq!(own, None);
        } else {
            assert!(own.unwrap().is_file());
        }
        for damaged in [
            &b""[..],
            b"#!/bin/sh",
            b"\x7fELF\x02",
            &[b"\x7fELF\x02", &[0xff; 200][..]].concat(),
        ] {
            assert_eq!(loader_in(damaged), None);
        }
    }

    #[test]
    fn the_small_program_is_found_before_the_command_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        std::fs::write(path.join("avfs"), "").unwrap();
        assert_eq!(program_in(path), Some(path.join("avfs")));
        std::fs::write(path.join("avfs-inside"), "").unwrap();
        assert_eq!(program_in(path), Some(path.join("avfs-inside")));
        std::fs::remove_file(path.join("avfs-inside")).unwrap();
        std::fs::create_dir(path.join("avfs-inside")).unwrap();
        assert_eq!(program_in(path), Some(path.join("avfs")));
    }
}
