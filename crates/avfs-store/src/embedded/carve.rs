//! Extracts refs from a database that SQLite refuses to read, page by page.
//!
//! A row of `refs` is a cell of an index page, and carries its own check sum. So every page can be tried,
//! whether it belongs to the table or not: a row is accepted if its sum matches. Rows on pages that SQLite
//! has freed are accepted too, so deleted refs may reappear; the second copy of refs is the better source
//! where it is intact.

use std::collections::BTreeMap;
use std::path::Path;

use crate::door::RefKey;
use crate::embedded::refs::ref_sum;
use crate::embedded::wal;

const PAGE: usize = 4096;
/// The first page starts with the file header.
const FILE_HEADER: usize = 100;
const INTERIOR: u8 = 2;
const LEAF: u8 = 10;
/// A longer payload continues in other pages. These are SQLite's numbers for index pages of 4096 bytes.
const MOST_ON_PAGE: usize = (PAGE - 12) * 64 / 255 - 23;
const LEAST_ON_PAGE: usize = (PAGE - 12) * 32 / 255 - 23;

type CarvedRefs = BTreeMap<RefKey, Vec<Vec<u8>>>;

/// Every row of the database and its log that matches its sum: for each key, all values found.
pub(crate) fn carve(database: &Path, log: Vec<u8>) -> CarvedRefs {
    let mut image = std::fs::read(database).unwrap_or_default();
    for (page, bytes) in wal::committed_pages(log) {
        let start = page.saturating_sub(1).saturating_mul(PAGE);
        let end = start.saturating_add(PAGE);
        if image.len() < end {
            image.resize(end, 0);
        }
        image[start..end].copy_from_slice(&bytes);
    }
    let image = PageImage { bytes: &image };
    let mut found = CarvedRefs::new();
    for number in 1..=image.pages() {
        for (key, value) in image.rows(number) {
            let values = found.entry(key).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    found
}

struct PageImage<'a> {
    bytes: &'a [u8],
}

impl<'a> PageImage<'a> {
    fn pages(&self) -> u32 {
        u32::try_from(self.bytes.len() / PAGE).unwrap_or(u32::MAX)
    }

    fn page(&self, number: u32) -> Option<&'a [u8]> {
        let start = (number as usize).checked_sub(1)?.checked_mul(PAGE)?;
        self.bytes.get(start..start.checked_add(PAGE)?)
    }

    fn rows(&self, number: u32) -> Vec<(RefKey, Vec<u8>)> {
        let Some(page) = self.page(number) else {
            return Vec::new();
        };
        let header = if number == 1 { FILE_HEADER } else { 0 };
        let (child, pointers) = match page[header] {
            LEAF => (0, header + 8),
            INTERIOR => (4, header + 12),
            _ => return Vec::new(),
        };
        let count = usize::from(u16::from_be_bytes([page[header + 3], page[header + 4]]));
        let starts = page[pointers..].as_chunks::<2>().0.iter().take(count);
        starts
            .filter_map(|start| self.row(page.get(usize::from(u16::from_be_bytes(*start)) + child..)?))
            .collect()
    }

    fn row(&self, cell: &[u8]) -> Option<(RefKey, Vec<u8>)> {
        let (length, rest) = number(cell)?;
        let payload = self.payload(usize::try_from(length).ok()?, rest)?;
        parse_row(&payload)
    }

    /// The payload of a cell, including the part in overflow pages.
    fn payload(&self, length: usize, cell: &[u8]) -> Option<Vec<u8>> {
        if length > self.bytes.len() {
            return None;
        }
        if length <= MOST_ON_PAGE {
            return Some(cell.get(..length)?.to_vec());
        }
        let fitting = LEAST_ON_PAGE + (length - LEAST_ON_PAGE) % (PAGE - 4);
        let local = if fitting <= MOST_ON_PAGE {
            fitting
        } else {
            LEAST_ON_PAGE
        };
        let mut payload = cell.get(..local)?.to_vec();
        let mut next = u32::from_be_bytes(*cell.get(local..)?.first_chunk()?);
        while payload.len() < length {
            let page = self.page(next)?;
            next = u32::from_be_bytes(*page.first_chunk()?);
            let part = (length - payload.len()).min(PAGE - 4);
            payload.extend(&page[4..4 + part]);
        }
        Some(payload)
    }
}

/// A record of SQLite with the columns key (text), value (blob) and sum (integer), if the sum matches.
fn parse_row(payload: &[u8]) -> Option<(RefKey, Vec<u8>)> {
    let (header, rest) = number(payload)?;
    let header_len = usize::try_from(header).ok()?;
    let body = payload.get(header_len..)?;
    let types = payload.get(payload.len() - rest.len()..header_len)?;
    let (key_type, types) = number(types)?;
    let (value_type, types) = number(types)?;
    let (sum_type, types) = number(types)?;
    if !types.is_empty() || key_type < 13 || key_type % 2 == 0 || value_type < 12 || value_type % 2 == 1 {
        return None;
    }
    let (key, body) = body.split_at_checked(usize::try_from((key_type - 13) / 2).ok()?)?;
    let (value, body) = body.split_at_checked(usize::try_from((value_type - 12) / 2).ok()?)?;
    let sum = integer(sum_type, body)?;
    let is_sound = ref_sum(key, value) == sum;
    Some((
        String::from_utf8(key.to_vec()).ok().filter(|_| is_sound)?,
        value.to_vec(),
    ))
}

/// SQLite's variable-length number, and what follows it.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().take(9).enumerate() {
        if at == 8 {
            return Some((value << 8 | u64::from(*byte), &bytes[9..]));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

/// A signed big-endian integer of this serial type.
fn integer(serial_type: u64, body: &[u8]) -> Option<i64> {
    let length = match serial_type {
        8 => return Some(0),
        9 => return Some(1),
        1..=4 => serial_type as usize,
        5 => 6,
        6 => 8,
        _ => return None,
    };
    let bytes = body.get(..length)?;
    let sign = if bytes.first()? & 0x80 == 0 { 0 } else { -1 };
    Some(
        bytes
            .iter()
            .fold(sign, |value, byte| value << 8 | i64::from(*byte)),
    )
}
