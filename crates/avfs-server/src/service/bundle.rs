//! Vaults as files that carry everything of them: out as a stream, and in from an upload.

use std::io::{self, Write};

use agentvfs::{Vault, VaultName};
use bytes::Bytes;
use tokio::sync::mpsc::Sender;

pub(crate) use agentvfs::Carried;

use super::error::{ServiceError, ServiceResult};
use super::spool::Spool;
use super::tenant::Tenant;

/// How many bytes are sent at a time.
const PIECE: usize = 64 << 10;

/// Sends a vault with its history, piece by piece, as fast as they are taken. What goes wrong is the last piece.
pub(crate) fn export_vault(vault: &Vault, send: &Sender<ServiceResult<Bytes>>) {
    let mut pieces = Pieces {
        send,
        begun: Vec::with_capacity(PIECE),
    };
    let exported = vault.export_bundle(&mut pieces, "the answer", &mut |_| {});
    if let Err(error) = exported {
        // A client that is gone hears nothing.
        let _ = send.blocking_send(Err(error.into()));
    }
}

/// Makes a vault from an upload. What is in it is verified before the vault is there.
pub(crate) fn import_vault(tenant: &Tenant, name: &str, upload: &Spool) -> ServiceResult<(Vault, Carried)> {
    tenant.check_disk()?;
    let name = VaultName::new(name)?;
    let mut bytes = io::BufReader::with_capacity(PIECE, upload.again());
    let imported = tenant
        .store()
        .import_bundle(&mut bytes, "the upload", Some(&name), &mut |_| {});
    imported.map_err(ServiceError::from)
}

/// Collects what is written into pieces that are worth sending.
struct Pieces<'a> {
    send: &'a Sender<ServiceResult<Bytes>>,
    begun: Vec<u8>,
}

impl Pieces<'_> {
    fn pass_on(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.begun, Vec::with_capacity(PIECE));
        self.send
            .blocking_send(Ok(piece.into()))
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(PIECE - self.begun.len());
        self.begun.extend_from_slice(&bytes[..count]);
        if self.begun.len() == PIECE {
            self.pass_on()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.begun.is_empty() {
            return Ok(());
        }
        self.pass_on()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_sent_in_pieces_of_one_size_and_the_rest_at_the_end() {
        let (send, mut receive) = tokio::sync::mpsc::channel(8);
        let mut pieces = Pieces {
            send: &send,
            begun: Vec::new(),
        };
        let written: Vec<u8> = (0..PIECE * 2 + 3).map(|number| number as u8).collect();
        for part in written.chunks(1000) {
            pieces.write_all(part).unwrap();
        }
        pieces.flush().unwrap();
        pieces.flush().unwrap();
        drop(send);
        let mut sent = Vec::new();
        while let Some(piece) = receive.blocking_recv() {
            sent.push(piece.unwrap());
        }
        assert_eq!(sent.iter().map(Bytes::len).collect::<Vec<_>>(), [PIECE, PIECE, 3]);
        assert_eq!(sent.concat(), written);
    }
}
