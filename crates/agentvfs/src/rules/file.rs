//! A file of rules: the `[rules]` section of a TOML file.

use std::path::Path;

use avfs_core::TreePath;
use avfs_core::rules::{BadLevel, BadRule, BadRules, Level, Rule, RuleOrigin, Rules};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{RuleFault, did_you_mean, note_on, similar_level};
use crate::error::{Error, Result, RulesError};
use crate::name::closest;
use crate::toml_text::TomlText;

const SECTION: &str = "rules";
const EXTENDS: &str = "extends";
const LEVELS: &str = "levels";
const EXPECT: &str = "expect";

/// More than the largest list of rules needs.
const FILE_MAX: u64 = 32 << 20;

/// Rules that were read from a file, with the file's expectations checked.
#[derive(Clone, Debug)]
pub struct RuleFile {
    /// The rules of the presets that the file extends come first.
    pub rules: Rules,
    /// Possible unintended effects of rules, each with its position.
    pub notes: Vec<String>,
    /// The number of checked expectations.
    pub expected: usize,
}

impl RuleFile {
    /// Reads a file. `others` are the names of other allowed sections.
    pub fn read(file: &Path, others: &[&str]) -> Result<RuleFile> {
        let place = shown(file);
        let failed = |source| Error::Host {
            action: "reading",
            place: place.clone(),
            source,
        };
        // Before it is read: a wrong file may have any size.
        if std::fs::metadata(file).map_err(failed)?.len() > FILE_MAX {
            return Err(RuleFault::new(&place, "too long for a file of rules").into());
        }
        let bytes = std::fs::read(file).map_err(failed)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
            RuleFileReader::new(&place, &before).fault(before.len(), "this is not UTF-8")
        })?;
        Ok(RuleFile::parse(&place, &text, others)?)
    }

    /// Reads the text of a file; `place` is the file's name in messages.
    pub fn parse(place: &str, text: &str, others: &[&str]) -> Result<RuleFile, RuleFault> {
        let reader = RuleFileReader::new(place, text);
        let table = DeTable::parse(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            reader.fault(offset, error.message())
        })?;
        let section = reader.section(table.get_ref(), others)?;
        let (rules, notes) = reader.rules(section)?;
        let rules = Rules::new(rules).map_err(|bad| reader.undecidable(bad))?;
        // The file is refused if its rules do not do what it says of them.
        let expected = reader.check_expectations(section, &rules)?;
        Ok(RuleFile {
            rules,
            notes,
            expected,
        })
    }
}

fn shown(file: &Path) -> String {
    avfs_core::printable(std::os::unix::ffi::OsStrExt::as_bytes(file.as_os_str()))
}

struct RuleFileReader<'a>(TomlText<'a>);

impl<'a> RuleFileReader<'a> {
    fn new(place: &'a str, text: &'a str) -> RuleFileReader<'a> {
        RuleFileReader(TomlText::new(place, text))
    }
}

type Found<'a, 'i> = (&'a Spanned<std::borrow::Cow<'i, str>>, &'a Spanned<DeValue<'i>>);

