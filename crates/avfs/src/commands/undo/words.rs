//! Descriptions of actions, as an undo or a redo reports them.

use agentvfs::{HistoryEntry, Vault};
use anyhow::Result;
use jiff::tz::TimeZone;

use crate::escape::printable_line;
use crate::time::show_local;

/// How much of a command is shown.
const COMMAND: usize = 60;

/// How many entries of the audit log are read in one step.
const PAGE: usize = 500;

/// What an entry of the history did: for runs, the commands and when they ended. The numbers of runs, their
/// grants and their outcomes are in `avfs log` and the audit log.
pub fn of_entry(vault: &Vault, entry: &HistoryEntry) -> Result<Option<String>> {
    let Some(run) = Run::parse(&entry.action) else {
        return Ok(None);
    };
    let mut runs = vec![run];
    if entry.since.is_some() {
        add_overlapping(vault, entry, &mut runs)?;
    }
    let time = show_local(entry.time, &TimeZone::system());
    let commands: Vec<String> = runs.iter().map(|run| format!("`{}`", run.command())).collect();
    Ok(Some(match &commands[..] {
        [only] => format!("the run {only} of {time}"),
        all => format!("the runs {}, which overlapped, of {time}", all.join(" and ")),
    }))
}

/// Adds the runs that ended during the first one: the states of both are one step of the history, and only
/// the audit log has each of them.
fn add_overlapping(vault: &Vault, entry: &HistoryEntry, runs: &mut Vec<Run>) -> Result<()> {
    let Some(begun) = runs.first().and_then(Run::begun) else {
        return Ok(());
    };
    let mut last = 0;
    loop {
        let page = vault.audit(last, PAGE)?;
        let Some(end) = page.last() else { return Ok(()) };
        last = end.seq;
        for noted in page
            .iter()
            .filter(|noted| noted.time.seconds >= begun && noted.time <= entry.time)
        {
            let other = Run::parse(&format!("{} {}", noted.action, noted.detail));
            let is_new = |other: &Run| runs.iter().all(|run| run.id != other.id);
            if let Some(other) = other.filter(|other| noted.detail.contains(" [write") && is_new(other)) {
                runs.push(other);
            }
        }
    }
}

/// The same for the change that an undo reverted, from its own entry: `undo 2 (run …)`.
pub fn of_undo(undo: &HistoryEntry) -> Option<String> {
    let (_, undone) = undo.action.strip_prefix("undo ")?.split_once(" (")?;
    let run = Run::parse(undone.strip_suffix(')')?)?;
    Some(format!("the run `{}`", run.command()))
}

/// A run in the notation of the history: `run ID COMMAND`, or `exec ID OUTCOME [GRANTS]: COMMAND`.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    id: String,
    line: String,
}

impl Run {
    fn parse(action: &str) -> Option<Run> {
        let rest = action
            .strip_prefix("run ")
            .or_else(|| action.strip_prefix("exec "))?;
        let (id, rest) = rest.split_once(' ')?;
        let is_id = id.starts_with('r')
            && id[1..]
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if !is_id {
            return None;
        }
        let line = match rest.split_once("]: ") {
            Some((noted, line)) if is_noted(noted) => line,
            _ => rest,
        };
        Some(Run {
            id: id.to_owned(),
            line: line.to_owned(),
        })
    }

    /// Its start time, in seconds since 1970, which is part of its id.
    fn begun(&self) -> Option<i64> {
        let (seconds, _) = self.id.strip_prefix('r')?.split_once('-')?;
        i64::from_str_radix(seconds, 16).ok()
    }

    /// The command as one short line.
    fn command(&self) -> String {
        let line = printable_line(self.line.as_bytes());
        match line.char_indices().nth(COMMAND) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }
}

/// Whether a text is the outcome and the grants of a run, and not part of a command.
fn is_noted(text: &str) -> bool {
    let Some((end, _)) = text.split_once(" [") else {
        return false;
    };
    let words: Vec<&str> = end.split(' ').collect();
    match words[..] {
        [.., "exit" | "signal", number] => number.parse::<i32>().is_ok(),
        [.., "timed", "out"] | [.., "not", "run"] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_told_by_their_commands() {
        let command = |action: &str| Run::parse(action).map(|run| run.command());
        let noted = "write, network none, bubblewrap 0.8.0, 144 rules BLAKE3 868581";
        for (action, expected) in [
            (
                "run r006afda7a8-2443e0ee sh -c echo k>>c".to_owned(),
                Some("sh -c echo k>>c"),
            ),
            (
                format!("run r006afda7a8-2443e0ee exit 0 [{noted}]: sh -c [ -e x ]: y"),
                Some("sh -c [ -e x ]: y"),
            ),
            (
                format!("exec r01-02 by ana allow (write, built-in) signal 9 [{noted}]: make"),
                Some("make"),
            ),
            ("exec r01-02 printf [a]: b".to_owned(), Some("printf [a]: b")),
            ("write /run".to_owned(), None),
            ("run".to_owned(), None),
        ] {
            assert_eq!(command(&action).as_deref(), expected, "{action}");
        }
        let run = Run::parse("run r006afda7a8-2443e0ee true").unwrap();
        assert_eq!(run.begun(), Some(0x6afd_a7a8));
        assert!(
            command(&format!("run r01-02 {}", "x".repeat(99)))
                .unwrap()
                .ends_with("x…")
        );
    }
}
