//! Names that are being made ready: a door that never waits is put off when it looks one up, until it is ready.
//!
//! Nothing is at stake but time. Whoever has waited for [`PATIENCE`] ends the preparation for everybody, and finds what is
//! there.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::{Shared, WorkTree};
use crate::op::Place;

/// How long a lookup is put off at the most.
const PATIENCE: Duration = Duration::from_secs(5);

/// A name is looked up by nobody behind a mount for as long as this lives.
#[must_use = "the name is ready when this is dropped"]
pub struct NameInPreparation {
    shared: Arc<Shared>,
    place: Place,
}

impl WorkTree {
    /// Puts off lookups of a name in a directory, until what is returned is dropped. Programs that were told of the name
    /// before, or by a listing of its directory, do not look it up and go on.
    pub fn prepare_name(&self, place: Place) -> NameInPreparation {
        self.state().preparing.insert(place.clone());
        NameInPreparation { shared: Arc::clone(&self.shared), place }
    }

    pub(super) fn await_preparation(&self) {
        let state = self.state();
        let waited =
            self.shared.prepared.wait_timeout_while(state, PATIENCE, |state| !state.preparing.is_empty());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.preparing.clear();
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
