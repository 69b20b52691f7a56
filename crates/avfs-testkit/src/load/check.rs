//! The required results of a load.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::Path;

use super::contents::{Item, SLOT_BYTES};
use super::{DOCUMENTS, LoadWriter, SLOTS};

impl LoadWriter {
    /// The flaws of `directory`, as sentences, if `acknowledged` is everything that the writer could report:
    /// the writer or something below the directory has crashed, and at most one more change of each thread
    /// was in progress.
    pub fn check(&self, directory: &Path, acknowledged: &[String]) -> Vec<String> {
        self.check_between(directory, acknowledged, acknowledged)
    }

    /// The same for a state of the directory at some moment after `before` was acknowledged and before any
    /// acknowledgement that is not in `after`.
    pub fn check_between(&self, directory: &Path, before: &[String], after: &[String]) -> Vec<String> {
        let (before, after) = (Counts::of(before), Counts::of(after));
        let zeros = self.unsynced_may_be_zeros;
        let mut check = Check {
            zeros,
            directory,
            before,
            after,
            thread: 0,
            expected: BTreeSet::new(),
            flaws: Vec::new(),
        };
        for thread in 0..self.threads {
            check.thread = thread;
            check.log();
            (0..DOCUMENTS).for_each(|number| check.document(number));
            check.slots();
            check.files();
        }
        check.strangers();
        check.flaws
    }
}

/// The numbers of acknowledged changes of each kind.
struct Counts(BTreeMap<String, u64>);

impl Counts {
    fn of(acknowledged: &[String]) -> Counts {
        let numbered = acknowledged.iter().filter_map(|line| line.split_once(' '));
        let counts =
            numbered.filter_map(|(what, number)| Some((what.to_owned(), number.parse::<u64>().ok()? + 1)));
        Counts(counts.collect())
    }

    fn get(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }
}

struct Check<'a> {
    zeros: bool,
    directory: &'a Path,
    before: Counts,
    after: Counts,
    thread: u64,
    /// Names that may exist.
    expected: BTreeSet<String>,
    flaws: Vec<String>,
}

