//! What the user has decided about a file, as a whole or hunk by hunk.

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

    /// What a key that goes back and forth makes of it.
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
    /// One mark for each hunk, not all of them the same.
    Hunks(Vec<Mark>),
}

impl Default for Decision {
    fn default() -> Decision {
        Decision::Whole(Mark::default())
    }
}

impl Decision {
    pub fn name(&self) -> &'static str {
        match self {
            Decision::Whole(mark) => mark.name(),
            Decision::Hunks(_) => "partly",
        }
    }

    pub fn hunk(&self, index: usize) -> Mark {
        match self {
            Decision::Whole(mark) => *mark,
            Decision::Hunks(marks) => marks.get(index).copied().unwrap_or_default(),
        }
    }

    /// The same with another mark on one of `count` hunks.
    pub fn with_hunk(&self, index: usize, count: usize, mark: Mark) -> Decision {
        let mut marks: Vec<Mark> = (0..count).map(|hunk| self.hunk(hunk)).collect();
        marks[index] = mark;
        match marks.iter().all(|other| *other == mark) {
            true => Decision::Whole(mark),
            false => Decision::Hunks(marks),
        }
    }

    pub fn is_undecided(&self) -> bool {
        *self == Decision::default()
    }

    /// The numbers of the accepted hunks, from 1 on, if not all of the file is accepted.
    pub fn accepted_hunks(&self) -> Vec<usize> {
        match self {
            Decision::Whole(_) => Vec::new(),
            Decision::Hunks(marks) => {
                (1..).zip(marks).filter(|(_, mark)| **mark == Mark::Accepted).map(|(n, _)| n).collect()
            }
        }
    }

    /// Several decisions as one.
    pub fn together<'a>(decisions: impl Iterator<Item = &'a Decision>) -> Together {
        let mut all = decisions.map(|decision| match decision {
            Decision::Whole(mark) => Together::Same(*mark),
            Decision::Hunks(_) => Together::Mixed,
        });
        let first = all.next().unwrap_or(Together::Same(Mark::Undecided));
        match all.all(|other| other == first) {
            true => first,
            false => Together::Mixed,
        }
    }
}

/// What several hunks or files have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    Same(Mark),
    Mixed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_that_agree_are_a_decision_on_the_file() {
        let some = Decision::default().with_hunk(1, 3, Mark::Accepted);
        assert_eq!(some, Decision::Hunks(vec![Mark::Undecided, Mark::Accepted, Mark::Undecided]));
        assert_eq!((some.name(), some.accepted_hunks()), ("partly", vec![2]));
        let all = some.with_hunk(0, 3, Mark::Accepted).with_hunk(2, 3, Mark::Accepted);
        assert_eq!(all, Decision::Whole(Mark::Accepted));
        assert_eq!(all.with_hunk(0, 3, Mark::Rejected).accepted_hunks(), [2, 3]);
    }

    #[test]
    fn files_that_differ_are_mixed() {
        let [accepted, rejected] = [Mark::Accepted, Mark::Rejected].map(Decision::Whole);
        assert_eq!(Decision::together([&accepted, &accepted].into_iter()), Together::Same(Mark::Accepted));
        assert_eq!(Decision::together([&accepted, &rejected].into_iter()), Together::Mixed);
        assert_eq!(Decision::together([].into_iter()), Together::Same(Mark::Undecided));
    }
}
