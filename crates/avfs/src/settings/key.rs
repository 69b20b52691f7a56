//! The keys of `avfs.toml`, and what a value of each may be.

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
pub enum Key {
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
    TasksIgnored,
}

/// What a value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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

/// What was written is not what the key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongValue {
    pub expected: String,
    pub found: String,
}

impl Key {
    pub const ALL: [Key; 17] = [
        Key::Home,
        Key::Vault,
        Key::Color,
        Key::Wait,
        Key::RetentionAll,
        Key::RetentionHourly,
        Key::RetentionDaily,
        Key::RetentionDiskShare,
        Key::SearchEnabled,
        Key::QuotaBytes,
        Key::QuotaFiles,
        Key::MountTransport,
        Key::RunMemory,
        Key::RunTimeout,
        Key::RunPids,
        Key::RunDetachKeys,
        Key::TasksIgnored,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Key::Home => "home",
            Key::Vault => "vault",
            Key::Color => "color",
            Key::Wait => "wait",
            Key::RetentionAll => "retention.all",
            Key::RetentionHourly => "retention.hourly",
            Key::RetentionDaily => "retention.daily",
            Key::RetentionDiskShare => "retention.disk_share",
            Key::SearchEnabled => "search.enabled",
            Key::QuotaBytes => "quota.bytes",
            Key::QuotaFiles => "quota.files",
            Key::MountTransport => "mount.transport",
            Key::RunMemory => "run.memory",
            Key::RunTimeout => "run.timeout",
            Key::RunPids => "run.pids",
            Key::RunDetachKeys => "run.detach_keys",
            Key::TasksIgnored => "tasks.ignored",
        }
    }

    pub fn named(name: &str) -> Option<Key> {
        Key::ALL.into_iter().find(|key| key.name() == name)
    }

    /// The environment variable: `retention.all` is `AVFS_RETENTION_ALL`.
    pub fn variable(self) -> String {
        format!("AVFS_{}", self.name().replace('.', "_").to_ascii_uppercase())
    }

    pub fn about(self) -> &'static str {
        match self {
            Key::Home => "where the store is; a project cannot set it",
            Key::Vault => "the vault that commands work on",
            Key::Color => "colour in the output",
            Key::Wait => "how long to wait for a vault that another process has open",
            Key::RetentionAll => "keep every automatic snapshot for this long",
            Key::RetentionHourly => "then one an hour, up to this age",
            Key::RetentionDaily => "then one a day, up to this age",
            Key::RetentionDiskShare => "share of the disk that automatic snapshots may hold",
            Key::SearchEnabled => "keep the full-text index of new vaults",
            Key::QuotaBytes => "bytes that a new vault may hold",
            Key::QuotaFiles => "files that a new vault may hold",
            Key::MountTransport => "how requests of mounts come from the kernel",
            Key::RunMemory => "memory for all processes of a run together; a project cannot set it",
            Key::RunTimeout => "how long a run may take; a project cannot set it",
            Key::RunPids => "how many processes a run may have at a time; a project cannot set it",
            Key::RunDetachKeys => "the keys that leave a run and let it go on; a project cannot set it",
            Key::TasksIgnored => "show and apply ignored files of tasks too",
        }
    }

    pub fn kind(self) -> Kind {
        match self {
            Key::Home => Kind::Directory,
            Key::Vault => Kind::Text,
            Key::Color => Kind::OneOf(&["auto", "always", "never"]),
            Key::Wait | Key::RetentionAll | Key::RetentionHourly | Key::RetentionDaily => Kind::Span,
            Key::RetentionDiskShare => Kind::Share,
            Key::SearchEnabled | Key::TasksIgnored => Kind::Switch,
            Key::QuotaBytes => Kind::Bytes,
            Key::QuotaFiles => Kind::Count,
            Key::MountTransport => Kind::OneOf(&["auto", "device", "uring"]),
            Key::RunMemory => Kind::Bytes,
            Key::RunTimeout => Kind::Limit,
            Key::RunPids => Kind::Count,
            Key::RunDetachKeys => Kind::Keys,
        }
    }

    /// The value that nobody has to set; `None` where there is no limit or no choice.
    pub fn default(self) -> Option<Value> {
        const DAY: u64 = 86_400;
        let days = |count| Some(Value::Span(Duration::from_secs(count * DAY)));
        match self {
            Key::Home | Key::Vault | Key::QuotaBytes | Key::QuotaFiles => None,
            Key::RunMemory | Key::RunTimeout => None,
            Key::RunPids => Some(Value::Number(8192)),
            Key::RunDetachKeys => Some(Value::Text(DetachKeys::USUAL.to_owned())),
            Key::Color | Key::MountTransport => Some(Value::Text("auto".to_owned())),
            Key::Wait => Some(Value::Span(Duration::from_secs(10))),
            Key::RetentionAll => days(1),
            Key::RetentionHourly => days(7),
            Key::RetentionDaily => days(30),
            Key::RetentionDiskShare => Some(Value::Share(0.1)),
            Key::SearchEnabled => Some(Value::Switch(true)),
            Key::TasksIgnored => Some(Value::Switch(false)),
        }
    }

    /// Whether a project's file may set it. A project that someone else wrote must not lead the user's
    /// vaults to another place, lift the limits of runs, or lock the user into one.
    pub fn allowed_in_project(self) -> bool {
        use Key::{Home, RunDetachKeys, RunMemory, RunPids, RunTimeout};
        !matches!(self, Home | RunMemory | RunTimeout | RunPids | RunDetachKeys)
    }
}

/// Quotas can be lifted again by a later layer.
const UNLIMITED: &str = "unlimited";

