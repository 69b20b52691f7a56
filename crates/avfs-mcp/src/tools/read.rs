//! `read`: lines of a file with their numbers, bytes of a range, or the output of a command.

use agentvfs::{EntryKind, TreePath, TreeReader, Version};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::{Call, find, kind};
use crate::paths::{path_in, show};
use crate::reply::{Reply, TEXT_MAX, shown};
use crate::tool_error::ToolError;

/// How many lines are read if the agent does not say.
const LINES: u64 = 2_000;
/// How much of a file is looked at in one step.
const STEP: usize = 64 << 10;
/// Of larger files, lines are not counted to the end.
const COUNTED: u64 = 16 << 20;
/// How much of a file decides whether it is text.
const SNIFFED: usize = 8_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadArgs {
    /// The workspace; without it, the default one.
    workspace: Option<String>,
    /// A file, from the root of the workspace. Or `run:ID/stdout` or `run:ID/stderr`: the output of a command that `exec`
    /// has cut.
    path: String,
    /// The first line to read, from 1 on.
    #[schemars(range(min = 1))]
    start_line: Option<u64>,
    /// How many lines to read; 2000 if not said.
    #[schemars(range(min = 1))]
    lines: Option<u64>,
    /// Read bytes from this offset on instead of lines, for files with very long lines.
    start_byte: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReadAnswer {
    workspace: String,
    path: String,
    /// `text`, `binary`, `directory`, `symlink`, or another kind of entry.
    kind: String,
    /// The version of the file, for `expected_version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// In bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// The first line of `content`, from 1 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_line: Option<u64>,
    /// How many lines the file has; absent for very large files.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_lines: Option<u64>,
    /// The text itself, without line numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// Where a symbolic link leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Where to read on, if something is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_line: Option<u64>,
    /// Where to read on by bytes, if something is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_byte: Option<u64>,
}

pub(crate) fn run(call: &Call<'_>, args: &ReadArgs) -> Result<Reply, ToolError> {
    if let Some(rest) = args.path.strip_prefix("run:") {
        return output_of_run(call, args, rest);
    }
    let workspace = call.workspaces.named(args.workspace.as_deref(), call.client)?;
    let path = path_in(&workspace.vault, &args.path)?;
    let reader = workspace.vault.reader()?;
    let found = find(&reader, &path)?;
    let mut answer = ReadAnswer {
        workspace: workspace.name.clone(),
        path: show(&path),
        kind: kind(&found.entry.kind).to_owned(),
        version: None,
        size: None,
        start_line: None,
        total_lines: None,
        content: None,
        target: None,
        next_line: None,
        next_byte: None,
    };
    match &found.entry.kind {
        EntryKind::File { size, .. } => {
            answer.version = Some(Version::of_file(&reader, &path)?.to_string());
            answer.size = Some(*size);
            let source = &Source {
                reader: &reader,
                path: &path,
                size: *size,
            };
            read_file(args, source, answer)
        }
        EntryKind::Symlink { target } => {
            let target = String::from_utf8_lossy(target).into_owned();
            let text = format!("{} is a symbolic link to {}", answer.path, shown(&target));
            answer.target = Some(target);
            Reply::new(&answer, text)
        }
        EntryKind::Directory { .. } => Reply::new(&answer, format!("{} is a directory", answer.path))
            .map(|reply| reply.note("`list` shows what is in it")),
        _ => {
            let text = format!("{} is a {}", answer.path, answer.kind);
            Reply::new(&answer, text)
        }
    }
}

/// A file that is read in pieces.
struct Source<'a> {
    reader: &'a TreeReader,
    path: &'a TreePath,
    size: u64,
}

impl Source<'_> {
    fn bytes(&self, offset: u64, most: usize) -> Result<Vec<u8>, ToolError> {
        let mut bytes = vec![0; most];
        let read = self.reader.read_at(self.path, offset, &mut bytes);
        bytes.truncate(read?);
        Ok(bytes)
    }
}

