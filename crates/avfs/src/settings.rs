//! The user's settings: defaults, two files, the environment and flags, each beating the one before.
//!
//! Nothing here depends on arguments or output, so that other programs can read the same settings.

mod file;
mod key;
mod place;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use key::{SettingKey, Value, WrongValue};
pub use place::UserDirectories;

use agentvfs::mount::Transport;

use crate::escape::printable_path;
use crate::terminal::DetachKeys;

/// Where a value comes from. Later ones beat earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    UserFile { file: PathBuf, line: usize },
    ProjectFile { file: PathBuf, line: usize },
    Environment { variable: String },
    Flag,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ChosenSetting {
    pub key: SettingKey,
    /// `None`: no limit, or not chosen.
    pub value: Option<Value>,
    pub origin: Origin,
}

/// All settings, each with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// In the order of [`SettingKey::ALL`].
    all: Vec<ChosenSetting>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorWhen {
    #[default]
    Auto,
    Always,
    Never,
}

/// How automatic snapshots are thinned out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retention {
    pub all: Duration,
    pub hourly: Duration,
    pub daily: Duration,
    pub disk_share: f64,
}

/// The limits of a new vault; `None` means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub bytes: Option<u64>,
    pub files: Option<u64>,
}

/// The resource limits of a run; `None` means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    pub memory: Option<u64>,
    pub timeout: Option<Duration>,
    pub pids: Option<u64>,
}

/// The sources of settings, besides the defaults.
pub struct Sources<'a> {
    pub places: &'a UserDirectories,
    /// Where the search for a project's file starts, upwards.
    pub working_directory: Option<&'a Path>,
    pub environment: &'a dyn Fn(&str) -> Option<OsString>,
    pub flags: &'a [(SettingKey, OsString)],
}

impl Settings {
    pub fn load(sources: &Sources<'_>) -> Result<Settings, SettingsError> {
        let mut settings = Settings::defaults(sources.places);
        // The weakest source first: each of the following replaces what it sets.
        settings.take_files(sources)?;
        for (key, variable, raw) in set_variables(sources.environment) {
            let place = variable.clone();
            settings.take_text(key, &raw, place, Origin::Environment { variable })?;
        }
        for (key, raw) in sources.flags {
            settings.take_text(*key, raw, format!("--{}", key.name()), Origin::Flag)?;
        }
        Ok(settings)
    }

    fn defaults(places: &UserDirectories) -> Settings {
        let value = |key| match key {
            SettingKey::Home => places.default_home().map(Value::Directory),
            key => key.default(),
        };
        let all = SettingKey::ALL.map(|key| ChosenSetting {
            key,
            value: value(key),
            origin: Origin::Default,
        });
        Settings {
            all: all.into(),
            files: Vec::new(),
        }
    }

    fn take_files(&mut self, sources: &Sources<'_>) -> Result<(), SettingsError> {
        let user_file = sources.places.user_file();
        if let Some(file) = user_file.clone() {
            self.take_file(&file, |line| Origin::UserFile {
                file: file.clone(),
                line,
            })?;
        }
        let project_file = sources.working_directory.and_then(place::project_file);
        // In the user's own directory for settings, the search for a project's file finds the user's file.
        match project_file.filter(|file| user_file.as_ref() != Some(file)) {
            Some(file) => self.take_file(&file, |line| Origin::ProjectFile {
                file: file.clone(),
                line,
            }),
            None => Ok(()),
        }
    }

    fn take_file(&mut self, file: &Path, origin: impl Fn(usize) -> Origin) -> Result<(), SettingsError> {
        let Some(text) = place::read(file)? else {
            return Ok(());
        };
        for assignment in file::parse(file, &text)? {
            let origin = origin(assignment.line);
            // A project may come from another author: its file must not choose the store, for example.
            if matches!(origin, Origin::ProjectFile { .. }) && !assignment.key.allowed_in_project() {
                let key = assignment.key.name();
                return Err(SettingsError::NotForProjects {
                    file: file.to_owned(),
                    line: assignment.line,
                    key,
                });
            }
            self.put(ChosenSetting {
                key: assignment.key,
                value: assignment.value,
                origin,
            });
        }
        self.files.push(file.to_owned());
        Ok(())
    }

