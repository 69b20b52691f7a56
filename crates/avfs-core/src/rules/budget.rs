//! How much work a question may cost: some questions about patterns grow exponentially with their wildcards.

/// Counted in positions of patterns that are looked at: some nanoseconds each.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
}

/// The question is too complex to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spent;

impl Budget {
    pub(super) fn new(units: usize) -> Budget {
        Budget { left: units }
    }

    /// Takes up to so many units out of this one.
    pub(super) fn part(&mut self, units: usize) -> Budget {
        let part = Budget { left: units.min(self.left) };
        self.left -= part.left;
        part
    }

    /// What is left of a part.
    pub(super) fn take_back(&mut self, part: Budget) {
        self.left += part.left;
    }

    pub(super) fn spend(&mut self, units: usize) -> Result<(), Spent> {
        self.left = self.left.checked_sub(units).ok_or(Spent)?;
        Ok(())
    }
}
