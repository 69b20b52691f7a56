//! Where the files are.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::SettingsError;

pub const FILE_NAME: &str = "avfs.toml";

/// The user's directories, by the XDG rules: a variable that is not an absolute path is ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserDirectories {
    pub config: Option<PathBuf>,
    pub data: Option<PathBuf>,
}

impl UserDirectories {
    pub fn from_environment(environment: &dyn Fn(&str) -> Option<OsString>) -> UserDirectories {
        let absolute = |name: &str| {
            environment(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let home = absolute("HOME");
        let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
        UserDirectories {
            config: absolute("XDG_CONFIG_HOME").or_else(|| below_home(".config")),
            data: absolute("XDG_DATA_HOME").or_else(|| below_home(".local/share")),
        }
    }

    pub fn user_file(&self) -> Option<PathBuf> {
        Some(self.config.as_ref()?.join("agentvfs").join(FILE_NAME))
    }

    /// Where the user keeps profiles of programs.
    pub fn profiles(&self) -> Option<PathBuf> {
        Some(self.config.as_ref()?.join("agentvfs").join("profiles"))
    }

    pub fn default_home(&self) -> Option<PathBuf> {
        Some(self.data.as_ref()?.join("agentvfs"))
    }
}

/// The project's file: the nearest one, looking upwards from a directory.
pub fn project_file(directory: &Path) -> Option<PathBuf> {
    directory
        .ancestors()
        .map(|ancestor| ancestor.join(FILE_NAME))
        .find(|file| file.is_file())
}

/// The text of a settings file; `None` if the file does not exist.
pub fn read(file: &Path) -> Result<Option<String>, SettingsError> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(SettingsError::Unreadable {
            file: file.to_owned(),
            reason: error.to_string(),
        }),
    }
}
