//! Reading everything there is and naming what is damaged. Changes nothing.

use std::collections::{HashMap, HashSet};
use std::fmt;

use avfs_core::ObjectId;
use rusqlite::Connection;

use crate::door::{ObjectStore, StoreError};
use crate::embedded::EmbeddedStore;
use crate::embedded::failure::{DATABASE, database};
use crate::embedded::index::{self, PackRow};
use crate::embedded::layout::pack_name;
use crate::embedded::record::{PACK_HEADER_LEN, Place};
use crate::embedded::ref_log::{self, CopyState, RefLog};
use crate::embedded::refs;
use crate::embedded::salvage::{self, Reading, RefAge};
use crate::embedded::shelf::place_name;
use crate::embedded::survey::{Survey, survey};
use crate::embedded::wal;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Objects that the index knows and that are intact.
    pub objects: u64,
    /// Intact records that the index does not point at: second copies, and what a sweep removed without
    /// rewriting the pack. After damage to the index they may be all that is left of an object.
    pub unindexed: u64,
    pub bytes: u64,
    pub findings: Vec<Finding>,
}

/// One thing that is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The index points at this place, and the object is not there.
    Object { id: ObjectId, place: String },
    /// Bytes of a pack that are no intact record.
    Stretch { place: String, length: u64 },
    /// A pack that does not start as a pack does; its records may be intact.
    PackHeader { pack: String },
    /// A pack that is shorter than what was committed, or gone.
    PackLength { pack: String, committed: u64, found: u64 },
    /// A row about a pack does not match its check sum.
    PackRow { pack: String },
    /// A ref does not match its check sum.
    Ref { key: String },
    /// What SQLite itself finds wrong.
    Database { detail: String },
    /// The second copy of refs.
    Copy { detail: String },
    /// The second copy has refs that are newer than those of the database.
    LostCommits { keys: Vec<String> },
    /// The log of the database, or the note about it, is not what was committed.
    Log { place: String, detail: String },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Object { id, place } => write!(f, "object {id} is not intact at {place}"),
            Finding::Stretch { place, length } => write!(f, "{length} bytes of {place} are no intact object"),
            Finding::PackHeader { pack } => write!(f, "{pack} does not start with the header of a pack"),
            Finding::PackLength { pack, committed, found } => {
                write!(f, "{pack} has {found} bytes of {committed}")
            }
            Finding::PackRow { pack } => write!(f, "the row of {pack} in {DATABASE} is damaged"),
            Finding::Ref { key } => write!(f, "ref {key} in {DATABASE} is damaged"),
            Finding::Database { detail } => write!(f, "{DATABASE}: {detail}"),
            Finding::Copy { detail } => write!(f, "{}: {detail}", ref_log::COPY),
            Finding::LostCommits { keys } => {
                write!(
                    f,
                    "{DATABASE} has lost commits: {} has newer refs ({})",
                    ref_log::COPY,
                    keys.join(", ")
                )
            }
            Finding::Log { place, detail } => write!(f, "{place}: {detail}"),
        }
    }
}

/// What the index says, read at one moment.
struct Claims {
    rows: HashMap<u32, HashMap<ObjectId, Place>>,
    packs: Vec<PackRow>,
    refs: Reading,
}

