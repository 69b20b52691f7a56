//! The command line as a whole: global flags, help, and how arguments are read.

use std::ffi::OsString;
use std::fmt::Write;

use clap::builder::{StyledStr, Styles};
use clap::{CommandFactory, FromArgMatches, Parser};

use crate::commands::{Command, CommonCommand};
use crate::exit::ExitStatus;
use crate::global_args::{ColorArg, GlobalArgs};
use crate::printer::HEADING;
use crate::slips;

/// Workspaces for AI agents: fork, change, compare, keep or undo
///
/// A vault is a durable, writable workspace. Every change leaves a snapshot, a fork costs nothing until it
/// is changed, and nothing touches your own files until you export it.
#[derive(Debug, Parser)]
#[command(
    name = "avfs",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = false
)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// The headings of the top-level help, in the order in which a newcomer needs them.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Tasks",
        &[
            "run",
            "status",
            "tasks",
            "task",
            #[cfg(feature = "review")]
            "review",
            "apply",
            "discard",
            "sync",
            "fork",
            "compare",
            "workspace",
            "project",
            "profiles",
        ],
    ),
    ("Vaults", &["vault", "image"]),
    (
        "Files",
        &[
            "ls", "cat", "write", "mkdir", "cp", "mv", "rm", "ln", "chmod", "touch", "stat", "tree",
        ],
    ),
    (
        "Versions",
        &[
            "checkpoint",
            "log",
            "diff",
            "checkout",
            "revert",
            "undo",
            "redo",
            "merge",
            "conflicts",
            "resolve",
        ],
    ),
    ("Search", &["grep", "find", "search"]),
    (
        "Running commands",
        &["exec", "session", "approvals", "proxy", "policy"],
    ),
    ("Agents", &["quickstart", "setup", "mcp", "hook"]),
    #[cfg(feature = "server")]
    ("Server", &["serve", "token", "sandbox"]),
    ("Rules", &["rules", "label"]),
    ("Mounts", &["mount", "unmount", "mounts", "doctor"]),
    ("In and out", &["import", "export"]),
    ("Upkeep", &["stats", "quota", "audit", "gc", "prune", "fsck"]),
    ("Settings", &["config", "completions", "man"]),
];

impl Cli {
    pub fn read(
        arguments: impl Iterator<Item = OsString>,
        color: Option<ColorArg>,
    ) -> Result<Cli, clap::Error> {
        let choice = match color {
            None | Some(ColorArg::Auto) => clap::ColorChoice::Auto,
            Some(ColorArg::Always) => clap::ColorChoice::Always,
            Some(ColorArg::Never) => clap::ColorChoice::Never,
        };
        let arguments: Vec<OsString> = arguments.collect();
        if let Some(common) = Common::read(&arguments) {
            return Ok(Cli {
                global: common.global,
                command: common.command.into(),
            });
        }
        let mut command = Cli::definition().color(choice);
        let matches = command
            .try_get_matches_from_mut(arguments.clone())
            .map_err(|error| slips::suggested(error, &command, &arguments))?;
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }

    /// The complete definition: parsing, help, completions and man pages all come from it.
    pub fn definition() -> clap::Command {
        let command = Cli::command().styles(STYLES).max_term_width(100);
        let template = top_template(&command);
        command.help_template(template).after_long_help(exit_statuses())
    }
}

/// The commands that programs call over and over, with only their own definitions: building the definition of
/// all commands takes longer than some of them take to run.
#[derive(Debug, Parser)]
#[command(name = "avfs")]
struct Common {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: CommonCommand,
}

impl Common {
    /// Nothing if it is not plainly one of them: help and mistakes are for the whole definition.
    fn read(arguments: &[OsString]) -> Option<Common> {
        let named = arguments
            .iter()
            .any(|word| CommonCommand::NAMES.iter().any(|name| word == name));
        named.then(|| Common::try_parse_from(arguments).ok()).flatten()
    }
}

const STYLES: Styles = Styles::styled()
    .header(HEADING)
    .usage(HEADING)
    .literal(anstyle::Style::new().bold());

