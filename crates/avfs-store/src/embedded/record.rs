//! The bytes of a pack: a header, then one record per object.
//!
//! A record is `kind tag (1) · encoding (1) · length (4, little endian) · id (32) · bytes (length)`.

use avfs_core::{ObjectId, ObjectKind};
use bytes::Bytes;

use crate::door::StoredObject;

pub(crate) const PACK_HEADER: [u8; 12] = *b"avfspack\x01\0\0\0";
pub(crate) const PACK_HEADER_LEN: u64 = PACK_HEADER.len() as u64;
pub(crate) const HEADER_LEN: usize = 38;

/// The bytes are stored unchanged. Other values are reserved.
const RAW: u8 = 0;

/// The location of a record. `length` is that of the object, without the record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecordPlace {
    pub pack: u32,
    pub offset: u64,
    pub length: u32,
}

impl RecordPlace {
    /// Bytes from the start of the record to the start of the next one.
    pub(crate) fn record_len(&self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.length)
    }

    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.record_len())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub kind: ObjectKind,
    pub length: u32,
    pub id: ObjectId,
}

impl RecordHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut raw = [0; HEADER_LEN];
        raw[0] = self.kind.tag();
        raw[1] = RAW;
        raw[2..6].copy_from_slice(&self.length.to_le_bytes());
        raw[6..].copy_from_slice(self.id.as_bytes());
        raw
    }

    /// Decodes a header; the error describes the problem.
    pub(crate) fn decode(raw: &[u8; HEADER_LEN]) -> Result<RecordHeader, &'static str> {
        let kind = ObjectKind::from_tag(raw[0]).ok_or("its record has an unknown kind")?;
        if raw[1] != RAW {
            return Err("its record has an unknown encoding");
        }
        let length = u32::from_le_bytes([raw[2], raw[3], raw[4], raw[5]]);
        let mut id = [0; 32];
        id.copy_from_slice(&raw[6..]);
        Ok(RecordHeader {
            kind,
            length,
            id: ObjectId(id),
        })
    }
}

/// Extracts the object from its complete record, if the record is that of `id` and the bytes match the id.
/// The error describes the problem.
pub(crate) fn open_record(id: ObjectId, record: Bytes) -> Result<StoredObject, &'static str> {
    let raw = record
        .first_chunk::<HEADER_LEN>()
        .ok_or("its record is cut short")?;
    let header = RecordHeader::decode(raw)?;
    if header.id != id {
        return Err("another object lies in its place");
    }
    let bytes = record.slice(HEADER_LEN..);
    if bytes.len() != header.length as usize {
        return Err("its record has another length");
    }
    if header.kind.hash(&bytes) != id {
        return Err("its bytes do not match its name");
    }
    Ok(StoredObject {
        kind: header.kind,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: ObjectKind, bytes: &[u8]) -> (ObjectId, Vec<u8>) {
        let id = kind.hash(bytes);
        let length = u32::try_from(bytes.len()).unwrap();
        let mut record = RecordHeader { kind, length, id }.encode().to_vec();
        record.extend_from_slice(bytes);
        (id, record)
    }

    #[test]
    fn a_record_reads_back() {
        for kind in ObjectKind::ALL {
            let (id, record) = record(kind, b"some bytes");
            let object = open_record(id, record.into()).unwrap();
            assert_eq!((object.kind, &object.bytes[..]), (kind, &b"some bytes"[..]));
        }
    }

    #[test]
    fn every_flipped_bit_of_a_record_is_detected() {
        let (id, record) = record(ObjectKind::Node, b"abc");
        for bit in 0..record.len() * 8 {
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(open_record(id, flipped.into()).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_record_cut_anywhere_is_detected() {
        let (id, record) = record(ObjectKind::Blob, b"abc");
        for length in 0..record.len() {
            assert!(open_record(id, record[..length].to_vec().into()).is_err());
        }
    }
}
