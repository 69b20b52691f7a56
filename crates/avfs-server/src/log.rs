//! The log: one line of JSON for each request. It has no query and no body, in which secrets may be.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use http::{Method, StatusCode};
use serde::Serialize;

use crate::clock::UnixMillis;
use crate::options::ServerOptions;

/// How many lines wait for whoever reads the log.
const WAITING: usize = 4096;
/// How long is waited for the last of them.
const LAST: Duration = Duration::from_secs(1);

enum Entry {
    Line(String),
    /// Everything before it is written.
    End(SyncSender<()>),
}

/// Writes lines on a thread of its own. If whoever reads them stands still, requests do not: lines are left out then, and the
/// next one that is written says how many.
#[derive(Clone)]
pub struct LogWriter {
    entries: SyncSender<Entry>,
    left_out: Arc<AtomicU64>,
}

impl LogWriter {
    /// Begins to write.
    pub fn to(out: impl Write + Send + 'static) -> std::io::Result<LogWriter> {
        let (entries, waiting) = sync_channel(WAITING);
        let left_out = Arc::new(AtomicU64::new(0));
        let writer = LogWriter {
            entries,
            left_out: Arc::clone(&left_out),
        };
        let thread = std::thread::Builder::new().name("log".into());
        thread.spawn(move || write_all(out, &waiting, &left_out))?;
        Ok(writer)
    }

    /// Hands a line on.
    pub fn line(&self, line: &str) {
        if self.entries.try_send(Entry::Line(line.to_owned())).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what was handed on is written, but not for a reader that stands still.
    pub fn end(&self) {
        let (told, heard) = sync_channel(1);
        if self.entries.try_send(Entry::End(told)).is_ok() {
            // A log on a slow disk delays the end of the server by this much, and not forever.
            let _ = heard.recv_timeout(LAST);
        }
    }
}

fn write_all(mut out: impl Write, waiting: &Receiver<Entry>, left_out: &AtomicU64) {
    for entry in waiting {
        // Nobody else can be told what cannot be written.
        let _ = match entry {
            Entry::Line(line) => writeln!(out, "{line}"),
            Entry::End(told) => told.send(()).map_err(std::io::Error::other),
        };
        let count = left_out.swap(0, Ordering::Relaxed);
        if count > 0 {
            let _ = writeln!(
                out,
                "{}",
                serde_json::json!({ "action": "log", "lines_left_out": count })
            );
        }
    }
}

/// A request that was answered.
#[derive(Serialize)]
pub(crate) struct LogLine<'a> {
    /// Milliseconds since 1970.
    pub time: i64,
    pub request: &'a str,
    pub tenant: Option<&'a str>,
    pub principal: Option<&'a str>,
    pub method: &'a str,
    pub path: &'a str,
    pub status: u16,
    pub ms: u64,
}

/// Writes the line of a request.
pub(crate) fn write(
    options: &ServerOptions,
    (request, caller): (&str, Option<&crate::auth::Caller>),
    (method, path): (&Method, &str),
    (status, took): (StatusCode, Duration),
) {
    let line = LogLine {
        time: UnixMillis::now().0,
        request,
        tenant: caller.map(|caller| caller.tenant.name.as_str()),
        principal: caller.map(|caller| caller.principal.as_str()),
        method: method.as_str(),
        path: &shown(path),
        status: status.as_u16(),
        ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    };
    if let Ok(line) = serde_json::to_string(&line) {
        (options.log)(&line);
    }
}

/// A path of a request: clients write what they like there, and the log may be shown in a terminal.
fn shown(path: &str) -> String {
    const MOST: usize = 500;
    let mut cut = path.chars();
    let begin: String = cut.by_ref().take(MOST).collect();
    let rest = if cut.next().is_some() { "…" } else { "" };
    format!("{}{rest}", avfs_core::printable(begin.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Takes each write in when it is allowed to.
    struct Slow {
        allowed: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.allowed.recv();
            let _ = self.written.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn stalled_reader_delays_no_other_and_learns_how_much_it_missed() {
        let (allow, allowed) = channel();
        let (written, read) = channel();
        let log = LogWriter::to(Slow { allowed, written }).unwrap();
        for number in 0..WAITING + 100 {
            log.line(&number.to_string());
        }
        // From here on, it may write.
        drop(allow);
        let mut text = String::new();
        while !text.contains("lines_left_out") {
            text.push_str(&read.recv().unwrap());
        }
        assert!(text.starts_with("0\n"), "{text}");
        log.line("last");
        log.end();
        let rest: String = read.try_iter().collect();
        assert!(rest.ends_with("last\n"), "{rest}");
    }

    #[test]
    fn a_path_is_shown_on_one_line_and_not_longer_than_needed() {
        assert_eq!(shown("/a\n\u{1b}[31m"), "/a\\n\\u{1b}[31m");
        assert_eq!(shown(&"a".repeat(501)), format!("{}…", "a".repeat(500)));
    }
}
