//! Output: data to standard output, messages to standard error.

mod pager;

use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal, Write};

use anstyle::Style;
use serde::Serialize;

use self::pager::Pager;
use crate::failure::Failure;
use crate::json::{self, Envelope};
use crate::settings::ColorWhen;

/// Writing to standard output failed.
#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    /// The reader of our output has stopped reading (`avfs log | head`).
    #[error("the reader of the output closed the pipe")]
    Closed,
    #[error("writing the output")]
    Failed(#[source] io::Error),
}

impl From<io::Error> for PrintError {
    fn from(error: io::Error) -> PrintError {
        match error.kind() {
            io::ErrorKind::BrokenPipe => PrintError::Closed,
            _ => PrintError::Failed(error),
        }
    }
}

/// The user's global output flags.
#[derive(Clone, Copy, Debug)]
pub struct OutputStyle {
    pub color: ColorWhen,
    pub json: bool,
    pub quiet: bool,
    /// Long output goes through a pager.
    pub paged: bool,
}

/// The only way to standard output and standard error.
///
/// Text that comes from a vault or from a file is passed through [`crate::escape`] before it gets here.
pub struct Printer {
    stdout: Box<dyn Write + Send>,
    stderr: Box<dyn Write + Send>,
    to_terminal: bool,
    style: OutputStyle,
    color_data: bool,
    color_talk: bool,
    /// Messages that were printed while a pager had the terminal.
    held: Option<Vec<String>>,
    /// The reader of passed-on output is gone.
    is_cut_off: bool,
}

impl Printer {
    pub fn new(style: OutputStyle) -> Printer {
        let to_terminal = io::stdout().is_terminal();
        // On a terminal each line appears immediately; elsewhere a system call per line would be wasteful.
        let stdout: Box<dyn Write + Send> = if to_terminal {
            Box::new(io::stdout())
        } else {
            Box::new(BufWriter::with_capacity(64 << 10, io::stdout()))
        };
        let stderr = Box::new(io::stderr());
        let mut printer = Printer {
            stdout,
            stderr,
            to_terminal,
            style,
            color_data: false,
            color_talk: false,
            held: None,
            is_cut_off: false,
        };
        printer.set_color(style.color);
        printer
    }

    /// Prints to others than the user: without colour, and as on a pipe.
    pub fn to(stdout: Box<dyn Write + Send>, stderr: Box<dyn Write + Send>, style: OutputStyle) -> Printer {
        let style = OutputStyle {
            color: ColorWhen::Never,
            ..style
        };
        Printer {
            stdout,
            stderr,
            to_terminal: false,
            style,
            color_data: false,
            color_talk: false,
            held: None,
            is_cut_off: false,
        }
    }

    /// Colour may be set in a file, and errors of that file must be printed before it is known.
    pub fn set_color(&mut self, color: ColorWhen) {
        self.style.color = color;
        self.color_data = wants_color(color, &io::stdout());
        self.color_talk = wants_color(color, &io::stderr());
    }

    pub fn is_json(&self) -> bool {
        self.style.json
    }

    /// Whether messages are printed: not under `--quiet`, nor `--json`, whose output is the data.
    pub fn talks(&self) -> bool {
        !self.style.quiet && !self.style.json
    }

    pub fn is_terminal(&self) -> bool {
        self.to_terminal
    }

    /// Whether data is coloured.
    pub fn is_colored(&self) -> bool {
        self.color_data
    }

    /// Shows the output of `print` in the user's pager, if it goes to a terminal. Leaving the pager early is
    /// not an error.
    pub fn paged(&mut self, print: impl FnOnce(&mut Printer) -> anyhow::Result<()>) -> anyhow::Result<()> {
        if !self.to_terminal || self.style.json || !self.style.paged {
            return print(self);
        }
        let Some((pager, input)) = Pager::start() else {
            return print(self);
        };
        let terminal = std::mem::replace(&mut self.stdout, Box::new(input));
        self.held = Some(Vec::new());
        let printed = print(self).and_then(|()| Ok(self.flush()?));
        self.stdout = terminal;
        pager.wait();
        for text in self.held.take().into_iter().flatten() {
            self.say(text);
        }
        printed.or_else(|error| match error.downcast_ref() {
            Some(PrintError::Closed) => Ok(()),
            _ => Err(error),
        })
    }

    /// One line of data.
    pub fn line(&mut self, text: impl Display) -> Result<(), PrintError> {
        Ok(writeln!(self.stdout, "{text}")?)
    }

