//! `avfs cat`: the contents of files.

use std::ops::Range;

use agentvfs::EntryKind;
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use crate::args::{AtArg, PathArg, byte_range, line_range, path_arg};
use crate::context::Context;
use crate::entry::target;
use crate::escape::{TextEscaper, printable};
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::json::{PathField, byte_field};
use crate::printer::Printer;
use crate::rule_args::RuleArgs;
use crate::size::HumanSize;
use crate::view::View;

/// Print files
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs cat README.md
  avfs cat src/main.rs --lines 10:20
  avfs cat disk.img --bytes 0:512 | xxd
  avfs cat notes.txt --at yesterday")]
pub struct CatArgs {
    /// The files to print
    #[arg(value_name = "PATH", required = true, value_parser = path_arg())]
    paths: Vec<PathArg>,

    /// Print only these lines, counted from 1: FIRST:LAST
    #[arg(long, value_name = "RANGE", value_parser = line_range, conflicts_with = "bytes")]
    lines: Option<Range<u64>>,

    /// Print only these bytes, counted from 0, without the end: START:END
    #[arg(long, value_name = "RANGE", value_parser = byte_range)]
    bytes: Option<Range<u64>>,

    #[command(flatten)]
    at: AtArg,

    #[command(flatten)]
    pub rules: RuleArgs,
}

/// How much of a file is in memory at a time.
const PIECE: u64 = 1 << 20;

/// The limit for all files together in one JSON object: it is in memory as a whole, and huge files of holes
/// are cheap to create.
const JSON_MAX: u64 = 64 << 20;

byte_field!(ContentField, content, content_bytes_hex);

#[derive(Serialize)]
struct CatBody {
    files: Vec<CatFileBody>,
}

#[derive(Serialize)]
struct CatFileBody {
    #[serde(flatten)]
    path: PathField,
    size: u64,
    #[serde(flatten)]
    content: ContentField,
}

pub fn run(context: &mut Context<'_>, args: &CatArgs) -> Result<ExitStatus> {
    let paths = context.paths(&args.paths)?;
    let view = context.view(&args.at)?;
    // All are looked up before the first is printed.
    let sizes = paths
        .iter()
        .map(|path| file_size(&view, path))
        .collect::<Result<Vec<_>>>()?;
    let files = paths.iter().zip(sizes);
    if context.out.is_json() {
        check_fits(files.clone(), args)?;
        let files = files
            .map(|(path, size)| body(&view, path, size, args))
            .collect::<Result<_>>()?;
        context.out.object("cat", &CatBody { files })?;
        return Ok(ExitStatus::Success);
    }
    for (path, size) in files {
        if context.out.is_terminal() {
            print_escaped(context.out, &view, path, size, args)?
        } else {
            pieces(&view, path, size, args, |piece| Ok(context.out.bytes(piece)?))?
        }
    }
    Ok(ExitStatus::Success)
}

fn file_size(view: &View, path: &TreePath) -> Result<u64> {
    let found = view.find(path)?;
    match (&found.entry.kind, target(&found)) {
        (EntryKind::File { size, .. }, _) => Ok(*size),
        (_, Some(target)) => {
            let failure = Failure::new(
                "not-a-file",
                ExitStatus::BadInput,
                format!("{path} is a symbolic link"),
            );
            Err(failure
                .hint(Some(format!("it points to {}", printable(target))))
                .into())
        }
        _ => Ok(view.file_size(path)?),
    }
}

fn check_fits<'a>(files: impl Iterator<Item = (&'a TreePath, u64)>, args: &CatArgs) -> Result<()> {
    // Which bytes the lines are is known only when they are read.
    if args.lines.is_some() {
        return Ok(());
    }
    let wanted = files.map(|(_, size)| {
        let Range { start, end } = wanted_bytes(size, args);
        end.saturating_sub(start)
    });
    match wanted.fold(0, u64::saturating_add) {
        wanted if wanted > JSON_MAX => Err(too_large()),
        _ => Ok(()),
    }
}

