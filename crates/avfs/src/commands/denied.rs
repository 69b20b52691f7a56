//! Refusals that lead to the rule: the way to ask for it names the same rules.

use crate::failure::Failure;
use crate::rule_args::RuleArgs;

/// How the library begins the hint to a refusal.
const EXPLAIN: &str = "`avfs rules explain ";

/// Makes the hint of a refusal one that can be typed: with the flags that the command had.
pub fn with_flags(error: anyhow::Error, rules: Option<&RuleArgs>, vault: Option<&str>) -> anyhow::Error {
    let vault = vault.map(|name| format!("--vault {name}"));
    let words: Vec<String> =
        vault.into_iter().chain(rules.map(RuleArgs::words).unwrap_or_default()).collect();
    let failure = Failure::of(&error);
    let rest = failure.hint.as_deref().and_then(|hint| hint.strip_prefix(EXPLAIN));
    match rest.filter(|_| !words.is_empty()) {
        Some(rest) => {
            let hint = format!("{EXPLAIN}{} {rest}", words.join(" "));
            failure.clone().hint(Some(hint)).into()
        }
        None => error,
    }
}