/// clap supports one list of subcommands; ours is long enough to need headings.
fn top_template(command: &clap::Command) -> StyledStr {
    let mut text = StyledStr::new();
    let bold = STYLES.get_literal();
    text.push("{about-with-newline}\n{usage-heading} {usage}\n\n");
    let has_member = |names: &[&str]| names.iter().any(|name| command.find_subcommand(name).is_some());
    for (heading, names) in GROUPS.iter().filter(|(_, names)| has_member(names)) {
        text.push(&format!("{HEADING}{heading}:{HEADING:#}\n"));
        for member in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = member.get_about().map(ToString::to_string).unwrap_or_default();
            text.push(&format!("  {bold}{:<12}{bold:#} {about}\n", member.get_name()));
        }
        text.push("\n");
    }
    text.push(&format!(
        "{HEADING}Options:{HEADING:#}\n{{options}}{{after-help}}"
    ));
    text
}

trait Push {
    fn push(&mut self, text: &str);
}

impl Push for StyledStr {
    fn push(&mut self, text: &str) {
        self.write_str(text).expect("a string in memory takes all text");
    }
}

fn exit_statuses() -> StyledStr {
    let mut text = StyledStr::new();
    text.push(&format!("{HEADING}Exit status:{HEADING:#}\n"));
    for status in ExitStatus::ALL {
        text.push(&format!("  {:>3}  {}\n", status.number(), status.meaning()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::global_args::EarlyFlags;

    #[test]
    fn the_definition_is_sound() {
        Cli::definition().debug_assert();
    }

    /// The words of an example as a shell reads them, up to the end of the first command of the line; `None`
    /// if it contains more than words.
    fn typed(line: &str) -> Option<Vec<String>> {
        let line = line.split("    ").next().unwrap_or(line).trim();
        if !line.starts_with("avfs ") || line.contains('$') {
            return None;
        }
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for c in line.chars() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '\'' | '"') => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (None, '|' | '&' | '>' | '<') => break,
                (None, ' ') => words.extend(word.take()),
                (_, c) => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        Some(words)
    }

    #[test]
    fn examples_can_be_typed() {
        let mut read = 0;
        let mut all: Vec<clap::Command> = vec![Cli::command()];
        while let Some(command) = all.pop() {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let examples = help.split("Examples:\n").nth(1).unwrap_or_default();
            for words in examples.lines().filter_map(typed) {
                let outcome = Cli::try_parse_from(&words);
                assert!(
                    outcome.is_ok(),
                    "{}: {words:?}: {}",
                    command.get_name(),
                    outcome.unwrap_err()
                );
                read += 1;
            }
            all.extend(command.get_subcommands().cloned());
        }
        assert!(read > 200, "{read}");
    }

    #[test]
    fn every_command_has_examples() {
        fn check(command: &clap::Command) {
            if command.get_subcommands().next().is_none() {
                let examples = command
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(examples.contains("Examples:\n  "), "{}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::definition());
    }

    #[test]
    fn a_common_command_is_read_as_the_whole_definition_reads_it() {
        for line in [
            "avfs exec -- true",
            "avfs --json --vault web exec --timeout 5 --net none -c ls",
            "avfs exec --vault web --preset development --quiet -- sh -c true --json",
            "avfs run --name fix -- make",
            "avfs session exec s1 -c pwd",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let common = Common::read(&words).expect(line);
            let matches = Cli::definition().try_get_matches_from(words).expect(line);
            let whole = Cli::from_arg_matches(&matches).expect(line);
            let common = Cli {
                global: common.global,
                command: common.command.into(),
            };
            assert_eq!(format!("{common:?}"), format!("{whole:?}"));
        }
    }

    #[test]
    fn uncommon_command_is_left_to_the_whole_definition() {
        for line in [
            "avfs ls exec",
            "avfs exec --help",
            "avfs exec --nonsense",
            "avfs help exec",
            "avfs ls",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert!(Common::read(&words).is_none(), "{line}");
        }
    }

    #[track_caller]
    fn check(line: &str, accepted: bool) {
        let read = Cli::read(line.split(' ').map(OsString::from), None);
        assert_eq!(read.is_ok(), accepted, "{line}: {read:?}");
    }

    #[test]
    fn lines_are_read_as_users_write_them() {
        for line in [
            "avfs vault fork web fix --use --at v1",
            "avfs vault fork web fix --count 8",
            "avfs vault delete web --yes",
            "avfs ls -laR src --vault web",
            "avfs cat a --lines 1:2",
            "avfs write notes.txt text --append --expect 12ab",
            "avfs cp -r a b c",
            "avfs chmod -R u+x,go-w src",
            "avfs tree -d -L 2",
            "avfs export out.tar",
            "avfs export src out.tar",
            "avfs import -",
            "avfs vault create web --from /tmp/web",
            "avfs touch -d 2d a",
            "avfs exec ls -la --color",
            "avfs exec -- -odd --name",
        ] {
            check(line, true);
        }
    }

    #[test]
    fn lines_with_a_mistake_are_refused() {
        for line in [
            "avfs ls a/../b",
            "avfs cat",
            "avfs cat a --lines 1:2 --bytes 1:2",
            "avfs vault fork web fix --count 0",
            "avfs cp a",
            "avfs vault fork web fix --count 10001",
            "avfs chmod 999 a",
            "avfs export",
            "avfs touch -d soon a",
            "avfs exec --tiemout 5 -- true",
            "avfs run --nmae fix -- make",
            "avfs policy check --jsno -- ls",
        ] {
            check(line, false);
        }
    }

    /// The commands at the ends of the tree, with the words that lead to them.
    fn leaves(command: &clap::Command, words: &str, found: &mut Vec<(String, clap::Command)>) {
        for inner in command.get_subcommands() {
            let words = format!("{words} {}", inner.get_name()).trim().to_owned();
            leaves(inner, &words, found);
            if !inner.is_subcommand_required_set() {
                found.push((words, inner.clone()));
            }
        }
    }

    #[test]
    fn every_command_takes_rules_or_is_listed_with_its_reason() {
        let page = include_str!("../../../docs/cli.md");
        let (_, rest) = page
            .split_once("These commands do not take them")
            .expect("the list of the page");
        let list = rest.split_once("\n## ").map_or(rest, |(list, _)| list);
        let items = list.lines().filter_map(|line| line.strip_prefix("- "));
        let mut listed: Vec<&str> = Vec::new();
        for item in items {
            let (names, reason) = item.split_once(": ").expect("a reason behind the names");
            assert!(reason.len() > 10, "{item}");
            listed.extend(names.split(", ").map(|name| name.trim_matches('`')));
        }
        let mut all = Vec::new();
        leaves(&Cli::definition(), "", &mut all);
        let takes = |command: &clap::Command| {
            ["rule", "preset", "rules", "no_rules"]
                .iter()
                .all(|flag| command.get_arguments().any(|argument| argument.get_id() == flag))
        };
        let mut without: Vec<&str> = all
            .iter()
            .filter(|(_, command)| !takes(command))
            .map(|(words, _)| words.as_str())
            .collect();
        listed.sort_unstable();
        without.sort_unstable();
        assert_eq!(listed, without);
        assert!(all.len() - without.len() > 20, "{without:?}");
    }

    #[test]
    fn every_command_has_one_heading() {
        for command in Cli::definition().get_subcommands() {
            let name = command.get_name();
            let listed = GROUPS.iter().filter(|(_, names)| names.contains(&name)).count();
            assert_eq!(listed, 1, "{name}");
        }
    }

    #[test]
    fn early_flags_are_seen_in_any_place_before_a_double_dash() {
        let scan = |line: &str| EarlyFlags::scan(line.split(' ').map(OsString::from));
        let json = EarlyFlags {
            json: true,
            ..EarlyFlags::default()
        };
        assert_eq!(scan("nonsense --json"), json);
        assert_eq!(scan("write f -- --json"), EarlyFlags::default());
        assert_eq!(scan("--color=never ls").color, Some(ColorArg::Never));
        assert_eq!(
            scan("ls --color always -q --no-pager"),
            EarlyFlags {
                color: Some(ColorArg::Always),
                json: false,
                quiet: true,
                no_pager: true
            }
        );
        assert_eq!(scan("--color pink").color, None);
    }
}
