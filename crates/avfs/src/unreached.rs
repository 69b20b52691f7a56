//! Messages about the network requests of a run that were refused.

use std::ffi::OsStr;

use agentvfs::exec::RefusalBody;
use agentvfs::exec::sandbox::network::{Refusal, group_of};
use avfs_core::shell_word;
use serde_json::Value;

/// A place that was not reached.
#[derive(Clone, Copy)]
pub struct Unreached<'a> {
    target: &'a str,
    reason: &'a str,
    count: u64,
    allow: Option<&'a str>,
}

impl<'a> From<&'a RefusalBody> for Unreached<'a> {
    fn from(refusal: &'a RefusalBody) -> Unreached<'a> {
        let RefusalBody {
            target,
            reason,
            count,
            allow,
        } = refusal;
        Unreached {
            target,
            reason,
            count: *count,
            allow: allow.as_deref(),
        }
    }
}

impl<'a> From<&'a Value> for Unreached<'a> {
    /// As another process has written it.
    fn from(refusal: &'a Value) -> Unreached<'a> {
        Unreached {
            target: refusal["target"].as_str().unwrap_or_default(),
            reason: refusal["reason"].as_str().unwrap_or_default(),
            count: refusal["count"].as_u64().unwrap_or(1),
            allow: refusal["allow"].as_str(),
        }
    }
}

/// One line for each target, and one with the command to repeat with access: `again` is the command with the
/// flag in it.
pub fn lines(refusals: &[Unreached<'_>], again: impl FnOnce(&str) -> String) -> Vec<String> {
    let mut lines: Vec<String> = refusals.iter().map(line).collect();
    let mut allow: Vec<&str> = Vec::new();
    for flag in refusals.iter().filter_map(|refusal| refusal.allow) {
        if !allow.contains(&flag) {
            allow.push(flag);
        }
    }
    if !allow.is_empty() {
        lines.push(format!("allow: {}", again(&allow.join(","))));
    }
    let mut groups: Vec<String> = allow
        .iter()
        .filter_map(|flag| group_of(flag.trim_start_matches('+')))
        .map(|group| format!("+{}", group.name))
        .collect();
    groups.dedup();
    if !groups.is_empty() {
        lines.push(format!(
            "       with --net {}, what belongs to it as well",
            groups.join(",")
        ));
    }
    lines
}

/// The message about a request that a program repeats over and over, while it does.
pub fn frequent(refusal: &Refusal) -> String {
    let Refusal {
        target,
        because,
        allow,
        ..
    } = refusal;
    let target = agentvfs::printable(target.as_bytes());
    let allow = allow.as_deref().map(|flag| {
        let group = group_of(flag.trim_start_matches('+'));
        format!(
            ": --net {}",
            group.map_or_else(|| flag.to_owned(), |group| format!("+{}", group.name))
        )
    });
    format!(
        "{target} is not reached ({}), and is requested again and again{}",
        because.code(),
        allow.unwrap_or_default()
    )
}

fn line(refusal: &Unreached<'_>) -> String {
    let Unreached {
        target,
        reason,
        count,
        ..
    } = refusal;
    let target = if target.is_empty() {
        "a request without a host"
    } else {
        target
    };
    let (target, reason) = (
        agentvfs::printable(target.as_bytes()),
        agentvfs::printable(reason.as_bytes()),
    );
    match count {
        1 => format!("not reached: {target} ({reason})"),
        count => format!("not reached: {target} ({reason}, {count} times)"),
    }
}

/// A word of a command as it is typed. Characters that cannot be typed are shown in its place.
pub fn typed(word: &OsStr) -> String {
    match word.to_str().filter(|text| !text.chars().any(char::is_control)) {
        Some(text) => text.to_owned(),
        None => crate::escape::printable_os(word),
    }
}

/// Words as a shell has to be given them.
pub fn quoted(words: &[String]) -> String {
    words
        .iter()
        .map(|word| shell_word(word))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_with_what_would_allow_them() {
        let refusal = |target, reason, count, allow| Unreached {
            target,
            reason,
            count,
            allow,
        };
        let refusals = [
            refusal(
                "registry.npmjs.org:443",
                "host_not_listed",
                3,
                Some("+registry.npmjs.org"),
            ),
            refusal(
                "registry.npmjs.org:80",
                "host_not_listed",
                1,
                Some("+registry.npmjs.org"),
            ),
            refusal("gone.example:443", "resolve_failed", 1, None),
        ];
        let told = lines(&refusals, |net| format!("avfs run --net {net} -- npm ci"));
        assert_eq!(
            told,
            [
                "not reached: registry.npmjs.org:443 (host_not_listed, 3 times)",
                "not reached: registry.npmjs.org:80 (host_not_listed)",
                "not reached: gone.example:443 (resolve_failed)",
                "allow: avfs run --net +registry.npmjs.org -- npm ci",
                "       with --net +npm, what belongs to it as well",
            ]
        );
        assert_eq!(lines(&refusals[2..], |_| unreachable!()).len(), 1);
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_read_more_than_a_word() {
        let words = ["npm", "run", "a b", "it's", "", "[::1]:80"].map(str::to_owned);
        assert_eq!(quoted(&words), "npm run 'a b' 'it'\\''s' '' '[::1]:80'");
    }
}
