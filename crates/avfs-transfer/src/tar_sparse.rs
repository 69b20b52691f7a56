//! Where the data of a sparse file in an archive belongs: four notations, one list of runs.

use std::io::{self, Read};

use super::tar_pax::number;

/// A run of data: where in the file, and how long.
pub(super) type Run = (u64, u64);

/// More runs than any sane file has; a list of them is held in memory.
const RUNS_MAX: usize = 4 << 20;

/// The information about holes in extended headers, collected record by record.
#[derive(Clone, Default)]
pub(super) struct SparseRecords {
    runs: Vec<Run>,
    offset: Option<u64>,
    is_sparse: bool,
    /// The list of runs precedes the data (format 1.0).
    pub in_data: bool,
    pub real_size: Option<u64>,
    pub name: Option<Vec<u8>>,
}

impl SparseRecords {
    /// Takes the record `GNU.sparse.` + `keyword`.
    pub(super) fn take(&mut self, keyword: &[u8], value: &[u8]) -> io::Result<()> {
        match keyword {
            b"major" => {
                self.in_data = value == b"1";
                self.is_sparse = true;
            }
            b"name" => self.name = Some(value.to_vec()),
            b"size" | b"realsize" => self.real_size = Some(number(value)?),
            b"numblocks" => self.is_sparse = true,
            b"offset" => self.offset = Some(number(value)?),
            b"numbytes" => {
                let offset = self.offset.take().ok_or_else(malformed)?;
                self.runs.push((offset, number(value)?));
                self.is_sparse = true;
            }
            b"map" => {
                let numbers: io::Result<Vec<u64>> = value.split(|byte| *byte == b',').map(number).collect();
                self.runs = numbers?.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
                self.is_sparse = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// The runs, if these records alone say where they are.
    pub(super) fn runs(self) -> Option<Vec<Run>> {
        self.is_sparse.then_some(self.runs)
    }
}

/// Reads the list before the data in format 1.0: decimal numbers, one per line, padded to a block. Returns it
/// with its length in bytes.
pub(super) fn read_map(data: &mut impl Read) -> io::Result<(Vec<Run>, u64)> {
    let mut lines = SparseLines {
        data,
        block: [0; 512],
        next: 512,
        taken: 0,
    };
    let count: usize = lines.number()?;
    if count > RUNS_MAX {
        return Err(malformed());
    }
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push((lines.number()?, lines.number()?));
    }
    Ok((runs, lines.taken))
}

struct SparseLines<'a, R> {
    data: &'a mut R,
    block: [u8; 512],
    next: usize,
    taken: u64,
}

impl<R: Read> SparseLines<'_, R> {
    fn byte(&mut self) -> io::Result<u8> {
        if self.next == self.block.len() {
            self.data.read_exact(&mut self.block)?;
            self.next = 0;
            self.taken += self.block.len() as u64;
        }
        self.next += 1;
        Ok(self.block[self.next - 1])
    }

    fn number<N: std::str::FromStr>(&mut self) -> io::Result<N> {
        let mut digits = Vec::new();
        loop {
            match self.byte()? {
                b'\n' => return number(&digits),
                digit if digits.len() < 20 => digits.push(digit),
                _ => return Err(malformed()),
            }
        }
    }
}

/// Writes such a list, filled up to a block.
pub(super) fn put_map(runs: &[Run]) -> Vec<u8> {
    let mut out = format!("{}\n", runs.len()).into_bytes();
    for (offset, len) in runs {
        out.extend_from_slice(format!("{offset}\n{len}\n").as_bytes());
    }
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

/// The runs of an old GNU header and of the blocks that continue it.
pub(super) fn gnu_runs(header: &tar::GnuHeader, archive: &mut impl Read) -> io::Result<Vec<Run>> {
    let mut runs = Vec::new();
    gnu_part(&header.sparse, &mut runs)?;
    let mut more = header.is_extended();
    while more {
        let mut block = tar::GnuExtSparseHeader::new();
        archive.read_exact(block.as_mut_bytes())?;
        gnu_part(block.sparse(), &mut runs)?;
        more = block.is_extended();
        if runs.len() > RUNS_MAX {
            return Err(malformed());
        }
    }
    Ok(runs)
}

fn gnu_part(headers: &[tar::GnuSparseHeader], runs: &mut Vec<Run>) -> io::Result<()> {
    for header in headers.iter().filter(|header| !header.is_empty()) {
        runs.push((header.offset()?, header.length()?));
    }
    Ok(())
}

/// Refuses runs that overlap, are out of order, go past the end or do not add up to the data there is.
pub(super) fn check(runs: &[Run], size: u64, stored: u64) -> io::Result<()> {
    let mut end = 0u64;
    let mut sum = 0u64;
    for (offset, len) in runs {
        if *offset < end {
            return Err(malformed());
        }
        end = offset.checked_add(*len).ok_or_else(malformed)?;
        sum += len;
    }
    if end > size || sum != stored {
        Err(malformed())
    } else {
        Ok(())
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the list of holes is malformed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_runs_reads_back_and_fills_blocks() {
        let runs: Vec<Run> = (0..200).map(|index| (index * 8192, 4096)).collect();
        let bytes = put_map(&runs);
        assert_eq!(bytes.len() % 512, 0);
        assert_eq!(read_map(&mut &bytes[..]).unwrap(), (runs, bytes.len() as u64));
    }

    #[test]
    fn runs_that_overlap_or_do_not_add_up_are_refused() {
        assert!(check(&[(0, 10), (20, 10)], 30, 20).is_ok());
        assert!(check(&[(0, 10), (5, 10)], 30, 20).is_err());
        assert!(check(&[(0, 10), (25, 10)], 30, 20).is_err());
        assert!(check(&[(0, 10)], 30, 20).is_err());
        assert!(check(&[(u64::MAX, 10)], 30, 10).is_err());
    }
}
