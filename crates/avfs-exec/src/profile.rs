//! Profiles: what an agent in a terminal needs from the user's machine, as data.
//!
//! The built-in ones are files of this crate; a user's file with the same name replaces one.

mod error;
mod file;
mod programs;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use avfs_core::rules::{Level, Pattern, Rule};

pub use error::{ProfileError, WrongProfile};
pub use programs::programs;

use crate::network::HostRule;

/// The profile for programs without one of their own.
pub const FALLBACK: &str = "shell";

const BUILT_IN: [(&str, &str); 10] = [
    ("aider", include_str!("profile/aider.toml")),
    ("amp", include_str!("profile/amp.toml")),
    ("claude", include_str!("profile/claude.toml")),
    ("codex", include_str!("profile/codex.toml")),
    ("copilot", include_str!("profile/copilot.toml")),
    ("cursor-agent", include_str!("profile/cursor-agent.toml")),
    ("gemini", include_str!("profile/gemini.toml")),
    ("goose", include_str!("profile/goose.toml")),
    ("opencode", include_str!("profile/opencode.toml")),
    ("shell", include_str!("profile/shell.toml")),
];

/// The needs of one program.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// The file that contains it; `None`: it is built in.
    pub file: Option<PathBuf>,
    /// The text of its file.
    pub text: String,
    /// What it is for, in a line.
    pub about: String,
    /// The names of its programs.
    pub commands: Vec<String>,
    /// Paths below the home with programs, which are shown read-only.
    pub programs: Vec<PathBuf>,
    /// The hosts that may be reached.
    pub hosts: Vec<HostRule>,
    /// The names of variables that are passed on; a `*` at the end matches any rest.
    pub environment: Vec<String>,
    /// Paths below the home that are shared live and writable.
    pub state: Vec<Pattern>,
    /// Paths below the home that are shared live and read-only.
    pub settings: Vec<Pattern>,
    /// Files below the home of which each run has a copy of its own: settings that a program insists on
    /// writing.
    pub copied: Vec<Pattern>,
}

impl Profile {
    /// Parses a profile. Unknown contents are errors.
    pub fn parse(name: &str, file: Option<&Path>, text: &str) -> Result<Profile, ProfileError> {
        let shown = file.map_or_else(|| PathBuf::from(format!("{name}.toml")), Path::to_owned);
        let profile = file::parse(&shown, text)?;
        Ok(Profile {
            name: name.to_owned(),
            file: file.map(Path::to_owned),
            text: text.to_owned(),
            ..profile
        })
    }

    /// Whether a variable of the caller is passed on.
    pub fn passes(&self, name: &OsStr) -> bool {
        let Some(name) = name.to_str() else { return false };
        self.environment
            .iter()
            .any(|known| match known.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == known,
            })
    }

    /// The files below the home that are copied.
    pub fn copied_files(&self) -> Vec<PathBuf> {
        self.copied
            .iter()
            .map(|file| PathBuf::from(file.as_str()))
            .collect()
    }

    /// The shared parts of the home, as rules: everything else is private.
    pub fn rules(&self) -> Vec<Rule> {
        let rule = |level| move |pattern: &Pattern| Rule::new(pattern.clone(), level);
        let settings = self.settings.iter().map(rule(Level::Read));
        let copied = self.copied.iter().map(rule(Level::None));
        self.state
            .iter()
            .map(rule(Level::Write))
            .chain(settings)
            .chain(copied)
            .collect()
    }
}

/// All profiles of a user.
#[derive(Clone, Debug)]
pub struct Profiles {
    all: Vec<Profile>,
    broken: Vec<BrokenProfile>,
}

/// A user's file that is not a valid profile. It is not replaced by a built-in one, because its settings
/// would then be silently missing.
#[derive(Clone, Debug)]
pub struct BrokenProfile {
    /// The name of the profile.
    pub name: String,
    /// Why it cannot be used.
    pub error: ProfileError,
    /// The programs of the built-in profile with this name.
    commands: Vec<String>,
}

