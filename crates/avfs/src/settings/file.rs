//! One `avfs.toml`: from text to keys, values and their line numbers.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::SettingsError;
use super::key::{SettingKey, Value};
use crate::suggest;

/// The sections that are not about settings.
const OTHERS: [&str; 2] = ["rules", "setup"];

/// One line of a file that sets something.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    pub key: SettingKey,
    pub value: Option<Value>,
    pub line: usize,
}

/// Reads a file's text. Every key must be known and every value of its kind, or nothing is taken from it.
pub fn parse(file: &Path, text: &str) -> Result<Vec<Assignment>, SettingsError> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = line_at(text, error.span().map_or(0, |span| span.start));
        SettingsError::Syntax {
            file: file.to_owned(),
            line,
            detail: error.message().to_owned(),
        }
    })?;
    let mut reader = SettingsReader {
        file,
        text,
        found: Vec::new(),
    };
    reader.table("", table.get_ref())?;
    // The parser's tables are sorted by key; messages and listings follow the file.
    reader.found.sort_by_key(|assignment| assignment.line);
    Ok(reader.found)
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text
        .as_bytes()
        .iter()
        .take(offset)
        .filter(|byte| **byte == b'\n')
        .count()
}

struct SettingsReader<'a> {
    file: &'a Path,
    text: &'a str,
    found: Vec<Assignment>,
}

impl SettingsReader<'_> {
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) -> Result<(), SettingsError> {
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            // They apply only if the user names or allows them: a project cannot loosen anything by itself.
            if OTHERS.contains(&name.as_str()) {
                continue;
            }
            let line = line_at(self.text, key.span().start);
            self.entry(&name, value.get_ref(), line)?;
        }
        Ok(())
    }

    fn entry(&mut self, name: &str, value: &DeValue<'_>, line: usize) -> Result<(), SettingsError> {
        let inner = format!("{name}.");
        let is_section = SettingKey::ALL.iter().any(|key| key.name().starts_with(&inner));
        match (SettingKey::named(name), value) {
            (Some(key), value) => self.assign(key, value, line),
            // Dotted keys and sections are the same to TOML, so both forms arrive here as tables.
            (None, DeValue::Table(table)) if is_section => self.table(&inner, table),
            (None, _) if is_section => Err(SettingsError::NotASection {
                file: self.file.to_owned(),
                line,
                section: name.to_owned(),
            }),
            (None, _) => Err(self.unknown(name, line)),
        }
    }

    fn assign(&mut self, key: SettingKey, value: &DeValue<'_>, line: usize) -> Result<(), SettingsError> {
        let wrong = |wrong| SettingsError::WrongValue {
            place: format!("{}:{line}", crate::escape::printable_path(self.file)),
            key,
            wrong,
        };
        let value = key.kind().read_toml(value).map_err(wrong)?;
        self.found.push(Assignment { key, value, line });
        Ok(())
    }

    fn unknown(&self, name: &str, line: usize) -> SettingsError {
        let suggestion = suggest::closest(name, SettingKey::ALL.map(SettingKey::name));
        SettingsError::UnknownKey {
            file: self.file.to_owned(),
            line,
            name: name.to_owned(),
            suggestion: suggestion.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let shown = match parse(Path::new("avfs.toml"), text) {
            Ok(found) => {
                let line = |a: &Assignment| {
                    let value = a.value.as_ref().map_or("unlimited".to_owned(), Value::to_string);
                    format!("{}: {} = {value}", a.line, a.key.name())
                };
                found.iter().map(line).collect::<Vec<_>>().join("; ")
            }
            Err(error) => match error.hint() {
                Some(hint) => format!("{error} [{hint}]"),
                None => error.to_string(),
            },
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn sections_and_dotted_keys_mean_the_same() {
        check(
            "[retention]\nall = \"2d\"\ndisk_share = 1",
            "2: retention.all = 2d; 3: retention.disk_share = 1",
        );
        check("retention.all = \"2d\"", "1: retention.all = 2d");
        check("retention = { all = \"2d\" }", "1: retention.all = 2d");
        check("", "");
    }

    #[test]
    fn values_of_every_kind_are_read() {
        check(
            "vault = \"web\"\ncolor = \"never\"",
            "1: vault = web; 2: color = never",
        );
        check(
            "quota.bytes = \"1k\"\nquota.files = 0x10",
            "1: quota.bytes = 1024; 2: quota.files = 16",
        );
        check(
            "quota.bytes = 5\nquota.files = \"unlimited\"",
            "1: quota.bytes = 5; 2: quota.files = unlimited",
        );
        check(
            "search.enabled = false\nhome = \"/data\"",
            "1: search.enabled = false; 2: home = /data",
        );
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line_and_a_suggestion() {
        check(
            "\nvalut = \"web\"",
            "avfs.toml:2: unknown key 'valut' [did you mean 'vault'?]",
        );
        let misspelt = "avfs.toml:2: unknown key 'retention.al' [did you mean 'retention.all'?]";
        check("[retention]\nal = \"2d\"", misspelt);
        check(
            "hourly = \"2d\"",
            "avfs.toml:1: unknown key 'hourly' [did you mean 'retention.hourly'?]",
        );
        for text in ["banana = 1", "[banana]\nx = 1"] {
            let error = parse(Path::new("avfs.toml"), text).unwrap_err();
            let hint = error.hint().unwrap();
            assert_eq!(error.to_string(), "avfs.toml:1: unknown key 'banana'");
            // Every command would fail as this one did.
            assert!(
                hint.contains("the nearest are '") && !hint.contains("config show"),
                "{hint}"
            );
        }
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_line_and_what_it_should_be() {
        check(
            "vault = 3",
            "avfs.toml:1: vault is the number 3, and should be a name in quotes",
        );
        check(
            "search.enabled = \"yes\"",
            "avfs.toml:1: search.enabled is 'yes', and should be true or false",
        );
        check(
            "color = \"pink\"",
            "avfs.toml:1: color is 'pink', and should be one of \"auto\", \"always\", \"never\"",
        );
        check(
            "retention.disk_share = 2.5",
            "avfs.toml:1: retention.disk_share is the number 2.5, and should be a number from 0 to 1, such as 0.1",
        );
        check(
            "quota.files = -1",
            "avfs.toml:1: quota.files is the number -1, and should be a whole number, or \"unlimited\"",
        );
        check(
            "\nretention = 3",
            "avfs.toml:2: 'retention' is a section, and should be written as [retention] with keys below",
        );
        check(
            "home = \"data\"",
            "avfs.toml:1: home is 'data', and should be the full path of a directory, such as \"/data/avfs\"",
        );
        check(
            "vault.x = 3",
            "avfs.toml:1: vault is a table, and should be a name in quotes",
        );
    }

    #[test]
    fn rules_sections_are_ignored_unless_the_file_is_named() {
        check(
            "vault = \"web\"\n[rules]\nextends = \"full-access\"\nnonsense = 1",
            "1: vault = web",
        );
    }

    #[test]
    fn invalid_toml_is_refused_with_its_line() {
        check("vault = \"a\"\nvault = \"b\"", "avfs.toml:2: duplicate key");
        let error = parse(Path::new("avfs.toml"), "\n\nvault = ").unwrap_err();
        assert!(error.to_string().starts_with("avfs.toml:3: "), "{error}");
    }
}
