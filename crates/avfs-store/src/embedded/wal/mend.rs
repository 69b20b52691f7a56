//! Putting back a flipped bit of the log. Where the check sums say which one it was, nothing is lost.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;

use crate::embedded::layout::Layout;
use crate::embedded::wal::frames::{Damage, FRAME_LEN, HEADER_LEN, Header, Log, SALTS, SUM, Sum};
use crate::embedded::wal::{confirmed_damage, look, note};

/// What became of a damaged log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogRepair {
    /// It was sound.
    #[default]
    Sound,
    /// One bit had flipped and was put back: nothing is lost.
    Mended,
    /// It was cut off at the damage, and the second copy of refs had the commits behind: nothing is lost.
    Restored,
    /// It was cut off at the damage: the commits behind are lost.
    Cut,
}

/// Undoes the damage of the log if one flipped bit explains it. Nobody else has the store open.
pub(crate) fn mend(layout: &Layout) -> io::Result<LogRepair> {
    let Some(damage) = confirmed_damage(layout)? else { return Ok(LogRepair::Sound) };
    let Some(mut log) = look(layout)? else { return Ok(LogRepair::Sound) };
    let mended = match damage {
        Damage::Header => mend_header(&mut log),
        Damage::Frame(number) => mend_frame(&mut log, number),
    };
    let note = note::read(layout).ok().flatten();
    if mended.is_none() || log.damage(note.as_ref()).is_some() {
        return Ok(LogRepair::Cut);
    }
    let (at, bytes) = match damage {
        Damage::Header => (0, log.header_bytes().as_slice()),
        Damage::Frame(number) => {
            (HEADER_LEN + (number - 1) * FRAME_LEN, log.frame(number).unwrap_or_default())
        }
    };
    let file = OpenOptions::new().write(true).open(layout.write_ahead_log())?;
    file.write_all_at(bytes, at as u64)?;
    file.sync_all()?;
    Ok(LogRepair::Mended)
}

fn mend_header(log: &mut Log) -> Option<()> {
    for bit in 0..HEADER_LEN * 8 {
        log.header_bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        // The first frame goes on from the header: that tells the bit from others with the same sum.
        if log.header().is_some_and(|header| log.sound_frames(&header).0 > 0) {
            return Some(());
        }
        log.header_bytes_mut()[bit / 8] ^= 1 << (bit % 8);
    }
    None
}

fn mend_frame(log: &mut Log, number: usize) -> Option<()> {
    let header = log.header()?;
    let (_, before) = log.sound_frames(&header);
    let frame = log.frame_mut(number)?;
    let (found, stored) = (header.frame_sum(before, frame), Sum::stored(&frame[SUM]));
    if distance(&frame[SALTS], &header.salts) + distance(&frame[SUM], &found.to_bytes()) == 1 {
        frame[SALTS].copy_from_slice(&header.salts);
        frame[SUM].copy_from_slice(&found.to_bytes());
        return Some(());
    }
    let (byte, bit) = flipped_bit(&header, frame, found, stored)?;
    frame[byte] ^= 1 << bit;
    Some(())
}

/// In how many bits two byte strings differ.
fn distance(left: &[u8], right: &[u8]) -> u32 {
    left.iter().zip(right).map(|(left, right)| (left ^ right).count_ones()).sum()
}

/// The byte and bit of the frame whose flip turns the sum that was found into the one that is stored, if
/// there is only one. SQLite's sum tells the low bits of a word from all others, but not always the high.
///
/// The sum is linear: a word that is larger by `d` makes the sum larger by `d` times a weight, which depends
/// on how many words follow. The weights are found from the last pair of words to the first.
fn flipped_bit(header: &Header, frame: &[u8], found: Sum, stored: Sum) -> Option<(usize, usize)> {
    let wanted = Sum(stored.0.wrapping_sub(found.0), stored.1.wrapping_sub(found.1));
    let mut weights = [Sum::default().step(1, 0), Sum::default().step(0, 1)];
    let mut candidates = Vec::new();
    for pair in (24..FRAME_LEN).step_by(8).rev().chain([0]) {
        for (at, weight) in [pair, pair + 4].into_iter().zip(weights) {
            let word = header.word(frame, at);
            let explains = |bit: &usize| weight.times(change_of_flip(word, *bit)) == wanted;
            candidates.extend((0..32).filter(explains).map(|bit| (at + header.byte_of_bit(bit), bit % 8)));
        }
        weights = weights.map(|weight| weight.step(0, 0));
    }
    match candidates[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// By how much a word grows when a bit of it flips.
fn change_of_flip(word: u32, bit: usize) -> u32 {
    (word ^ 1 << bit).wrapping_sub(word)
}