impl Profiles {
    /// The built-in profiles, and those in a directory of the user.
    pub fn load(directory: Option<&Path>) -> Result<Profiles, ProfileError> {
        let (mut all, mut broken) = (Vec::new(), Vec::new());
        for (name, text) in BUILT_IN {
            all.push(Profile::parse(name, None, text)?);
        }
        for (name, file) in directory.map(files).unwrap_or_default() {
            let read =
                std::fs::read_to_string(&file).map_err(|error| ProfileError::unreadable(&file, &error));
            let text = match read {
                // A shell that redirects output to it has emptied it before anything could be read.
                Ok(text) if text.is_empty() => continue,
                read => read,
            };
            let before = all
                .iter()
                .position(|known: &Profile| known.name == name)
                .map(|at| all.remove(at));
            match text.and_then(|text| Profile::parse(&name, Some(&file), &text)) {
                Ok(profile) => all.push(profile),
                Err(error) => {
                    let commands = before.map(|built_in| built_in.commands).unwrap_or_default();
                    broken.push(BrokenProfile {
                        name,
                        error,
                        commands,
                    });
                }
            }
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Profiles { all, broken })
    }

    /// The built-in profile, even if the user's file replaces it.
    pub fn built_in(name: &str) -> Result<Option<Profile>, ProfileError> {
        let found = BUILT_IN.iter().find(|(known, _)| *known == name);
        found
            .map(|(name, text)| Profile::parse(name, None, text))
            .transpose()
    }

    /// The profiles that can be used, by name.
    pub fn all(&self) -> &[Profile] {
        &self.all
    }

    /// The user's files that are not valid profiles.
    pub fn broken(&self) -> &[BrokenProfile] {
        &self.broken
    }

    /// The profile with this name. An error if its file cannot be used.
    pub fn named(&self, name: &str) -> Result<Option<&Profile>, ProfileError> {
        match self.broken.iter().find(|broken| broken.name == name) {
            Some(broken) => Err(broken.error.clone()),
            None => Ok(self.all.iter().find(|profile| profile.name == name)),
        }
    }

    /// The profile for a program: by the last component of its name, or the one for all others.
    pub fn for_command(&self, program: &OsStr) -> Result<Option<&Profile>, ProfileError> {
        let name = Path::new(program)
            .file_name()
            .and_then(OsStr::to_str)
            .unwrap_or_default();
        let is_for = |commands: &[String]| commands.iter().any(|command| command == name);
        if let Some(broken) = self
            .broken
            .iter()
            .find(|one| one.name == name || is_for(&one.commands))
        {
            return Err(broken.error.clone());
        }
        match self.all.iter().find(|profile| is_for(&profile.commands)) {
            Some(profile) => Ok(Some(profile)),
            None => self.named(FALLBACK),
        }
    }
}

/// The profiles in a directory: their names and files. Empty without a directory.
fn files(directory: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let file = entry.path();
        let name = file.file_name()?.to_str()?.strip_suffix(".toml")?.to_owned();
        Some((name, file))
    });
    let mut named: Vec<(String, PathBuf)> = named.collect();
    named.sort();
    named
}

#[cfg(test)]
mod tests {
    use avfs_core::Labels;
    use avfs_core::rules::Rules;

    use super::*;

    fn level(profile: &Profile, path: &str) -> Level {
        let rules = Rules::new(profile.rules()).unwrap();
        let root = rules.root(&Labels::default());
        let at = path.split('/').fold(root, |at, name| {
            rules.child(&at, name.as_bytes(), &Labels::default())
        });
        at.level()
    }

    #[test]
    fn the_built_in_profiles_are_sound_and_chosen_by_the_name_of_the_program() {
        let profiles = Profiles::load(None).unwrap();
        let chosen = |program: &str| {
            profiles
                .for_command(OsStr::new(program))
                .unwrap()
                .unwrap()
                .name
                .as_str()
        };
        assert_eq!(chosen("claude"), "claude");
        assert_eq!(chosen("/usr/local/bin/codex"), "codex");
        for agent in ["aider", "amp", "copilot", "cursor-agent", "goose", "opencode"] {
            assert_eq!(chosen(agent), agent);
        }
        assert_eq!(chosen("make"), FALLBACK);
    }

