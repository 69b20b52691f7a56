//! A progress bar for work on many files.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::printer::Printer;

/// Shows files, files per second and bytes while it lives; nothing on a pipe, under `--quiet` or `--json`.
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// `total` is the number of files, where it is known.
    pub fn start(out: &Printer, what: &'static str, total: Option<u64>) -> Progress {
        let wanted = out.talks() && io::stderr().is_terminal();
        Progress { bar: wanted.then(|| bar(what, total)) }
    }

    /// Reports what was done since the start.
    pub fn set(&self, files: u64, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.set_message(crate::size::HumanSize(bytes).to_string());
            bar.set_position(files);
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

fn bar(what: &'static str, total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{prefix} {wide_bar} {human_pos}/{human_len} files, {per_sec}, {msg}, {eta} left",
        ),
        None => (ProgressBar::new_spinner(), "{prefix} {spinner} {human_pos} files, {per_sec}, {msg}"),
    };
    let style = ProgressStyle::with_template(template).expect("the templates above are valid");
    bar.set_style(style.with_key("per_sec", files_per_second));
    bar.set_prefix(what);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn files_per_second(state: &indicatif::ProgressState, text: &mut dyn std::fmt::Write) {
    // A bar that cannot be drawn is no reason to stop the work.
    let _ = write!(text, "{:.0} files/s", state.per_sec());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_templates_are_valid() {
        drop(bar("import", Some(3)));
        let progress = Progress { bar: Some(bar("import", None)) };
        progress.set(2, 1024);
        Progress { bar: None }.set(1, 1);
    }
}
