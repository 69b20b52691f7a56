//! `avfs rules explain`: which rule decides about a path, and why.

use agentvfs::rules::{Labels, OverruledRule, Rule, RuleExplanation, RuleOrigin, Rules};
use agentvfs::{ReadError, TreeReader};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use super::ListedRuleBody;
use super::in_force::InForce;
use crate::args::{PathArg, path_arg};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::json::PathField;
use crate::rule_args::RuleArgs;

/// Explain which rule decides about a path, and why others do not
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The path need not exist. Without flags, the rules are those that are stored with the
vault; in a task, those that programs run with; in a project without a chosen task,
those of a new task. If a vault is chosen, the labels in its current state count.

Examples:
  avfs rules explain /src/.env
  avfs rules explain --preset agent-safe /output/report.md /src/main.rs"
)]
pub struct ExplainArgs {
    /// The paths to explain
    #[arg(value_name = "PATH", required = true, value_parser = path_arg())]
    paths: Vec<PathArg>,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct ExplainBody {
    /// The only one is repeated here.
    #[serde(flatten)]
    only: Option<ExplanationBody>,
    explanations: Vec<ExplanationBody>,
}

#[derive(Serialize)]
struct ExplanationBody {
    #[serde(flatten)]
    path: PathField,
    level: &'static str,
    /// The deciding rule, as it is written; none if no rule matches the path.
    rule: Option<String>,
    deciding: Option<ListedRuleBody>,
    /// Which of the alternatives of its pattern matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    through: Option<String>,
    beaten: Vec<BeatenBody>,
}

#[derive(Serialize)]
struct BeatenBody {
    #[serde(flatten)]
    rule: ListedRuleBody,
    why: String,
}

pub fn run(context: &mut Context<'_>, args: &ExplainArgs) -> Result<ExitStatus> {
    let in_force = InForce::find(context, &args.rules)?;
    in_force.subject.tell(context.out);
    let rules = match in_force.rules {
        Some(rules) => rules,
        None => without_rules()?,
    };
    let paths = context.paths_in(in_force.vault.as_ref(), &args.paths)?;
    let reader = in_force.vault.map(|vault| vault.reader()).transpose()?;
    // A label of a hidden entry would reveal to a run that the entry exists.
    let reader = if context.is_alone() {
        reader.map(|reader| reader.through(rules.clone()))
    } else {
        reader
    };
    let explained: Vec<RuleExplanation> = paths
        .iter()
        .map(|path| explain(&rules, path, reader.as_ref()))
        .collect::<Result<_>>()?;
    if context.out.is_json() {
        let bodies: Vec<ExplanationBody> = explained.iter().map(body).collect();
        let only = explained.first().filter(|_| explained.len() == 1).map(body);
        context.out.object(
            "rules-explain",
            &ExplainBody {
                only,
                explanations: bodies,
            },
        )?;
        return Ok(ExitStatus::Success);
    }
    for (index, explanation) in explained.iter().enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        context.out.line(format_args!("{gap}{explanation}"))?;
    }
    Ok(ExitStatus::Success)
}

fn without_rules() -> Result<Rules> {
    let everything = Rule::parse("/**=write")?.with_origin(RuleOrigin::new("there are no rules"));
    Ok(Rules::new(vec![everything]).map_err(agentvfs::Error::from)?)
}

fn explain(rules: &Rules, path: &TreePath, reader: Option<&TreeReader>) -> Result<RuleExplanation> {
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

fn body(explanation: &RuleExplanation) -> ExplanationBody {
    let beaten = |beaten: &OverruledRule| BeatenBody {
        rule: (&beaten.rule).into(),
        why: beaten.why.to_string(),
    };
    ExplanationBody {
        path: (&explanation.path).into(),
        level: explanation.level.as_str(),
        rule: explanation.deciding.as_ref().map(Rule::to_string),
        deciding: explanation.deciding.as_ref().map(ListedRuleBody::from),
        through: explanation.alternative.clone(),
        beaten: explanation.beaten.iter().map(beaten).collect(),
    }
}
