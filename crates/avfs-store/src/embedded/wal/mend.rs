//! Repairs a flipped bit of the log. If the check sums identify the bit, nothing is lost.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;

use crate::embedded::layout::StoreLayout;
use crate::embedded::wal::frames::{
    FRAME_LEN, HEADER_LEN, SALTS, SUM, WalChecksum, WalDamage, WalFrames, WalHeader,
};
use crate::embedded::wal::{confirmed_damage, look, note};

/// The result of repairing a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogRepair {
    /// It was sound.
    #[default]
    Sound,
    /// One bit had flipped and was restored: nothing is lost.
    Mended,
    /// The log was cut off at the damage, and the second copy of refs had the later commits: nothing is lost.
    Restored,
    /// The log was cut off at the damage: the later commits are lost.
    Cut,
}

/// Repairs the log if one flipped bit explains the damage. No other process has the store open.
pub(crate) fn mend(layout: &StoreLayout) -> io::Result<LogRepair> {
    let Some(damage) = confirmed_damage(layout)? else {
        return Ok(LogRepair::Sound);
    };
    let Some(mut log) = look(layout)? else {
        return Ok(LogRepair::Sound);
    };
    let mended = match damage {
        WalDamage::Header => mend_header(&mut log),
        WalDamage::Frame(number) => mend_frame(&mut log, number),
    };
    let note = note::read(layout).ok().flatten();
    if mended.is_none() || log.damage(note.as_ref()).is_some() {
        return Ok(LogRepair::Cut);
    }
    let (at, bytes) = match damage {
        WalDamage::Header => (0, log.header_bytes().as_slice()),
        WalDamage::Frame(number) => (
            HEADER_LEN + (number - 1) * FRAME_LEN,
            log.frame(number).unwrap_or_default(),
        ),
    };
    let file = OpenOptions::new().write(true).open(layout.write_ahead_log())?;
    file.write_all_at(bytes, at as u64)?;
    file.sync_all()?;
    Ok(LogRepair::Mended)
}

fn mend_header(log: &mut WalFrames) -> Option<()> {
    for bit in 0..HEADER_LEN * 8 {
        log.header_bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        // The first frame continues from the header: that distinguishes the bit from others with the same
        // sum.
        if log.header().is_some_and(|header| log.sound_frames(&header).0 > 0) {
            return Some(());
        }
        log.header_bytes_mut()[bit / 8] ^= 1 << (bit % 8);
    }
    None
}

fn mend_frame(log: &mut WalFrames, number: usize) -> Option<()> {
    let header = log.header()?;
    let (_, before) = log.sound_frames(&header);
    let frame = log.frame_mut(number)?;
    let found = header.frame_sum(before, frame);
    let stored = WalChecksum::stored(&frame[SUM]);
    if distance(&frame[SALTS], &header.salts) + distance(&frame[SUM], &found.to_bytes()) == 1 {
        frame[SALTS].copy_from_slice(&header.salts);
        frame[SUM].copy_from_slice(&found.to_bytes());
        return Some(());
    }
    let (byte, bit) = flipped_bit(&header, frame, found, stored)?;
    frame[byte] ^= 1 << bit;
    Some(())
}

/// The number of bits in which two byte strings differ.
fn distance(left: &[u8], right: &[u8]) -> u32 {
    left.iter()
        .zip(right)
        .map(|(left, right)| (left ^ right).count_ones())
        .sum()
}

/// The byte and bit of the frame whose flip turns the computed sum into the stored one, if there is only one.
/// SQLite's sum distinguishes the low bits of a word from all others, but not always the high bits.
///
/// The sum is linear: a word that is larger by `d` makes the sum larger by `d` times a weight, which depends
/// on how many words follow. The weights are computed from the last pair of words to the first.
fn flipped_bit(
    header: &WalHeader,
    frame: &[u8],
    found: WalChecksum,
    stored: WalChecksum,
) -> Option<(usize, usize)> {
    let wanted = WalChecksum(stored.0.wrapping_sub(found.0), stored.1.wrapping_sub(found.1));
    let mut weights = [
        WalChecksum::default().step(1, 0),
        WalChecksum::default().step(0, 1),
    ];
    let mut candidates = Vec::new();
    for pair in (24..FRAME_LEN).step_by(8).rev().chain([0]) {
        for (at, weight) in [pair, pair + 4].into_iter().zip(weights) {
            let word = header.word(frame, at);
            let explains = |bit: &usize| weight.times(change_of_flip(word, *bit)) == wanted;
            candidates.extend(
                (0..32)
                    .filter(explains)
                    .map(|bit| (at + header.byte_of_bit(bit), bit % 8)),
            );
        }
        weights = weights.map(|weight| weight.step(0, 0));
    }
    match candidates[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// The amount by which a word grows when one of its bits flips.
fn change_of_flip(word: u32, bit: usize) -> u32 {
    (word ^ 1 << bit).wrapping_sub(word)
}
