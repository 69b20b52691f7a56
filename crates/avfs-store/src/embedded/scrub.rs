//! Reads the whole store and reports what is damaged. Changes nothing.

use std::collections::{HashMap, HashSet};
use std::fmt;

use avfs_core::ObjectId;
use rusqlite::Connection;

use crate::door::{ObjectStore, StoreError};
use crate::embedded::EmbeddedStore;
use crate::embedded::failure::{DATABASE, database};
use crate::embedded::index::{self, PackRow};
use crate::embedded::layout::pack_name;
use crate::embedded::pack_directory::place_name;
use crate::embedded::record::{PACK_HEADER_LEN, RecordPlace};
use crate::embedded::ref_log::{self, CopyState, RefLog};
use crate::embedded::refs;
use crate::embedded::salvage::{self, RefAge, SalvagedRefs};
use crate::embedded::survey::{PackSurvey, survey};
use crate::embedded::wal;
use crate::upkeep::{ScrubReport, UpkeepFinding};

impl fmt::Display for UpkeepFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpkeepFinding::Object { id, place } => write!(f, "object {id} is not intact at {place}"),
            UpkeepFinding::Stretch { place, length } => {
                write!(f, "{length} bytes of {place} are no intact object")
            }
            UpkeepFinding::PackHeader { pack } => {
                write!(f, "{pack} does not start with the header of a pack")
            }
            UpkeepFinding::PackLength {
                pack,
                committed,
                found,
            } => {
                write!(f, "{pack} has {found} bytes of {committed}")
            }
            UpkeepFinding::PackRow { pack } => write!(f, "the row of {pack} in {DATABASE} is damaged"),
            UpkeepFinding::Ref { key } => write!(f, "ref {key} in {DATABASE} is damaged"),
            UpkeepFinding::Database { detail } => write!(f, "{DATABASE}: {detail}"),
            UpkeepFinding::Copy { detail } => write!(f, "{}: {detail}", ref_log::COPY),
            UpkeepFinding::LostCommits { keys } => {
                write!(
                    f,
                    "{DATABASE} has lost commits: {} has newer refs ({})",
                    ref_log::COPY,
                    keys.join(", ")
                )
            }
            UpkeepFinding::Log { place, detail } => write!(f, "{place}: {detail}"),
        }
    }
}

/// The contents of the index, read at one moment.
struct IndexClaims {
    rows: HashMap<u32, HashMap<ObjectId, RecordPlace>>,
    packs: Vec<PackRow>,
    refs: SalvagedRefs,
}

