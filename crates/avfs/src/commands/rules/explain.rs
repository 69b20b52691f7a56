//! `avfs rules explain`: which rule decides about a path, and why.

use agentvfs::rules::{Beaten, Explanation, Labels, Origin, Rule, Rules};
use agentvfs::{ReadError, TreeReader};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use super::RuleBody;
use super::in_force::InForce;
use crate::args::vault_path;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::json::PathField;
use crate::rule_args::RuleArgs;

/// Say which rule decides about a path, and which others do not and why
#[derive(Debug, clap::Args)]
#[command(after_help = "The path need not exist. If a vault is chosen, the labels in its present state
count; without any vault, rules about labels decide nothing.

Examples:
  avfs rules explain /src/.env
  avfs rules explain --preset agent-safe /output/report.md /src/main.rs")]
pub struct ExplainArgs {
    #[arg(value_name = "PATH", required = true, value_parser = vault_path())]
    paths: Vec<TreePath>,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct ExplainBody {
    /// The only one is told here as well.
    #[serde(flatten)]
    only: Option<ExplanationBody>,
    explanations: Vec<ExplanationBody>,
}

#[derive(Serialize)]
struct ExplanationBody {
    #[serde(flatten)]
    path: PathField,
    level: &'static str,
    /// The rule that decides, as it is written; none if no rule is about the path.
    rule: Option<String>,
    deciding: Option<RuleBody>,
    /// Which of the alternatives of its pattern matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    through: Option<String>,
    beaten: Vec<BeatenBody>,
}

#[derive(Serialize)]
struct BeatenBody {
    #[serde(flatten)]
    rule: RuleBody,
    why: String,
}

pub fn run(context: &mut Context<'_>, args: &ExplainArgs) -> Result<ExitStatus> {
    let in_force = InForce::find(context, &args.rules)?;
    let rules = match in_force.rules {
        Some(rules) => rules,
        None => without_rules()?,
    };
    let reader = in_force.vault.map(|vault| vault.reader()).transpose()?;
    // A label of something hidden would tell a run that it is there.
    let reader = match context.is_alone() {
        true => reader.map(|reader| reader.through(rules.clone())),
        false => reader,
    };
    let explained: Vec<Explanation> =
        args.paths.iter().map(|path| explain(&rules, path, reader.as_ref())).collect::<Result<_>>()?;
    if context.out.is_json() {
        let bodies: Vec<ExplanationBody> = explained.iter().map(body).collect();
        let only = explained.first().filter(|_| explained.len() == 1).map(body);
        context.out.object("rules-explain", &ExplainBody { only, explanations: bodies })?;
        return Ok(ExitStatus::Success);
    }
    for (index, explanation) in explained.iter().enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        context.out.line(format_args!("{gap}{explanation}"))?;
    }
    Ok(ExitStatus::Success)
}

fn without_rules() -> Result<Rules> {
    let everything = Rule::parse("/**=write")?.with_origin(Origin::new("there are no rules"));
    Ok(Rules::new(vec![everything]).map_err(agentvfs::Error::from)?)
}

fn explain(rules: &Rules, path: &TreePath, reader: Option<&TreeReader>) -> Result<Explanation> {
    let mut failed = None;
    let failure = std::cell::RefCell::new(&mut failed);
    let explanation = rules.explain(path, |at| match reader.map(|reader| reader.find(at)) {
        Some(Ok(found)) => found.entry.meta.labels,
        Some(Err(error @ ReadError::Object { .. })) => {
            failure.borrow_mut().get_or_insert(error);
            Labels::default()
        }
        Some(Err(_)) | None => Labels::default(),
    });
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(explanation),
    }
}

fn body(explanation: &Explanation) -> ExplanationBody {
    let beaten = |beaten: &Beaten| BeatenBody { rule: (&beaten.rule).into(), why: beaten.why.to_string() };
    ExplanationBody {
        path: (&explanation.path).into(),
        level: explanation.level.as_str(),
        rule: explanation.deciding.as_ref().map(Rule::to_string),
        deciding: explanation.deciding.as_ref().map(RuleBody::from),
        through: explanation.through.clone(),
        beaten: explanation.beaten.iter().map(beaten).collect(),
    }
}
