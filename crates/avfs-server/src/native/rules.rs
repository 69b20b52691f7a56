//! The rules through which programs see the files of a sandbox or vault.

use agentvfs::rules::{OverruledRule, Rule, RuleExplanation, Rules};
use agentvfs::{Error, TreePath};
use axum::Json;
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::api::{About, Api};
use super::input::{Input, Words};
use super::subject::Subject;
use crate::auth::Scope;
use crate::problem::Problem;
use crate::service::{rule_list, shown, tree_path};

pub(super) fn routes(api: &mut Api, base: &str) {
    let place = format!("{base}/rules");
    let about = About::new("getRules", "List the rules for programs", Scope::Read).gives::<RulesBody>(200);
    api.route(Method::GET, &place, about, get);
    let about = About::new("setRules", "Replace the rules for programs", Scope::Admin);
    let about = about.takes::<SetRules>().gives::<RulesBody>(200);
    api.route(Method::PUT, &place, about, set);
    let about = About::new(
        "explainRules",
        "Tell which rule decides about a path, and which others are about it",
        Scope::Read,
    );
    let about = about.query::<ExplainWords>().gives::<ExplanationBody>(200);
    api.route(Method::GET, &format!("{place}/explain"), about, explain);
}

/// One rule, as it is written: `PATTERN=LEVEL` or `PATTERN=LEVEL@PRIORITY`.
#[derive(Serialize, JsonSchema)]
struct RuleBody {
    rule: String,
    /// Where it comes from, such as `preset development`.
    origin: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct RulesBody {
    /// `null`: there are none, and programs see everything.
    rules: Option<Vec<RuleBody>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SetRules {
    /// A preset whose rules come first: `agent-safe`, `development`, `read-only`, `view-only` or `full-access`.
    preset: Option<String>,
    /// `PATTERN=LEVEL` or `PATTERN=LEVEL@PRIORITY`. Without a preset, `null` removes all rules.
    rules: Option<Vec<String>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExplainWords {
    /// From the root of the files. Nothing has to be there.
    path: String,
}

/// What holds for a path, and why.
#[derive(Serialize, JsonSchema)]
struct ExplanationBody {
    path: String,
    /// `none`, `view`, `read` or `write`.
    level: &'static str,
    /// The rule that decides; nothing if none is about the path.
    rule: Option<RuleBody>,
    /// Rules that are about the path as well and do not decide.
    overruled: Vec<OverruledBody>,
}

#[derive(Serialize, JsonSchema)]
struct OverruledBody {
    rule: String,
    /// Why it does not decide.
    because: String,
}

impl From<&Rule> for RuleBody {
    fn from(rule: &Rule) -> RuleBody {
        RuleBody {
            rule: rule.to_string(),
            origin: Some(rule.origin.to_string()).filter(|origin| !origin.is_empty()),
        }
    }
}

fn body_of(rules: Option<&[Rule]>) -> RulesBody {
    RulesBody {
        rules: rules.map(|rules| rules.iter().map(RuleBody::from).collect()),
    }
}

async fn get(of: Subject) -> Result<Json<RulesBody>, Problem> {
    let rules = of.with_vault(|vault| Ok(vault.rules_for_programs()?)).await?;
    Ok(Json(body_of(rules.as_deref())))
}

async fn set(of: Subject, Input(asked): Input<SetRules>) -> Result<Json<RulesBody>, Problem> {
    let SetRules { preset, rules } = asked;
    let stored = of.with_vault(move |vault| {
        let rules = rule_list(preset.as_deref(), rules.as_deref())?;
        vault.store_rules(rules.as_deref())?;
        Ok(rules)
    });
    Ok(Json(body_of(stored.await?.as_deref())))
}

async fn explain(of: Subject, Words(asked): Words<ExplainWords>) -> Result<Json<ExplanationBody>, Problem> {
    let shown = of.with_files(move |files| {
        let path = tree_path(&asked.path)?;
        let shown = |body: ExplanationBody| ExplanationBody {
            path: shown(&path),
            ..body
        };
        let rules = files.vault().rules_for_programs()?;
        let Some(rules) = rules.map(Rules::shared).transpose().map_err(Error::from)? else {
            return Ok(shown(everything()));
        };
        let reader = files.vault().reader()?;
        // What the caller does not see has no labels for it.
        let labels = |at: &TreePath| {
            reader
                .find(at)
                .map(|found| found.entry.meta.labels)
                .unwrap_or_default()
        };
        Ok(shown(body(&rules.explain(&path, labels))))
    });
    Ok(Json(shown.await?))
}

/// Without rules, programs see everything.
fn everything() -> ExplanationBody {
    ExplanationBody {
        path: String::new(),
        level: "write",
        rule: None,
        overruled: Vec::new(),
    }
}

fn body(explanation: &RuleExplanation) -> ExplanationBody {
    let overruled = |overruled: &OverruledRule| OverruledBody {
        rule: overruled.rule.to_string(),
        because: overruled.why.to_string(),
    };
    ExplanationBody {
        path: String::new(),
        level: explanation.level.as_str(),
        rule: explanation.deciding.as_ref().map(RuleBody::from),
        overruled: explanation.beaten.iter().map(overruled).collect(),
    }
}
