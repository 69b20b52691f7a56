//! `avfs write`: the contents of one file, from an argument or from standard input.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use agentvfs::{Version, WriteMode};
use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::args::{PathArg, path_arg};
use crate::change::{ChangedBody, describe};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::json::PathField;
use crate::rule_args::RuleArgs;

/// Write a file
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --expect, nothing is written if the file has changed. `avfs stat` shows the version;
its first 8 digits are enough.

Examples:
  avfs write notes.txt 'remember the milk'
  make 2>&1 | avfs write logs/make.txt
  date | avfs write log.txt --append
  avfs write notes.txt 'new text' --expect 1f0c9a7e"
)]
pub struct WriteArgs {
    /// The file to write
    #[arg(value_parser = path_arg())]
    path: PathArg,

    /// The text to write, followed by a newline; without it or with '-', standard input is written as it is
    text: Option<OsString>,

    /// Append to the file
    #[arg(short, long)]
    append: bool,

    /// Write only if the file still has this version; 'absent': only if it does not exist
    #[arg(long, value_name = "VERSION")]
    expect: Option<String>,

    /// Create missing directories
    #[arg(short, long)]
    parents: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

/// How much of standard input is kept in memory; the rest goes to a temporary file.
const SPOOL_MAX: usize = 8 << 20;

#[derive(Serialize)]
struct WriteBody {
    #[serde(flatten)]
    path: PathField,
    size: u64,
    version: String,
    #[serde(flatten)]
    changed: ChangedBody,
}

pub fn run(context: &mut Context<'_>, args: &WriteArgs) -> Result<ExitStatus> {
    let path = &context.path(&args.path)?;
    let expect = args.expect.as_deref().map(Version::parse).transpose()?;
    let mode = if args.append {
        WriteMode::Append
    } else {
        WriteMode::Replace
    };
    let mut input = input(args.text.as_ref())?;
    let start = input.stream_position().context("reading standard input")?;
    let written = context.change("write", &describe([path]), |open| {
        input
            .seek(SeekFrom::Start(start))
            .context("reading standard input")?;
        if let Some((parent, _)) = path.split_last().filter(|_| args.parents) {
            open.make_directory(&parent, true)?;
        }
        Ok(open.write(path, &mut input, mode, expect.as_ref())?)
    });
    let hint = "`avfs write -p` creates missing directories too";
    let ((), changed) = written.map_err(|error| Failure::hinted(error, "not-found", hint))?;
    if context.out.is_json() {
        let view = changed.view()?;
        let (size, version) = (view.file_size(path)?, view.version(path)?.to_string());
        context.out.object(
            "write",
            &WriteBody {
                path: path.into(),
                size,
                version,
                changed: changed.body(),
            },
        )?;
    }
    Ok(ExitStatus::Success)
}

/// Input that can be read again from its starting position.
trait SeekableInput: Read + Seek {}

impl<T: Read + Seek> SeekableInput for T {}

fn input(text: Option<&OsString>) -> Result<Box<dyn SeekableInput>> {
    match text {
        Some(text) if text != "-" => Ok(Box::new(Cursor::new([text.as_bytes(), b"\n"].concat()))),
        _ => standard_input().context("reading standard input"),
    }
}

/// A pipe is read to its end before the vault is opened: its writer may be slow, and other processes could
/// not change the vault meanwhile.
fn standard_input() -> Result<Box<dyn SeekableInput>> {
    let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    if file.metadata()?.is_file() {
        return Ok(Box::new(file));
    }
    let mut spool = tempfile::spooled_tempfile(SPOOL_MAX);
    io::copy(&mut io::stdin().lock(), &mut spool)?;
    spool.rewind()?;
    Ok(Box::new(spool))
}
