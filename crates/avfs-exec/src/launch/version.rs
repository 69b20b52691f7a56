//! The installed version of a program, queried once for each program that is ever installed.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The version of one program.
#[derive(Debug, Default)]
pub(super) struct ProgramVersion {
    known: OnceLock<String>,
    /// Where it is cached between runs.
    place: Option<PathBuf>,
}

/// A running query; `None` if the answer was known.
#[derive(Debug, Default)]
pub(super) struct VersionQuery(Option<(String, Child)>);

impl ProgramVersion {
    pub(super) fn kept_in(place: PathBuf) -> Self {
        Self {
            known: OnceLock::new(),
            place: Some(place),
        }
    }

    /// Starts a query in the background, unless the answer for this program is known.
    pub(super) fn ask(&self, program: &Path) -> io::Result<VersionQuery> {
        if self.known.get().is_some() {
            return Ok(VersionQuery(None));
        }
        let identity = identity(program)?;
        if let Some(version) = self.recall(&identity) {
            self.known.get_or_init(|| version);
            return Ok(VersionQuery(None));
        }
        let mut command = Command::new(program);
        command
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        Ok(VersionQuery(Some((identity, command.spawn()?))))
    }

    /// The last word of the first line: others may be about libraries.
    pub(super) fn told(&self, asked: VersionQuery) -> io::Result<&str> {
        let VersionQuery(Some((identity, child))) = asked else {
            return Ok(self.known.get_or_init(unknown));
        };
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let first = text.lines().next().unwrap_or_default();
        let version = first
            .split_whitespace()
            .last()
            .map_or_else(unknown, str::to_owned);
        if output.status.success() {
            self.keep(&identity, &version);
        }
        Ok(self.known.get_or_init(|| version))
    }

    fn recall(&self, identity: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.place.as_deref()?).ok()?;
        let (of, version) = text.strip_suffix('\n')?.rsplit_once(' ')?;
        (of == identity).then(|| version.to_owned())
    }

    fn keep(&self, identity: &str, version: &str) {
        // If it cannot be cached, the next run queries it again.
        let _ = self
            .place
            .as_deref()
            .map(|place| std::fs::write(place, format!("{identity} {version}\n")));
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// A value that changes when the program is replaced.
fn identity(program: &Path) -> io::Result<String> {
    let found = std::fs::metadata(program)?;
    let times = [
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
    ];
    let [modified, modified_ns, changed, changed_ns] = times;
    let (device, inode, size) = (found.dev(), found.ino(), found.size());
    Ok(format!(
        "{device} {inode} {size} {modified}.{modified_ns:09} {changed}.{changed_ns:09}"
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn says(program: &Path, text: &str) {
        std::fs::write(
            program,
            format!("#!/bin/sh\necho asked >>\"$0.asked\"\necho bubblewrap {text}\n"),
        )
        .unwrap();
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn version(program: &Path, place: &Path) -> String {
        let version = ProgramVersion::kept_in(place.to_owned());
        let asked = version.ask(program).unwrap();
        version.told(asked).unwrap().to_owned()
    }

    #[test]
    fn a_program_is_asked_once_until_another_one_is_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let (program, place) = (dir.path().join("bwrap"), dir.path().join("kept"));
        let times_asked = || {
            std::fs::read_to_string(dir.path().join("bwrap.asked"))
                .unwrap()
                .lines()
                .count()
        };
        says(&program, "0.8.0");
        assert_eq!(
            [version(&program, &place), version(&program, &place)],
            ["0.8.0", "0.8.0"]
        );
        assert_eq!(times_asked(), 1);
        std::fs::remove_file(&program).unwrap();
        says(&program, "0.12.0");
        assert_eq!(version(&program, &place), "0.12.0");
        assert_eq!(times_asked(), 2);
        std::fs::write(&place, "nonsense").unwrap();
        assert_eq!(version(&program, &place), "0.12.0");
        assert_eq!(times_asked(), 3);
    }
}