    /// Data without changes: file contents, an archive, a script.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), PrintError> {
        Ok(self.stdout.write_all(bytes)?)
    }

    /// Output of a program, visible immediately. Once its reader is gone, nothing is written: the program
    /// gets a closed pipe of its own.
    pub fn pass_on(&mut self, bytes: &[u8]) -> Result<(), PrintError> {
        match self.bytes(bytes).and_then(|()| self.flush()) {
            Err(PrintError::Closed) => {
                self.stdout = Box::new(io::sink());
                self.is_cut_off = true;
                Ok(())
            }
            passed => passed,
        }
    }

    /// Whether the reader of passed-on output is gone.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// Standard output itself, for an archive.
    pub fn stream(&mut self) -> &mut dyn Write {
        &mut *self.stdout
    }

    /// Makes everything printed so far visible, for continuing output (`--follow`).
    pub fn flush(&mut self) -> Result<(), PrintError> {
        Ok(self.stdout.flush()?)
    }

    /// The result of a command as one JSON object on one line.
    pub fn object(&mut self, kind: &'static str, body: &impl Serialize) -> Result<(), PrintError> {
        let line =
            json::to_line(&Envelope::new(kind, body)).map_err(|error| PrintError::Failed(error.into()))?;
        self.line(line)
    }

    /// One line about an event.
    pub fn talk(&mut self, text: impl Display) {
        if self.talks() {
            self.say(text);
        }
    }

    /// A warning about something that does not stop the command. Also under `--quiet`.
    pub fn warn(&mut self, text: impl Display) {
        if !self.style.json {
            let label = paint(self.color_talk, WARNING, "warning:");
            self.say(format_args!("{label} {text}"));
        }
    }

    /// The end of a command that failed. Under `--json` it is the object on standard output, so that a
    /// program reads one place whatever happened.
    pub fn failure(&mut self, failure: &Failure) -> Result<(), PrintError> {
        if self.style.json {
            return self.object("error", &json::ErrorBody::from(failure));
        }
        self.error(&failure.message, failure.hint.as_deref());
        Ok(())
    }

    /// The error and its remedy, for people.
    pub fn error(&mut self, message: &str, hint: Option<&str>) {
        let label = paint(self.color_talk, ERROR, "error:");
        self.say(format_args!("{label} {message}"));
        if let Some(hint) = hint {
            let label = paint(self.color_talk, HINT, "hint:");
            self.say(format_args!("{label} {hint}"));
        }
    }

    /// Text that has its own colour codes (help, usage errors): kept or removed as the user wants it.
    pub fn styled(&mut self, text: &clap::builder::StyledStr) -> Result<(), PrintError> {
        if self.color_data {
            Ok(write!(self.stdout, "{}", text.ansi())?)
        } else {
            Ok(write!(self.stdout, "{text}")?)
        }
    }

    pub fn talk_styled(&mut self, text: &clap::builder::StyledStr) {
        let shown = if self.color_talk {
            text.ansi().to_string()
        } else {
            text.to_string()
        };
        self.say(shown.trim_end());
    }

    /// File contents: exact bytes on a pipe, escaped on a terminal.
    pub fn content(&mut self, bytes: &[u8]) -> Result<(), PrintError> {
        if self.to_terminal {
            self.bytes(crate::escape::printable_text(bytes).as_bytes())
        } else {
            self.bytes(bytes)
        }
    }

    /// File contents in a style, if data is coloured.
    pub fn painted_content(&mut self, style: Style, bytes: &[u8]) -> Result<(), PrintError> {
        let style = if self.color_data { style } else { Style::new() };
        write!(self.stdout, "{style}")?;
        self.content(bytes)?;
        Ok(write!(self.stdout, "{style:#}")?)
    }

    /// Text of a colour in data, if data is coloured.
    pub fn paint<T: Display>(&self, style: Style, text: T) -> Painted<T> {
        paint(self.color_data, style, text)
    }

    /// The same for messages on standard error.
    pub fn paint_talk<T: Display>(&self, style: Style, text: T) -> Painted<T> {
        paint(self.color_talk, style, text)
    }

    /// Standard error is best effort: if it is closed, that cannot be reported.
    fn say(&mut self, text: impl Display) {
        if let Some(held) = &mut self.held {
            return held.push(text.to_string());
        }
        // In the order of the calls, even where both streams are the same terminal.
        let _ = self.stdout.flush();
        let _ = writeln!(self.stderr, "{text}");
    }
}

pub const ERROR: Style = Style::new()
    .bold()
    .fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Red)));
pub const WARNING: Style = Style::new()
    .bold()
    .fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Yellow)));
pub const HINT: Style = Style::new()
    .bold()
    .fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Cyan)));
pub const HEADING: Style = Style::new().bold().underline();
pub const DIRECTORY: Style = Style::new()
    .bold()
    .fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Blue)));
pub const SYMLINK: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Cyan)));
pub const FAINT: Style = Style::new().dimmed();
pub const BOLD: Style = Style::new().bold();
pub const RED: Style = plain_color(anstyle::AnsiColor::Red);
pub const GREEN: Style = plain_color(anstyle::AnsiColor::Green);
pub const YELLOW: Style = plain_color(anstyle::AnsiColor::Yellow);
pub const BLUE: Style = plain_color(anstyle::AnsiColor::Blue);
pub const MAGENTA: Style = plain_color(anstyle::AnsiColor::Magenta);
pub const CYAN: Style = plain_color(anstyle::AnsiColor::Cyan);

const fn plain_color(color: anstyle::AnsiColor) -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(color)))
}

/// Text in a style, or plain.
pub struct Painted<T> {
    style: Style,
    text: T,
}

fn paint<T: Display>(on: bool, style: Style, text: T) -> Painted<T> {
    Painted {
        style: if on { style } else { Style::new() },
        text,
    }
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Painted { style, text } = self;
        write!(f, "{style}")?;
        text.fmt(f)?;
        write!(f, "{style:#}")
    }
}

/// `Auto` is left to anstream: a terminal that can, and no `NO_COLOR`.
fn wants_color(color: ColorWhen, stream: &impl anstream::stream::RawStream) -> bool {
    match color {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto => anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never,
    }
}