    fn take_text(
        &mut self,
        key: SettingKey,
        raw: &OsStr,
        place: String,
        origin: Origin,
    ) -> Result<(), SettingsError> {
        let wrong = |wrong| SettingsError::WrongValue { place, key, wrong };
        let value = key.kind().read_text(raw).map_err(wrong)?;
        self.put(ChosenSetting { key, value, origin });
        Ok(())
    }

    fn put(&mut self, setting: ChosenSetting) {
        let place = self.all.iter_mut().find(|known| known.key == setting.key);
        *place.expect("defaults hold every key") = setting;
    }

    pub fn all(&self) -> &[ChosenSetting] {
        &self.all
    }

    pub fn get(&self, key: SettingKey) -> &ChosenSetting {
        self.all
            .iter()
            .find(|setting| setting.key == key)
            .expect("defaults hold every key")
    }

    pub fn color(&self) -> ColorWhen {
        match &self.get(SettingKey::Color).value {
            Some(Value::Text(text)) if text == "always" => ColorWhen::Always,
            Some(Value::Text(text)) if text == "never" => ColorWhen::Never,
            _ => ColorWhen::Auto,
        }
    }

    /// The directory of the store; `None` if the user has no home directory and has not set one.
    pub fn home(&self) -> Option<&Path> {
        match &self.get(SettingKey::Home).value {
            Some(Value::Directory(path)) => Some(path),
            _ => None,
        }
    }

    pub fn vault(&self) -> Option<&str> {
        match &self.get(SettingKey::Vault).value {
            Some(Value::Text(name)) => Some(name),
            _ => None,
        }
    }

    /// How long to wait for another process.
    pub fn wait(&self) -> Duration {
        self.span(SettingKey::Wait)
    }

    pub fn retention(&self) -> Retention {
        Retention {
            all: self.span(SettingKey::RetentionAll),
            hourly: self.span(SettingKey::RetentionHourly),
            daily: self.span(SettingKey::RetentionDaily),
            disk_share: match self.get(SettingKey::RetentionDiskShare).value {
                Some(Value::Share(share)) => share,
                _ => 0.0,
            },
        }
    }

    pub fn search_enabled(&self) -> bool {
        self.get(SettingKey::SearchEnabled).value == Some(Value::Switch(true))
    }

    /// Whether ignored files of tasks are shown and applied too.
    pub fn tasks_ignored(&self) -> bool {
        self.get(SettingKey::TasksIgnored).value == Some(Value::Switch(true))
    }

    /// The transport of requests of mounts.
    pub fn transport(&self) -> Transport {
        let chosen = match &self.get(SettingKey::MountTransport).value {
            Some(Value::Text(text)) => Transport::ALL.into_iter().find(|way| way.as_str() == text),
            _ => None,
        };
        chosen.unwrap_or_default()
    }

    /// The runtime of containers, if the user prefers one.
    pub fn container_runtime(&self) -> Option<String> {
        match &self.get(SettingKey::ContainersRuntime).value {
            Some(Value::Text(name)) => Some(name.clone()),
            _ => None,
        }
    }

    pub fn quota(&self) -> Quota {
        Quota {
            bytes: self.number(SettingKey::QuotaBytes),
            files: self.number(SettingKey::QuotaFiles),
        }
    }

    /// The default resource limits of a run.
    pub fn run_limits(&self) -> LimitSettings {
        LimitSettings {
            memory: self.number(SettingKey::RunMemory),
            timeout: match self.get(SettingKey::RunTimeout).value {
                Some(Value::Span(span)) => Some(span),
                _ => None,
            },
            pids: self.number(SettingKey::RunPids),
        }
    }

