//! The bytes of SQLite's log, and what they prove. All integers are big endian.
//!
//! A header of 32 bytes: magic, version, page size, sequence, two salts, and two words of check sum over the
//! first 24 bytes. Then frames: page number, size of the database in pages if the frame ends a transaction
//! (otherwise 0), the two salts, two words of check sum, the page. The sum of a frame covers its first eight
//! bytes and its page and continues from the sum of the previous frame. The last bit of the magic is the byte
//! order in which the sum reads words. Frames with other salts are of an earlier generation: the log is
//! overwritten from its start, with new salts, once all of it is in the database.

use std::fmt;

use crate::embedded::wal::note::WalNote;

pub(crate) const HEADER_LEN: usize = 32;
pub(crate) const FRAME_LEN: usize = FRAME_HEADER_LEN + PAGE_LEN;
const FRAME_HEADER_LEN: usize = 24;
const PAGE_LEN: usize = 4096;
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;

/// The bytes of a frame that hold its salts, and its sum.
const SALTS: std::ops::Range<usize> = 8..16;
pub(crate) const SUM: std::ops::Range<usize> = 16..24;

/// A log that has at least a header.
pub(crate) struct WalFrames {
    header: [u8; HEADER_LEN],
    frames: Vec<u8>,
}

/// Where a log is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalDamage {
    Header,
    /// Frames count from 1.
    Frame(usize),
}

/// The fields of a sound header.
#[derive(Clone, Copy)]
pub(crate) struct WalHeader {
    pub salts: [u8; 8],
    pub sum: WalChecksum,
    big_endian: bool,
}

impl fmt::Display for WalDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WalDamage::Header => write!(f, "its header does not match its check sum"),
            WalDamage::Frame(number) => {
                write!(
                    f,
                    "frame {number} is not what was committed, so all commits from there on are missing"
                )
            }
        }
    }
}

impl WalFrames {
    pub(crate) fn new(mut bytes: Vec<u8>) -> Option<WalFrames> {
        let header = *bytes.first_chunk()?;
        let frames = bytes.split_off(HEADER_LEN);
        Some(WalFrames { header, frames })
    }

    pub(crate) fn header_bytes(&self) -> &[u8; HEADER_LEN] {
        &self.header
    }

    pub(crate) fn header(&self) -> Option<WalHeader> {
        let magic = word(&self.header, 0, true);
        let big_endian = magic & 1 == 1;
        let sum = WalChecksum::default().over(&self.header[..24], big_endian);
        let sound = magic & !1 == MAGIC
            && word(&self.header, 4, true) == VERSION
            && word(&self.header, 8, true) as usize == PAGE_LEN
            && sum == WalChecksum::stored(&self.header[24..]);
        let salts = *self.header[16..].first_chunk()?;
        sound.then_some(WalHeader {
            salts,
            sum,
            big_endian,
        })
    }

    pub(crate) fn frame(&self, number: usize) -> Option<&[u8]> {
        self.frames.chunks_exact(FRAME_LEN).nth(number - 1)
    }

    /// The number of sound frames from the start, and the sum after them.
    pub(crate) fn sound_frames(&self, header: &WalHeader) -> (usize, WalChecksum) {
        let mut count = 0;
        let mut sum = header.sum;
        for frame in self.frames.chunks_exact(FRAME_LEN) {
            let next = header.frame_sum(sum, frame);
            if !header.is_of_this_generation(frame) || next != WalChecksum::stored(&frame[SUM]) {
                break;
            }
            count += 1;
            sum = next;
        }
        (count, sum)
    }

    /// The pages of all sound transactions.
    pub(crate) fn committed_pages(&self) -> Vec<(usize, Vec<u8>)> {
        let Some(header) = self.header() else {
            return Vec::new();
        };
        let (sound, _) = self.sound_frames(&header);
        let frames: Vec<&[u8]> = self.frames.chunks_exact(FRAME_LEN).take(sound).collect();
        let committed = frames
            .iter()
            .rposition(|frame| ends_transaction(frame))
            .map_or(0, |last| last + 1);
        let page = |frame: &&[u8]| (word(frame, 0, true) as usize, frame[FRAME_HEADER_LEN..].to_vec());
        frames[..committed].iter().map(page).collect()
    }

