//! Reports of `import`, `export` and `vault create --from` about a transfer.

use agentvfs::transfer::{SkippedEntry, TransferReport};
use serde::Serialize;

use crate::json::PathField;
use crate::printer::Printer;
use crate::size::HumanSize;

/// How many omitted entries are listed one by one.
const SHOWN: usize = 20;

#[derive(Serialize)]
pub struct ReportBody {
    files: u64,
    directories: u64,
    bytes: u64,
    skipped: Vec<SkippedBody>,
}

#[derive(Serialize)]
struct SkippedBody {
    #[serde(flatten)]
    path: PathField,
    reason: String,
}

impl From<&TransferReport> for ReportBody {
    fn from(report: &TransferReport) -> ReportBody {
        let skipped = |skipped: &SkippedEntry| SkippedBody {
            path: PathField::new(&skipped.path),
            reason: skipped.reason.to_string(),
        };
        let TransferReport {
            files,
            directories,
            bytes,
            ..
        } = *report;
        ReportBody {
            files,
            directories,
            bytes,
            skipped: report.skipped.iter().map(skipped).collect(),
        }
    }
}

/// Reports to people what was transferred, and what was not.
pub fn tell(out: &mut Printer, verb: &str, report: &TransferReport) {
    let plural = if report.files == 1 { "" } else { "s" };
    out.talk(format_args!(
        "{verb} {} file{plural}, {}",
        report.files,
        HumanSize(report.bytes)
    ));
    for skipped in report.skipped.iter().take(SHOWN) {
        out.warn(skipped);
    }
    if report.skipped.len() > SHOWN {
        out.warn(format_args!("{} more", report.skipped.len() - SHOWN));
    }
}
