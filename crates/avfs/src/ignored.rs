//! Ignored files of tasks: whether they are wanted, and how they are reported.

use agentvfs::{IgnoredPlace, IgnoredSummary};
use serde::Serialize;

use crate::context::Context;
use crate::json::PathField;
use crate::listing::ignored_line;
use crate::printer::Printer;

/// The flag that commands on tasks share.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct IgnoredArgs {
    /// Include ignored files: those that git ignores, and build output [config: tasks.ignored]
    #[arg(long)]
    ignored: bool,
}

impl IgnoredArgs {
    pub fn are_wanted(self, context: &Context<'_>) -> bool {
        self.ignored || context.settings.tasks_ignored()
    }
}

/// The number of ignored files, and their directories.
#[derive(Clone, Default, Serialize)]
pub struct IgnoredBody {
    files: usize,
    places: Vec<PlaceBody>,
}

#[derive(Clone, Serialize)]
struct PlaceBody {
    #[serde(flatten)]
    path: PathField,
    files: usize,
}

impl From<&IgnoredSummary> for IgnoredBody {
    fn from(summary: &IgnoredSummary) -> IgnoredBody {
        let place = |place: IgnoredPlace| PlaceBody {
            path: (&place.path).into(),
            files: place.files,
        };
        IgnoredBody {
            files: summary.files(),
            places: summary.places().map(place).collect(),
        }
    }
}

/// Reports omitted files, if there are any.
pub fn tell_ignored(out: &mut Printer, summary: &IgnoredSummary) {
    if let Some(line) = ignored_line(summary) {
        out.talk(format_args!(
            "{line} (`--ignored` shows and applies ignored files too)"
        ));
    }
}