fn read_file(args: &ReadArgs, source: &Source<'_>, mut answer: ReadAnswer) -> Result<Reply, ToolError> {
    if let Some(offset) = args.start_byte {
        return read_bytes(source, offset, answer);
    }
    // As git does: the beginning of a file decides, and not all of it is read for that.
    let first = source.bytes(0, SNIFFED)?;
    if is_binary(&first) {
        answer.kind = "binary".to_owned();
        let text = format!(
            "{}: a binary file of {} bytes, {}",
            answer.path,
            source.size,
            described(&first)
        );
        return Reply::new(&answer, text).map(|reply| {
            reply
                .note("a binary file is not shown; `exec` can look into it, for example with `file` or `xxd`")
        });
    }
    answer.kind = "text".to_owned();
    let start = args.start_line.unwrap_or(1).max(1);
    let lines = read_lines(source, start, args.lines.unwrap_or(LINES).max(1))?;
    // An empty file has no lines either, and is no mistake of the caller.
    if lines.texts.is_empty() && start > 1 {
        let text = format!("line {start} is behind the end of {}", answer.path);
        let help = lines.total.map(|total| format!("it has {total} lines"));
        return Err(ToolError::argument(text).help(help.unwrap_or_else(|| "begin further up".to_owned())));
    }
    answer.start_line = Some(start);
    answer.total_lines = lines.total;
    answer.next_line = lines.next;
    answer.next_byte = lines.cut_at;
    let text = numbered(start, &lines.texts);
    let note = reading_on(&answer);
    answer.content = Some(lines.texts.concat());
    Reply::new(&answer, text).map(|reply| reply.note_if(note))
}

fn read_bytes(source: &Source<'_>, offset: u64, mut answer: ReadAnswer) -> Result<Reply, ToolError> {
    let bytes = source.bytes(offset, TEXT_MAX)?;
    if is_binary(&bytes[..bytes.len().min(SNIFFED)]) {
        answer.kind = "binary".to_owned();
        let text = format!(
            "{}: bytes {offset} to {} are not text",
            answer.path,
            offset + bytes.len() as u64
        );
        return Reply::new(&answer, text);
    }
    answer.kind = "text".to_owned();
    let end = offset + bytes.len() as u64;
    answer.next_byte = (end < source.size).then_some(end);
    let content = String::from_utf8_lossy(&bytes).into_owned();
    let text = shown(&content);
    answer.content = Some(content);
    let note = reading_on(&answer);
    Reply::new(&answer, text).map(|reply| reply.note_if(note))
}

fn reading_on(answer: &ReadAnswer) -> Option<String> {
    if let Some(byte) = answer.next_byte {
        let size = answer.size.unwrap_or_default();
        return Some(format!(
            "cut at byte {byte} of {size}; `start_byte: {byte}` reads on"
        ));
    }
    let next = answer.next_line?;
    let total = answer
        .total_lines
        .map(|total| format!(" of {total}"))
        .unwrap_or_default();
    Some(format!(
        "lines {} to {}{total}; `start_line: {next}` reads on",
        answer.start_line?,
        next - 1
    ))
}

/// Lines with the ends that they have.
struct Lines {
    texts: Vec<String>,
    total: Option<u64>,
    next: Option<u64>,
    /// Where a line was cut that is too long for an answer.
    cut_at: Option<u64>,
}

/// Goes through a file from its beginning, and keeps the wanted lines as far as an answer holds them.
fn read_lines(source: &Source<'_>, start: u64, most: u64) -> Result<Lines, ToolError> {
    let mut lines = Lines {
        texts: Vec::new(),
        total: None,
        next: None,
        cut_at: None,
    };
    let (mut number, mut offset, mut kept) = (1_u64, 0_u64, 0_usize);
    let mut line: Vec<u8> = Vec::new();
    let mut is_full = false;
    // The number of lines needs a walk to the end, which a large file is not worth.
    let counts = source.size <= COUNTED;
    while offset < source.size && (counts || !is_full) {
        let bytes = source.bytes(offset, STEP)?;
        if bytes.is_empty() {
            break;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let is_wanted = number >= start && !is_full;
            offset += piece.len() as u64;
            if is_wanted {
                line.extend_from_slice(piece);
                // Whole lines only: half a line could be taken for all of it.
                if kept + line.len() > TEXT_MAX {
                    is_full = true;
                    if lines.texts.is_empty() {
                        // Not even one line fits: its beginning is shown, and the rest is read by bytes.
                        let line_start = offset - line.len() as u64;
                        line.truncate(TEXT_MAX);
                        lines.cut_at = Some(line_start + TEXT_MAX as u64);
                        lines.texts.push(String::from_utf8_lossy(&line).into_owned());
                    } else {
                        lines.next = Some(number);
                    }
                    line.clear();
                }
            }
            if piece.ends_with(b"\n") {
                if is_wanted && !is_full {
                    kept += line.len();
                    lines.texts.push(String::from_utf8_lossy(&line).into_owned());
                    line.clear();
                    if lines.texts.len() as u64 == most && offset < source.size {
                        is_full = true;
                        lines.next = Some(number + 1);
                    }
                }
                number += 1;
            }
        }
    }
    // A last line without an end counts as a line.
    let has_rest = source.size > 0 && source.bytes(source.size - 1, 1)? != b"\n";
    if !line.is_empty() {
        lines.texts.push(String::from_utf8_lossy(&line).into_owned());
    }
    lines.total = counts.then(|| number - 1 + u64::from(has_rest));
    Ok(lines)
}

