//! A profile: from text to its settings.

use std::path::{Component, Path, PathBuf};

use avfs_core::rules::Pattern;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Profile, ProfileError, WrongProfile};
use crate::network::{BadHostRule, HostGroup, HostRule};

const KEYS: &[&str] = &[
    "about",
    "commands",
    "programs",
    "hosts",
    "environment",
    "state",
    "settings",
    "copied",
];

type Value<'i> = Spanned<DeValue<'i>>;

pub(super) fn parse(file: &Path, text: &str) -> Result<Profile, ProfileError> {
    let reader = ProfileReader { file, text };
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        reader.wrong(offset, WrongProfile::Syntax(error.message().to_owned()))
    })?;
    reader.profile(table.get_ref())
}

struct ProfileReader<'a> {
    file: &'a Path,
    text: &'a str,
}

impl ProfileReader<'_> {
    fn wrong(&self, offset: usize, wrong: WrongProfile) -> ProfileError {
        ProfileError::at(self.file, self.text, offset, wrong)
    }

    fn profile(&self, table: &DeTable<'_>) -> Result<Profile, ProfileError> {
        self.check_keys(table)?;
        let about = table
            .get("about")
            .map(|value| self.string("about", "text in quotes", value));
        Ok(Profile {
            name: String::new(),
            file: None,
            text: String::new(),
            about: about.transpose()?.unwrap_or_default(),
            commands: self.list(table, "commands", |name| Ok(name.to_owned()))?,
            programs: self.list(table, "programs", below_home)?,
            hosts: self.list(table, "hosts", hosts)?.concat(),
            environment: self.list(table, "environment", variable)?,
            state: self.list(table, "state", pattern)?,
            settings: self.list(table, "settings", pattern)?,
            copied: self.list(table, "copied", one_file)?,
        })
    }

    fn check_keys(&self, table: &DeTable<'_>) -> Result<(), ProfileError> {
        let Some((key, _)) = table
            .iter()
            .find(|(key, _)| !KEYS.contains(&key.get_ref().as_ref()))
        else {
            return Ok(());
        };
        let name = key.get_ref().to_string();
        let scored = KEYS
            .iter()
            .map(|known| (strsim::damerau_levenshtein(&name, known), *known));
        let near = scored
            .filter(|(distance, known)| *distance <= known.len() / 3)
            .min();
        let suggestion = near.map(|(_, known)| known);
        Err(self.wrong(
            key.span().start,
            WrongProfile::UnknownKey {
                name,
                suggestion,
                known: KEYS,
            },
        ))
    }

    fn list<T>(
        &self,
        table: &DeTable<'_>,
        key: &'static str,
        read: impl Fn(&str) -> Result<T, WrongProfile>,
    ) -> Result<Vec<T>, ProfileError> {
        const EXPECTED: &str = "a list of texts";
        let Some(value) = table.get(key) else {
            return Ok(Vec::new());
        };
        let kind = || {
            self.wrong(
                value.span().start,
                WrongProfile::Kind {
                    key,
                    expected: EXPECTED,
                },
            )
        };
        let items = value.get_ref().as_array().ok_or_else(kind)?;
        let one = |item: &Value<'_>| {
            let text = self.string(key, EXPECTED, item)?;
            read(&text).map_err(|wrong| self.wrong(item.span().start, wrong))
        };
        items.iter().map(one).collect()
    }

    fn string(
        &self,
        key: &'static str,
        expected: &'static str,
        value: &Value<'_>,
    ) -> Result<String, ProfileError> {
        let text = value.get_ref().as_str().map(str::to_owned);
        text.ok_or_else(|| self.wrong(value.span().start, WrongProfile::Kind { key, expected }))
    }
}

fn below_home(text: &str) -> Result<PathBuf, WrongProfile> {
    let path = Path::new(text);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if is_plain && !text.is_empty() {
        Ok(path.to_owned())
    } else {
        Err(WrongProfile::Outside(text.to_owned()))
    }
}

/// A host, or those of a group.
fn hosts(text: &str) -> Result<Vec<HostRule>, WrongProfile> {
    let bad = |reason: String| WrongProfile::Value {
        text: text.to_owned(),
        reason,
    };
    match text.strip_prefix('+') {
        Some(name) => match HostGroup::named(name) {
            Some(group) => Ok(group.hosts.clone()),
            None => Err(bad(format!("there is no group '{name}'"))),
        },
        None => text
            .parse()
            .map(|host| vec![host])
            .map_err(|error: BadHostRule| bad(error.to_string())),
    }
}

fn variable(text: &str) -> Result<String, WrongProfile> {
    let name = text.strip_suffix('*').unwrap_or(text);
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name {
        Ok(text.to_owned())
    } else {
        Err(WrongProfile::Variable(text.to_owned()))
    }
}

fn pattern(text: &str) -> Result<Pattern, WrongProfile> {
    Pattern::parse(text).map_err(|bad| WrongProfile::Value {
        text: text.to_owned(),
        reason: bad.to_string(),
    })
}

/// A pattern that matches only its own text.
fn one_file(text: &str) -> Result<Pattern, WrongProfile> {
    below_home(text)?;
    if text.contains(['*', '?', '[', ']', '{', '}', '\\']) {
        Err(WrongProfile::Several(text.to_owned()))
    } else {
        pattern(text)
    }
}
