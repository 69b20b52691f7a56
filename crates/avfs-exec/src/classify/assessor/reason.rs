//! Explanations of a part for people.

use super::Findings;
use crate::classify::arguments::ParsedArguments;
use crate::classify::class::Class;
use crate::classify::script::ShellWord;

/// The maximum length of a part's text, because people do not read a whole file on one line.
const LONGEST_TEXT: usize = 200;

pub(super) fn flag_findings(name: &str, arguments: &ParsedArguments<'_>) -> Findings {
    let effects = arguments
        .adds
        .iter()
        .filter(|(classes, _)| !classes.is_read_only());
    effects
        .map(|(classes, flag)| (*classes, format!("`{}` of `{name}`", shown(flag))))
        .collect()
}

pub(super) fn unknown(name: &str) -> String {
    if name.is_empty() {
        return "the effects of a program without a name are not known".to_owned();
    }
    format!("the effects of `{}` are not known", shown(name))
}

/// The reason for the default effect of a tool.
pub(super) fn ordinary(name: &str, class: Class) -> String {
    let does = match class {
        Class::ReadOnly => "changes nothing",
        Class::Mutating => "changes files, or runs code that may",
        Class::Destructive => "removes existing data",
        Class::Networked => "uses the network",
        Class::HostEscapeRisk => "reaches for the host, or runs code that cannot be examined",
    };
    format!("`{}` {does}", shown(name))
}

pub(super) fn text_of(words: &[ShellWord]) -> String {
    let mut text = String::new();
    for word in words {
        if text.len() > LONGEST_TEXT {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&word.shown());
    }
    text
}

/// One line that is safe on a terminal.
pub(crate) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(LONGEST_TEXT).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    avfs_core::printable(cut.as_bytes()) + more
}
