//! An image in JSON, the same for all commands that show one.

use agentvfs::ImageInfo;
use serde::Serialize;

use crate::time::show_rfc3339;

#[derive(Serialize)]
pub struct ImageBody {
    name: String,
    head: String,
    files: u64,
    bytes: u64,
    created: String,
    source: String,
    layers: u64,
    architecture: String,
    os: String,
    env: Vec<String>,
    entrypoint: Vec<String>,
    cmd: Vec<String>,
    user: String,
    working_dir: String,
}

impl From<&ImageInfo> for ImageBody {
    fn from(image: &ImageInfo) -> ImageBody {
        let (vault, config) = (&image.vault, &image.config);
        ImageBody {
            name: vault.name.to_string(),
            head: vault.head.to_string(),
            files: vault.files,
            bytes: vault.bytes,
            created: show_rfc3339(vault.created),
            source: image.source.clone(),
            layers: image.layers,
            architecture: config.architecture.clone(),
            os: config.os.clone(),
            env: config.env.clone(),
            entrypoint: config.entrypoint.clone(),
            cmd: config.cmd.clone(),
            user: config.user.clone(),
            working_dir: config.working_dir.clone(),
        }
    }
}
