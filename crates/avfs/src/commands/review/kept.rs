//! Decisions that outlive a review: each is bound to the very change that it was made on.

use std::collections::HashMap;

use agentvfs::approvals::StoredBytes;
use agentvfs::patch::{ChangeSide, FileChange};
use agentvfs::{EntryKind, KeptChoice, KeptDecision, KeptPlace, KeptReview};
use avfs_core::BlobId;

use super::conflict::{Choice, ChosenSide, How, TextConflict};
use super::decision::{Decision, Mark};

/// The stored decisions that match the current changes.
#[derive(Debug, Default)]
pub struct RestoredDecisions {
    pub decisions: Vec<Decision>,
    pub choices: HashMap<usize, Choice>,
    /// How many decisions were about changes that differ now.
    pub outdated: usize,
}

pub fn restore(files: &[FileChange], kept: &KeptReview) -> RestoredDecisions {
    let known: HashMap<&[u8], &KeptDecision> = kept
        .decisions
        .iter()
        .map(|decision| (decision.path.as_bytes(), decision))
        .collect();
    let mut restored = RestoredDecisions {
        decisions: vec![Decision::default(); files.len()],
        ..RestoredDecisions::default()
    };
    let mut used = 0;
    for (index, file) in files.iter().enumerate() {
        let Some(kept) = known.get(file.path().as_bytes()) else {
            continue;
        };
        let Some(decision) = parse(&kept.marks).filter(|_| kept.change == digest(file)) else {
            continue;
        };
        used += 1;
        restored.decisions[index] = decision;
        if let Some(choice) = kept.choice.as_ref().and_then(choice) {
            restored.choices.insert(index, choice);
        }
    }
    restored.outdated = known.len() - used;
    restored
}

pub fn keep(files: &[FileChange], decisions: &[Decision], choices: &HashMap<usize, Choice>) -> KeptReview {
    let decided = files
        .iter()
        .zip(decisions)
        .enumerate()
        .filter(|(index, (_, decision))| !decision.is_undecided() || choices.contains_key(index));
    let kept = decided.map(|(index, (file, decision))| KeptDecision {
        path: StoredBytes::from(file.path().as_bytes()),
        change: digest(file),
        marks: letters(decision),
        choice: choices.get(&index).map(kept_choice),
    });
    KeptReview {
        decisions: kept.collect(),
    }
}

/// Identifies a change: the old and the new state.
fn digest(file: &FileChange) -> String {
    let mut text = String::from(file.status.letter());
    for side in [&file.old, &file.new] {
        text.push_str(&side.as_ref().map_or_else(|| "\n-".to_owned(), described));
    }
    BlobId::of(text.as_bytes()).to_string()
}

fn described(side: &ChangeSide) -> String {
    let (path, mode) = (&side.path, side.entry.meta.mode);
    let content = match &side.entry.kind {
        EntryKind::File { size, content } => format!("file {size} {content:?}"),
        EntryKind::Symlink { target } => format!("link {target:?}"),
        other => format!("{other:?}"),
    };
    format!("\n{path} {mode:o} {content}")
}

fn letter(mark: Mark) -> char {
    match mark {
        Mark::Undecided => 'u',
        Mark::Accepted => 'a',
        Mark::Rejected => 'r',
    }
}

fn letters(decision: &Decision) -> String {
    match decision {
        Decision::Whole(mark) => letter(*mark).to_string(),
        Decision::Hunks(hunks) => {
            let hunk = |marks: &Vec<Mark>| marks.iter().copied().map(letter).collect::<String>();
            hunks.iter().map(hunk).collect::<Vec<_>>().join(",") + ","
        }
    }
}

fn parse(text: &str) -> Option<Decision> {
    let mark = |letter: char| match letter {
        'u' => Some(Mark::Undecided),
        'a' => Some(Mark::Accepted),
        'r' => Some(Mark::Rejected),
        _ => None,
    };
    match text.strip_suffix(',') {
        Some(hunks) => {
            let hunk = |marks: &str| marks.chars().map(mark).collect::<Option<Vec<_>>>();
            hunks
                .split(',')
                .map(hunk)
                .collect::<Option<Vec<_>>>()
                .map(Decision::Hunks)
        }
        None => {
            let mut marks = text.chars();
            let whole = mark(marks.next()?)?;
            marks.next().is_none().then_some(Decision::Whole(whole))
        }
    }
}

fn kept_choice(choice: &Choice) -> KeptChoice {
    let edited = match &choice.how {
        How::Edited(bytes) => Some(StoredBytes::from(&bytes[..])),
        How::Task | How::Both | How::Places(_) => None,
    };
    let places = match &choice.how {
        How::Places(places) => places.iter().map(kept_place).collect(),
        How::Task | How::Both | How::Edited(_) => Vec::new(),
    };
    KeptChoice {
        how: choice.how.name().to_owned(),
        here: choice.here_digest.clone(),
        edited,
        places,
    }
}

/// The stored mark of an open conflict.
const OPEN: &str = "open";

fn kept_place(place: &TextConflict) -> KeptPlace {
    KeptPlace {
        start: place.base.start,
        end: place.base.end,
        how: place.side.map_or(OPEN, ChosenSide::name).to_owned(),
    }
}

fn place(kept: &KeptPlace) -> Option<TextConflict> {
    let side = ChosenSide::ALL.into_iter().find(|side| side.name() == kept.how);
    (side.is_some() || kept.how == OPEN).then_some(TextConflict {
        base: kept.start..kept.end,
        side,
    })
}

fn choice(kept: &KeptChoice) -> Option<Choice> {
    let how = match (kept.how.as_str(), &kept.edited) {
        ("task", _) => How::Task,
        ("both", _) => How::Both,
        ("edited", Some(bytes)) => How::Edited(bytes.as_bytes().to_vec()),
        ("places", _) => How::Places(kept.places.iter().map(place).collect::<Option<_>>()?),
        _ => return None,
    };
    Some(Choice {
        how,
        here_digest: kept.here.clone(),
    })
}

#[cfg(test)]
mod tests {
    use agentvfs::patch::ChangeStatus;

    use super::*;
    use crate::commands::review::scene::Scene;

    #[test]
    fn decisions_come_back_for_the_same_changes() {
        let mut scene = Scene::small();
        scene.press("a Tab a");
        let kept = scene.model.kept();
        let restored = restore(&scene.model.files, &kept);
        assert_eq!(
            (&restored.decisions, restored.outdated),
            (&scene.model.decisions, 0)
        );
    }

    #[test]
    fn a_change_that_is_another_one_now_is_undecided() {
        let mut scene = Scene::small();
        scene.press("A");
        let kept = scene.model.kept();
        let mut files = scene.model.files.clone();
        files[1].status = ChangeStatus::TypeChanged;
        files.remove(2);
        let restored = restore(&files, &kept);
        let names: Vec<&str> = restored.decisions.iter().map(Decision::name).collect();
        assert_eq!(
            (names.as_slice(), restored.outdated),
            (&["accepted", "undecided"][..], 2)
        );
    }

    #[test]
    fn marks_are_read_as_they_were_written() {
        use Mark::*;
        for decision in [
            Decision::Whole(Accepted),
            Decision::Whole(Rejected),
            Decision::Hunks(vec![vec![Accepted]]),
            Decision::Hunks(vec![vec![Accepted, Undecided], vec![Rejected]]),
        ] {
            assert_eq!(parse(&letters(&decision)), Some(decision));
        }
        assert_eq!((parse(""), parse("x"), parse("aa")), (None, None, None));
    }
}
