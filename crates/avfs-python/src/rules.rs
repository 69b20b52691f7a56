//! Path rules and presets.

use agentvfs::TreePath;
use agentvfs::error::RulesError;
use agentvfs::rules::{Labels, Preset, Rule, RuleOrigin, Rules};
use pyo3::prelude::*;
use std::ffi::OsString;

use crate::errors::raised;
use crate::paths::tree_path;

/// A rule as values: pattern, level, priority, and where it comes from.
pub type RuleParts = (String, &'static str, i32, String);

/// A rule as one text, `PATTERN=LEVEL` or `PATTERN=LEVEL@PRIORITY`, and where it comes from.
pub type RuleText = (String, String);

/// The rules of texts. Those of a preset of the library are its own, which may be about labels that nobody else can write.
pub fn parse(texts: &[RuleText]) -> agentvfs::Result<Vec<Rule>> {
    texts.iter().map(|(text, origin)| rule(text, origin)).collect()
}

fn rule(text: &str, origin: &str) -> agentvfs::Result<Rule> {
    let of_preset = Preset::ALL.iter().flat_map(|preset| preset.rules());
    let mut same = of_preset.filter(|rule| rule.origin.as_str() == origin && rule.to_string() == text);
    if let Some(rule) = same.next() {
        return Ok(rule);
    }
    let rule = agentvfs::rules::line("rule", text)?;
    Ok(if origin.is_empty() {
        rule
    } else {
        rule.with_origin(RuleOrigin::new(origin))
    })
}

/// Rules that are ready to decide.
pub fn ready(texts: &[RuleText]) -> agentvfs::Result<Rules> {
    Rules::shared(parse(texts)?).map_err(|error| RulesError::from(error).into())
}

/// Checks a rule and takes it apart.
#[pyfunction]
pub fn parse_rule(py: Python<'_>, text: &str, origin: &str) -> PyResult<RuleParts> {
    let rule = rule(text, origin).map_err(|error| raised(py, &error))?;
    Ok(parts(&rule))
}

/// The names of the presets that come with the library, and what they are for.
#[pyfunction]
pub fn presets() -> Vec<(&'static str, &'static str)> {
    Preset::ALL
        .iter()
        .map(|preset| (preset.name(), preset.description()))
        .collect()
}

/// The rules of a preset.
#[pyfunction]
pub fn preset_rules(py: Python<'_>, name: &str) -> PyResult<Vec<RuleParts>> {
    let preset = agentvfs::rules::preset("preset", name).map_err(|error| raised(py, &error))?;
    Ok(preset.rules().iter().map(parts).collect())
}

/// The level of a path, and the rule that decides it.
#[pyfunction]
pub fn explain(
    py: Python<'_>,
    lines: Vec<RuleText>,
    path: OsString,
) -> PyResult<(&'static str, Option<RuleParts>)> {
    let found = tree_path(&path).and_then(|path| Ok(explained(&ready(&lines)?, &path)));
    found.map_err(|error| raised(py, &error))
}

/// The level that rules give a path, and the rule that decides it.
pub fn explained(rules: &Rules, path: &TreePath) -> (&'static str, Option<RuleParts>) {
    let explanation = rules.explain(path, |_| Labels::default());
    (
        explanation.level.as_str(),
        explanation.deciding.as_ref().map(parts),
    )
}

fn parts(rule: &Rule) -> RuleParts {
    let origin = rule.origin.as_str().to_owned();
    (
        rule.subject.to_string(),
        rule.level.as_str(),
        rule.priority,
        origin,
    )
}
