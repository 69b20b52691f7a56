//! The user's pager, between us and the terminal.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

/// The options for `less` if the user has set none: colours pass through, a short text needs no key, the
/// screen stays.
const LESS: &str = "FRX";

pub struct Pager {
    child: Child,
}

impl Pager {
    /// Starts the pager and returns its input; `None` if there is none, or the user wants none.
    pub fn start() -> Option<(Pager, impl Write)> {
        let command = chosen(&|name| std::env::var_os(name))?;
        let mut child = spawn(&command).ok()?;
        let input: ChildStdin = child.stdin.take()?;
        // Ctrl-C belongs to the pager. It must not be left alone with the terminal.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::default());
        Some((Pager { child }, BufWriter::new(input)))
    }

    /// Until the user has left it.
    pub fn wait(mut self) {
        let _ = self.child.wait();
    }
}

fn spawn(command: &OsStr) -> io::Result<Child> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        shell.env("LESS", LESS);
    }
    shell.spawn()
}

/// The first that is set: `AVFS_PAGER`, `PAGER`, `less` if it exists. An empty value or `cat` means none.
fn chosen(environment: &dyn Fn(&str) -> Option<OsString>) -> Option<OsString> {
    // Without knowing the terminal, pagers ask questions of their own.
    environment("TERM").filter(|term| !term.is_empty() && term != "dumb")?;
    let wish = environment("AVFS_PAGER").or_else(|| environment("PAGER"));
    match wish {
        Some(wish) => Some(wish).filter(|wish| !wish.is_empty() && wish != "cat"),
        None => is_installed("less", &environment("PATH")?).then(|| "less".into()),
    }
}

fn is_installed(program: &str, path: &OsStr) -> bool {
    std::env::split_paths(path).any(|directory| directory.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], expected: Option<&str>) {
        let environment = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        assert_eq!(
            chosen(&environment),
            expected.map(OsString::from),
            "{variables:?}"
        );
    }

    #[test]
    fn the_most_particular_wish_counts() {
        let term = ("TERM", "xterm");
        check(&[term, ("AVFS_PAGER", "most"), ("PAGER", "more")], Some("most"));
        check(&[term, ("PAGER", "more -d")], Some("more -d"));
        check(&[term, ("AVFS_PAGER", ""), ("PAGER", "more")], None);
        check(&[term, ("PAGER", "cat")], None);
        check(&[term, ("PATH", "/nowhere")], None);
        check(&[("TERM", "dumb"), ("PAGER", "more")], None);
        check(&[("PAGER", "more")], None);
    }
}