impl EmbeddedStore {
    /// Reads and verifies every committed byte. `progress` is called with the bytes done and the bytes in
    /// total.
    ///
    /// Other processes may work meanwhile, and a sweep may move or remove records that are being read. So
    /// places that look damaged are read again from the start with a pin, while nothing can be removed.
    pub fn scrub(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<ScrubReport, StoreError> {
        let report = self.scrub_once(progress)?;
        if report.findings.is_empty() {
            return Ok(report);
        }
        let _pin = self.pin()?;
        // A pack of the same name may be a different file by now.
        self.pack_directory.forget_all();
        self.scrub_once(progress)
    }

    fn scrub_once(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<ScrubReport, StoreError> {
        let mut report = ScrubReport {
            findings: self.scrub_log()?,
            ..ScrubReport::default()
        };
        // Read before the database, which is never older than its copy.
        let copy = ref_log::read(self.pack_directory.layout());
        let claims = self.database.read("checking the database", |connection| {
            check_database(connection, &mut report.findings)
        });
        let claims = claims.unwrap_or_else(|error| give_up(error, &mut report.findings));
        report
            .findings
            .extend(compare_copy(&claims.refs, &copy, self.options.ref_age));
        let total = claims.packs.iter().map(|pack| pack.length).sum();
        let IndexClaims { mut rows, packs, .. } = claims;
        for pack in packs {
            let rows = rows.remove(&pack.number).unwrap_or_default();
            self.scrub_pack(pack, rows, &mut report);
            report.bytes += pack.length;
            progress(report.bytes, total);
        }
        for (id, place) in rows.into_values().flatten() {
            report.findings.push(UpkeepFinding::Object {
                id,
                place: place_name(place),
            });
        }
        Ok(report)
    }

    /// Whether SQLite finds nothing wrong with the database.
    pub fn has_sound_database(&self) -> bool {
        let mut findings = Vec::new();
        let checked = self.database.read("checking the database", |c| {
            check_database(c, &mut findings).map(drop)
        });
        checked.is_ok()
            && !findings
                .iter()
                .any(|finding| matches!(finding, UpkeepFinding::Database { .. }))
    }

    /// Fails as damaged if the second copy of refs shows that the database has lost commits.
    pub fn check_commits(&self) -> Result<(), StoreError> {
        let keys = self.database.lost_commits()?;
        if keys.is_empty() {
            return Ok(());
        }
        let detail = format!(
            "it has lost commits, and {} has newer refs ({})",
            ref_log::COPY,
            keys.join(", ")
        );
        Err(StoreError::Damaged {
            place: DATABASE.to_owned(),
            detail,
        })
    }

    fn scrub_log(&self) -> Result<Vec<UpkeepFinding>, StoreError> {
        let layout = self.pack_directory.layout();
        let mut findings = match wal::check(layout) {
            Err(StoreError::Damaged { place, detail }) => vec![UpkeepFinding::Log { place, detail }],
            checked => checked.map(|()| Vec::new())?,
        };
        if wal::note_is_damaged(layout) {
            let detail = "it does not match its check sum".to_owned();
            findings.push(UpkeepFinding::Log {
                place: wal::NOTE.to_owned(),
                detail,
            });
        }
        Ok(findings)
    }

    fn scrub_pack(&self, pack: PackRow, mut rows: HashMap<ObjectId, RecordPlace>, report: &mut ScrubReport) {
        let found = match self.pack_directory.open_to_read(pack.number) {
            Ok(file) => survey(&*file, pack.number, pack.length).unwrap_or_default(),
            Err(_) => PackSurvey {
                header_is_sound: true,
                ..PackSurvey::default()
            },
        };
        if found.length < pack.length && self.is_swept(pack.number).unwrap_or(false) {
            return;
        }
        for (id, place) in &found.records {
            if rows.get(id) == Some(place) {
                // Counted by its row: what is left in `rows` at the end is missing from the packs.
                _ = (rows.remove(id), report.objects += 1)
            } else {
                report.unindexed += 1
            }
        }
        report.findings.extend(pack_findings(pack, &found));
        let astray = rows.into_iter().map(|(id, place)| UpkeepFinding::Object {
            id,
            place: place_name(place),
        });
        report.findings.extend(astray);
    }

    /// Whether a sweep removed the pack since the index was read.
    fn is_swept(&self, number: u32) -> Result<bool, StoreError> {
        Ok(self
            .database
            .with(|connection| index::pack(connection, number))?
            .is_none())
    }
}

fn pack_findings(pack: PackRow, found: &PackSurvey) -> Vec<UpkeepFinding> {
    let name = || pack_name(pack.number);
    let mut findings = Vec::new();
    if found.length < pack.length {
        findings.push(UpkeepFinding::PackLength {
            pack: name(),
            committed: pack.length,
            found: found.length,
        });
    }
    if !found.header_is_sound && found.length >= PACK_HEADER_LEN {
        findings.push(UpkeepFinding::PackHeader { pack: name() });
    }
    for (offset, length) in &found.damage {
        findings.push(UpkeepFinding::Stretch {
            place: format!("{} at {offset}", name()),
            length: *length,
        });
    }
    findings
}

fn check_database(
    connection: &Connection,
    findings: &mut Vec<UpkeepFinding>,
) -> Result<IndexClaims, StoreError> {
    let fail = database("checking the database");
    let mut statement = connection.prepare("PRAGMA integrity_check").map_err(&fail)?;
    let lines = statement
        .query_map([], |row| row.get::<_, String>(0))
        .map_err(&fail)?;
    for line in lines {
        let detail = line.map_err(&fail)?;
        if detail != "ok" {
            findings.push(UpkeepFinding::Database { detail });
        }
    }
    let mut refs = SalvagedRefs {
        to_the_end: true,
        ..SalvagedRefs::default()
    };
    refs.take_rows(connection).map_err(&fail)?;
    findings.extend(refs.lost.iter().map(|lost| UpkeepFinding::Ref {
        key: refs::printable(&lost.key),
    }));
    let (packs, damaged) = index::packs_lenient(connection)?;
    for number in damaged {
        let pack = u32::try_from(number).map_or_else(|_| format!("pack {number}"), pack_name);
        findings.push(UpkeepFinding::PackRow { pack });
    }
    let mut rows: HashMap<u32, HashMap<ObjectId, RecordPlace>> = HashMap::new();
    index::for_each(connection, &mut |id, place| {
        rows.entry(place.pack).or_default().insert(id, place);
    })?;
    Ok(IndexClaims { rows, packs, refs })
}

/// The database cannot be read to its end: report that; there is nothing with which to compare the packs.
fn give_up(error: StoreError, findings: &mut Vec<UpkeepFinding>) -> IndexClaims {
    let seen: HashSet<String> = findings.iter().map(UpkeepFinding::to_string).collect();
    let detail = match error {
        StoreError::Damaged { place, detail } if place == DATABASE => detail,
        error => error.to_string(),
    };
    let finding = UpkeepFinding::Database { detail };
    if !seen.contains(&finding.to_string()) {
        findings.push(finding);
    }
    IndexClaims {
        rows: HashMap::new(),
        packs: Vec::new(),
        refs: SalvagedRefs::default(),
    }
}

/// The problem of the second copy, or of the database if the copy is right.
fn compare_copy(database: &SalvagedRefs, copy: &RefLog, age: RefAge) -> Option<UpkeepFinding> {
    if copy.state == CopyState::Damaged {
        return Some(UpkeepFinding::Copy {
            detail: "some of its records are not intact".to_owned(),
        });
    }
    let is_read = database.to_the_end && database.lost.is_empty();
    if !is_read || copy.state == CopyState::Missing {
        return None;
    }
    let keys = salvage::newer_in_copy(&database.refs, copy, age);
    (!keys.is_empty()).then_some(UpkeepFinding::LostCommits { keys })
}
