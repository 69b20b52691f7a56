//! `avfs task output`.

use agentvfs::task_run::{News, PlainText, RunOutput, TaskRun};
use agentvfs::{Error, Task};
use anyhow::Result;
use serde::Serialize;

use super::run_body::RunStateBody;
use super::run_of;
use crate::context::Context;
use crate::escape::{TextEscaper, printable_line};
use crate::exit::ExitStatus;
use crate::printer::{PrintError, Printer};
use crate::size::parse_size;

/// Show the output of the program in a task
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Works after the program has ended, too. The last 8 MB are kept; if there was more, a message says
so. Terminal control sequences (colours, cursor movement) are removed unless --raw is given.

Examples:
  avfs task output
  avfs task output -f fix-login
  avfs task output --tail 20
  avfs task output --raw --bytes 64k fix-login > screen"
)]
pub struct OutputArgs {
    /// The task [default: the one that commands work on here]
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Keep printing until the program ends
    #[arg(short, long)]
    follow: bool,
    /// Print only the last N lines
    #[arg(short = 'n', long, value_name = "N")]
    tail: Option<usize>,
    /// Print only the last bytes, such as 64k
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "tail")]
    bytes: Option<u64>,
    /// Print the output as the program wrote it, with terminal control sequences
    #[arg(long)]
    raw: bool,
    /// Select one of several runs in the task [default: one that is still running, or else the
    /// detached one that ended last, or else the newest]
    #[arg(long, value_name = "ID")]
    run: Option<String>,
}

/// The output, in JSON.
#[derive(Serialize)]
struct OutputBody {
    #[serde(flatten)]
    run: RunStateBody,
    /// The number of printed bytes, and how many of them, from the beginning, are not in `output`.
    printed_bytes: u64,
    cut_bytes: u64,
    output: String,
}

pub fn run(context: &mut Context<'_>, args: &OutputArgs) -> Result<ExitStatus> {
    let task = context.task(args.task.as_deref())?;
    let run = run_of(&task, args.run.as_deref())?;
    let failed = |source| Error::Host {
        action: "reading the output of",
        place: place_of(&task),
        source,
    };
    let output = run.output();
    // Listened to first: nothing that is printed from now on is missed.
    let watch = args.follow.then(|| run.watch()).transpose()?;
    let from = begin(&output, args).map_err(failed)?;
    if context.out.is_json() {
        if let Some(mut watch) = watch {
            while !matches!(watch.next(None)?, Some(News::Ended(_))) {}
        }
        return told(context.out, &run_of(&task, Some(&run.record().id))?, from);
    }
    if task.runs().list()?.len() > 1 {
        let record = run.record();
        context.out.talk(format_args!(
            "run {} of task {}: {}",
            record.id,
            task.name(),
            printable_line(record.command.as_bytes())
        ));
    }
    if from > 0 && args.tail.is_none() && args.bytes.is_none() {
        context
            .out
            .warn(format_args!("the first {from} bytes are no longer kept"));
    }
    let mut printing = Printing::new(args.raw);
    let mut offset = printing
        .all(context.out, &output, from)
        .map_err(told_as(failed))?;
    if let Some(mut watch) = watch {
        loop {
            let news = watch.next(None)?;
            offset = printing
                .all(context.out, &output, offset)
                .map_err(told_as(failed))?;
            if let Some(News::Ended(_)) | None = news {
                break;
            }
        }
    }
    printing.finish(context.out)?;
    Ok(ExitStatus::Success)
}

fn place_of(task: &Task) -> String {
    format!("task '{}'", task.name())
}

/// Where to begin.
fn begin(output: &RunOutput, args: &OutputArgs) -> std::io::Result<u64> {
    let (begin, end) = (output.begin()?, output.end()?);
    match (args.bytes, args.tail) {
        (Some(bytes), _) => Ok(end.saturating_sub(bytes).max(begin)),
        (None, Some(lines)) => last_lines(output, begin, end, lines),
        (None, None) => Ok(begin),
    }
}

