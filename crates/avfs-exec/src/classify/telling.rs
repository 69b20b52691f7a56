//! Words that indicate the effect of a subcommand without a table: `publish` gives something to others and
//! `destroy` removes something, whatever the tool is called.

use super::class::{Class, Classes};
use super::readings;
use super::script::ShellWord;
use super::tools::ToolSpec;

/// Something is given to others, or done where others see it.
const GIVES: [&str; 23] = [
    "publish",
    "unpublish",
    "republish",
    "push",
    "deploy",
    "redeploy",
    "undeploy",
    "deploys",
    "deployments",
    "upload",
    "release",
    "releases",
    "submit",
    "promote",
    "distribute",
    "dcommit",
    "send",
    "broadcast",
    "login",
    "rollout",
    "apply",
    "trigger",
    "dispatch",
];
/// Something is downloaded, most often in order to run it. A program of the tree installs what it has built.
const FETCHES: [&str; 7] = [
    "install", "upgrade", "download", "fetch", "pull", "clone", "get-deps",
];
/// Something is removed, most often from a service.
const TAKES_FROM_OTHERS: [&str; 9] = [
    "delete",
    "destroy",
    "terminate",
    "deregister",
    "decommission",
    "teardown",
    "undeploy",
    "deprovision",
    "evict",
];
/// Something is removed, locally or elsewhere.
const TAKES: [&str; 22] = [
    "drop",
    "purge",
    "reset",
    "uninstall",
    "wipe",
    "erase",
    "nuke",
    "flush",
    "prune",
    "remove",
    "rm",
    "rollback",
    "clean",
    "clear",
    "gc",
    "forget",
    "del",
    "fresh",
    "revert",
    "downgrade",
    "unlink",
    "down",
];
/// Words after these are names: `mytool test release` runs the test of that name.
const NAMES_FOLLOW: [&str; 47] = [
    "build",
    "test",
    "check",
    "lint",
    "format",
    "fmt",
    "run",
    "exec",
    "start",
    "serve",
    "dev",
    "watch",
    "bench",
    "compile",
    "generate",
    "gen",
    "codegen",
    "new",
    "init",
    "add",
    "set",
    "make",
    "help",
    "show",
    "list",
    "ls",
    "get",
    "describe",
    "view",
    "search",
    "find",
    "explain",
    "info",
    "inspect",
    "status",
    "log",
    "logs",
    "diff",
    "doc",
    "docs",
    "validate",
    "verify",
    "config",
    "completion",
    "version",
    "cat",
    "audit",
];
/// Flags with the same meaning. `--release` is not one of them: it is a build mode.
const GIVING_FLAGS: [&str; 6] = [
    "--ssh",
    "--push",
    "--publish",
    "--upload",
    "--deploy",
    "--broadcast",
];
const TAKING_FLAGS: [&str; 7] = [
    "--delete",
    "--destroy",
    "--drop",
    "--purge",
    "--force-reset",
    "--wipe",
    "--expunge",
];

/// The number of consecutive words that are examined: a noun or two, and a verb.
const WORDS: usize = 3;

/// The effects that the words of a call indicate, with the word. All readings of unknown flags count.
pub(crate) fn told(arguments: &[ShellWord]) -> Vec<(Classes, String)> {
    if arguments
        .iter()
        .any(|word| matches!(word.literal(), Some("--help")))
    {
        return Vec::new();
    }
    let starts = readings::starts(arguments, &ToolSpec::default(), None);
    // `--mode release` is a build mode.
    let is_mode = |start: usize| start > 0 && arguments[start].literal() == Some("release");
    let starts = starts.into_iter().filter(|start| !is_mode(*start));
    let words = starts.flat_map(|start| plain(&arguments[start..]));
    let flags = arguments
        .iter()
        .filter_map(ShellWord::literal)
        .take_while(|word| *word != "--")
        .filter_map(by_flag);
    let mut told: Vec<(Classes, String)> = words.filter_map(by_word).chain(flags).collect();
    told.sort_by_key(|(classes, _)| std::cmp::Reverse(classes.worst()));
    told.dedup();
    told
}

/// The words up to the next flag that may indicate something.
fn plain(words: &[ShellWord]) -> Vec<&str> {
    let literal = words
        .iter()
        .map_while(ShellWord::literal)
        .take_while(|word| !word.starts_with('-'));
    let literal: Vec<&str> = literal.take(WORDS).collect();
    let names = literal
        .iter()
        .position(|word| NAMES_FOLLOW.contains(word))
        .unwrap_or(literal.len());
    literal[..names].to_vec()
}

fn by_word(word: &str) -> Option<(Classes, String)> {
    let classes: Classes = stems(word).map(classes_of).collect();
    (!classes.is_read_only()).then(|| (classes, word.to_owned()))
}

fn classes_of(stem: &str) -> Classes {
    let given = GIVES.contains(&stem) || TAKES_FROM_OTHERS.contains(&stem) || FETCHES.contains(&stem);
    let taken = TAKES.contains(&stem) || TAKES_FROM_OTHERS.contains(&stem);
    let class = |is: bool, class: Class| if is { class.into() } else { Classes::READ_ONLY };
    class(given, Class::Networked).and(class(taken, Class::Destructive))
}

