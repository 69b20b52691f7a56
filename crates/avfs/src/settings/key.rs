//! The keys of `avfs.toml`, and their possible values.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use toml::de::DeValue;

use crate::escape::{printable_os, printable_path};
use crate::size::parse_size;
use crate::terminal::DetachKeys;
use crate::time::{parse_span, show_span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKey {
    Home,
    Vault,
    Color,
    Wait,
    RetentionAll,
    RetentionHourly,
    RetentionDaily,
    RetentionDiskShare,
    SearchEnabled,
    QuotaBytes,
    QuotaFiles,
    MountTransport,
    RunMemory,
    RunTimeout,
    RunPids,
    RunDetachKeys,
    ContainersRuntime,
    TasksIgnored,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    Directory,
    Text,
    OneOf(&'static [&'static str]),
    Span,
    /// A share of something: 0 to 1.
    Share,
    Switch,
    Bytes,
    Count,
    /// A length of time, or none.
    Limit,
    /// Keys that are pressed one after another.
    Keys,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Directory(PathBuf),
    Text(String),
    Span(Duration),
    Share(f64),
    Switch(bool),
    Number(u64),
}

/// The value does not have the type of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongValue {
    pub expected: String,
    pub found: String,
}

impl SettingKey {
    pub const ALL: [SettingKey; 18] = [
        SettingKey::Home,
        SettingKey::Vault,
        SettingKey::Color,
        SettingKey::Wait,
        SettingKey::RetentionAll,
        SettingKey::RetentionHourly,
        SettingKey::RetentionDaily,
        SettingKey::RetentionDiskShare,
        SettingKey::SearchEnabled,
        SettingKey::QuotaBytes,
        SettingKey::QuotaFiles,
        SettingKey::MountTransport,
        SettingKey::RunMemory,
        SettingKey::RunTimeout,
        SettingKey::RunPids,
        SettingKey::RunDetachKeys,
        SettingKey::ContainersRuntime,
        SettingKey::TasksIgnored,
    ];

    pub fn name(self) -> &'static str {
        match self {
            SettingKey::Home => "home",
            SettingKey::Vault => "vault",
            SettingKey::Color => "color",
            SettingKey::Wait => "wait",
            SettingKey::RetentionAll => "retention.all",
            SettingKey::RetentionHourly => "retention.hourly",
            SettingKey::RetentionDaily => "retention.daily",
            SettingKey::RetentionDiskShare => "retention.disk_share",
            SettingKey::SearchEnabled => "search.enabled",
            SettingKey::QuotaBytes => "quota.bytes",
            SettingKey::QuotaFiles => "quota.files",
            SettingKey::MountTransport => "mount.transport",
            SettingKey::RunMemory => "run.memory",
            SettingKey::RunTimeout => "run.timeout",
            SettingKey::RunPids => "run.pids",
            SettingKey::RunDetachKeys => "run.detach_keys",
            SettingKey::ContainersRuntime => "containers.runtime",
            SettingKey::TasksIgnored => "tasks.ignored",
        }
    }

    pub fn named(name: &str) -> Option<SettingKey> {
        SettingKey::ALL.into_iter().find(|key| key.name() == name)
    }

    /// The environment variable: `retention.all` is `AVFS_RETENTION_ALL`.
    pub fn variable(self) -> String {
        format!("AVFS_{}", self.name().replace('.', "_").to_ascii_uppercase())
    }

    pub fn about(self) -> &'static str {
        match self {
            SettingKey::Home => "where the store is; a project cannot set it",
            SettingKey::Vault => "the vault that commands work on",
            SettingKey::Color => "colour in the output",
            SettingKey::Wait => "how long to wait for a vault that another process has open",
            SettingKey::RetentionAll => "keep every automatic snapshot for this long",
            SettingKey::RetentionHourly => "then one an hour, up to this age",
            SettingKey::RetentionDaily => "then one a day, up to this age",
            SettingKey::RetentionDiskShare => "share of the disk that automatic snapshots may use",
            SettingKey::SearchEnabled => "maintain a full-text index for new vaults",
            SettingKey::QuotaBytes => "bytes that a new vault may hold",
            SettingKey::QuotaFiles => "entries (files, directories and links) that a new vault may hold",
            SettingKey::MountTransport => "how the kernel sends the requests of a mount",
            SettingKey::RunMemory => "memory for all processes of a run together; a project cannot set it",
            SettingKey::RunTimeout => "how long a run may take; a project cannot set it",
            SettingKey::RunPids => "how many processes a run may have at once; a project cannot set it",
            SettingKey::RunDetachKeys => {
                "the keys that detach from a run and let it continue; a project cannot set it"
            }
            SettingKey::ContainersRuntime => {
                "what makes containers: runc, crun, or the path of a program like them; a project cannot set it"
            }
            SettingKey::TasksIgnored => "also show and apply ignored files of tasks",
        }
    }

    pub fn kind(self) -> ValueKind {
        match self {
            SettingKey::Home => ValueKind::Directory,
            SettingKey::Vault | SettingKey::ContainersRuntime => ValueKind::Text,
            SettingKey::Color => ValueKind::OneOf(&["auto", "always", "never"]),
            SettingKey::Wait
            | SettingKey::RetentionAll
            | SettingKey::RetentionHourly
            | SettingKey::RetentionDaily => ValueKind::Span,
            SettingKey::RetentionDiskShare => ValueKind::Share,
            SettingKey::SearchEnabled | SettingKey::TasksIgnored => ValueKind::Switch,
            SettingKey::QuotaBytes => ValueKind::Bytes,
            SettingKey::QuotaFiles => ValueKind::Count,
            SettingKey::MountTransport => ValueKind::OneOf(&["auto", "device", "uring"]),
            SettingKey::RunMemory => ValueKind::Bytes,
            SettingKey::RunTimeout => ValueKind::Limit,
            SettingKey::RunPids => ValueKind::Count,
            SettingKey::RunDetachKeys => ValueKind::Keys,
        }
    }

    /// The default value; `None` if there is no limit or no choice.
    pub fn default(self) -> Option<Value> {
        const DAY: u64 = 86_400;
        let days = |count| Some(Value::Span(Duration::from_secs(count * DAY)));
        match self {
            SettingKey::Home | SettingKey::Vault | SettingKey::QuotaBytes | SettingKey::QuotaFiles => None,
            SettingKey::RunMemory | SettingKey::RunTimeout | SettingKey::ContainersRuntime => None,
            SettingKey::RunPids => Some(Value::Number(8192)),
            SettingKey::RunDetachKeys => Some(Value::Text(DetachKeys::USUAL.to_owned())),
            SettingKey::Color | SettingKey::MountTransport => Some(Value::Text("auto".to_owned())),
            SettingKey::Wait => Some(Value::Span(Duration::from_secs(10))),
            SettingKey::RetentionAll => days(1),
            SettingKey::RetentionHourly => days(7),
            SettingKey::RetentionDaily => days(30),
            SettingKey::RetentionDiskShare => Some(Value::Share(0.1)),
            SettingKey::SearchEnabled => Some(Value::Switch(true)),
            SettingKey::TasksIgnored => Some(Value::Switch(false)),
        }
    }

    /// Whether a project's file may set it. A project by an unknown author must not redirect the user's
    /// vaults, lift the limits of runs, start programs, or restrict the user to one vault.
    pub fn allowed_in_project(self) -> bool {
        use SettingKey::{ContainersRuntime, Home, RunDetachKeys, RunMemory, RunPids, RunTimeout};
        !matches!(
            self,
            Home | RunMemory | RunTimeout | RunPids | RunDetachKeys | ContainersRuntime
        )
    }
}

