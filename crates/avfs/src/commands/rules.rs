//! `avfs rules`: which operations are allowed on which paths.

mod apply;
mod check;
mod explain;
mod hidden;
mod in_force;
mod list;
mod presets;
mod set;
mod show;

use agentvfs::rules::Rule;
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::escape::printable;
use crate::exit::ExitStatus;
use crate::printer::{PrintError, Printer};
use crate::rule_args::RuleArgs;

pub use hidden::{HiddenBody, hidden_bodies};

/// Check, explain, store and apply path rules
#[derive(Debug, clap::Subcommand)]
pub enum RulesCommand {
    Check(check::RulesCheckArgs),
    List(list::RulesListArgs),
    Explain(explain::ExplainArgs),
    Hidden(hidden::HiddenArgs),
    Presets(presets::PresetsArgs),
    Set(set::RulesSetArgs),
    Show(show::RulesShowArgs),
    Apply(apply::RulesApplyArgs),
}

impl RulesCommand {
    pub fn rule_args(&self) -> Option<&RuleArgs> {
        match self {
            RulesCommand::List(args) => Some(&args.rules),
            RulesCommand::Explain(args) => Some(&args.rules),
            RulesCommand::Hidden(args) => Some(&args.rules),
            RulesCommand::Set(args) => Some(&args.rules),
            RulesCommand::Apply(args) => Some(&args.rules),
            RulesCommand::Check(_) | RulesCommand::Presets(_) | RulesCommand::Show(_) => None,
        }
    }
}

pub fn run(context: &mut Context<'_>, command: &RulesCommand) -> Result<ExitStatus> {
    match command {
        RulesCommand::Check(args) => check::run(context, args),
        RulesCommand::List(args) => list::run(context, args),
        RulesCommand::Explain(args) => explain::run(context, args),
        RulesCommand::Hidden(args) => hidden::run(context, args),
        RulesCommand::Presets(args) => presets::run(context, args),
        RulesCommand::Set(args) => set::run(context, args),
        RulesCommand::Show(args) => show::run(context, args),
        RulesCommand::Apply(args) => apply::run(context, args),
    }
}

/// A rule in JSON.
#[derive(Serialize)]
struct ListedRuleBody {
    /// As it is written.
    rule: String,
    subject: String,
    level: &'static str,
    priority: i32,
    /// Its origin; none if unknown.
    origin: Option<String>,
}

impl From<&Rule> for ListedRuleBody {
    fn from(rule: &Rule) -> ListedRuleBody {
        ListedRuleBody {
            rule: rule.to_string(),
            subject: rule.subject.to_string(),
            level: rule.level.as_str(),
            priority: rule.priority,
            origin: Some(rule.origin.to_string()).filter(|origin| !origin.is_empty()),
        }
    }
}

fn bodies(rules: &[Rule]) -> Vec<ListedRuleBody> {
    rules.iter().map(ListedRuleBody::from).collect()
}

/// One rule per line, followed by its origin.
fn print_rules(out: &mut Printer, rules: &[Rule]) -> Result<(), PrintError> {
    let texts: Vec<String> = rules
        .iter()
        .map(|rule| printable(rule.to_string().as_bytes()))
        .collect();
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    for (text, rule) in texts.iter().zip(rules) {
        match rule.origin.as_str() {
            "" => out.line(text)?,
            origin => out.line(format_args!("{text:<width$}  {}", printable(origin.as_bytes())))?,
        }
    }
    Ok(())
}