fn numbered(start: u64, texts: &[String]) -> String {
    let mut shown_lines = String::new();
    for (number, text) in (start..).zip(texts) {
        let text = text.strip_suffix('\n').unwrap_or(text);
        // The carriage return would show as an escape in every line; `content` still has it.
        let text = text.strip_suffix('\r').unwrap_or(text);
        shown_lines.push_str(&format!("{number:>6}\t{}\n", shown(text)));
    }
    shown_lines
}

fn is_binary(bytes: &[u8]) -> bool {
    if bytes.contains(&0) {
        return true;
    }
    // A character may be cut at the end of what was looked at.
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_some()) && {
        let invalid: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
        invalid * 10 > bytes.len()
    }
}

/// What a binary file seems to be, by its first bytes.
fn described(bytes: &[u8]) -> String {
    const KNOWN: [(&[u8], &str); 12] = [
        (b"\x89PNG", "a PNG image"),
        (b"\xff\xd8\xff", "a JPEG image"),
        (b"GIF8", "a GIF image"),
        (b"%PDF", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"\x1f\x8b", "gzip data"),
        (b"\x28\xb5\x2f\xfd", "zstd data"),
        (b"\xfd7zXZ", "xz data"),
        (b"\x7fELF", "an ELF program or library"),
        (b"SQLite format 3", "a SQLite database"),
        (b"\x00asm", "a WebAssembly module"),
        (b"RIFF", "RIFF data"),
    ];
    let known = KNOWN.iter().find(|(magic, _)| bytes.starts_with(magic));
    match known {
        Some((_, words)) => (*words).to_owned(),
        None => {
            let first: Vec<String> = bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            format!("beginning with {}", first.join(" "))
        }
    }
}

/// More of the output of a command that `exec` has cut.
fn output_of_run(call: &Call<'_>, args: &ReadArgs, rest: &str) -> Result<Reply, ToolError> {
    let unknown = || {
        ToolError::new("not-found", "there is no such output any more")
            .help("run the command again, with its output in a file if there is much of it")
    };
    let (run, stream) = rest.split_once('/').ok_or_else(unknown)?;
    let text = call.workspaces.outputs.of(run).ok_or_else(unknown)?;
    let content = match stream {
        "stdout" => &text.stdout,
        "stderr" => &text.stderr,
        _ => return Err(unknown()),
    };
    let start = args.start_line.unwrap_or(1).max(1);
    let most = usize::try_from(args.lines.unwrap_or(LINES)).unwrap_or(usize::MAX);
    let from = usize::try_from(args.start_byte.unwrap_or(0)).unwrap_or(usize::MAX);
    let content = content
        .get(content.floor_char_boundary(from)..)
        .unwrap_or_default();
    let mut taken = String::new();
    let mut last = start - 1;
    let mut next_byte = None;
    for line in content
        .split_inclusive('\n')
        .skip(usize::try_from(start - 1).unwrap_or(usize::MAX))
        .take(most)
    {
        if taken.len() + line.len() > TEXT_MAX {
            if taken.is_empty() {
                taken.push_str(crate::reply::beginning(line, TEXT_MAX));
                next_byte = Some((from + taken.len()) as u64);
            }
            break;
        }
        taken.push_str(line);
        last += 1;
    }
    let total = content.split_inclusive('\n').count() as u64;
    let answer = ReadAnswer {
        workspace: String::new(),
        path: args.path.clone(),
        kind: "text".to_owned(),
        version: None,
        size: Some(content.len() as u64),
        start_line: Some(start),
        total_lines: Some(total),
        content: Some(taken.clone()),
        target: None,
        next_line: (last < total && next_byte.is_none()).then_some(last + 1),
        next_byte,
    };
    let note = reading_on(&answer);
    Reply::new(&answer, shown(&taken)).map(|reply| reply.note_if(note))
}
