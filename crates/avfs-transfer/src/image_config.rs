//! How the programs of an image are started, as the image says.

use serde::{Deserialize, Serialize};

use super::error::TransferError;

/// What an image says of itself. Nothing of it is checked against its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// `NAME=VALUE`, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// The words before those of a command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entrypoint: Vec<String>,
    /// The words if no command is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cmd: Vec<String>,
    /// A name or a number, with a group behind `:`; empty: root.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The working directory; empty: the root.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub working_dir: String,
    /// The architecture that it is for, as images call it.
    #[serde(default)]
    pub architecture: String,
    /// The operating system that it is for.
    #[serde(default)]
    pub os: String,
}

/// It is kept in the record of a vault, which every change writes again.
const MOST_BYTES: usize = 256 << 10;

/// The file of an image that describes it.
#[derive(Deserialize)]
pub(super) struct ConfigFile {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    config: Option<Defaults>,
    #[serde(default)]
    pub(super) rootfs: Option<RootLayers>,
}

#[derive(Deserialize)]
pub(super) struct RootLayers {
    /// The checksums of the layers, uncompressed.
    #[serde(default)]
    pub(super) diff_ids: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Defaults {
    #[serde(default)]
    env: Option<Vec<String>>,
    #[serde(default)]
    entrypoint: Option<Vec<String>>,
    #[serde(default)]
    cmd: Option<Vec<String>>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    working_dir: Option<String>,
}

impl ConfigFile {
    pub(super) fn into_config(self) -> Result<ImageConfig, TransferError> {
        let defaults = self.config.unwrap_or_default();
        let config = ImageConfig {
            env: defaults.env.unwrap_or_default(),
            entrypoint: defaults.entrypoint.unwrap_or_default(),
            cmd: defaults.cmd.unwrap_or_default(),
            user: defaults.user.unwrap_or_default(),
            working_dir: defaults.working_dir.unwrap_or_default(),
            architecture: self.architecture,
            os: self.os,
        };
        let bad = |reason: &str| {
            Err(TransferError::BadImage {
                reason: reason.to_owned(),
            })
        };
        if config.texts().any(|text| text.contains('\0')) {
            return bad("a text in its configuration contains the byte 0");
        }
        if config.texts().map(str::len).sum::<usize>() > MOST_BYTES {
            return bad("its configuration is too large");
        }
        Ok(config)
    }
}

impl ImageConfig {
    fn texts(&self) -> impl Iterator<Item = &str> {
        let lists = [&self.env, &self.entrypoint, &self.cmd].into_iter().flatten();
        let single = [&self.user, &self.working_dir, &self.architecture, &self.os];
        lists.chain(single).map(String::as_str)
    }
}