/// Quotas can be lifted again by a later layer.
const UNLIMITED: &str = "unlimited";

impl ValueKind {
    /// Reads a value from a flag or a variable. `Ok(None)`: explicitly without a limit.
    pub fn read_text(self, raw: &OsStr) -> Result<Option<Value>, WrongValue> {
        let wrong = || self.wrong(format!("'{}'", printable_os(raw)));
        // A relative path is meant from the working directory here, and from nowhere in a file.
        if self == ValueKind::Directory && !raw.is_empty() {
            return Ok(Some(Value::Directory(raw.into())));
        }
        let text = raw.to_str().ok_or_else(wrong)?;
        match self {
            ValueKind::Switch => text
                .parse()
                .map(|on| Some(Value::Switch(on)))
                .map_err(|_| wrong()),
            ValueKind::Share => text.parse().ok().and_then(share).map(Some).ok_or_else(wrong),
            ValueKind::Count if text != UNLIMITED => {
                text.parse().map(|n| Some(Value::Number(n))).map_err(|_| wrong())
            }
            _ => self.read_string(text).ok_or_else(wrong),
        }
    }

    /// Reads a value from a file, where the type must be right as well.
    pub fn read_toml(self, value: &DeValue<'_>) -> Result<Option<Value>, WrongValue> {
        let read = match (self, value) {
            (ValueKind::Switch, DeValue::Boolean(on)) => Some(Some(Value::Switch(*on))),
            (ValueKind::Share, DeValue::Float(number)) => {
                number.as_str().parse().ok().and_then(share).map(Some)
            }
            (ValueKind::Share, DeValue::Integer(number)) => {
                number.as_str().parse().ok().and_then(share).map(Some)
            }
            (ValueKind::Count | ValueKind::Bytes, DeValue::Integer(number)) => whole_number(number).map(Some),
            (_, DeValue::String(text)) => self.read_string(text),
            _ => None,
        };
        read.ok_or_else(|| self.wrong(describe(value)))
    }

