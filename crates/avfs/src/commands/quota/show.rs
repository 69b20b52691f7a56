//! `avfs quota show`: limits and usage.

use anyhow::Result;

use super::print_object;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::printer::HEADING;
use crate::size::HumanSize;

/// Show the limits and how much of them is used
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs quota show --vault web")]
pub struct QuotaShowArgs {}

pub fn run(context: &mut Context<'_>, _: &QuotaShowArgs) -> Result<ExitStatus> {
    let info = context.vault()?.info()?;
    let out = &mut *context.out;
    if out.is_json() {
        print_object(out, &info)?;
        return Ok(ExitStatus::Success);
    }
    let size = |bytes| HumanSize(bytes).to_string();
    let number = |count: u64| count.to_string();
    let heading = format!("{:<7}  {:>10}  {:>10}  {:>5}", "", "USED", "LIMIT", "USED%");
    out.line(out.paint(HEADING, heading))?;
    out.line(row("bytes", info.bytes, info.max_bytes, size))?;
    out.line(row("entries", info.files, info.max_files, number))?;
    Ok(ExitStatus::Success)
}

fn row(what: &str, used: u64, limit: Option<u64>, show: impl Fn(u64) -> String) -> String {
    let (shown, share) = match limit {
        None => ("unlimited".to_owned(), "-".to_owned()),
        Some(0) => (show(0), "100%".to_owned()),
        Some(limit) => (show(limit), format!("{:.0}%", used as f64 * 100.0 / limit as f64)),
    };
    format!("{what:<7}  {:>10}  {shown:>10}  {share:>5}", show(used))
}
