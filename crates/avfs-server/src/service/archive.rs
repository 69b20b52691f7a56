//! Files of a sandbox or vault as one tar archive, in and out.

use std::io::{self, Write};
use std::ops::ControlFlow;

use agentvfs::transfer::{self, TransferError};

use super::error::{ServiceError, ServiceResult};
use super::files::{Files, tree_path};
use super::spool::Spool;

/// How much of an archive is handed on at a time.
const PIECE: usize = 256 << 10;

/// What an archive brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Regular files.
    pub files: u64,
    /// Bytes of their contents.
    pub bytes: u64,
}

/// Hands on what is written, in pieces.
struct Pieces<F> {
    piece: Vec<u8>,
    take: F,
}

impl<F: FnMut(Vec<u8>) -> ControlFlow<()>> Pieces<F> {
    fn hand_on(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece);
        if piece.is_empty() || (self.take)(piece).is_continue() {
            return Ok(());
        }
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

impl<F: FnMut(Vec<u8>) -> ControlFlow<()>> Write for Pieces<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.hand_on()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_on()
    }
}

impl Files {
    /// Refuses a path at which there is nothing to pack.
    pub fn check_packable(&self, path: &str) -> ServiceResult<()> {
        let reader = self.vault().reader()?;
        let path = self.view(&reader)?.resolve(&tree_path(path)?)?;
        let found = reader.find_readable(&path);
        found.map(drop).map_err(|error| self.unreadable(error))
    }

    /// Hands on a directory with everything in it as a tar archive, or a single file, until nobody wants more of it.
    pub fn pack(&self, path: &str, take: impl FnMut(Vec<u8>) -> ControlFlow<()>) -> ServiceResult<()> {
        let reader = self.vault().reader()?;
        let path = self.view(&reader)?.resolve(&tree_path(path)?)?;
        let mut pieces = Pieces {
            piece: Vec::new(),
            take,
        };
        let packed = transfer::export_tar(&reader, &path, &mut pieces, &());
        packed.map_err(failed)?;
        // A client that is gone needs no more.
        let _ = pieces.flush();
        Ok(())
    }

    /// Puts the contents of a tar archive into a directory, which is made if there is none; all of it, or nothing.
    pub fn unpack(&self, path: &str, upload: &Spool) -> ServiceResult<Unpacked> {
        let detail = avfs_core::printable(path.as_bytes());
        let into = tree_path(path)?;
        let (report, _) = self.vault().change(
            "import",
            &detail,
            |open| -> ServiceResult<transfer::TransferReport> {
                let archive = io::BufReader::new(upload.again());
                Ok(open.imports().tar(archive, &into, &())?)
            },
        )?;
        Ok(Unpacked {
            files: report.files,
            bytes: report.bytes,
        })
    }
}

fn failed(error: TransferError) -> ServiceError {
    agentvfs::Error::from(error).into()
}