impl EmbeddedStore {
    /// Reads and verifies every committed byte. `progress` hears of bytes done and bytes in total.
    ///
    /// Others may work meanwhile, and a sweep may move or remove what is being read. So what looks damaged is
    /// read again from the start with a pin, while nothing can be removed.
    pub fn scrub(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<ScrubReport, StoreError> {
        let report = self.scrub_once(progress)?;
        if report.findings.is_empty() {
            return Ok(report);
        }
        let _pin = self.pin()?;
        // A pack of the same name may be another file by now.
        self.shelf.forget_all();
        self.scrub_once(progress)
    }

    fn scrub_once(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<ScrubReport, StoreError> {
        let mut report = ScrubReport { findings: self.scrub_log()?, ..ScrubReport::default() };
        // Before the database, which is never behind it.
        let copy = ref_log::read(self.shelf.layout());
        let claims = self.database.read("checking the database", |connection| {
            Ok(check_database(connection, &mut report.findings)
                .unwrap_or_else(|error| give_up(error, &mut report.findings)))
        });
        let claims = claims.unwrap_or_else(|error| give_up(error, &mut report.findings));
        report.findings.extend(compare_copy(&claims.refs, &copy, self.options.ref_age));
        let total = claims.packs.iter().map(|pack| pack.length).sum();
        let Claims { mut rows, packs, .. } = claims;
        for pack in packs {
            let rows = rows.remove(&pack.number).unwrap_or_default();
            self.scrub_pack(pack, rows, &mut report);
            report.bytes += pack.length;
            progress(report.bytes, total);
        }
        for (id, place) in rows.into_values().flatten() {
            report.findings.push(Finding::Object { id, place: place_name(place) });
        }
        Ok(report)
    }

    /// Whether SQLite finds nothing wrong with the database.
    pub fn has_sound_database(&self) -> bool {
        let mut findings = Vec::new();
        let checked =
            self.database.read("checking the database", |c| check_database(c, &mut findings).map(drop));
        checked.is_ok() && !findings.iter().any(|finding| matches!(finding, Finding::Database { .. }))
    }

    /// Fails as damaged if the second copy of refs shows that the database has lost commits.
    pub fn check_commits(&self) -> Result<(), StoreError> {
        let keys = self.database.lost_commits()?;
        if keys.is_empty() {
            return Ok(());
        }
        let detail =
            format!("it has lost commits, and {} has newer refs ({})", ref_log::COPY, keys.join(", "));
        Err(StoreError::Damaged { place: DATABASE.to_owned(), detail })
    }

    fn scrub_log(&self) -> Result<Vec<Finding>, StoreError> {
        let layout = self.shelf.layout();
        let mut findings = match wal::check(layout) {
            Err(StoreError::Damaged { place, detail }) => vec![Finding::Log { place, detail }],
            checked => checked.map(|()| Vec::new())?,
        };
        if wal::note_is_damaged(layout) {
            let detail = "it does not match its check sum".to_owned();
            findings.push(Finding::Log { place: wal::NOTE.to_owned(), detail });
        }
        Ok(findings)
    }

    fn scrub_pack(&self, pack: PackRow, mut rows: HashMap<ObjectId, Place>, report: &mut ScrubReport) {
        let found = match self.shelf.open_to_read(pack.number) {
            Ok(file) => survey(&*file, pack.number, pack.length).unwrap_or_default(),
            Err(_) => Survey { header_is_sound: true, ..Survey::default() },
        };
        if found.length < pack.length && self.is_swept(pack.number).unwrap_or(false) {
            return;
        }
        for (id, place) in &found.records {
            match rows.get(id) == Some(place) {
                true => _ = (rows.remove(id), report.objects += 1),
                false => report.unindexed += 1,
            }
        }
        report.findings.extend(pack_findings(pack, &found));
        let astray = rows.into_iter().map(|(id, place)| Finding::Object { id, place: place_name(place) });
        report.findings.extend(astray);
    }

    /// Whether a sweep removed the pack since the index was read.
    fn is_swept(&self, number: u32) -> Result<bool, StoreError> {
        Ok(self.database.with(|connection| index::pack(connection, number))?.is_none())
    }
}

fn pack_findings(pack: PackRow, found: &Survey) -> Vec<Finding> {
    let name = || pack_name(pack.number);
    let mut findings = Vec::new();
    if found.length < pack.length {
        findings.push(Finding::PackLength { pack: name(), committed: pack.length, found: found.length });
    }
    if !found.header_is_sound && found.length >= PACK_HEADER_LEN {
        findings.push(Finding::PackHeader { pack: name() });
    }
    for (offset, length) in &found.damage {
        findings.push(Finding::Stretch { place: format!("{} at {offset}", name()), length: *length });
    }
    findings
}

fn check_database(connection: &Connection, findings: &mut Vec<Finding>) -> Result<Claims, StoreError> {
    let fail = database("checking the database");
    let mut statement = connection.prepare("PRAGMA integrity_check").map_err(&fail)?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0)).map_err(&fail)?;
    for line in lines {
        let detail = line.map_err(&fail)?;
        if detail != "ok" {
            findings.push(Finding::Database { detail });
        }
    }
    let mut refs = Reading { to_the_end: true, ..Reading::default() };
    refs.take_rows(connection).map_err(&fail)?;
    findings.extend(refs.lost.iter().map(|lost| Finding::Ref { key: refs::printable(&lost.key) }));
    let (packs, damaged) = index::packs_lenient(connection)?;
    for number in damaged {
        let pack = u32::try_from(number).map_or_else(|_| format!("pack {number}"), pack_name);
        findings.push(Finding::PackRow { pack });
    }
    let mut rows: HashMap<u32, HashMap<ObjectId, Place>> = HashMap::new();
    index::for_each(connection, &mut |id, place| {
        rows.entry(place.pack).or_default().insert(id, place);
    })?;
    Ok(Claims { rows, packs, refs })
}

/// The database cannot be read to its end: say so; there is nothing to compare packs with.
fn give_up(error: StoreError, findings: &mut Vec<Finding>) -> Claims {
    let seen: HashSet<String> = findings.iter().map(Finding::to_string).collect();
    let finding = Finding::Database { detail: error.to_string() };
    if !seen.contains(&finding.to_string()) {
        findings.push(finding);
    }
    Claims { rows: HashMap::new(), packs: Vec::new(), refs: Reading::default() }
}

/// What is wrong with the second copy, or with the database if the copy is right.
fn compare_copy(database: &Reading, copy: &RefLog, age: RefAge) -> Option<Finding> {
    if copy.state == CopyState::Damaged {
        return Some(Finding::Copy { detail: "some of its records are not intact".to_owned() });
    }
    let is_read = database.to_the_end && database.lost.is_empty();
    if !is_read || copy.state == CopyState::Missing {
        return None;
    }
    let keys = salvage::newer_in_copy(&database.refs, copy, age);
    (!keys.is_empty()).then_some(Finding::LostCommits { keys })
}
