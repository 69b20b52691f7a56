//! Untracked files that hold a key or a credential, whatever their names: a service account in `gcp.json`, a
//! token in `.npmrc`. They are inspected when a task is made, those near the top first and not too many, and
//! their contents are stored nowhere.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::rules::{Level, Pattern, Rule, RuleOrigin, Rules};
use avfs_core::{EntryName, Labels, TreePath};
use rustix::fs::{Mode, OFlags};

use super::hidden::Levels;
use super::index::GitIndex;
use super::place::RepositoryPlace;
use super::secret::{self, Secret};
use super::tracked::{HiddenFile, is_hidden_by_preset, is_of_preset};

/// The origin of the rules that hide such files.
const ORIGIN: &str = "holds a secret, and git does not track it";

/// How many entries are listed, and how much is read: the delay must not be noticeable.
const LISTED: usize = 4000;
const READ: usize = 400;
const READ_BYTES: u64 = 8 << 20;

/// Larger files are hardly settings.
const LARGEST: u64 = 128 << 10;

/// The maximum depth of a file with an inconspicuous name.
const DEEPEST: usize = 2;

/// Directories that tools create, and can recreate.
const MADE: &[&str] = &[
    ".git",
    "node_modules",
    "target",
    ".venv",
    "venv",
    "__pycache__",
    "site-packages",
    "vendor",
    "dist",
    "build",
    ".next",
    ".cache",
    "coverage",
    ".gradle",
    ".tox",
    ".mypy_cache",
    ".pytest_cache",
    ".terraform",
];

/// Settings that passwords are written into: a name, or the end of one.
const WITH_PASSWORDS: &[&str] = &[
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".tfvars",
    ".tfvars.json",
    ".tfstate",
    ".tfstate.backup",
    "pip.conf",
    "kubeconfig",
    "auth.json",
    ".boto",
    ".terraformrc",
];

/// The suffixes of files in which keys and tokens are kept.
const WITH_KEYS: &[&str] = &[
    "json",
    "yml",
    "yaml",
    "toml",
    "ini",
    "cfg",
    "conf",
    "config",
    "properties",
    "xml",
    "txt",
    "p8",
    "asc",
];

/// The files of a project that hold a secret by their contents, and the rules that hide them. Nothing is looked for where
/// no preset hides secrets, and a path that a rule of the user is about is the user's.
pub(crate) fn untracked_secrets(project: &Path, rules: &[Rule]) -> (Vec<Rule>, Vec<HiddenFile>) {
    let Ok(compiled) = Rules::shared(rules.to_vec()) else {
        return Default::default();
    };
    if !rules.iter().any(is_hidden_by_preset) {
        return Default::default();
    }
    let mut search = UntrackedSearch {
        project,
        read: 0,
        bytes: 0,
        found: Vec::new(),
    };
    search.run();
    let mut levels = Levels::new(&compiled);
    let is_open = |path: &TreePath, levels: &mut Levels<'_>| {
        let decided = compiled.explain(path, |_| Labels::default()).deciding;
        let is_users = decided.is_some_and(|rule| !is_of_preset(&rule) && rule.pattern().is_some());
        levels.of(path) > Level::None && !is_users
    };
    search.found.retain(|file| is_open(&file.path, &mut levels));
    if !search.found.is_empty() {
        leave_out_tracked(project, &mut search.found);
    }
    let hiding = |file: &HiddenFile| {
        let rule = Rule::new(Pattern::exactly(&file.path)?, Level::None);
        Some(rule.with_origin(RuleOrigin::new(ORIGIN)))
    };
    (search.found.iter().filter_map(hiding).collect(), search.found)
}

/// Whether a rule was made for such a file.
pub(crate) fn hides_untracked_secret(rule: &Rule) -> bool {
    rule.origin.as_str() == ORIGIN
}

/// git shows tracked files to everyone who has the repository: hiding them protects nothing.
fn leave_out_tracked(project: &Path, found: &mut Vec<HiddenFile>) {
    let Some(index) = RepositoryPlace::of(project).and_then(|place| GitIndex::read(&place.own)) else {
        return;
    };
    let mut tracked = Vec::new();
    index.each(&mut |entry| {
        tracked.extend(found.iter().position(|file| file.path.as_bytes() == entry.path));
    });
    let mut at = 0;
    found.retain(|_| {
        at += 1;
        !tracked.contains(&(at - 1))
    });
}

struct UntrackedSearch<'a> {
    project: &'a Path,
    read: usize,
    bytes: u64,
    found: Vec<HiddenFile>,
}

impl UntrackedSearch<'_> {
    fn run(&mut self) {
        let mut open = VecDeque::from([(TreePath::root(), 0)]);
        let mut listed = 0;
        while let Some((directory, depth)) = open.pop_front() {
            for entry in std::fs::read_dir(self.host(&directory))
                .into_iter()
                .flatten()
                .flatten()
            {
                listed += 1;
                if listed > LISTED || self.read > READ || self.bytes > READ_BYTES {
                    return;
                }
                let name = entry.file_name();
                let (Ok(name), Ok(kind)) = (EntryName::new(name.as_bytes()), entry.file_type()) else {
                    continue;
                };
                let is_made = MADE.iter().any(|made| made.as_bytes() == name.as_bytes());
                let path = directory.join(&name);
                if kind.is_dir() && !is_made {
                    open.push_back((path, depth + 1));
                } else if kind.is_file() {
                    self.look_at(path, name.as_bytes(), depth);
                }
            }
        }
    }

    fn host(&self, path: &TreePath) -> PathBuf {
        self.project.join(std::ffi::OsStr::from_bytes(path.as_bytes()))
    }

    fn look_at(&mut self, path: TreePath, name: &[u8], depth: usize) {
        let Ok(name) = std::str::from_utf8(name) else {
            return;
        };
        let name = name.to_ascii_lowercase();
        let has_passwords = WITH_PASSWORDS.iter().any(|end| name.ends_with(end));
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        if !has_passwords && (depth > DEEPEST || !WITH_KEYS.contains(&ending)) {
            return;
        }
        let Some(text) = self.text(&path) else { return };
        let password = || (has_passwords && secret::has_password(&text)).then_some(Secret::Password);
        if let Some(why) = secret::certain(&text).or_else(password) {
            self.found.push(HiddenFile {
                path,
                why,
                is_tracked: false,
            });
        }
    }

    /// The contents of a file, if it is a short text.
    fn text(&mut self, path: &TreePath) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(self.host(path), flags, Mode::empty()).ok()?);
        let found = file.metadata().ok()?;
        if !found.is_file() || found.len() > LARGEST {
            return None;
        }
        let mut text = String::new();
        self.read += 1;
        self.bytes += file.take(LARGEST).read_to_string(&mut text).ok()? as u64;
        Some(text)
    }
}