    /// The damage, as far as it can be proved.
    pub(crate) fn damage(&self, note: Option<&WalNote>) -> Option<WalDamage> {
        let Some(header) = self.header() else {
            return (!self.frames.is_empty()).then_some(WalDamage::Header);
        };
        let (sound, sum) = self.sound_frames(&header);
        if self.goes_on_behind(&header, sound + 1, sum) {
            return Some(WalDamage::Frame(sound + 1));
        }
        let note = note.filter(|note| note.salts == header.salts)?;
        let noted = note.frame as usize;
        if sound < noted {
            return Some(WalDamage::Frame(sound + 1));
        }
        let stored = self.frame(noted).map(|frame| &frame[SUM]);
        (stored != Some(&note.sum)).then_some(WalDamage::Frame(noted))
    }

    /// Whether the log continues after the transaction to which the bad frame `bad` belongs.
    fn goes_on_behind(&self, header: &WalHeader, bad: usize, sum: WalChecksum) -> bool {
        let mut frames = self.frames.chunks_exact(FRAME_LEN).skip(bad - 1);
        let Some(first) = frames.next() else { return false };
        // If the stored sum is damaged, the next frame continues from the original sum. If the sum is right,
        // the damage is in the salts, which it does not cover.
        let mut seeds = [WalChecksum::stored(&first[SUM]), header.frame_sum(sum, first)];
        let is_ours = header.is_of_this_generation(first) || seeds[0] == seeds[1];
        let mut ended = is_ours && ends_transaction(first);
        for frame in frames.take_while(|frame| header.is_of_this_generation(frame)) {
            let stored = WalChecksum::stored(&frame[SUM]);
            let goes_on = seeds.iter().any(|seed| header.frame_sum(*seed, frame) == stored);
            if goes_on && ended {
                return true;
            }
            ended = goes_on && ends_transaction(frame);
            seeds = [stored; 2];
        }
        false
    }
}

impl WalHeader {
    pub(crate) fn frame_sum(&self, seed: WalChecksum, frame: &[u8]) -> WalChecksum {
        seed.over(&frame[..8], self.big_endian)
            .over(&frame[FRAME_HEADER_LEN..], self.big_endian)
    }

    pub(crate) fn is_of_this_generation(&self, frame: &[u8]) -> bool {
        frame[SALTS] == self.salts
    }
}

pub(crate) fn ends_transaction(frame: &[u8]) -> bool {
    frame[4..8] != [0; 4]
}

/// SQLite's check sum: two words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WalChecksum(pub u32, pub u32);

impl WalChecksum {
    pub(crate) fn stored(bytes: &[u8]) -> WalChecksum {
        WalChecksum(word(bytes, 0, true), word(bytes, 4, true))
    }

    pub(crate) fn over(self, bytes: &[u8], big_endian: bool) -> WalChecksum {
        let (pairs, _) = bytes.as_chunks::<8>();
        pairs.iter().fold(self, |sum, pair| {
            sum.step(word(pair, 0, big_endian), word(pair, 4, big_endian))
        })
    }

    /// Continues the sum over two words.
    pub(crate) fn step(self, first: u32, second: u32) -> WalChecksum {
        let left = self.0.wrapping_add(first).wrapping_add(self.1);
        WalChecksum(left, self.1.wrapping_add(second).wrapping_add(left))
    }
}

fn word(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let bytes = bytes[at..]
        .first_chunk()
        .copied()
        .expect("a word lies within its header or page");
    if big_endian {
        u32::from_be_bytes(bytes)
    } else {
        u32::from_le_bytes(bytes)
    }
}