/// How much is searched for lines at first.
const LOOKED_THROUGH: u64 = 64 << 10;

/// Where the last lines begin.
fn last_lines(output: &RunOutput, begin: u64, end: u64, lines: usize) -> std::io::Result<u64> {
    let mut most = LOOKED_THROUGH;
    loop {
        let (tail, _) = output.tail(end, most)?;
        let start = end - tail.len() as u64;
        // The end of the last line begins none.
        let ended = tail.strip_suffix(b"\n").unwrap_or(&tail);
        let ends = ended.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
        match lines
            .checked_sub(1)
            .map(|before| ends.map(|(at, _)| at).nth(before))
        {
            None => return Ok(end),
            Some(Some(at)) => return Ok(start + at as u64 + 1),
            Some(None) if start <= begin => return Ok(begin),
            Some(None) => most = most.saturating_mul(4),
        }
    }
}

fn told(out: &mut Printer, run: &TaskRun, from: u64) -> Result<ExitStatus> {
    let output = run.output();
    let (mut plain, mut escaper) = (PlainText::default(), TextEscaper::default());
    let (mut offset, mut text) = (from, String::new());
    loop {
        let piece = output.read(offset)?;
        if piece.bytes.is_empty() {
            break;
        }
        text += &escaper.push(&plain.push(&piece.bytes));
        offset = piece.end();
    }
    text += &escaper.finish();
    let body = OutputBody {
        run: RunStateBody::from(run.record()),
        printed_bytes: offset,
        cut_bytes: from,
        output: text,
    };
    out.object("task-output", &body)?;
    Ok(ExitStatus::Success)
}

/// Output on its way to the user.
struct Printing {
    /// `None`: unchanged.
    cleaned: Option<(PlainText, TextEscaper)>,
    ends_line: bool,
}

/// Why it was not shown.
enum NotShown {
    Read(std::io::Error),
    Print(PrintError),
}

fn told_as(failed: impl Fn(std::io::Error) -> Error) -> impl Fn(NotShown) -> anyhow::Error {
    move |error| match error {
        NotShown::Read(source) => failed(source).into(),
        NotShown::Print(error) => error.into(),
    }
}

impl Printing {
    fn new(raw: bool) -> Printing {
        let cleaned = (!raw).then(|| (PlainText::default(), TextEscaper::default()));
        Printing {
            cleaned,
            ends_line: true,
        }
    }

    /// Prints all that there is from an offset on; answers where the next begins.
    fn all(&mut self, out: &mut Printer, output: &RunOutput, mut offset: u64) -> Result<u64, NotShown> {
        loop {
            let piece = output.read(offset).map_err(NotShown::Read)?;
            if piece.bytes.is_empty() {
                out.flush().map_err(NotShown::Print)?;
                return Ok(offset);
            }
            if piece.start > offset {
                let lost = piece.start - offset;
                out.warn(format_args!(
                    "{lost} bytes were printed faster than they could be shown"
                ));
            }
            offset = piece.end();
            self.print(out, &piece.bytes).map_err(NotShown::Print)?;
        }
    }

    fn print(&mut self, out: &mut Printer, bytes: &[u8]) -> Result<(), PrintError> {
        match &mut self.cleaned {
            None => out.bytes(bytes),
            Some((plain, escaper)) => {
                let text = escaper.push(&plain.push(bytes));
                self.ends_line = text.chars().last().map_or(self.ends_line, |last| last == '\n');
                out.bytes(text.as_bytes())
            }
        }
    }

    /// On a terminal, the prompt begins on a line of its own.
    fn finish(self, out: &mut Printer) -> Result<(), PrintError> {
        if let Some((_, escaper)) = self.cleaned {
            let rest = escaper.finish();
            let ends_line = self.ends_line && rest.is_empty();
            out.bytes(rest.as_bytes())?;
            if !ends_line && out.is_terminal() {
                out.bytes(b"\n")?;
            }
        }
        out.flush()
    }
}
