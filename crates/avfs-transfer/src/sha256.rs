//! The checksum of what is read, as images name it.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

pub(super) struct Sha256Reader<R> {
    inner: R,
    state: Sha256,
}

impl<R: Read> Sha256Reader<R> {
    pub(super) fn new(inner: R) -> Sha256Reader<R> {
        Sha256Reader {
            inner,
            state: Sha256::new(),
        }
    }

    /// Reads the rest, and returns the checksum of everything, in hexadecimal.
    pub(super) fn finish(mut self) -> io::Result<String> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(avfs_core::to_hex(&self.state.finalize()))
    }
}

impl<R: Read> Read for Sha256Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(buffer)?;
        self.state.update(&buffer[..len]);
        Ok(len)
    }
}

pub(super) fn of(bytes: &[u8]) -> String {
    avfs_core::to_hex(&Sha256::digest(bytes))
}