impl Check<'_> {
    /// The minimum number of changes, and the maximum: one more than the second count.
    fn counts(&self, what: &str) -> (u64, u64) {
        let what = format!("t{}-{what}", self.thread);
        (self.before.get(&what), self.after.get(&what))
    }

    fn log(&mut self) {
        let (least, most) = self.counts("log");
        let records: Vec<Vec<u8>> = (0..=most)
            .map(|record| self.bytes(Item::Log { record }))
            .collect();
        let must = records[..least as usize].concat();
        let name = Item::Log { record: 0 }.file(self.thread);
        let found = self.read(&name).unwrap_or_default();
        if !found.starts_with(&must) {
            let good = found.iter().zip(&must).take_while(|(a, b)| a == b).count();
            self.flaw(
                &name,
                format!("{} acknowledged bytes, of which {good} are there", must.len()),
            );
        } else if !self.is_beginning(&found, &records.concat()) {
            self.flaw(
                &name,
                format!("something else follows {least} acknowledged records"),
            );
        }
    }

    /// An old version or a new one, complete, and never neither.
    fn document(&mut self, number: u64) {
        let (least, most) = self.counts(&format!("document-{number}"));
        let version = |version| Item::Document { number, version };
        let name = version(0).file(self.thread);
        let mut allowed = least.saturating_sub(1)..=most;
        match self.read(&name) {
            Some(found) if allowed.any(|number| self.bytes(version(number)) == found) => {}
            None if least == 0 => {}
            Some(found) => {
                let found = first_line(&found);
                self.flaw(&name, format!("neither version {least} nor the next: {found}"));
            }
            None => self.flaw(
                &name,
                format!("gone, although {least} versions were acknowledged"),
            ),
        }
        let beside = format!("{name}.new");
        let unfinished = self.read(&beside).unwrap_or_default();
        if !(least..=most).any(|number| self.is_beginning(&unfinished, &self.bytes(version(number)))) {
            self.flaw(
                &beside,
                format!(
                    "not the beginning of the next version: {}",
                    first_line(&unfinished)
                ),
            );
        }
    }

    fn slots(&mut self) {
        let name = Item::Slot {
            number: 0,
            version: 0,
        }
        .file(self.thread);
        let found = self.read(&name).unwrap_or_default();
        for number in 0..SLOTS {
            let (least, most) = self.counts(&format!("slot-{number}"));
            if least == 0 {
                continue;
            }
            let start = number as usize * SLOT_BYTES;
            let slot = found.get(start..start + SLOT_BYTES).unwrap_or_default();
            let version = |version| self.bytes(Item::Slot { number, version });
            if !(least - 1..=most - 1).any(|old| is_between(slot, &version(old), &version(old + 1))) {
                let found = first_line(slot);
                self.flaw(
                    &name,
                    format!("slot {number} is neither version {least} nor the next: {found}"),
                );
            }
        }
    }

    /// Files are created and removed in the order of their numbers.
    fn files(&mut self) {
        let (created, created_most) = self.counts("created");
        let (removed, removed_most) = self.counts("removed");
        for number in 0..=created_most {
            let item = Item::Created { number };
            let (name, bytes) = (item.file(self.thread), self.bytes(item));
            let found = self.read(&name);
            match found {
                Some(_) if number < removed => self.flaw(&name, "there, although it was removed"),
                None if number < created && number > removed_most => {
                    self.flaw(&name, "gone, although it was created");
                }
                Some(found) if number < created && found != bytes => {
                    self.flaw(&name, format!("not what was written: {}", first_line(&found)));
                }
                Some(found) if !self.is_beginning(&found, &bytes) => {
                    self.flaw(
                        &name,
                        format!("something else was written: {}", first_line(&found)),
                    );
                }
                Some(_) | None => {}
            }
        }
    }

    fn strangers(&mut self) {
        let entries = match std::fs::read_dir(self.directory) {
            Ok(entries) => entries
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .collect(),
            Err(error) if self.before.0.is_empty() && error.kind() == std::io::ErrorKind::NotFound => {
                Vec::new()
            }
            Err(error) => return self.flaw("the directory", error),
        };
        for name in entries
            .iter()
            .filter(|name| !self.expected.contains(*name))
            .cloned()
            .collect::<Vec<_>>()
        {
            self.flaw(&name, "nobody made it");
        }
    }

    /// A file that cannot be read is a flaw; a missing one is not.
    fn read(&mut self, name: &str) -> Option<Vec<u8>> {
        self.expected.insert(name.to_owned());
        match std::fs::read(self.directory.join(name)) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                if error.kind() != std::io::ErrorKind::NotFound {
                    self.flaw(name, error);
                }
                None
            }
        }
    }

    /// Whether `found` is a possible state of `written` before it is synced.
    fn is_beginning(&self, found: &[u8], written: &[u8]) -> bool {
        let is_right = |(found, written): (&u8, &u8)| found == written || self.zeros && *found == 0;
        found.len() <= written.len() && found.iter().zip(written).all(is_right)
    }

    fn bytes(&self, item: Item) -> Vec<u8> {
        item.bytes(self.thread)
    }

    fn flaw(&mut self, name: &str, what: impl Display) {
        self.flaws.push(format!("{name}: {what}"));
    }
}

/// Bytes that were written in place and not synced may have arrived or not, each independently.
fn is_between(found: &[u8], old: &[u8], new: &[u8]) -> bool {
    found.len() == old.len()
        && found
            .iter()
            .zip(old.iter().zip(new))
            .all(|(found, (old, new))| found == old || found == new)
}

fn first_line(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let shown = &line[..line.len().min(40)];
    format!("{} bytes, {:?}", bytes.len(), String::from_utf8_lossy(shown))
}
