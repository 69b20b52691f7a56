//! Layers against layers: which one wins, and which origin it reports.

use std::collections::BTreeMap;
use std::fs;

use super::*;

/// A user and a project in a temporary directory.
struct Case {
    root: tempfile::TempDir,
    environment: BTreeMap<&'static str, &'static str>,
    flags: Vec<(SettingKey, OsString)>,
}

impl Case {
    fn new() -> Case {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("config/agentvfs")).unwrap();
        fs::create_dir_all(root.path().join("project/src/deep")).unwrap();
        Case {
            root,
            environment: BTreeMap::new(),
            flags: Vec::new(),
        }
    }

    fn user(self, text: &str) -> Case {
        fs::write(self.root.path().join("config/agentvfs/avfs.toml"), text).unwrap();
        self
    }

    fn project(self, text: &str) -> Case {
        fs::write(self.root.path().join("project/avfs.toml"), text).unwrap();
        self
    }

    fn variable(mut self, name: &'static str, value: &'static str) -> Case {
        self.environment.insert(name, value);
        self
    }

    fn flag(mut self, key: SettingKey, value: &str) -> Case {
        self.flags.push((key, value.into()));
        self
    }

    fn load(&self) -> Result<Settings, SettingsError> {
        let places = UserDirectories {
            config: Some(self.root.path().join("config")),
            data: Some(self.root.path().join("data")),
        };
        Settings::load(&Sources {
            places: &places,
            working_directory: Some(&self.root.path().join("project/src/deep")),
            environment: &|name| self.environment.get(name).map(OsString::from),
            flags: &self.flags,
        })
    }

    #[track_caller]
    fn check(self, key: SettingKey, expected: &str) -> Case {
        let settings = self.load().unwrap();
        let ChosenSetting { value, origin, .. } = settings.get(key);
        let value = value.as_ref().map_or("-".to_owned(), Value::to_string);
        let origin = match origin {
            Origin::Default => "default".to_owned(),
            Origin::UserFile { line, .. } => format!("user file, line {line}"),
            Origin::ProjectFile { line, .. } => format!("project file, line {line}"),
            Origin::Environment { variable } => variable.clone(),
            Origin::Flag => "flag".to_owned(),
        };
        assert_eq!(format!("{value} ({origin})"), expected);
        self
    }

    #[track_caller]
    fn check_error(self, expected: &str) {
        let error = self.load().unwrap_err().to_string();
        assert_eq!(
            error.replace(&self.root.path().display().to_string(), "ROOT"),
            expected
        );
    }
}

#[test]
fn each_layer_beats_the_one_before() {
    Case::new()
        .check(SettingKey::Vault, "- (default)")
        .user("# mine\nvault = \"one\"")
        .check(SettingKey::Vault, "one (user file, line 2)")
        .project("vault = \"two\"")
        .check(SettingKey::Vault, "two (project file, line 1)")
        .variable("AVFS_VAULT", "three")
        .check(SettingKey::Vault, "three (AVFS_VAULT)")
        .flag(SettingKey::Vault, "four")
        .check(SettingKey::Vault, "four (flag)");
}

#[test]
fn layers_are_merged_key_by_key() {
    Case::new()
        .user("[retention]\nall = \"2d\"\ndaily = \"60d\"")
        .project("retention.all = \"3d\"")
        .check(SettingKey::RetentionAll, "3d (project file, line 1)")
        .check(SettingKey::RetentionHourly, "7d (default)")
        .check(SettingKey::RetentionDaily, "60d (user file, line 3)");
}

#[test]
fn a_later_layer_can_lift_a_limit() {
    Case::new()
        .user("quota.bytes = \"1G\"")
        .check(SettingKey::QuotaBytes, "1073741824 (user file, line 1)")
        .variable("AVFS_QUOTA_BYTES", "unlimited")
        .check(SettingKey::QuotaBytes, "- (AVFS_QUOTA_BYTES)");
}

#[test]
fn an_empty_variable_is_not_set() {
    Case::new()
        .variable("AVFS_VAULT", "")
        .check(SettingKey::Vault, "- (default)");
}

#[test]
fn no_color_beats_the_files_and_our_own_variable_beats_no_color() {
    let case = Case::new().user("color = \"always\"").variable("NO_COLOR", "1");
    case.check(SettingKey::Color, "never (NO_COLOR)")
        .variable("AVFS_COLOR", "always")
        .check(SettingKey::Color, "always (AVFS_COLOR)");
}

#[test]
fn a_project_cannot_move_the_store() {
    let message = "ROOT/project/avfs.toml:1: a project cannot set 'home'";
    Case::new().project("home = \"/elsewhere\"").check_error(message);
    Case::new()
        .user("home = \"/mine\"")
        .check(SettingKey::Home, "/mine (user file, line 1)");
}

#[test]
fn a_wrong_value_names_the_variable_or_the_flag() {
    let variable = "AVFS_RETENTION_ALL: retention.all is 'soon', and should be a length of time, such as \"12h\" \
                    or \"7d\"";
    Case::new()
        .variable("AVFS_RETENTION_ALL", "soon")
        .check_error(variable);
    Case::new()
        .flag(SettingKey::Vault, "")
        .check_error("--vault: vault is '', and should be a name in quotes");
}

#[test]
fn a_file_that_is_no_text_is_unreadable() {
    let case = Case::new();
    fs::write(case.root.path().join("project/avfs.toml"), b"vault = \"\xff\"").unwrap();
    case.check_error("ROOT/project/avfs.toml cannot be read: stream did not contain valid UTF-8");
}

#[test]
fn a_user_file_found_from_below_is_read_once() {
    let case = Case::new().user("vault = \"mine\"");
    let places = UserDirectories {
        config: Some(case.root.path().join("config")),
        data: None,
    };
    let settings = Settings::load(&Sources {
        places: &places,
        working_directory: Some(&case.root.path().join("config/agentvfs")),
        environment: &|_| None,
        flags: &[],
    });
    let settings = settings.unwrap();
    assert!(matches!(
        settings.get(SettingKey::Vault).origin,
        Origin::UserFile { .. }
    ));
    assert_eq!(settings.files.len(), 1);
    assert_eq!(settings.home(), None);
}

#[test]
fn typed_settings_follow_the_defaults() {
    let settings = Case::new().load().unwrap();
    let days = |count: u64| Duration::from_secs(count * 86_400);
    let retention = Retention {
        all: days(1),
        hourly: days(7),
        daily: days(30),
        disk_share: 0.1,
    };
    assert_eq!(settings.retention(), retention);
    assert_eq!(
        settings.quota(),
        Quota {
            bytes: None,
            files: None
        }
    );
    assert_eq!(settings.color(), ColorWhen::Auto);
    assert!(settings.search_enabled());
    assert_eq!(settings.vault(), None);
}

#[test]
fn xdg_directories_must_be_absolute() {
    let variables = BTreeMap::from([
        ("HOME", "/home/u"),
        ("XDG_CONFIG_HOME", "relative"),
        ("XDG_DATA_HOME", "/d"),
    ]);
    let places = UserDirectories::from_environment(&|name| variables.get(name).map(OsString::from));
    assert_eq!(
        places.user_file(),
        Some("/home/u/.config/agentvfs/avfs.toml".into())
    );
    assert_eq!(places.default_home(), Some("/d/agentvfs".into()));
    assert_eq!(
        UserDirectories::from_environment(&|_| None),
        UserDirectories::default()
    );
}
