//! The user's decision on a file: as a whole, hunk by hunk, or change by change.

use agentvfs::apply::HunkNumber;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    #[default]
    Undecided,
    Accepted,
    Rejected,
}

impl Mark {
    pub fn name(self) -> &'static str {
        match self {
            Mark::Undecided => "undecided",
            Mark::Accepted => "accepted",
            Mark::Rejected => "rejected",
        }
    }

    /// The mark after pressing a key that toggles it.
    pub fn toggled(self) -> Mark {
        match self {
            Mark::Undecided | Mark::Rejected => Mark::Accepted,
            Mark::Accepted => Mark::Rejected,
        }
    }
}

/// The decision on one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Whole(Mark),
    /// For each hunk one mark for each change in it, not all of them the same.
    Hunks(Vec<Vec<Mark>>),
}

impl Default for Decision {
    fn default() -> Decision {
        Decision::Whole(Mark::default())
    }
}

/// A hunk of a file, or one of the changes in it. Both count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HunkPart {
    pub hunk: usize,
    /// `None`: all of the hunk.
    pub change: Option<usize>,
}

impl HunkPart {
    /// As it is named to people and programs.
    pub fn number(self) -> HunkNumber {
        HunkNumber {
            hunk: self.hunk + 1,
            change: self.change.map(|change| change + 1),
        }
    }
}

impl Decision {
    pub fn name(&self) -> &'static str {
        match self {
            Decision::Whole(mark) => mark.name(),
            Decision::Hunks(_) => "partly",
        }
    }

    /// The decision on a part of the file.
    pub fn part(&self, part: HunkPart) -> Together {
        let marks = match self {
            Decision::Whole(mark) => return Together::Same(*mark),
            Decision::Hunks(hunks) => hunks.get(part.hunk).map(Vec::as_slice).unwrap_or_default(),
        };
        match part.change {
            Some(change) => Together::Same(marks.get(change).copied().unwrap_or_default()),
            None => Together::of(marks.iter().map(|mark| Together::Same(*mark))),
        }
    }

    /// The same with another mark on one part. `shape` is the number of changes of each hunk.
    pub fn with_part(&self, part: HunkPart, shape: &[usize], mark: Mark) -> Decision {
        let mut hunks: Vec<Vec<Mark>> = match self {
            Decision::Whole(all) => shape.iter().map(|changes| vec![*all; *changes]).collect(),
            Decision::Hunks(hunks) => hunks.clone(),
        };
        match part.change {
            Some(change) => hunks[part.hunk][change] = mark,
            None => hunks[part.hunk].fill(mark),
        }
        if hunks.iter().flatten().all(|other| *other == mark) {
            Decision::Whole(mark)
        } else {
            Decision::Hunks(hunks)
        }
    }

    /// The same with everything accepted that nothing was decided about.
    pub fn with_rest_accepted(&self) -> Decision {
        let Decision::Hunks(hunks) = self else {
            return Decision::Whole(Mark::Accepted);
        };
        let mut hunks = hunks.clone();
        for mark in hunks.iter_mut().flatten() {
            if *mark == Mark::Undecided {
                *mark = Mark::Accepted;
            }
        }
        if hunks.iter().flatten().all(|mark| *mark == Mark::Accepted) {
            Decision::Whole(Mark::Accepted)
        } else {
            Decision::Hunks(hunks)
        }
    }

    pub fn is_undecided(&self) -> bool {
        *self == Decision::default()
    }

    /// The accepted hunks and changes, if not all of the file is accepted.
    pub fn accepted_parts(&self) -> Vec<HunkNumber> {
        let Decision::Hunks(hunks) = self else {
            return Vec::new();
        };
        let of_hunk = |(hunk, marks): (usize, &Vec<Mark>)| {
            let is_whole = marks.iter().all(|mark| *mark == Mark::Accepted);
            let changes = marks
                .iter()
                .enumerate()
                .filter(|(_, mark)| **mark == Mark::Accepted);
            let parts: Vec<HunkPart> = if is_whole {
                vec![HunkPart { hunk, change: None }]
            } else {
                changes
                    .map(|(change, _)| HunkPart {
                        hunk,
                        change: Some(change),
                    })
                    .collect()
            };
            parts
        };
        hunks
            .iter()
            .enumerate()
            .flat_map(of_hunk)
            .map(HunkPart::number)
            .collect()
    }

    /// Several decisions as one.
    pub fn together<'a>(decisions: impl Iterator<Item = &'a Decision>) -> Together {
        Together::of(decisions.map(|decision| match decision {
            Decision::Whole(mark) => Together::Same(*mark),
            Decision::Hunks(_) => Together::Mixed,
        }))
    }
}

/// The common decision on several changes, hunks or files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    Same(Mark),
    Mixed,
}

impl Together {
    fn of(mut all: impl Iterator<Item = Together>) -> Together {
        let first = all.next().unwrap_or(Together::Same(Mark::Undecided));
        if all.all(|other| other == first) {
            first
        } else {
            Together::Mixed
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Together::Same(mark) => mark.name(),
            Together::Mixed => "partly",
        }
    }

    /// The mark to go on from.
    pub fn mark(self) -> Mark {
        match self {
            Together::Same(mark) => mark,
            Together::Mixed => Mark::Undecided,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: [usize; 3] = [1, 2, 1];

    fn hunk(hunk: usize) -> HunkPart {
        HunkPart { hunk, change: None }
    }

    fn numbers(decision: &Decision) -> String {
        decision
            .accepted_parts()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn hunks_that_agree_are_a_decision_on_the_file() {
        let some = Decision::default().with_part(hunk(1), &SHAPE, Mark::Accepted);
        assert_eq!((some.name(), numbers(&some).as_str()), ("partly", "2"));
        let all = some
            .with_part(hunk(0), &SHAPE, Mark::Accepted)
            .with_part(hunk(2), &SHAPE, Mark::Accepted);
        assert_eq!(all, Decision::Whole(Mark::Accepted));
        assert_eq!(numbers(&all.with_part(hunk(0), &SHAPE, Mark::Rejected)), "2 3");
    }

    #[test]
    fn changes_of_a_hunk_are_decided_one_by_one() {
        let second = HunkPart {
            hunk: 1,
            change: Some(1),
        };
        let some = Decision::default().with_part(second, &SHAPE, Mark::Accepted);
        assert_eq!(numbers(&some), "2.2");
        assert_eq!(some.part(hunk(1)), Together::Mixed);
        assert_eq!(some.part(second), Together::Same(Mark::Accepted));
        let first = HunkPart {
            hunk: 1,
            change: Some(0),
        };
        let both = some.with_part(first, &SHAPE, Mark::Accepted);
        assert_eq!(
            (numbers(&both).as_str(), both.part(hunk(1))),
            ("2", Together::Same(Mark::Accepted))
        );
    }

    #[test]
    fn files_that_differ_are_mixed() {
        let [accepted, rejected] = [Mark::Accepted, Mark::Rejected].map(Decision::Whole);
        assert_eq!(
            Decision::together([&accepted, &accepted].into_iter()),
            Together::Same(Mark::Accepted)
        );
        assert_eq!(
            Decision::together([&accepted, &rejected].into_iter()),
            Together::Mixed
        );
        assert_eq!(
            Decision::together([].into_iter()),
            Together::Same(Mark::Undecided)
        );
    }
}
