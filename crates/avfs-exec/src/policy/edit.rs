//! Rules to save that a person has edited: other words of the same command, and never fewer than tool and
//! subcommand.

use avfs_core::printable;

use super::PrefixRule;
use crate::classify::{Classification, Command, CommandPart, classify};

/// Why an edited rule is not saved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEdit {
    /// It has parts that only a shell could expand, or several commands.
    #[error("'{text}' is not the words of one command, all of them known")]
    NotWords {
        /// The words.
        text: String,
    },
    /// It does not begin with words of the command in question.
    #[error("nothing that was asked for begins with '{words}'")]
    Elsewhere {
        /// The words.
        words: String,
    },
    /// It names a tool that runs other programs, without saying which.
    #[error("'{words}' is wider than the command: it would allow whatever `{tool}` does")]
    TooWide {
        /// The words.
        words: String,
        /// The tool.
        tool: String,
    },
}

/// The rules to save for a command, where each edit replaces the rule whose beginning it is.
pub fn edit_rules(
    found: &Classification,
    rules: &[PrefixRule],
    edits: &[String],
) -> Result<Vec<PrefixRule>, BadEdit> {
    let mut edited = rules.to_vec();
    for text in edits {
        let words = words_of(text)?;
        let mut begun = 0;
        for (rule, own) in edited
            .iter_mut()
            .zip(rules)
            .filter(|(_, own)| own.prefix.starts_with(&words))
        {
            *rule = shortened(found, own, &words)?;
            begun += 1;
        }
        if begun == 0 {
            return Err(BadEdit::Elsewhere { words: shown(&words) });
        }
    }
    Ok(edited)
}

/// The words of an edit, parsed like the command itself.
fn words_of(text: &str) -> Result<Vec<String>, BadEdit> {
    let found = classify(&Command::Shell(text.to_owned()));
    match &found.parts[..] {
        [part] if part.complete && !part.firm && !part.prefix.is_empty() => Ok(part.prefix.clone()),
        _ => Err(BadEdit::NotWords {
            text: printable(text.as_bytes()),
        }),
    }
}

/// A rule with fewer words, as long as they still include the tool and the subcommand.
fn shortened(found: &Classification, own: &PrefixRule, words: &[String]) -> Result<PrefixRule, BadEdit> {
    if own.prefix.len() == words.len() {
        return Ok(own.clone());
    }
    let part = found.parts.iter().find(|part| part.prefix == own.prefix);
    match part {
        Some(part) if part.names.len() > 1 && says_subcommand(part, words) => Ok(PrefixRule {
            prefix: words.to_vec(),
            exact: false,
            ..own.clone()
        }),
        Some(_) | None => Err(BadEdit::TooWide {
            words: shown(words),
            tool: shown(&words[..1]),
        }),
    }
}

/// Whether all names occur in the words, in order.
fn says_subcommand(part: &CommandPart, words: &[String]) -> bool {
    let mut words = words.iter();
    part.names.iter().all(|name| words.any(|word| word == name))
}

fn shown(words: &[String]) -> String {
    printable(words.join(" ").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    /// The rules that are saved for `command` after `edits`.
    fn edited(command: &str, edits: &[&str]) -> Result<Vec<String>, BadEdit> {
        let found = classify(&Command::Shell(command.to_owned()));
        let edits: Vec<String> = edits.iter().map(|text| (*text).to_owned()).collect();
        let rules = edit_rules(&found, &Policy::built_in().rules_to_save(&found), &edits)?;
        Ok(rules
            .iter()
            .map(|rule| format!("{}{:?}", if rule.exact { "=" } else { "" }, rule.prefix))
            .collect())
    }

    #[test]
    fn an_edit_may_leave_out_arguments_but_not_the_subcommand() {
        assert_eq!(
            edited("git push origin main", &[]).unwrap(),
            [r#"=["git", "push", "origin", "main"]"#]
        );
        assert_eq!(
            edited("git push origin main", &["git push origin"]).unwrap(),
            [r#"["git", "push", "origin"]"#]
        );
        assert_eq!(
            edited("git push origin main", &["git push"]).unwrap(),
            [r#"["git", "push"]"#]
        );
        let same = edited("git push origin main", &["git push origin main"]).unwrap();
        assert_eq!(same, [r#"=["git", "push", "origin", "main"]"#]);
    }

    #[test]
    fn a_rule_wider_than_the_command_is_refused() {
        for (command, edit) in [
            ("git push origin main", "git"),
            ("gh pr create --fill", "gh pr"),
            ("curl https://example.com", "curl"),
            ("npm install left-pad", "npm"),
        ] {
            let refused = edited(command, &[edit]).unwrap_err();
            assert!(
                matches!(refused, BadEdit::TooWide { .. }),
                "{command}, {edit}: {refused}"
            );
        }
    }

    #[test]
    fn a_rule_for_another_command_is_refused() {
        for edit in ["git pull", "git push other", "ls", "git push origin main --force"] {
            let refused = edited("git push origin main", &[edit]).unwrap_err();
            assert!(matches!(refused, BadEdit::Elsewhere { .. }), "{edit}: {refused}");
        }
    }

    #[test]
    fn text_that_is_not_plain_words_is_refused() {
        for edit in ["", "git push; ls", "git $x", "git push > out", "git 'push"] {
            let refused = edited("git push origin main", &[edit]).unwrap_err();
            assert!(matches!(refused, BadEdit::NotWords { .. }), "{edit}: {refused}");
        }
    }

    #[test]
    fn each_part_is_edited_for_itself() {
        let rules = edited("git push origin main && npm ci --foreground-scripts", &["npm ci"]).unwrap();
        assert_eq!(
            rules,
            [r#"=["git", "push", "origin", "main"]"#, r#"["npm", "ci"]"#]
        );
    }
}
