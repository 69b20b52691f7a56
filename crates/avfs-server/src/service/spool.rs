//! Uploads: they are whole on the disk before a vault changes, so a client that goes away in the middle changes nothing, and
//! one that is slow holds nothing up.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use agentvfs::ErrorKind;

use super::error::{ServiceError, ServiceResult};
use super::tenant::Tenant;

/// An upload that is not whole yet. Nothing of it is left when this is dropped.
pub struct Spool {
    /// Those of one request share a file: a form may have any number of them, and the machine has only so many open files.
    file: Arc<File>,
    begin: u64,
    length: u64,
    most: u64,
}

impl Spool {
    /// Begins an upload of a tenant.
    pub fn begin(tenant: &Tenant) -> ServiceResult<Spool> {
        tenant.check_disk()?;
        let file = tempfile::tempfile_in(tenant.spool());
        Ok(Spool {
            file: Arc::new(file.map_err(|error| ServiceError::host("keeping an upload", &error))?),
            begin: 0,
            length: 0,
            most: tenant.limits().upload,
        })
    }

    /// Begins another upload of the same request. This one gets no more bytes.
    pub fn begin_next(&self) -> Spool {
        Spool {
            file: Arc::clone(&self.file),
            begin: self.begin + self.length,
            length: 0,
            most: self.most,
        }
    }

    /// Adds what came.
    pub fn add(&mut self, bytes: &[u8]) -> ServiceResult<()> {
        if self.length + bytes.len() as u64 > self.most {
            let text = format!("a file that is uploaded has at most {} bytes", self.most);
            return Err(ServiceError::new("too-large", ErrorKind::BadInput, text));
        }
        let written = self.file.write_all_at(bytes, self.begin + self.length);
        written.map_err(|error| ServiceError::host("keeping an upload", &error))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Its bytes from the beginning, once more for each attempt to store them.
    pub(super) fn again(&self) -> SpooledBytes<'_> {
        SpooledBytes { spool: self, at: 0 }
    }
}

/// The bytes of an upload.
pub(super) struct SpooledBytes<'a> {
    spool: &'a Spool,
    at: u64,
}

impl Read for SpooledBytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.spool.length - self.at).unwrap_or(usize::MAX);
        let length = left.min(buffer.len());
        let place = self.spool.begin + self.at;
        let count = self.spool.file.read_at(&mut buffer[..length], place)?;
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_of_one_request_are_apart_in_one_file() {
        let mut first = Spool {
            file: Arc::new(tempfile::tempfile().unwrap()),
            begin: 0,
            length: 0,
            most: 5,
        };
        first.add(b"on").unwrap();
        first.add(b"e").unwrap();
        let mut second = first.begin_next();
        second.add(b"two").unwrap();
        assert_eq!(second.add(b"2+2").unwrap_err().code, "too-large");
        let empty = second.begin_next();
        let read = |spool: &Spool| io::read_to_string(spool.again()).unwrap();
        for _ in 0..2 {
            assert_eq!([read(&first), read(&second), read(&empty)], ["one", "two", ""]);
        }
    }
}
