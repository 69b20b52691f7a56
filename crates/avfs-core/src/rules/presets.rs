//! Rules that come with the program.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use super::level::Level;
use super::pattern::Pattern;
use super::rule::{Origin, Rule, Subject};
use super::{Rules, Standing};
use crate::label::{Label, Labels};
use crate::name::{EntryName, TreePath};

pub(super) mod names;

use names::{
    PACKAGES, PACKAGES_AT_ROOT, PUBLIC, RUN_AND_HIDDEN, RUN_BY_GIT, RUN_BY_TOOLS, RUN_FOR_FILES_BELOW,
    SECRETS, SECRETS_BY_WORD, SECRETS_WITH_PUBLIC,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preset {
    ReadOnly,
    FullAccess,
    ViewOnly,
    AgentSafe,
    Development,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no preset '{}'", crate::printable(.0.as_bytes()))]
pub struct BadPreset(pub String);

impl Preset {
    pub const ALL: [Preset; 5] =
        [Preset::ReadOnly, Preset::FullAccess, Preset::ViewOnly, Preset::AgentSafe, Preset::Development];

    pub fn name(self) -> &'static str {
        match self {
            Preset::ReadOnly => "read-only",
            Preset::FullAccess => "full-access",
            Preset::ViewOnly => "view-only",
            Preset::AgentSafe => "agent-safe",
            Preset::Development => "development",
        }
    }

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

    pub fn rules(self) -> Vec<Rule> {
        let origin = Origin::new(&format!("preset {}", self.name()));
        let rules = match self {
            Preset::ReadOnly => vec![rule("/**", Level::Read)],
            Preset::FullAccess => vec![rule("/**", Level::Write)],
            Preset::ViewOnly => vec![rule("/**", Level::View)],
            Preset::AgentSafe => agent_safe(),
            Preset::Development => development(),
        };
        rules.into_iter().map(|rule| rule.with_origin(origin.clone())).collect()
    }
}

impl Preset {
    /// Whether a name on the way to a path says by itself that a secret is there, whatever it holds: `id_rsa`, `.netrc`,
    /// everything in `.ssh`.
    pub fn names_secret(path: &TreePath) -> bool {
        static CERTAIN: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
            let names = SECRETS.iter().chain(SECRETS_WITH_PUBLIC);
            let pattern = |name: &&str| rule(&format!("**/{name}/"), Level::None).pattern().cloned();
            names.filter_map(pattern).collect()
        });
        CERTAIN.iter().any(|pattern| pattern.matches(path))
    }

    /// Whether `agent-safe` and `development` keep a path from being written: tools of the host run it, or it is a secret by
    /// its name.
    pub fn names_protected(path: &TreePath) -> bool {
        Preset::names_run_by_host(path) || Preset::names_secret(path)
    }

    /// Whether tools of the host run the file at a path by its name, or what it names: hooks, settings of editors, files
    /// that shells start with. Installed packages may have such files: nothing reads them there.
    pub fn names_run_by_host(path: &TreePath) -> bool {
        standing_of(path.components()).level() < Level::Write
    }

    /// Whether a symbolic link at a path brings files to names that tools of the host run: what is below the name of the
    /// link is found where it leads. `.vscode` may lead nowhere, and no name of a project into installed packages.
    pub fn leads_to_run_by_host(link: &TreePath, target: &[u8]) -> bool {
        let Some((above, _)) = link.split_last() else { return true };
        let here = standing_of(link.components());
        let is_higher = |names: Vec<EntryName>| RUN.is_higher_nearby(&standing_of(names), &here);
        Preset::may_hold_run_by_host(link) || meanings(&above, target).into_iter().any(is_higher)
    }

    /// Whether tools of the host run a path or something below it that they would not run elsewhere: `.vscode`, `.husky`.
    pub fn may_hold_run_by_host(path: &TreePath) -> bool {
        let Some((above, _)) = path.split_last() else { return true };
        let beside = RUN.child(&standing_of(above.components()), ANY_NAME, &Labels::default());
        !RUN.is_no_higher_below(&beside, &standing_of(path.components()))
    }

    /// Whether a rule is one of a preset about files of a project that tools of the host run. It protects a tree that the
    /// host uses as it is. What is only reached by applying it is protected there, and git has to be able to write it.
    pub fn is_about_project_files_run(rule: &Rule) -> bool {
        static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
            let names = [RUN_BY_TOOLS, RUN_FOR_FILES_BELOW].concat();
            anywhere(&names, Level::Read).filter_map(|rule| rule.pattern().cloned()).collect()
        });
        let is_of_preset = rule.origin.as_str().starts_with("preset ");
        let is_about = |pattern: &Pattern| PATTERNS.iter().any(|known| known.as_str() == pattern.as_str());
        is_of_preset && rule.level == Level::Read && rule.pattern().is_some_and(is_about)
    }
}

/// What the host runs cannot be written, and everything else can.
static RUN: LazyLock<Rules> = LazyLock::new(|| {
    let mut rules = vec![rule("/**", Level::Write)];
    rules.extend(run_by_the_host(Level::Write));
    rules.extend(anywhere(RUN_AND_HIDDEN, Level::Read));
    Rules::new(rules).expect("the rules of the presets are tested")
});

/// A name that is in no pattern: what holds for it holds for any.
const ANY_NAME: &[u8] = b"\x01any\x01";

fn standing_of(names: impl IntoIterator<Item = EntryName>) -> Standing {
    let none = Labels::default();
    names.into_iter().fold(RUN.root(&none), |at, name| RUN.child(&at, name.as_bytes(), &none))
}

/// The paths of the tree that the target of a link in a directory may mean. Where the tree lies is not known, so any end of
/// an absolute one may be meant.
fn meanings(above: &TreePath, target: &[u8]) -> Vec<Vec<EntryName>> {
    let is_absolute = target.first() == Some(&b'/');
    let mut names: Vec<EntryName> = if is_absolute { Vec::new() } else { above.components().collect() };
    for name in target.split(|byte| *byte == b'/').filter(|name| !matches!(name, [] | [b'.'])) {
        match (name, EntryName::new(name)) {
            (b"..", _) => drop(names.pop()),
            (_, Ok(name)) => names.push(name),
            (_, Err(_)) => return Vec::new(),
        }
    }
    match is_absolute {
        true => (0..names.len()).map(|at| names[at..].to_vec()).collect(),
        false => vec![names],
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
    Rule::new(Pattern::parse(pattern).expect("the patterns of the presets are tested"), level)
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

/// Hidden, but for what is public; that has the level `public`.
///
/// Where there are public ones, the entry itself and what is below it have rules of their own: the public ones refine
/// the first only, so that nothing below a secret is ever open, and a directory of secrets is not even seen.
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

/// Can be read and not written, but in installed packages, which have the level `packages`, and in repositories that were
/// made since the base of the tree.
fn run_by_the_host(packages: Level) -> Vec<Rule> {
    let mut rules: Vec<Rule> = anywhere(RUN_BY_GIT, Level::Read).collect();
    rules.extend(anywhere(RUN_FOR_FILES_BELOW, Level::Read));
    for name in RUN_BY_TOOLS {
        rules.push(rule(&format!("**/{name}"), Level::Read));
        rules.push(rule(&format!("**/{PACKAGES}/**/{name}"), packages));
    }
    rules.push(Rule {
        subject: Subject::Label(Label::fresh_repository()),
        level: Level::Write,
        priority: 1,
        origin: Origin::default(),
    });
    rules
}
