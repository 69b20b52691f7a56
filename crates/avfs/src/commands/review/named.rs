//! Decisions that are named on the command line: `FILE`, `DIRECTORY` or `FILE:1,3`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use agentvfs::Error;
use agentvfs::apply::{ApplyError, HunkNumber};
use anyhow::Result;
use avfs_core::{BadName, TreePath};
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::changes::Changes;
use super::decision::{Decision, HunkPart, Mark};
use super::file::shape;
use crate::args::PathArg;
use crate::here::meant_from;

/// The subject of a decision. Whether `a:1` is a file or a hunk of `a` is known only once the changes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedDecision {
    whole: PathArg,
    hunks: Option<(PathArg, Vec<HunkNumber>)>,
}

pub fn named() -> impl TypedValueParser<Value = NamedDecision> {
    OsStringValueParser::new().try_map(|raw: OsString| NamedDecision::parse(raw.as_bytes()))
}

impl NamedDecision {
    fn parse(raw: &[u8]) -> Result<NamedDecision, BadName> {
        let colon = raw.iter().rposition(|byte| *byte == b':');
        let hunks = match colon.and_then(|colon| Some((colon, numbers(&raw[colon + 1..])?))) {
            Some((colon, numbers)) => Some((PathArg::parse(&raw[..colon])?, numbers)),
            None => None,
        };
        Ok(NamedDecision {
            whole: PathArg::parse(raw)?,
            hunks,
        })
    }

    /// `here` is the directory of the task that the command is typed in.
    fn mark(&self, changes: &Changes, decisions: &mut [Decision], here: &TreePath, mark: Mark) -> Result<()> {
        let meant =
            |path: &PathArg| Ok::<_, anyhow::Error>(meant_from(here, std::slice::from_ref(path))?.remove(0));
        let whole = meant(&self.whole)?;
        let mut is_known = false;
        for (file, decision) in changes.files.iter().zip(&mut *decisions) {
            let mut sides = file.old.iter().chain(&file.new);
            if sides.any(|side| side.path.starts_with(&whole)) {
                *decision = Decision::Whole(mark);
                is_known = true;
            }
        }
        match &self.hunks {
            _ if is_known => Ok(()),
            Some((path, numbers)) => mark_hunks(changes, decisions, mark, &meant(path)?, numbers),
            None => Err(unknown(&whole).into()),
        }
    }
}

fn numbers(text: &[u8]) -> Option<Vec<HunkNumber>> {
    std::str::from_utf8(text)
        .ok()?
        .split(',')
        .map(|number| number.parse().ok())
        .collect()
}

/// Applies the decisions of the command line over earlier ones. A rejection is stronger.
pub fn decide(
    changes: &Changes,
    decisions: &mut [Decision],
    here: &TreePath,
    accept: &[NamedDecision],
    reject: &[NamedDecision],
) -> Result<()> {
    accept
        .iter()
        .try_for_each(|named| named.mark(changes, decisions, here, Mark::Accepted))?;
    reject
        .iter()
        .try_for_each(|named| named.mark(changes, decisions, here, Mark::Rejected))
}

fn mark_hunks(
    changes: &Changes,
    decisions: &mut [Decision],
    mark: Mark,
    path: &TreePath,
    numbers: &[HunkNumber],
) -> Result<()> {
    let file = changes
        .files
        .iter()
        .position(|file| file.path() == path)
        .ok_or_else(|| unknown(path))?;
    let shape = shape(&changes.diff(file)?);
    for number in numbers {
        let part = part(*number, &shape).ok_or_else(|| no_hunk(path, *number, shape.len()))?;
        decisions[file] = decisions[file].with_part(part, &shape, mark);
    }
    Ok(())
}

/// The part with a number, if there is such a hunk or change.
fn part(number: HunkNumber, shape: &[usize]) -> Option<HunkPart> {
    let hunk = number.hunk.checked_sub(1)?;
    let changes = *shape.get(hunk)?;
    match number.change {
        None => Some(HunkPart { hunk, change: None }),
        Some(change) => {
            let change = change.checked_sub(1).filter(|change| *change < changes)?;
            Some(HunkPart {
                hunk,
                change: Some(change),
            })
        }
    }
}

fn unknown(path: &TreePath) -> Error {
    ApplyError::NotChanged { path: path.clone() }.into()
}

fn no_hunk(path: &TreePath, number: HunkNumber, choices: usize) -> Error {
    let reason = match choices {
        0 => "it is accepted or rejected as a whole".to_owned(),
        choices => format!("there is no hunk {number}: it has {choices}"),
    };
    ApplyError::BadHunks {
        path: path.clone(),
        reason,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, expected: Option<(&str, &[&str])>) {
        let named = NamedDecision::parse(raw.as_bytes()).unwrap();
        let shown = |numbers: &[HunkNumber]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>();
        let hunks = named
            .hunks
            .as_ref()
            .map(|(path, numbers)| (path.to_string(), shown(numbers)));
        let expected = expected.map(|(path, numbers)| {
            (
                path.to_owned(),
                numbers
                    .iter()
                    .map(|number| (*number).to_owned())
                    .collect::<Vec<_>>(),
            )
        });
        assert_eq!(hunks, expected, "{raw}");
    }

    #[test]
    fn numbers_behind_the_last_colon_are_hunks() {
        check("src/a:1,3", Some(("src/a", &["1", "3"])));
        check("a:b:2", Some(("a:b", &["2"])));
        check("a:2.1", Some(("a", &["2.1"])));
        check("src/a", None);
        check("a:b", None);
        check("a:", None);
        check("a:1,", None);
    }
}