impl Kind {
    /// Reads a value from a flag or a variable. `Ok(None)`: explicitly without a limit.
    pub fn read_text(self, raw: &OsStr) -> Result<Option<Value>, WrongValue> {
        let wrong = || self.wrong(format!("'{}'", printable_os(raw)));
        // A relative path is meant from the working directory here, and from nowhere in a file.
        if self == Kind::Directory && !raw.is_empty() {
            return Ok(Some(Value::Directory(raw.into())));
        }
        let text = raw.to_str().ok_or_else(wrong)?;
        match self {
            Kind::Switch => text.parse().map(|on| Some(Value::Switch(on))).map_err(|_| wrong()),
            Kind::Share => text.parse().ok().and_then(share).map(Some).ok_or_else(wrong),
            Kind::Count if text != UNLIMITED => {
                text.parse().map(|n| Some(Value::Number(n))).map_err(|_| wrong())
            }
            _ => self.read_string(text).ok_or_else(wrong),
        }
    }

    /// Reads a value from a file, where the type must be right as well.
    pub fn read_toml(self, value: &DeValue<'_>) -> Result<Option<Value>, WrongValue> {
        let read = match (self, value) {
            (Kind::Switch, DeValue::Boolean(on)) => Some(Some(Value::Switch(*on))),
            (Kind::Share, DeValue::Float(number)) => number.as_str().parse().ok().and_then(share).map(Some),
            (Kind::Share, DeValue::Integer(number)) => number.as_str().parse().ok().and_then(share).map(Some),
            (Kind::Count | Kind::Bytes, DeValue::Integer(number)) => whole_number(number).map(Some),
            (_, DeValue::String(text)) => self.read_string(text),
            _ => None,
        };
        read.ok_or_else(|| self.wrong(describe(value)))
    }

    /// The kinds that are written as a string, wherever they are written.
    fn read_string(self, text: &str) -> Option<Option<Value>> {
        match self {
            Kind::Directory if text.starts_with('/') => Some(Some(Value::Directory(text.into()))),
            Kind::Text if !text.is_empty() => Some(Some(Value::Text(text.to_owned()))),
            Kind::OneOf(choices) if choices.contains(&text) => Some(Some(Value::Text(text.to_owned()))),
            Kind::Span => parse_span(text).ok().map(|span| Some(Value::Span(span))),
            Kind::Bytes | Kind::Count | Kind::Limit if text == UNLIMITED => Some(None),
            Kind::Limit => parse_span(text).ok().map(|span| Some(Value::Span(span))),
            Kind::Keys => DetachKeys::parse(text).map(|_| Some(Value::Text(text.to_owned()))),
            Kind::Bytes => parse_size(text).ok().map(|bytes| Some(Value::Number(bytes))),
            _ => None,
        }
    }

    fn wrong(self, found: String) -> WrongValue {
        WrongValue { expected: self.to_string(), found }
    }
}

fn share(number: f64) -> Option<Value> {
    (0.0..=1.0).contains(&number).then_some(Value::Share(number))
}

fn whole_number(number: &toml::de::DeInteger<'_>) -> Option<Value> {
    u64::from_str_radix(number.as_str(), number.radix()).ok().map(Value::Number)
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

/// What a value of this kind looks like, for error messages.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Directory => f.write_str("the full path of a directory, such as \"/data/avfs\""),
            Kind::Text => f.write_str("a name in quotes"),
            Kind::OneOf(choices) => write!(f, "one of \"{}\"", choices.join("\", \"")),
            Kind::Span => f.write_str("a length of time, such as \"12h\" or \"7d\""),
            Kind::Share => f.write_str("a number from 0 to 1, such as 0.1"),
            Kind::Switch => f.write_str("true or false"),
            Kind::Bytes => f.write_str("a size, such as \"10G\", or \"unlimited\""),
            Kind::Count => f.write_str("a whole number, or \"unlimited\""),
            Kind::Limit => f.write_str("a length of time, such as \"30m\", or \"unlimited\""),
            Kind::Keys => {
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
    fn check_text(kind: Kind, text: &str, expected: Result<Option<Value>, &str>) {
        let read = kind.read_text(OsStr::new(text)).map_err(|wrong| wrong.found);
        assert_eq!(read, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_variable_is_read_by_its_kind() {
        check_text(Kind::Switch, "false", Ok(Some(Value::Switch(false))));
        check_text(Kind::Switch, "no", Err("'no'"));
        check_text(Kind::Share, "0.25", Ok(Some(Value::Share(0.25))));
        check_text(Kind::Share, "1.5", Err("'1.5'"));
        check_text(Kind::Share, "NaN", Err("'NaN'"));
        check_text(Kind::Bytes, "1k", Ok(Some(Value::Number(1024))));
        check_text(Kind::Bytes, "unlimited", Ok(None));
        check_text(Kind::Count, "7", Ok(Some(Value::Number(7))));
        check_text(Kind::Count, "unlimited", Ok(None));
        check_text(Kind::Count, "7k", Err("'7k'"));
        check_text(Kind::OneOf(&["a"]), "b", Err("'b'"));
        check_text(Kind::Text, "web", Ok(Some(Value::Text("web".to_owned()))));
    }

    #[test]
    fn names_and_variables_are_unique_and_read_back() {
        for key in Key::ALL {
            assert_eq!(Key::named(key.name()), Some(key));
        }
        assert_eq!(Key::RetentionDiskShare.variable(), "AVFS_RETENTION_DISK_SHARE");
    }

    #[test]
    fn the_documentation_lists_every_key_and_no_other() {
        let page = include_str!("../../../../docs/cli.md");
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        let cells = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
        let documented: Vec<_> = cells.map(|cells| format!("{} | {}", cells[0], cells[2])).collect();
        assert_eq!(documented, Key::ALL.map(|key| format!("| `{}` | {} |", key.name(), key.about())));
    }
}
