//! The work limit of a question: some questions about patterns grow exponentially with their wildcards.

/// Counted in pattern positions that are inspected: a few nanoseconds each.
#[derive(Debug)]
pub(super) struct StepBudget {
    left: usize,
}

/// The question is too complex to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BudgetSpent;

impl StepBudget {
    pub(super) fn new(units: usize) -> StepBudget {
        StepBudget { left: units }
    }

    /// Splits off a part of at most this many units.
    pub(super) fn part(&mut self, units: usize) -> StepBudget {
        let part = StepBudget {
            left: units.min(self.left),
        };
        self.left -= part.left;
        part
    }

    /// Returns the unused units of a part.
    pub(super) fn take_back(&mut self, part: StepBudget) {
        self.left += part.left;
    }

    pub(super) fn spend(&mut self, units: usize) -> Result<(), BudgetSpent> {
        self.left = self.left.checked_sub(units).ok_or(BudgetSpent)?;
        Ok(())
    }
}
