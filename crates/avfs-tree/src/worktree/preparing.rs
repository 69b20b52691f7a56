//! Names that are being prepared: a lookup through a door that never waits is delayed until the name is
//! ready.
//!
//! Only time is at stake. A lookup that has waited for [`PATIENCE`] ends the preparation for all doors, and
//! finds whatever is there.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::SharedTree;
use crate::op::EntryPlace;

/// The longest time for which a lookup is delayed.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// While this lives, no program behind a mount can look up the name.
#[must_use = "the name is ready when this is dropped"]
pub struct NameInPreparation {
    shared: Arc<SharedTree>,
    place: EntryPlace,
}

impl NameInPreparation {
    pub(super) fn new(shared: &Arc<SharedTree>, place: EntryPlace) -> NameInPreparation {
        NameInPreparation {
            shared: Arc::clone(shared),
            place,
        }
    }
}

impl Drop for NameInPreparation {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.preparing.remove(&self.place);
        drop(state);
        self.shared.prepared.notify_all();
    }
}