fn too_large() -> anyhow::Error {
    let most = HumanSize(JSON_MAX);
    let message = format!("a JSON object can contain at most {most} of files, and more was requested");
    let hint = "ask for parts with --bytes, or leave --json out".to_owned();
    Failure::new("too-large", ExitStatus::BadInput, message)
        .hint(Some(hint))
        .into()
}

fn wanted_bytes(size: u64, args: &CatArgs) -> Range<u64> {
    let Range { start, end } = args.bytes.clone().unwrap_or(0..size);
    start..end.min(size)
}

fn body(view: &View, path: &TreePath, size: u64, args: &CatArgs) -> Result<CatFileBody> {
    let mut content = Vec::new();
    pieces(view, path, size, args, |piece| {
        if (content.len() + piece.len()) as u64 > JSON_MAX {
            return Err(too_large());
        }
        content.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(CatFileBody {
        path: path.into(),
        size,
        content: ContentField::new(&content),
    })
}

fn print_escaped(out: &mut Printer, view: &View, path: &TreePath, size: u64, args: &CatArgs) -> Result<()> {
    let mut escaper = TextEscaper::default();
    pieces(view, path, size, args, |piece| {
        Ok(out.bytes(escaper.push(piece).as_bytes())?)
    })?;
    Ok(out.bytes(escaper.finish().as_bytes())?)
}

/// Passes the wanted part of a file to `take`, piece by piece.
fn pieces(
    view: &View,
    path: &TreePath,
    size: u64,
    args: &CatArgs,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let Range { start, end } = wanted_bytes(size, args);
    let mut lines = args.lines.clone().map(LineFilter::new);
    let mut buffer = vec![0; PIECE.min(size) as usize];
    let mut offset = start;
    while offset < end {
        let wanted = (end - offset).min(PIECE) as usize;
        let len = view.read_at(path, offset, &mut buffer[..wanted])?;
        let piece = &buffer[..len];
        match &mut lines {
            None => take(piece)?,
            Some(lines) if lines.is_done() => break,
            Some(lines) => take(lines.part(piece))?,
        }
        offset += len as u64;
    }
    Ok(())
}

/// Finds wanted lines in a file that comes in pieces.
struct LineFilter {
    wanted: Range<u64>,
    /// The line that the next byte belongs to.
    line: u64,
}

impl LineFilter {
    fn new(wanted: Range<u64>) -> LineFilter {
        LineFilter { wanted, line: 1 }
    }

    fn is_done(&self) -> bool {
        self.line >= self.wanted.end
    }

    /// The part of the next piece that lies in the wanted lines.
    fn part<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        let skipped = self.advance(piece, self.wanted.start);
        let piece = &piece[skipped..];
        &piece[..self.advance(piece, self.wanted.end)]
    }

    /// Goes on to the beginning of a line; returns how many bytes lie before it.
    fn advance(&mut self, piece: &[u8], line: u64) -> usize {
        let mut at = 0;
        while self.line < line {
            let Some(end) = piece[at..].iter().position(|byte| *byte == b'\n') else {
                return piece.len();
            };
            at += end + 1;
            self.line += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_wherever_the_pieces_end() {
        let text = b"one\ntwo\nthree\nfour";
        let cases: [(Range<u64>, &[u8]); 5] = [
            (1..2, b"one\n"),
            (2..4, b"two\nthree\n"),
            (4..5, b"four"),
            (3..u64::MAX, b"three\nfour"),
            (9..10, b""),
        ];
        for (wanted, expected) in cases {
            for size in 1..=text.len() {
                let mut filter = LineFilter::new(wanted.clone());
                let parts = text.chunks(size).map(|piece| filter.part(piece));
                assert_eq!(
                    parts.collect::<Vec<_>>().concat(),
                    expected,
                    "{wanted:?} in pieces of {size}"
                );
            }
        }
    }
}
