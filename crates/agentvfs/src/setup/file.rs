//! The section as text.

use std::borrow::Cow;
use std::path::PathBuf;

use avfs_core::TreePath;
use avfs_core::rules::{Level, Rule, RuleOrigin};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{GivenFile, Setup, SetupFault};
use crate::name::closest;
use crate::toml_text::TomlText;

const SECTION: &str = "setup";
const COMMANDS: &str = "commands";
const FILES: &str = "files";
const LEVEL: &str = "level";
const FROM: &str = "from";

/// The rules of a setup beat those of presets.
const PRIORITY: i32 = 100;

type Key<'i> = Spanned<Cow<'i, str>>;
type Value<'i> = Spanned<DeValue<'i>>;

/// Reads the section of a file; `None` if it has none. Other sections are ignored.
pub(super) fn parse(place: &str, text: &str) -> Result<Option<Setup>, SetupFault> {
    let reader = SetupFileReader(TomlText::new(place, text));
    let table = DeTable::parse(text)
        .map_err(|error| reader.fault(error.span().map_or(0, |span| span.start), error.message()))?;
    let Some(value) = table.get_ref().get(SECTION) else {
        return Ok(None);
    };
    let section = reader.table(SECTION, value)?;
    reader.check_keys(section, &[COMMANDS, FILES])?;
    let mut setup = Setup::default();
    if let Some(commands) = section.get(COMMANDS) {
        setup.commands = reader.commands(commands)?;
    }
    if let Some(files) = section.get(FILES) {
        reader.files(files, &mut setup)?;
    }
    Ok(Some(setup))
}

struct SetupFileReader<'a>(TomlText<'a>);

impl SetupFileReader<'_> {
    fn fault(&self, offset: usize, reason: impl ToString) -> SetupFault {
        SetupFault {
            place: self.0.place_of(offset),
            reason: reason.to_string(),
            hint: None,
        }
    }

    fn table<'t, 'i>(&self, name: &str, value: &'t Value<'i>) -> Result<&'t DeTable<'i>, SetupFault> {
        let wrong = || self.fault(value.span().start, format!("'{name}' is to be a section"));
        value.get_ref().as_table().ok_or_else(wrong)
    }

    fn text<'t>(&self, name: &str, value: &'t Value<'_>) -> Result<&'t str, SetupFault> {
        let wrong = || self.fault(value.span().start, format!("'{name}' is to be text in quotes"));
        value.get_ref().as_str().ok_or_else(wrong)
    }

    fn check_keys(&self, table: &DeTable<'_>, known: &[&str]) -> Result<(), SetupFault> {
        let unknown = table.keys().find(|key| !known.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown else { return Ok(()) };
        let name = avfs_core::printable(key.get_ref().as_bytes());
        let hint = closest(key.get_ref(), known.iter().copied()).map(did_you_mean);
        Err(SetupFault {
            hint,
            ..self.fault(key.span().start, format!("unknown key '{name}'"))
        })
    }

    fn commands(&self, value: &Value<'_>) -> Result<Vec<String>, SetupFault> {
        let wrong = || self.fault(value.span().start, "'commands' is to be a list of shell commands");
        let list = value.get_ref().as_array().ok_or_else(wrong)?;
        list.iter()
            .map(|command| Ok(self.text(COMMANDS, command)?.to_owned()))
            .collect()
    }

    fn files(&self, value: &Value<'_>, setup: &mut Setup) -> Result<(), SetupFault> {
        let mut entries: Vec<_> = self.table("setup.files", value)?.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            if value.get_ref().as_str().is_some() {
                setup.rules.push(self.rule(key, value)?);
            } else {
                let table = self.table("a file", value)?;
                self.check_keys(table, &[LEVEL, FROM])?;
                let missing = |what| self.fault(value.span().start, format!("a file needs '{what}'"));
                let level = table.get(LEVEL).ok_or_else(|| missing(LEVEL))?;
                let from = self.text(FROM, table.get(FROM).ok_or_else(|| missing(FROM))?)?;
                setup.rules.push(self.rule(key, level)?);
                let path = TreePath::parse(key.get_ref().as_bytes());
                let path = path.map_err(|bad| self.fault(key.span().start, bad))?;
                setup.files.push(GivenFile {
                    path,
                    from: host_path(from),
                });
            }
        }
        Ok(())
    }

    fn rule(&self, key: &Key<'_>, value: &Value<'_>) -> Result<Rule, SetupFault> {
        let text = self.text(LEVEL, value)?;
        let level: Level = text.parse().map_err(|bad: avfs_core::rules::BadLevel| {
            let hint = closest(text, Level::ALL.iter().map(|level| level.as_str())).map(did_you_mean);
            SetupFault {
                hint,
                ..self.fault(value.span().start, bad)
            }
        })?;
        let rule = Rule::parse(&format!("{}={level}@{PRIORITY}", key.get_ref()));
        let rule = rule.map_err(|bad| self.fault(key.span().start, bad))?;
        Ok(rule.with_origin(RuleOrigin::new(&self.0.place_of(key.span().start))))
    }
}

fn did_you_mean(name: String) -> String {
    format!("did you mean '{name}'?")
}

/// A path of the host as people write it.
fn host_path(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(below), Some(home)) => PathBuf::from(home).join(below),
        _ => PathBuf::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_fault(text: &str, expected: &str) {
        let fault = parse("avfs.toml", text).unwrap_err();
        let hint = fault
            .hint
            .as_deref()
            .map(|hint| format!(" ({hint})"))
            .unwrap_or_default();
        assert_eq!(format!("{fault}{hint}"), expected);
    }

    #[test]
    fn a_file_without_the_section_has_no_setup() {
        assert_eq!(
            parse("avfs.toml", "vault = \"web\"\n[rules]\nx = 1").unwrap(),
            None
        );
    }

    #[test]
    fn commands_and_files_are_read_in_their_order() {
        let text = r#"
            [setup]
            commands = ["a b", "c"]
            [setup.files]
            ".env*" = "read"
            "/a/key" = { level = "view", from = "dev.key" }
        "#;
        let setup = parse("avfs.toml", text).unwrap().unwrap();
        assert_eq!(setup.commands, ["a b", "c"]);
        let rules: Vec<String> = setup.rules.iter().map(Rule::to_string).collect();
        assert_eq!(rules, [".env*=read@100", "/a/key=view@100"]);
        let path = TreePath::parse(b"/a/key").unwrap();
        assert_eq!(
            setup.files,
            [GivenFile {
                path,
                from: "dev.key".into()
            }]
        );
    }

    #[test]
    fn error_is_reported_with_its_position() {
        check_fault(
            "[setup]\ncomands = []",
            "avfs.toml:2:1: unknown key 'comands' (did you mean 'commands'?)",
        );
        check_fault(
            "[setup]\ncommands = \"x\"",
            "avfs.toml:2:12: 'commands' is to be a list of shell commands",
        );
        check_fault(
            "[setup.files]\n\"a\" = { level = \"read\" }",
            "avfs.toml:2:7: a file needs 'from'",
        );
        check_fault("setup = 1", "avfs.toml:1:9: 'setup' is to be a section");
        let fault = parse("avfs.toml", "[setup.files]\n\".env\" = \"raed\"").unwrap_err();
        assert_eq!(
            (fault.place.as_str(), fault.hint.as_deref()),
            ("avfs.toml:2:10", Some("did you mean 'read'?"))
        );
    }
}