    /// The keys that leave a run.
    pub fn detach_keys(&self) -> DetachKeys {
        let text = match &self.get(SettingKey::RunDetachKeys).value {
            Some(Value::Text(text)) => text,
            _ => DetachKeys::USUAL,
        };
        DetachKeys::parse(text).expect("what was read from a setting are keys")
    }

    fn span(&self, key: SettingKey) -> Duration {
        match self.get(key).value {
            Some(Value::Span(span)) => span,
            _ => Duration::ZERO,
        }
    }

    fn number(&self, key: SettingKey) -> Option<u64> {
        match self.get(key).value {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }
}

/// The variables that are set and not empty. `NO_COLOR` is the custom of all programs; our own is stronger.
fn set_variables(environment: &dyn Fn(&str) -> Option<OsString>) -> Vec<(SettingKey, String, OsString)> {
    let read = |name: &str| environment(name).filter(|value| !value.is_empty());
    let no_color =
        read("NO_COLOR").map(|_| (SettingKey::Color, "NO_COLOR".to_owned(), OsString::from("never")));
    let own = SettingKey::ALL.into_iter().filter_map(|key| {
        let name = key.variable();
        read(&name).map(|value| (key, name, value))
    });
    // Ours come later and therefore replace it.
    no_color.into_iter().chain(own).collect()
}

/// A setting that cannot be used. Nothing is taken from a file that has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("{}:{line}: {detail}", printable_path(file))]
    Syntax {
        file: PathBuf,
        line: usize,
        detail: String,
    },
    #[error("{}:{line}: unknown key '{}'", printable_path(file), crate::escape::printable(name.as_bytes()))]
    UnknownKey {
        file: PathBuf,
        line: usize,
        name: String,
        suggestion: Option<String>,
    },
    #[error(
        "{}:{line}: '{section}' is a section, and should be written as [{section}] with keys below",
        printable_path(file)
    )]
    NotASection {
        file: PathBuf,
        line: usize,
        section: String,
    },
    #[error("{place}: {} is {}, and should be {}", key.name(), wrong.found, wrong.expected)]
    WrongValue {
        place: String,
        key: SettingKey,
        wrong: WrongValue,
    },
    #[error("{}:{line}: a project cannot set '{key}'", printable_path(file))]
    NotForProjects {
        file: PathBuf,
        line: usize,
        key: &'static str,
    },
    #[error("{} cannot be read: {reason}", printable_path(file))]
    Unreadable { file: PathBuf, reason: String },
}

impl SettingsError {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            SettingsError::Syntax { .. } => "config-syntax",
            SettingsError::UnknownKey { .. } => "config-unknown-key",
            SettingsError::NotASection { .. } | SettingsError::WrongValue { .. } => "config-bad-value",
            SettingsError::NotForProjects { .. } => "config-not-for-projects",
            SettingsError::Unreadable { .. } => "config-unreadable",
        }
    }

    pub fn hint(&self) -> Option<String> {
        match self {
            SettingsError::UnknownKey {
                suggestion: Some(name),
                ..
            } => Some(format!("did you mean '{name}'?")),
            // No command can list the keys while this file is in the way.
            SettingsError::UnknownKey {
                name,
                suggestion: None,
                ..
            } => {
                let names = SettingKey::ALL.map(SettingKey::name);
                let near: Vec<String> = crate::suggest::nearest(name, names, 3)
                    .into_iter()
                    .map(|name| format!("'{name}'"))
                    .collect();
                Some(format!(
                    "remove the line, or use a key that there is; the nearest are {}",
                    near.join(", ")
                ))
            }
            SettingsError::NotForProjects { key, .. } => Some(format!(
                "set '{key}' in your own avfs.toml, in the environment or by a flag"
            )),
            SettingsError::Syntax { .. }
            | SettingsError::NotASection { .. }
            | SettingsError::WrongValue { .. }
            | SettingsError::Unreadable { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
