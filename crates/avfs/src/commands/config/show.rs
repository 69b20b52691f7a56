//! `avfs config show`: each key, its value, and where the value comes from.

use std::os::unix::ffi::OsStrExt;

use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::json::{PathField, byte_field, text_or_hex};
use crate::printer::{FAINT, HEADING};
use crate::settings::{ChosenSetting, Origin, SettingKey, Value};

/// List every key with its value and where the value comes from
#[derive(Debug, clap::Args)]
#[command(after_help = "Settings come from these places; later ones take precedence:
  the defaults
  your own avfs.toml: $XDG_CONFIG_HOME/agentvfs/avfs.toml
  the project's avfs.toml: the nearest in or above the working directory
  the environment: AVFS_VAULT, AVFS_RETENTION_ALL, ...
  flags

Examples:
  avfs config show
  avfs config show --json | jq '.settings[] | select(.source != \"default\")'
  AVFS_RETENTION_ALL=3d avfs config show")]
pub struct ConfigShowArgs {}

#[derive(Serialize)]
struct ConfigBody<'a> {
    files: Vec<PathField>,
    settings: Vec<SettingBody<'a>>,
}

byte_field!(FileField, file, file_bytes_hex);

#[derive(Serialize)]
struct SettingBody<'a> {
    key: &'static str,
    value: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_bytes_hex: Option<String>,
    source: &'static str,
    #[serde(flatten)]
    file: Option<FileField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    variable: Option<&'a str>,
    about: &'static str,
}

pub fn run(context: &mut Context<'_>, _: &ConfigShowArgs) -> Result<ExitStatus> {
    if context.out.is_json() {
        show_json(context)?
    } else {
        show_table(context)?
    }
    Ok(ExitStatus::Success)
}

fn show_json(context: &mut Context<'_>) -> Result<()> {
    let files = context
        .settings
        .files
        .iter()
        .map(|file| PathField::new(file.as_os_str().as_bytes()));
    let settings = context.settings.all().iter().map(body);
    let body = ConfigBody {
        files: files.collect(),
        settings: settings.collect(),
    };
    Ok(context.out.object("config", &body)?)
}

fn body(setting: &ChosenSetting) -> SettingBody<'_> {
    let file_field = |file: &std::path::Path| Some(FileField::new(file.as_os_str().as_bytes()));
    let (source, file, line, variable) = match &setting.origin {
        Origin::Default => ("default", None, None, None),
        Origin::UserFile { file, line } => ("user-file", file_field(file), Some(*line), None),
        Origin::ProjectFile { file, line } => ("project-file", file_field(file), Some(*line), None),
        Origin::Environment { variable } => ("environment", None, None, Some(variable.as_str())),
        Origin::Flag => ("flag", None, None, None),
    };
    let value_bytes_hex = match &setting.value {
        Some(Value::Directory(path)) => text_or_hex(path.as_os_str().as_bytes()).1,
        _ => None,
    };
    let ChosenSetting { key, value, .. } = setting;
    let (key, about, value) = (key.name(), key.about(), value.as_ref());
    SettingBody {
        key,
        value,
        value_bytes_hex,
        source,
        file,
        line,
        variable,
        about,
    }
}

fn show_table(context: &mut Context<'_>) -> Result<()> {
    let rows: Vec<[String; 3]> = context.settings.all().iter().map(row).collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let (first, second) = (width(0), width(1).max("VALUE".len()));
    let out = &mut *context.out;
    let heading = format!("{:<first$}  {:<second$}  FROM", "KEY", "VALUE");
    out.line(out.paint(HEADING, heading))?;
    for [key, value, from] in rows {
        let from = out.paint(FAINT, from);
        out.line(format_args!("{key:<first$}  {value:<second$}  {from}"))?;
    }
    Ok(())
}

fn row(setting: &ChosenSetting) -> [String; 3] {
    let from = match &setting.origin {
        Origin::Default => "default".to_owned(),
        Origin::UserFile { file, line } | Origin::ProjectFile { file, line } => {
            format!("{}:{line}", printable_path(file))
        }
        Origin::Environment { variable } => variable.clone(),
        Origin::Flag => "flag".to_owned(),
    };
    [setting.key.name().to_owned(), shown_value(setting), from]
}

fn shown_value(setting: &ChosenSetting) -> String {
    match (&setting.value, setting.key) {
        (Some(value), _) => value.to_string(),
        (
            None,
            SettingKey::QuotaBytes
            | SettingKey::QuotaFiles
            | SettingKey::RunMemory
            | SettingKey::RunTimeout
            | SettingKey::RunPids,
        ) => "unlimited".to_owned(),
        (None, _) => "-".to_owned(),
    }
}