    #[test]
    fn state_can_be_changed_settings_only_read_and_nothing_else_is_there() {
        let profiles = Profiles::load(None).unwrap();
        let claude = profiles.named("claude").unwrap().unwrap();
        for (path, expected) in [
            (".claude.json", Level::Write),
            (".claude.json.tmp.12", Level::Write),
            (".claude/projects/-a/b.jsonl", Level::Write),
            (".claude/settings.json", Level::Read),
            (".claude/hooks/pre.sh", Level::Read),
            (".claude/shell-snapshots/x.sh", Level::None),
            (".ssh/id_ed25519", Level::None),
            (".bashrc", Level::None),
        ] {
            assert_eq!(level(claude, path), expected, "{path}");
        }
        assert_eq!(
            level(profiles.named("gemini").unwrap().unwrap(), ".gemini/tmp/bin/rg"),
            Level::Read
        );
        for (agent, path, expected) in [
            ("opencode", ".local/share/opencode/auth.json", Level::Write),
            ("opencode", ".config/opencode/agents/mine.md", Level::Read),
            ("opencode", ".config/opencode/opencode.jsonc", Level::None),
            ("aider", ".aider/caches/model_prices.json", Level::Write),
            ("aider", ".aider.conf.yml", Level::Read),
            ("copilot", ".copilot/session-state/a/events.jsonl", Level::Write),
            ("copilot", ".copilot/mcp-config.json", Level::Read),
            ("goose", ".config/goose/secrets.yaml", Level::Write),
            ("goose", ".config/goose/custom_providers/a.json", Level::Read),
            ("amp", ".local/share/amp/secrets.json", Level::Write),
            ("amp", ".config/amp/plugins/a.ts", Level::Read),
            ("cursor-agent", ".config/cursor/auth.json", Level::Write),
            ("cursor-agent", ".cursor/mcp.json", Level::Read),
        ] {
            let profile = profiles.named(agent).unwrap().unwrap();
            assert_eq!(level(profile, path), expected, "{agent} {path}");
            assert_eq!(level(profile, ".ssh/id_ed25519"), Level::None, "{agent}");
        }
        let codex = profiles.named("codex").unwrap().unwrap();
        assert_eq!(codex.copied_files(), [Path::new(".codex/config.toml")]);
        assert_eq!(
            level(codex, ".codex/config.toml"),
            Level::None,
            "the copy is private"
        );
        assert_eq!(level(codex, ".codex/work.toml"), Level::Read);
    }

    #[test]
    fn variables_are_passed_by_name_and_by_their_beginning() {
        let profiles = Profiles::load(None).unwrap();
        let claude = profiles.named("claude").unwrap().unwrap();
        assert!(claude.passes(OsStr::new("ANTHROPIC_API_KEY")));
        assert!(!claude.passes(OsStr::new("AWS_SECRET_ACCESS_KEY")));
    }

    #[test]
    fn a_file_of_the_user_takes_the_place_of_a_built_in_profile() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("claude.toml"), "commands = [\"claude\"]\n").unwrap();
        let profiles = Profiles::load(Some(directory.path())).unwrap();
        assert!(profiles.named("claude").unwrap().unwrap().state.is_empty());
        assert!(profiles.named("codex").unwrap().is_some());
    }

    #[test]
    fn broken_profile_is_reported_only_to_runs_that_need_it() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [("claude", "stat = []"), ("mine", "commands = ["), ("codex", "")] {
            std::fs::write(directory.path().join(format!("{name}.toml")), text).unwrap();
        }
        let profiles = Profiles::load(Some(directory.path())).unwrap();
        assert_eq!(
            profiles
                .broken()
                .iter()
                .map(|one| one.name.as_str())
                .collect::<Vec<_>>(),
            ["claude", "mine"]
        );
        assert!(profiles.for_command(OsStr::new("/opt/claude")).is_err());
        assert!(profiles.named("mine").is_err());
        assert_eq!(
            profiles.for_command(OsStr::new("make")).unwrap().unwrap().name,
            FALLBACK
        );
        let emptied = profiles.named("codex").unwrap().unwrap();
        assert_eq!((emptied.file.as_deref(), emptied.state.is_empty()), (None, false));
        assert!(Profiles::built_in("claude").unwrap().is_some());
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let error = Profile::parse("p", Some(Path::new("p.toml")), text).unwrap_err();
        let hint = error.hint().map(|hint| format!(" [{hint}]")).unwrap_or_default();
        assert_eq!(format!("{error}{hint}"), expected);
    }

    #[test]
    fn error_is_reported_with_its_position() {
        check(
            "\nsate = []",
            "p.toml:2:1: unknown key 'sate' [did you mean 'state'?]",
        );
        check("state = \"x\"", "p.toml:1:9: 'state' should be a list of texts");
        check(
            "state = [\"a\", 3]",
            "p.toml:1:15: 'state' should be a list of texts",
        );
        check(
            "programs = [\"../x\"]",
            "p.toml:1:13: '../x' does not lead to a place below the home",
        );
        check(
            "copied = [\"a/*\"]",
            "p.toml:1:11: 'a/*' should be the name of one file",
        );
        check(
            "hosts = [\"+crate\"]",
            "p.toml:1:10: '+crate': there is no group 'crate'",
        );
        check(
            "environment = [\"A=B\"]",
            "p.toml:1:16: 'A=B' is no name of a variable",
        );
    }
}
