//! Words that tell what a subcommand does where no table tells it: `publish` gives something to others and `destroy`
//! takes something away, whatever the tool is called.

use super::class::{Class, Classes};
use super::readings;
use super::script::Word;
use super::tools::Spec;

/// Something is given to others, or done where others see it.
const GIVES: [&str; 20] = [
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
];
/// Something is taken away, most often from a service.
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
/// Something is taken away, here as well as elsewhere.
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
/// Words behind these are names: `mytool test release` runs the test of that name.
const NAMES_FOLLOW: [&str; 46] = [
    "build",
    "test",
    "check",
    "lint",
    "format",
    "fmt",
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
/// Flags that tell the same. `--release` is not one of them: it is how a build is made.
const GIVING_FLAGS: [&str; 5] = ["--push", "--publish", "--upload", "--deploy", "--broadcast"];
const TAKING_FLAGS: [&str; 7] =
    ["--delete", "--destroy", "--drop", "--purge", "--force-reset", "--wipe", "--expunge"];

/// Words that are looked at behind each other: a noun or two, and what is done with it.
const WORDS: usize = 3;

/// What the words of a call tell, and the word that tells it. All readings of flags that are not known count.
pub(crate) fn told(arguments: &[Word]) -> Vec<(Classes, String)> {
    if arguments.iter().any(|word| matches!(word.literal(), Some("--help"))) {
        return Vec::new();
    }
    let starts = readings::starts(arguments, &Spec::default(), None);
    // `--mode release` is how something is built.
    let is_mode = |start: usize| start > 0 && arguments[start].literal() == Some("release");
    let starts = starts.into_iter().filter(|start| !is_mode(*start));
    let words = starts.flat_map(|start| plain(&arguments[start..]));
    let flags =
        arguments.iter().filter_map(Word::literal).take_while(|word| *word != "--").filter_map(by_flag);
    let mut told: Vec<(Classes, String)> = words.filter_map(by_word).chain(flags).collect();
    told.sort_by_key(|(classes, _)| std::cmp::Reverse(classes.worst()));
    told.dedup();
    told
}

/// The words up to the next flag that may tell something.
fn plain(words: &[Word]) -> Vec<&str> {
    let literal = words.iter().map_while(Word::literal).take_while(|word| !word.starts_with('-'));
    let literal: Vec<&str> = literal.take(WORDS).collect();
    let names = literal.iter().position(|word| NAMES_FOLLOW.contains(word)).unwrap_or(literal.len());
    literal[..names].to_vec()
}

fn by_word(word: &str) -> Option<(Classes, String)> {
    let classes: Classes = stems(word).map(classes_of).collect();
    (!classes.is_read_only()).then(|| (classes, word.to_owned()))
}

fn classes_of(stem: &str) -> Classes {
    let given = GIVES.contains(&stem) || TAKES_FROM_OTHERS.contains(&stem);
    let taken = TAKES.contains(&stem) || TAKES_FROM_OTHERS.contains(&stem);
    let class = |is: bool, class: Class| if is { class.into() } else { Classes::READ_ONLY };
    class(given, Class::Networked).and(class(taken, Class::Destructive))
}

/// `apps:destroy`, `delete_queue`, `sql-drop` and `push-all`: the word itself, and what stands behind its last colon,
/// before a dash or behind one. A dot or a slash makes it the name of a file, and a `pre-release` is a kind of thing.
fn stems(word: &str) -> impl Iterator<Item = &str> {
    let word = Some(word).filter(|word| !word.contains(['/', '.', '=', ' '])).unwrap_or_default();
    let verb = word.rsplit(':').next().unwrap_or_default();
    let first = verb.split(['-', '_']).next().unwrap_or_default();
    let last = verb.rsplit(['-', '_']).next().unwrap_or_default();
    let denied = matches!(first, "no" | "dry" | "pre" | "post" | "test" | "check");
    [verb, if denied { "" } else { first }, if denied { "" } else { last }].into_iter()
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

/// Ways to name something on another machine.
const ADDRESSES: [&str; 14] = [
    "http://",
    "https://",
    "s3://",
    "gs://",
    "az://",
    "oci://",
    "docker://",
    "ftp://",
    "sftp://",
    "ssh://",
    "wss://",
    "ws://",
    "registry://",
    "library://",
];
const THIS_MACHINE: [&str; 4] = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"];

/// An address among the words: whoever gets one talks to it.
pub(crate) fn address(arguments: &[Word]) -> Option<&str> {
    let texts = arguments.iter().map(|word| word.text.as_str());
    let is_far = |rest: &str| !THIS_MACHINE.iter().any(|here| rest.starts_with(here));
    let is_address =
        |text: &&str| ADDRESSES.iter().any(|scheme| text.strip_prefix(scheme).is_some_and(is_far));
    texts.map(|text| text.rsplit_once('=').map_or(text, |(_, value)| value)).find(is_address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(arguments: &str, expected: &str) {
        let words: Vec<Word> = arguments.split_whitespace().map(Word::exact).collect();
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
        check("apps:destroy x", "destructive+networked");
        check("delete_queue q", "destructive+networked");
        check("db reset", "destructive");
        check("sql-drop -y", "destructive");
        check("-path m -database d drop -f", "destructive");
        check("--delete --topic x", "destructive");
        check("image --push", "networked");
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