/// `apps:destroy`, `vm.destroy`, `delete_queue`, `sql-drop` and `deployAll`: the word itself, the part after
/// its last colon or dot, and the first and last word of that. A slash makes it a file name, as does a file
/// extension after the dot; a `pre-release` is a noun.
fn stems(word: &str) -> impl Iterator<Item = &str> {
    let word = Some(word)
        .filter(|word| !word.contains(['/', '=', ' ']))
        .unwrap_or_default();
    let verb = word.rsplit([':', '.']).next().unwrap_or_default();
    let first = verb
        .split(|c: char| matches!(c, '-' | '_') || c.is_ascii_uppercase())
        .next()
        .unwrap_or_default();
    let last = verb.rsplit(['-', '_']).next().unwrap_or_default();
    let denied = matches!(first, "no" | "dry" | "pre" | "post" | "test" | "check");
    [
        verb,
        if denied { "" } else { first },
        if denied { "" } else { last },
    ]
    .into_iter()
}

/// Whether a word is also used for local builds: `./build release`, `./configure install`.
pub(crate) fn tells_of_builds(word: &str) -> bool {
    word == "release" || FETCHES.contains(&word)
}

/// The effect that the name of a program itself indicates, such as `telegram-send`.
pub(crate) fn by_name(name: &str) -> Option<(Classes, String)> {
    let gives = |word: &str| classes_of(word).contains(Class::Networked) && !tells_of_builds(word);
    let told = name.contains('-') && !name.contains('.') && stems(name).any(gives);
    told.then(|| (Class::Networked.into(), name.to_owned()))
}

fn by_flag(flag: &str) -> Option<(Classes, String)> {
    let name = flag.split('=').next().unwrap_or_default();
    let class = match name {
        name if GIVING_FLAGS.contains(&name) || name.starts_with("--upload-") => Class::Networked,
        name if TAKING_FLAGS.contains(&name) || name.starts_with("--delete-") => Class::Destructive,
        _ => return None,
    };
    Some((class.into(), flag.to_owned()))
}

/// Schemes of addresses that stay on this machine.
const LOCAL_SCHEMES: [&str; 7] = ["file", "sqlite", "sqlite3", "unix", "data", "memory", "jar"];
const THIS_MACHINE: [&str; 4] = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"];

/// An address among the words: a program that is given one contacts it.
pub(crate) fn address(arguments: &[ShellWord]) -> Option<&str> {
    let texts = arguments.iter().map(|word| word.text.as_str());
    let values = texts.map(|text| {
        text.split_once('=')
            .filter(|_| text.starts_with('-'))
            .map_or(text, |(_, value)| value)
    });
    values.into_iter().find(|text| is_far(text))
}

/// An address in a line of code.
pub(crate) fn address_in(code: &str) -> Option<&str> {
    let is_end =
        |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '(' | ')' | '<' | '>' | ',' | ';');
    code.split(is_end).find(|text| is_far(text))
}

fn is_far(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    is_scheme && !LOCAL_SCHEMES.contains(&scheme) && !THIS_MACHINE.iter().any(|here| host.starts_with(here))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(arguments: &str, expected: &str) {
        let words: Vec<ShellWord> = arguments.split_whitespace().map(ShellWord::exact).collect();
        let classes: Classes = told(&words).into_iter().map(|(classes, _)| classes).collect();
        assert_eq!(classes.to_string(), expected, "{arguments}");
    }

    #[test]
    fn the_verb_tells_wherever_a_subcommand_can_stand() {
        check("publish", "networked");
        check("--env prod publish", "networked");
        check("smart-release --execute", "networked");
        check("migrate fresh", "destructive");
        check("hex publish", "networked");
        check("-v sourcemaps upload dist", "networked");
        check("server delete x", "destructive+networked");
        check("vm.destroy x", "destructive+networked");
        check("deployAll", "networked");
        check("apps:destroy x", "destructive+networked");
        check("delete_queue q", "destructive+networked");
        check("db reset", "destructive");
        check("sql-drop -y", "destructive");
        check("-path m -database d drop -f", "destructive");
        check("--delete --topic x", "destructive");
        check("image --push", "networked");
        check("archive.install hex x", "networked");
        check("get-deps", "networked");
    }

    #[test]
    fn an_address_is_found_in_code() {
        assert_eq!(address_in("u.urlopen('http://x/y').read()"), Some("http://x/y"));
        assert_eq!(address_in("fetch(`https://x`)"), Some("https://x"));
        assert_eq!(address_in("fetch('http://localhost:3000')"), None);
        assert_eq!(address_in("a // b: c"), None);
    }

    #[test]
    fn an_address_leads_to_another_machine() {
        for text in [
            "https://example.com",
            "s3://bucket/x",
            "mailto://a",
            "--to=ssh://host",
            "postgres://u:p@db/x",
        ] {
            assert!(address(&[ShellWord::exact(text)]).is_some(), "{text}");
        }
        for text in [
            "http://localhost:3000",
            "postgres://u:p@127.0.0.1/x",
            "file:///x",
            "sqlite://x",
            "//app:push",
            "a",
            "x ://y",
        ] {
            assert!(address(&[ShellWord::exact(text)]).is_none(), "{text}");
        }
    }

    #[test]
    fn a_name_of_several_words_tells_as_well() {
        for name in ["telegram-send", "deploy-docs", "sagemaker-deploy"] {
            assert!(by_name(name).is_some(), "{name}");
        }
        for name in [
            "send",
            "deploy.sh",
            "deploy-docs.sh",
            "cut-release",
            "pre-push",
            "sendmail-x",
        ] {
            assert!(by_name(name).is_none(), "{name}");
        }
    }

    #[test]
    fn names_of_files_and_what_follows_a_build_tell_nothing() {
        for arguments in [
            "",
            "build",
            "build release",
            "test push",
            "add publish",
            "deploy.yaml",
            "publish.js",
            "docs/release.md",
            "build --release",
            "publish --help",
            "a b c push",
            "x=push",
            "pre-release",
            "--mode release",
            "no-push",
            "-- --push",
        ] {
            check(arguments, "read_only");
        }
    }
}
