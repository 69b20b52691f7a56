//! Rules that come with the program.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use super::level::Level;
use super::pattern::Pattern;
use super::rule::{Rule, RuleOrigin, RuleSubject};
use super::{RuleState, Rules};
use crate::label::{Label, Labels};
use crate::name::{EntryName, TreePath};

pub(super) mod names;

use names::{
    OTHER_REPOSITORIES, PACKAGES, PACKAGES_AT_ROOT, PUBLIC, RUN_AND_HIDDEN, RUN_BY_GIT, RUN_BY_TOOLS,
    RUN_FOR_FILES_BELOW, SECRETS, SECRETS_BY_WORD, SECRETS_WITH_PUBLIC,
};

/// A list of rules with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preset {
    /// Every file can be read, and none can be written.
    ReadOnly,
    /// Every file can be written.
    FullAccess,
    /// Entries are listed, and none can be opened.
    ViewOnly,
    /// Files without secrets can be read, and few places can be written.
    AgentSafe,
    /// Files can be written, except for secrets and files that tools of the host run.
    Development,
}

/// The text is not the name of a preset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no preset '{}'", crate::printable(.0.as_bytes()))]
pub struct BadPreset(pub String);

impl Preset {
    /// Every preset.
    pub const ALL: [Preset; 5] = [
        Preset::ReadOnly,
        Preset::FullAccess,
        Preset::ViewOnly,
        Preset::AgentSafe,
        Preset::Development,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Preset::ReadOnly => "read-only",
            Preset::FullAccess => "full-access",
            Preset::ViewOnly => "view-only",
            Preset::AgentSafe => "agent-safe",
            Preset::Development => "development",
        }
    }

    /// One line for people about its effect.
    pub fn description(self) -> &'static str {
        match self {
            Preset::ReadOnly => "everything can be read, nothing written",
            Preset::FullAccess => "everything can be written",
            Preset::ViewOnly => "everything is listed, nothing can be opened",
            Preset::AgentSafe => {
                "everything but secrets can be read; /output, /tmp and git's own files can be written"
            }
            Preset::Development => {
                "everything can be written but secrets, which are hidden, and files that tools of the host run"
            }
        }
    }

    /// Its rules, which carry its name as their origin.
    pub fn rules(self) -> Vec<Rule> {
        let origin = RuleOrigin::new(&format!("preset {}", self.name()));
        let rules = match self {
            Preset::ReadOnly => vec![rule("/**", Level::Read)],
            Preset::FullAccess => vec![rule("/**", Level::Write)],
            Preset::ViewOnly => vec![rule("/**", Level::View)],
            Preset::AgentSafe => agent_safe(),
            Preset::Development => development(),
        };
        rules
            .into_iter()
            .map(|rule| rule.with_origin(origin.clone()))
            .collect()
    }
}

impl Preset {
    /// Whether a name on the way to a path indicates a secret, whatever the file holds: `id_rsa`, `.netrc`,
    /// everything in `.ssh`.
    pub fn names_secret(path: &TreePath) -> bool {
        static CERTAIN: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
            let names = SECRETS.iter().chain(SECRETS_WITH_PUBLIC);
            let pattern = |name: &&str| rule(&format!("**/{name}/"), Level::None).pattern().cloned();
            names.filter_map(pattern).collect()
        });
        CERTAIN.iter().any(|pattern| pattern.matches(path))
    }

    /// Whether `agent-safe` and `development` protect a path from writing: tools of the host run it, or its
    /// name indicates a secret.
    pub fn names_protected(path: &TreePath) -> bool {
        Preset::names_run_by_host(path) || Preset::names_secret(path)
    }

    /// Whether tools of the host run the file at a path because of its name, or run what the file names:
    /// hooks, settings of editors, start-up files of shells. Installed packages may contain such files,
    /// because tools do not read them there.
    pub fn names_run_by_host(path: &TreePath) -> bool {
        rule_state_of(path.components()).level() < Level::Write
    }

    /// Whether a symbolic link at a path makes files available under names that tools of the host run:
    /// entries below the name of the link are found in its target. Always true for a link named `.vscode`,
    /// and for a link from the project into installed packages.
    pub fn leads_to_run_by_host(link: &TreePath, target: &[u8]) -> bool {
        let Some((above, _)) = link.split_last() else {
            return true;
        };
        let here = rule_state_of(link.components());
        let is_higher = |names: Vec<EntryName>| RUN.is_higher_nearby(&rule_state_of(names), &here);
        Preset::may_hold_run_by_host(link) || meanings(&above, target).into_iter().any(is_higher)
    }

    /// Whether tools of the host run a path, or something below it, that they would not run elsewhere:
    /// `.vscode`, `.husky`.
    pub fn may_hold_run_by_host(path: &TreePath) -> bool {
        let Some((above, _)) = path.split_last() else {
            return true;
        };
        let beside = RUN.child(&rule_state_of(above.components()), ANY_NAME, &Labels::default());
        !RUN.is_no_higher_below(&beside, &rule_state_of(path.components()))
    }

    /// Whether a rule of a preset protects files of a project that tools of the host run. Such rules are
    /// needed for a tree that the host uses directly. A tree that reaches the host only through apply is
    /// protected there, and git must be able to write such files.
    pub fn is_about_project_files_run(rule: &Rule) -> bool {
        static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
            let names = [RUN_BY_TOOLS, RUN_FOR_FILES_BELOW, OTHER_REPOSITORIES].concat();
            anywhere(&names, Level::Read)
                .filter_map(|rule| rule.pattern().cloned())
                .collect()
        });
        let is_of_preset = rule.origin.as_str().starts_with("preset ");
        let is_about = |pattern: &Pattern| PATTERNS.iter().any(|known| known.as_str() == pattern.as_str());
        is_of_preset && rule.level == Level::Read && rule.pattern().is_some_and(is_about)
    }
}

