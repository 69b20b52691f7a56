//! The output of a run, stored in the task's directory: its end, in files of equal size. Each is named by the
//! number of bytes before it.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// How much is in one file, and how many there are.
const SEGMENT: u64 = 1 << 20;
const SEGMENTS: usize = 8;

const PREFIX: &str = "output.";

/// Stores the output. If it cannot be written (a full disk), the run continues and less is stored.
#[derive(Debug)]
pub(super) struct OutputLog {
    place: PathBuf,
    segment: Option<File>,
    /// Where the present file begins, and how much was printed.
    start: u64,
    total: u64,
    size: u64,
}

impl OutputLog {
    pub(super) fn new(place: &Path) -> OutputLog {
        OutputLog::with_segments_of(place, SEGMENT)
    }

    fn with_segments_of(place: &Path, size: u64) -> OutputLog {
        OutputLog {
            place: place.to_owned(),
            segment: None,
            start: 0,
            total: 0,
            size,
        }
    }

    /// The number of printed bytes.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.segment.is_none() || self.total - self.start >= self.size {
                self.begin_segment();
            }
            let room = usize::try_from(self.size - (self.total - self.start)).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            if self
                .segment
                .as_mut()
                .is_some_and(|file| file.write_all(now).is_err())
            {
                // The next piece gets a file of its own, so that readers find it at the right offset.
                self.segment = None;
            }
            self.total += now.len() as u64;
            bytes = later;
        }
    }

    fn begin_segment(&mut self) {
        self.start = self.total;
        let name = format!("{PREFIX}{:016x}", self.start);
        self.segment = File::options()
            .create(true)
            .append(true)
            .open(self.place.join(name))
            // On a full disk, the program runs on and only its output is not kept.
            .ok();
        let segments = segments(&self.place).unwrap_or_default();
        for (_, old) in segments.iter().rev().skip(SEGMENTS) {
            // If it cannot be removed now, it is removed with the task.
            let _ = fs::remove_file(old);
        }
    }
}

/// The files in order, with where each begins.
fn segments(place: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        let name = entry.file_name();
        let start = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if let Some(start) = start.and_then(|start| u64::from_str_radix(start, 16).ok()) {
            found.push((start, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// The stored part of a run's output.
#[derive(Clone, Debug)]
pub struct RunOutput {
    place: PathBuf,
}

/// A piece of output, and where it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputPiece {
    /// Where it begins in the output.
    pub start: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl OutputPiece {
    /// Where the next piece begins.
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl RunOutput {
    pub(super) fn new(place: &Path) -> RunOutput {
        RunOutput {
            place: place.to_owned(),
        }
    }

    /// The beginning of the stored part: this many bytes were printed before it and are gone.
    pub fn begin(&self) -> io::Result<u64> {
        Ok(segments(&self.place)?.first().map_or(0, |(start, _)| *start))
    }

    /// Where it ends at the moment.
    pub fn end(&self) -> io::Result<u64> {
        let Some((start, last)) = segments(&self.place)?.pop() else {
            return Ok(0);
        };
        Ok(start + fs::metadata(last)?.len())
    }

    /// The stored output from `offset` on, in one piece of a bounded size. It begins later if that part is
    /// gone, and is empty at the end.
    pub fn read(&self, offset: u64) -> io::Result<OutputPiece> {
        let segments = segments(&self.place)?;
        for (at, (start, file)) in segments.iter().enumerate() {
            let next = segments.get(at + 1).map(|(next, _)| *next);
            if next.is_some_and(|next| next <= offset) {
                continue;
            }
            let from = offset.max(*start);
            let bytes = match read_from(file, from - start) {
                Ok(bytes) => bytes,
                // Removed a moment ago: the next one is there.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if !bytes.is_empty() {
                return Ok(OutputPiece { start: from, bytes });
            }
        }
        Ok(OutputPiece {
            start: offset,
            bytes: Vec::new(),
        })
    }

    /// The last bytes before `end`, and whether there was more before them.
    pub fn tail(&self, end: u64, most: u64) -> io::Result<(Vec<u8>, bool)> {
        let mut from = end.saturating_sub(most);
        let mut tail = Vec::new();
        while from < end {
            let piece = self.read(from)?;
            if piece.bytes.is_empty() || piece.start >= end {
                break;
            }
            let wanted = usize::try_from(end - piece.start)
                .unwrap_or(usize::MAX)
                .min(piece.bytes.len());
            tail.extend_from_slice(&piece.bytes[..wanted]);
            from = piece.end();
        }
        let is_cut = (tail.len() as u64) < end;
        Ok((tail, is_cut))
    }
}

fn read_from(file: &Path, offset: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(file)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(SEGMENT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(output: &RunOutput) -> Vec<u8> {
        let (mut offset, mut all) = (0, Vec::new());
        loop {
            let piece = output.read(offset).unwrap();
            if piece.bytes.is_empty() {
                return all;
            }
            offset = piece.end();
            all.extend(piece.bytes);
        }
    }

    #[test]
    fn output_is_read_while_it_is_written() {
        let place = tempfile::tempdir().unwrap();
        let (mut log, output) = (
            OutputLog::with_segments_of(place.path(), 4),
            RunOutput::new(place.path()),
        );
        assert_eq!(
            (output.begin().unwrap(), output.end().unwrap(), all(&output)),
            (0, 0, Vec::new())
        );
        log.append(b"abcdef");
        assert_eq!((output.end().unwrap(), all(&output)), (6, b"abcdef".to_vec()));
        log.append(b"gh");
        assert_eq!(
            output.read(6).unwrap(),
            OutputPiece {
                start: 6,
                bytes: b"gh".to_vec()
            }
        );
        assert_eq!(output.tail(8, 3).unwrap(), (b"fgh".to_vec(), true));
        assert_eq!(output.tail(7, 100).unwrap(), (b"abcdefg".to_vec(), false));
        assert_eq!(log.total(), 8);
    }

    #[test]
    fn only_the_end_of_much_output_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let (mut log, output) = (
            OutputLog::with_segments_of(place.path(), 4),
            RunOutput::new(place.path()),
        );
        let printed: Vec<u8> = (0..100).collect();
        log.append(&printed);
        let begin = output.begin().unwrap();
        assert!(begin >= 100 - 4 * (SEGMENTS as u64 + 1) && begin > 0, "{begin}");
        assert_eq!(output.read(0).unwrap().start, begin);
        assert_eq!(all(&output), printed[begin as usize..]);
    }
}