impl RuleFileReader<'_> {
    fn place_of(&self, offset: usize) -> String {
        self.0.place_of(offset)
    }

    fn fault(&self, offset: usize, reason: impl ToString) -> RuleFault {
        RuleFault::new(self.place_of(offset), reason)
    }

    /// Rules that are each right and cannot be used together.
    fn undecidable(&self, bad: BadRules) -> RuleFault {
        let of_rule = match &bad {
            BadRules::TooComplex { rule } => rule.origin.as_str().strip_prefix(self.0.place),
            BadRules::TooMany(_) => None,
        };
        // A rule of a preset has an origin that is no place of this file.
        let line = of_rule.and_then(|line| line.strip_prefix(':')).unwrap_or("1");
        RuleFault::new(format!("{}:{line}:1", self.0.place), bad)
    }

    fn section<'a, 'i>(&self, table: &'a DeTable<'i>, others: &[&str]) -> Result<&'a DeTable<'i>, RuleFault> {
        let mut section = None;
        for (key, value) in table {
            match key.get_ref().as_ref() {
                SECTION => section = Some(self.table(SECTION, (key, value))?),
                other if others.contains(&other) => {}
                other => return Err(self.unknown_key(other, key, others.iter().copied().chain([SECTION]))),
            }
        }
        section.ok_or_else(|| self.fault(0, "there is no section [rules]"))
    }

    fn table<'a, 'i>(&self, name: &str, found: Found<'a, 'i>) -> Result<&'a DeTable<'i>, RuleFault> {
        let wrong = || {
            self.fault(
                found.0.span().start,
                format!("'{name}' is to be a section: write [{name}]"),
            )
        };
        found.1.get_ref().as_table().ok_or_else(wrong)
    }

    fn unknown_key<'a, T>(
        &self,
        name: &str,
        key: &Spanned<T>,
        known: impl Iterator<Item = &'a str>,
    ) -> RuleFault {
        let reason = format!("unknown key '{}'", avfs_core::printable(name.as_bytes()));
        let hint = closest(name, known).map(did_you_mean);
        RuleFault {
            hint,
            ..self.fault(key.span().start, reason)
        }
    }

    /// The rules, and notes on them.
    fn rules(&self, section: &DeTable<'_>) -> Result<(Vec<Rule>, Vec<String>), RuleFault> {
        let (mut rules, mut notes) = (Vec::new(), Vec::new());
        let mut levels = None;
        for (key, value) in section {
            match key.get_ref().as_ref() {
                EXTENDS => self.extend(value, &mut rules)?,
                LEVELS => levels = Some(self.table("rules.levels", (key, value))?),
                EXPECT => {}
                other => {
                    return Err(self.unknown_key(other, key, [EXTENDS, LEVELS, EXPECT].into_iter()));
                }
            }
        }
        let mut entries: Vec<Found<'_, '_>> = levels.into_iter().flatten().collect();
        // The parser sorts keys by name, and later rules take precedence over earlier ones.
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let rule = self.rule(key, value)?;
            let place = self.place_of(key.span().start);
            notes.extend(note_on(&rule).map(|note| format!("{place}: {note}")));
            rules.push(rule);
        }
        Ok((rules, notes))
    }

    fn extend(&self, value: &Spanned<DeValue<'_>>, rules: &mut Vec<Rule>) -> Result<(), RuleFault> {
        let names: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
            DeValue::Array(names) => names.iter().collect(),
            _ => vec![value],
        };
        for name in names {
            let Some(text) = name.get_ref().as_str() else {
                let reason = "'extends' is the name of a preset, or a list of names";
                return Err(self.fault(name.span().start, reason));
            };
            let place = self.place_of(name.span().start + 1);
            let preset = super::preset(&place, text).map_err(|error| match error {
                Error::Rules(RulesError::Fault(fault)) => fault,
                other => RuleFault::new(&place, other),
            })?;
            rules.extend(preset.rules());
        }
        Ok(())
    }

    fn rule(
        &self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Rule, RuleFault> {
        let pattern = key.get_ref();
        let Some(level) = value.get_ref().as_str() else {
            let reason = "a level is to be written in quotes, such as \"read\" or \"read@10\"";
            return Err(self.fault(value.span().start, reason));
        };
        // The two are joined to be parsed, and a second sign would move part of the level into the pattern.
        let parsed = if level.contains('=') {
            Err(BadRule::Level {
                position: pattern.len() + 1,
                fault: BadLevel(level.to_owned()),
            })
        } else {
            Rule::parse(&format!("{pattern}={level}"))
        };
        let rule = parsed.map_err(|bad| {
            let offset = match bad.position().checked_sub(pattern.len() + 1) {
                Some(within) => self.within(value.span(), level, within),
                None => self.within(key.span(), pattern, bad.position()),
            };
            RuleFault::of_rule(self.place_of(offset), &bad)
        })?;
        let line = self.place_of(key.span().start);
        let line = line.rsplit_once(':').map_or(line.as_str(), |(line, _)| line);
        Ok(rule.with_origin(RuleOrigin::new(line)))
    }

    /// The position in the file of a byte of a string. If the string has escapes, its start is returned.
    fn within(&self, span: std::ops::Range<usize>, value: &str, position: usize) -> usize {
        let written = self.0.text.get(span.clone()).unwrap_or_default();
        match written.find(value) {
            // Found as it is written; a value with escapes is not, and then its beginning has to do.
            Some(start) => span.start + start + position,
            None => span.start,
        }
    }

    fn check_expectations(&self, section: &DeTable<'_>, rules: &Rules) -> Result<usize, RuleFault> {
        let Some((key, value)) = section.get_key_value(EXPECT) else {
            return Ok(0);
        };
        let table = self.table("rules.expect", (key, value))?;
        for (path, level) in table {
            self.check_expectation((path, level), rules)?;
        }
        Ok(table.len())
    }

    fn check_expectation(&self, (key, value): Found<'_, '_>, rules: &Rules) -> Result<(), RuleFault> {
        let at_path = |reason: String| self.fault(key.span().start, reason);
        let path = TreePath::parse(key.get_ref().as_bytes()).map_err(|bad| at_path(bad.to_string()))?;
        let text = value.get_ref().as_str().unwrap_or_default();
        let expected: Level = text.parse().map_err(|bad: BadLevel| {
            let offset = self.within(value.span(), text, 0);
            RuleFault {
                hint: similar_level(text),
                ..self.fault(offset, bad)
            }
        })?;
        let found = rules.explain(&path, |_| avfs_core::Labels::default());
        if found.level == expected {
            return Ok(());
        }
        let by = match &found.deciding {
            Some(rule) if rule.origin.as_str().is_empty() => format!("by {rule}"),
            Some(rule) => format!("by {rule} ({})", rule.origin),
            None => "as no rule is about it".to_owned(),
        };
        Err(at_path(format!(
            "{path} is expected to have level {expected}, and has {} {by}",
            found.level
        )))
    }
}
