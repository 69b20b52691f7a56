//! `avfs rules check`: whether a file of rules can be used.

use std::path::PathBuf;

use agentvfs::rules::RuleFile;
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::rule_args::other_sections;
use crate::versions::count;

/// Check a rules file
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A mistake is reported with its line and column, and the exit status is 2. The
expectations in the [rules.expect] section of the file are checked too.

Examples:
  avfs rules check avfs.toml"
)]
pub struct RulesCheckArgs {
    /// The rules file
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
}

#[derive(Serialize)]
struct RulesCheckBody<'a> {
    file: String,
    rules: usize,
    expectations: usize,
    notes: &'a [String],
}

pub fn run(context: &mut Context<'_>, args: &RulesCheckArgs) -> Result<ExitStatus> {
    let checked = RuleFile::read(&args.file, &other_sections())?;
    let file = printable_path(&args.file);
    let (rules, expectations) = (checked.rules.list().len(), checked.expected);
    if context.out.is_json() {
        let body = RulesCheckBody {
            file,
            rules,
            expectations,
            notes: &checked.notes,
        };
        context.out.object("rules-check", &body)?;
        return Ok(ExitStatus::Success);
    }
    for note in &checked.notes {
        context.out.warn(note);
    }
    let (rules, expectations) = (
        count(rules as u64, "rule"),
        count(expectations as u64, "expectation"),
    );
    context
        .out
        .line(format_args!("{file}: {rules}, {expectations} met"))?;
    Ok(ExitStatus::Success)
}
