//! Hints that can be typed: with the flags that the command had.

use crate::failure::Failure;
use crate::rule_args::RuleArgs;

/// The beginning of the library's hint for a refusal, which names the same rules.
const EXPLAIN: &str = "`avfs rules explain ";

/// Commands about a vault that hints name.
const ABOUT_A_VAULT: [&str; 7] = [
    "`avfs checkpoint list`",
    "`avfs checkpoint save NAME`",
    "`avfs log`",
    "`avfs conflicts`",
    "`avfs checkout`",
    "`avfs quota show`",
    "`avfs quota set`",
];

/// Makes the hint of an error one that can be typed.
pub fn with_flags(error: anyhow::Error, rules: Option<&RuleArgs>, vault: Option<&str>) -> anyhow::Error {
    let failure = Failure::of(&error);
    let Some(hint) = &failure.hint else { return error };
    let flag = vault.map(|name| format!("--vault {name}"));
    let typed = match hint.strip_prefix(EXPLAIN) {
        Some(rest) => {
            let words = flag
                .into_iter()
                .chain(rules.map(RuleArgs::words).unwrap_or_default());
            let words: Vec<String> = words.chain([rest.to_owned()]).collect();
            format!("{EXPLAIN}{}", words.join(" "))
        }
        None => flag.map_or_else(|| hint.clone(), |flag| about_vault(hint, &flag)),
    };
    if typed == *hint {
        error
    } else {
        failure.hint(Some(typed)).into()
    }
}

fn about_vault(hint: &str, flag: &str) -> String {
    ABOUT_A_VAULT.iter().fold(hint.to_owned(), |hint, command| {
        let flagged = format!("{} {flag}`", command.trim_end_matches('`'));
        hint.replace(command, &flagged)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_about_the_vault_that_was_named() {
        let hint = "`avfs log` lists snapshots, `avfs checkpoint list` lists names";
        let flagged =
            "`avfs log --vault web` lists snapshots, `avfs checkpoint list --vault web` lists names";
        assert_eq!(about_vault(hint, "--vault web"), flagged);
        assert_eq!(
            about_vault("`avfs vault list` lists the vaults", "--vault web"),
            "`avfs vault list` lists the vaults"
        );
    }
}