    /// The kinds that are written as a string, wherever they are written.
    fn read_string(self, text: &str) -> Option<Option<Value>> {
        match self {
            ValueKind::Directory if text.starts_with('/') => Some(Some(Value::Directory(text.into()))),
            ValueKind::Text if !text.is_empty() => Some(Some(Value::Text(text.to_owned()))),
            ValueKind::OneOf(choices) if choices.contains(&text) => Some(Some(Value::Text(text.to_owned()))),
            ValueKind::Span => parse_span(text).ok().map(|span| Some(Value::Span(span))),
            ValueKind::Bytes | ValueKind::Count | ValueKind::Limit if text == UNLIMITED => Some(None),
            ValueKind::Limit => parse_span(text).ok().map(|span| Some(Value::Span(span))),
            ValueKind::Keys => DetachKeys::parse(text).map(|_| Some(Value::Text(text.to_owned()))),
            ValueKind::Bytes => parse_size(text).ok().map(|bytes| Some(Value::Number(bytes))),
            _ => None,
        }
    }

    fn wrong(self, found: String) -> WrongValue {
        WrongValue {
            expected: self.to_string(),
            found,
        }
    }
}

fn share(number: f64) -> Option<Value> {
    (0.0..=1.0).contains(&number).then_some(Value::Share(number))
}

fn whole_number(number: &toml::de::DeInteger<'_>) -> Option<Value> {
    u64::from_str_radix(number.as_str(), number.radix())
        .ok()
        .map(Value::Number)
}

fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("'{}'", crate::escape::printable(text.as_bytes())),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(on) => on.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// A description of values of this kind, for error messages.
impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueKind::Directory => f.write_str("the full path of a directory, such as \"/data/avfs\""),
            ValueKind::Text => f.write_str("a name in quotes"),
            ValueKind::OneOf(choices) => write!(f, "one of \"{}\"", choices.join("\", \"")),
            ValueKind::Span => f.write_str("a length of time, such as \"12h\" or \"7d\""),
            ValueKind::Share => f.write_str("a number from 0 to 1, such as 0.1"),
            ValueKind::Switch => f.write_str("true or false"),
            ValueKind::Bytes => f.write_str("a size, such as \"10G\", or \"unlimited\""),
            ValueKind::Count => f.write_str("a whole number, or \"unlimited\""),
            ValueKind::Limit => f.write_str("a length of time, such as \"30m\", or \"unlimited\""),
            ValueKind::Keys => {
                f.write_str("keys with spaces between them, such as \"ctrl-p ctrl-q\", or \"none\"")
            }
        }
    }
}

/// As it is written in a file, without quotes.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Directory(path) => f.write_str(&printable_path(path)),
            Value::Text(text) => f.write_str(&crate::escape::printable(text.as_bytes())),
            Value::Span(span) => f.write_str(&show_span(*span)),
            Value::Share(share) => write!(f, "{share}"),
            Value::Switch(on) => write!(f, "{on}"),
            Value::Number(number) => write!(f, "{number}"),
        }
    }
}

/// As JSON shows it: numbers and switches by their type, everything else as text.
impl Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Text(text) => serializer.serialize_str(text),
            Value::Directory(_) | Value::Span(_) => serializer.collect_str(self),
            Value::Share(share) => serializer.serialize_f64(*share),
            Value::Switch(on) => serializer.serialize_bool(*on),
            Value::Number(number) => serializer.serialize_u64(*number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(kind: ValueKind, text: &str, expected: Result<Option<Value>, &str>) {
        let read = kind.read_text(OsStr::new(text)).map_err(|wrong| wrong.found);
        assert_eq!(read, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_variable_is_read_by_its_kind() {
        check_text(ValueKind::Switch, "false", Ok(Some(Value::Switch(false))));
        check_text(ValueKind::Switch, "no", Err("'no'"));
        check_text(ValueKind::Share, "0.25", Ok(Some(Value::Share(0.25))));
        check_text(ValueKind::Share, "1.5", Err("'1.5'"));
        check_text(ValueKind::Share, "NaN", Err("'NaN'"));
        check_text(ValueKind::Bytes, "1k", Ok(Some(Value::Number(1024))));
        check_text(ValueKind::Bytes, "unlimited", Ok(None));
        check_text(ValueKind::Count, "7", Ok(Some(Value::Number(7))));
        check_text(ValueKind::Count, "unlimited", Ok(None));
        check_text(ValueKind::Count, "7k", Err("'7k'"));
        check_text(ValueKind::OneOf(&["a"]), "b", Err("'b'"));
        check_text(ValueKind::Text, "web", Ok(Some(Value::Text("web".to_owned()))));
    }

    #[test]
    fn names_and_variables_are_unique_and_read_back() {
        for key in SettingKey::ALL {
            assert_eq!(SettingKey::named(key.name()), Some(key));
        }
        assert_eq!(
            SettingKey::RetentionDiskShare.variable(),
            "AVFS_RETENTION_DISK_SHARE"
        );
    }

    #[test]
    fn the_documentation_lists_every_key_and_no_other() {
        let page = include_str!("../../../../docs/cli.md");
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        let cells = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
        let documented: Vec<_> = cells
            .map(|cells| format!("{} | {}", cells[0], cells[2]))
            .collect();
        assert_eq!(
            documented,
            SettingKey::ALL.map(|key| format!("| `{}` | {} |", key.name(), key.about()))
        );
    }
}
