//! The command line as a whole: global flags, help, and how arguments are read.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::PathBuf;

use clap::builder::{StyledStr, Styles};
use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum};

use crate::commands::{Command, CommonCommand};
use crate::exit::ExitStatus;
use crate::printer::{HEADING, Manner};
use crate::settings::ColorWhen;

/// Workspaces for AI agents: fork, change, compare, keep or undo
///
/// A vault is a durable, writable workspace. Every change leaves a snapshot, a fork costs nothing until it
/// is changed, and nothing touches your own files until you export it.
#[derive(Debug, Parser)]
#[command(name = "avfs", version, arg_required_else_help = true, disable_help_subcommand = false)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Work on this vault [env: AVFS_VAULT]
    #[arg(long, global = true, value_name = "NAME")]
    pub vault: Option<String>,

    /// The store's directory [env: AVFS_HOME]
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,

    /// Print one JSON object on standard output, errors included
    #[arg(long, global = true)]
    pub json: bool,

    /// Colour: auto is on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN")]
    pub color: Option<ColorArg>,

    /// Say nothing but data and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// Print long output to the terminal itself [env: AVFS_PAGER, PAGER]
    #[arg(long, global = true)]
    pub no_pager: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    Auto,
    Always,
    Never,
}

impl ColorArg {
    pub fn as_str(self) -> &'static str {
        match self {
            ColorArg::Auto => "auto",
            ColorArg::Always => "always",
            ColorArg::Never => "never",
        }
    }

    fn when(self) -> ColorWhen {
        match self {
            ColorArg::Auto => ColorWhen::Auto,
            ColorArg::Always => ColorWhen::Always,
            ColorArg::Never => ColorWhen::Never,
        }
    }
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
            "review",
            "apply",
            "discard",
            "sync",
            "fork",
            "compare",
            "workspace",
            "project",
            "setup",
            "profiles",
        ],
    ),
    ("Vaults", &["vault"]),
    ("Files", &["ls", "cat", "write", "mkdir", "cp", "mv", "rm", "ln", "chmod", "touch", "stat", "tree"]),
    (
        "Versions",
        &["checkpoint", "log", "diff", "checkout", "revert", "undo", "redo", "merge", "conflicts", "resolve"],
    ),
    ("Search", &["grep", "find", "search"]),
    ("Running commands", &["exec", "session", "approvals", "proxy", "policy"]),
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
            return Ok(Cli { global: common.global, command: common.command.into() });
        }
        let mut command = Cli::definition().color(choice);
        let matches = command.try_get_matches_from_mut(arguments)?;
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }

    /// The complete definition: parsing, help, completions and man pages all come from it.
    pub fn definition() -> clap::Command {
        let command = Cli::command().styles(STYLES).max_term_width(100);
        let template = top_template(&command);
        command.help_template(template).after_long_help(exit_statuses())
    }
}

/// The commands that programs give again and again, by their own definitions alone: that of all commands takes longer to
/// make than some of them take to run.
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
        let named = arguments.iter().any(|word| CommonCommand::NAMES.iter().any(|name| word == name));
        named.then(|| Common::try_parse_from(arguments).ok()).flatten()
    }
}

const STYLES: Styles = Styles::styled().header(HEADING).usage(HEADING).literal(anstyle::Style::new().bold());

/// clap knows one list of subcommands; ours is long enough to need headings.
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
    text.push(&format!("{HEADING}Options:{HEADING:#}\n{{options}}{{after-help}}"));
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

/// The flags that decide how a mistake in the arguments is told, read before the arguments are understood.
/// A value that looks like a flag (`-m --json`) is taken for one: only the shape of an error depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyFlags {
    pub color: Option<ColorArg>,
    pub json: bool,
    pub quiet: bool,
    pub no_pager: bool,
}

impl EarlyFlags {
    pub fn scan(arguments: impl Iterator<Item = OsString>) -> EarlyFlags {
        let mut flags = EarlyFlags::default();
        let mut arguments = arguments.take_while(|argument| argument != "--");
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("--json") => flags.json = true,
                Some("-q" | "--quiet") => flags.quiet = true,
                Some("--no-pager") => flags.no_pager = true,
                Some("--color") => flags.color = arguments.next().as_deref().and_then(color_named),
                Some(text) if text.starts_with("--color=") => {
                    flags.color = color_named(OsStr::new(&text["--color=".len()..]));
                }
                _ => {}
            }
        }
        flags
    }

    pub fn manner(self) -> Manner {
        let color = self.color.map_or(ColorWhen::Auto, ColorArg::when);
        Manner { color, json: self.json, quiet: self.quiet, paged: !self.no_pager }
    }
}

fn color_named(name: &OsStr) -> Option<ColorArg> {
    ColorArg::from_str(name.to_str()?, false).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::definition().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        fn check(command: &clap::Command) {
            if command.get_subcommands().next().is_none() {
                let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
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
            let common = Cli { global: common.global, command: common.command.into() };
            assert_eq!(format!("{common:?}"), format!("{whole:?}"));
        }
    }

    #[test]
    fn what_is_no_common_command_is_left_to_the_whole_definition() {
        for line in ["avfs ls exec", "avfs exec --help", "avfs exec --nonsense", "avfs help exec", "avfs ls"]
        {
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
            "avfs ls ..",
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
        let (_, rest) = page.split_once("These commands do not take them").expect("the list of the page");
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
        let mut without: Vec<&str> =
            all.iter().filter(|(_, command)| !takes(command)).map(|(words, _)| words.as_str()).collect();
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
        let json = EarlyFlags { json: true, ..EarlyFlags::default() };
        assert_eq!(scan("nonsense --json"), json);
        assert_eq!(scan("write f -- --json"), EarlyFlags::default());
        assert_eq!(scan("--color=never ls").color, Some(ColorArg::Never));
        assert_eq!(
            scan("ls --color always -q --no-pager"),
            EarlyFlags { color: Some(ColorArg::Always), json: false, quiet: true, no_pager: true }
        );
        assert_eq!(scan("--color pink").color, None);
    }
}
