//! A progress bar for work on many files.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};

use crate::printer::Printer;

/// Shows files, files per second and bytes while it lives; nothing on a pipe, under `--quiet` or `--json`.
pub struct Progress {
    bar: Option<ProgressBar>,
    /// Read by the bar when it draws itself.
    bytes: Arc<AtomicU64>,
}

impl Progress {
    /// `total` is the number of files, where it is known.
    pub fn start(out: &Printer, what: &'static str, total: Option<u64>) -> Progress {
        let wanted = out.talks() && io::stderr().is_terminal();
        let bytes = Arc::new(AtomicU64::new(0));
        Progress {
            bar: wanted.then(|| bar(what, total, &bytes)),
            bytes,
        }
    }

    /// For work without a count of files: only messages of [`Progress::say`] are shown.
    pub fn spin(out: &Printer, what: &'static str) -> Progress {
        let wanted = out.talks() && io::stderr().is_terminal();
        let spinner = || {
            styled(
                ProgressBar::new_spinner(),
                what,
                "{prefix} {spinner} {msg}",
                |style| style,
            )
        };
        Progress {
            bar: wanted.then(spinner),
            bytes: Arc::default(),
        }
    }

    /// For work that is mostly fast: shown after a second.
    pub fn if_slow(out: &Printer, what: &'static str) -> Progress {
        let wanted = out.talks() && io::stderr().is_terminal();
        let spinner = || {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
            let bar = styled(bar, what, "{prefix} {spinner} {elapsed} {msg}", |style| style);
            show_after_a_second(bar.downgrade());
            bar
        };
        Progress {
            bar: wanted.then(spinner),
            bytes: Arc::default(),
        }
    }

    pub fn say(&self, text: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_message(text());
        }
    }
}

impl agentvfs::transfer::TransferProgress for Progress {
    fn advance(&self, files: u64, bytes: u64) {
        if let Some(bar) = &self.bar {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            bar.inc(files);
        }
    }
}

/// The line of the bar is free again for whatever is printed next.
impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(what: &'static str, total: Option<u64>, bytes: &Arc<AtomicU64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{prefix} {wide_bar} {human_pos}/{human_len} files, {per_sec}, {size}, {eta} left",
        ),
        None => (
            ProgressBar::new_spinner(),
            "{prefix} {spinner} {human_pos} files, {per_sec}, {size}",
        ),
    };
    let bytes = Arc::clone(bytes);
    let size = move |_: &indicatif::ProgressState, text: &mut dyn std::fmt::Write| {
        // If a bar cannot be drawn, the work continues.
        let _ = write!(text, "{}", crate::size::HumanSize(bytes.load(Ordering::Relaxed)));
    };
    styled(bar, what, template, |style| {
        style.with_key("per_sec", files_per_second).with_key("size", size)
    })
}

/// By a thread of its own: the work is done where it was begun.
fn show_after_a_second(bar: WeakProgressBar) {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        if let Some(bar) = bar.upgrade().filter(|bar| !bar.is_finished()) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    });
}

fn styled(
    bar: ProgressBar,
    what: &'static str,
    template: &str,
    keys: impl FnOnce(ProgressStyle) -> ProgressStyle,
) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the templates of this file are valid");
    bar.set_style(keys(style));
    bar.set_prefix(what);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn files_per_second(state: &indicatif::ProgressState, text: &mut dyn std::fmt::Write) {
    let _ = write!(text, "{:.0} files/s", state.per_sec());
}

#[cfg(test)]
mod tests {
    use agentvfs::transfer::TransferProgress as _;

    use super::*;

    #[test]
    fn both_templates_are_valid() {
        let bytes = Arc::default();
        drop(bar("import", Some(3), &bytes));
        let progress = Progress {
            bar: Some(bar("import", None, &bytes)),
            bytes,
        };
        progress.advance(2, 1024);
        assert_eq!(progress.bytes.load(Ordering::Relaxed), 1024);
        Progress {
            bar: None,
            bytes: Arc::default(),
        }
        .advance(1, 1);
    }
}