/// Files that the host runs cannot be written; everything else can.
static RUN: LazyLock<Rules> = LazyLock::new(|| {
    let mut rules = vec![rule("/**", Level::Write)];
    rules.extend(run_by_the_host(Level::Write));
    rules.extend(anywhere(RUN_AND_HIDDEN, Level::Read));
    Rules::new(rules).expect("the rules of the presets are tested")
});

/// A name that no pattern mentions: it represents all such names.
const ANY_NAME: &[u8] = b"\x01any\x01";

fn rule_state_of(names: impl IntoIterator<Item = EntryName>) -> RuleState {
    let none = Labels::default();
    names
        .into_iter()
        .fold(RUN.root(&none), |at, name| RUN.child(&at, name.as_bytes(), &none))
}

/// The paths of the tree to which the target of a link in a directory may refer. The location of the tree is
/// unknown, so any suffix of an absolute target is possible.
fn meanings(above: &TreePath, target: &[u8]) -> Vec<Vec<EntryName>> {
    let is_absolute = target.first() == Some(&b'/');
    let mut names: Vec<EntryName> = if is_absolute {
        Vec::new()
    } else {
        above.components().collect()
    };
    for name in target
        .split(|byte| *byte == b'/')
        .filter(|name| !matches!(name, [] | [b'.']))
    {
        match (name, EntryName::new(name)) {
            (b"..", _) => drop(names.pop()),
            (_, Ok(name)) => names.push(name),
            (_, Err(_)) => return Vec::new(),
        }
    }
    if is_absolute {
        (0..names.len()).map(|at| names[at..].to_vec()).collect()
    } else {
        vec![names]
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Preset {
    type Err = BadPreset;

    fn from_str(name: &str) -> Result<Preset, BadPreset> {
        let found = Preset::ALL.into_iter().find(|preset| preset.name() == name);
        found.ok_or_else(|| BadPreset(name.to_owned()))
    }
}

fn rule(pattern: &str, level: Level) -> Rule {
    Rule::new(
        Pattern::parse(pattern).expect("the patterns of the presets are tested"),
        level,
    )
}

/// At any depth.
fn anywhere(names: &[&str], level: Level) -> impl Iterator<Item = Rule> {
    names.iter().map(move |name| rule(&format!("**/{name}"), level))
}

fn agent_safe() -> Vec<Rule> {
    let mut rules = vec![rule("/**", Level::Read)];
    rules.extend(["/output/**", "/tmp/**", "**/.git/"].map(|place| rule(place, Level::Write)));
    rules.extend(secrets(Level::Read));
    rules.extend(run_by_the_host(Level::Read));
    rules
}

fn development() -> Vec<Rule> {
    let mut rules = vec![rule("/**", Level::Write)];
    rules.extend(secrets(Level::Write));
    rules.extend(run_by_the_host(Level::Write));
    rules
}

/// Hides secrets, except public ones, which get the level `public`.
///
/// Where public ones exist, the entry itself and everything below it have separate rules: the public rules
/// refine only the first, so that nothing below a secret is ever open, and a directory of secrets is not even
/// visible.
fn secrets(public: Level) -> Vec<Rule> {
    let hidden = |pattern: String| rule(&pattern, Level::None);
    let mut rules: Vec<Rule> = SECRETS.iter().map(|name| hidden(format!("**/{name}/"))).collect();
    for name in SECRETS_WITH_PUBLIC.iter().chain(SECRETS_BY_WORD) {
        rules.extend([hidden(format!("**/{name}")), hidden(format!("**/{name}/*/"))]);
    }
    rules.extend(anywhere(PUBLIC, public));
    for name in SECRETS_BY_WORD {
        rules.push(rule(&format!("**/{PACKAGES}/**/{name}"), public));
        rules.push(rule(&format!("/{PACKAGES_AT_ROOT}/**/{name}/*/"), public));
        rules.push(rule(&format!("**/.git/**/{name}"), Level::Write));
        rules.push(rule(&format!("/.git/**/{name}/*/"), Level::Write));
    }
    rules
}

/// Readable and not writable, except in installed packages, which get the level `packages`, and in
/// repositories that were created since the base of the tree.
fn run_by_the_host(packages: Level) -> Vec<Rule> {
    let mut rules: Vec<Rule> = anywhere(RUN_BY_GIT, Level::Read).collect();
    rules.extend(anywhere(RUN_FOR_FILES_BELOW, Level::Read));
    rules.extend(anywhere(OTHER_REPOSITORIES, Level::Read));
    for name in RUN_BY_TOOLS {
        rules.push(rule(&format!("**/{name}"), Level::Read));
        rules.push(rule(&format!("**/{PACKAGES}/**/{name}"), packages));
    }
    rules.push(Rule {
        subject: RuleSubject::Label(Label::fresh_repository()),
        level: Level::Write,
        priority: 1,
        origin: RuleOrigin::default(),
    });
    rules
}
