//! Which parts make up an image: the manifests of OCI layouts and of archives by `docker save`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::TransferError;
use super::image_config::{ConfigFile, ImageConfig};
use super::image_files::ImageFiles;
use super::sha256;

pub(super) struct ImageManifest {
    pub(super) config: ImageConfig,
    /// The lowest first.
    pub(super) layers: Vec<ImageLayer>,
    pub(super) names: Vec<String>,
}

/// One layer, with the checksums that the image names.
pub(super) struct ImageLayer {
    pub(super) path: String,
    /// Of the part as it is stored.
    pub(super) stored_digest: Option<String>,
    /// Of the archive in it, uncompressed.
    pub(super) archive_digest: Option<String>,
}

/// Which image to take of several.
#[derive(Clone, Copy)]
pub(super) struct ImageWish<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) architecture: &'a str,
}

const OCI_INDEX: &str = "index.json";
const DOCKER_MANIFEST: &str = "manifest.json";
/// Engines accept 127.
const MOST_LAYERS: usize = 1000;
/// An index of indexes of images.
const MOST_DEPTH: usize = 3;

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    platform: Option<Platform>,
}

#[derive(Clone, Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

/// One image of an archive by `docker save`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SavedImage {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

impl ImageManifest {
    pub(super) fn read(files: &ImageFiles, wish: ImageWish<'_>) -> Result<ImageManifest, TransferError> {
        let manifest = if files.has(OCI_INDEX)? {
            ImageManifest::of_layout(files, wish)?
        } else if files.has(DOCKER_MANIFEST)? {
            ImageManifest::of_saved(files, wish)?
        } else {
            return Err(bad(format!("it has neither {OCI_INDEX} nor {DOCKER_MANIFEST}")));
        };
        match manifest.layers.len() {
            0 => Err(bad("it has no layers".to_owned())),
            1..=MOST_LAYERS => Ok(manifest),
            _ => Err(TransferError::OverLimit {
                what: "layers",
                limit: MOST_LAYERS as u64,
            }),
        }
    }

    fn of_layout(files: &ImageFiles, wish: ImageWish<'_>) -> Result<ImageManifest, TransferError> {
        let mut index: Index = parse(OCI_INDEX, &files.text(OCI_INDEX)?)?;
        let mut wish = wish;
        for _ in 0..MOST_DEPTH {
            let chosen = choose(index.manifests, wish)?;
            let names = chosen.name().into_iter().map(str::to_owned).collect();
            let text = checked(files, &chosen)?;
            if !chosen.is_index() {
                let manifest: Manifest = parse(&chosen.digest, &text)?;
                return ImageManifest::of_manifest(files, manifest, names);
            }
            index = parse(&chosen.digest, &text)?;
            // A name chooses among the images of an archive, and not among the architectures of one.
            wish.name = None;
        }
        Err(bad("its indexes are nested too deeply".to_owned()))
    }

    fn of_manifest(
        files: &ImageFiles,
        manifest: Manifest,
        names: Vec<String>,
    ) -> Result<ImageManifest, TransferError> {
        let text = checked(files, &manifest.config)?;
        let config: ConfigFile = parse(&manifest.config.digest, &text)?;
        let layer = |layer: &Descriptor| -> Result<ImageLayer, TransferError> {
            let digest = layer.hash()?.to_owned();
            Ok(ImageLayer {
                path: layer.path()?,
                stored_digest: Some(digest),
                archive_digest: None,
            })
        };
        Ok(ImageManifest {
            config: config.into_config()?,
            layers: manifest
                .layers
                .iter()
                .map(layer)
                .collect::<Result<_, TransferError>>()?,
            names,
        })
    }

    fn of_saved(files: &ImageFiles, wish: ImageWish<'_>) -> Result<ImageManifest, TransferError> {
        let images: Vec<SavedImage> = parse(DOCKER_MANIFEST, &files.text(DOCKER_MANIFEST)?)?;
        let has_name = |image: &&SavedImage| wish.name.is_none_or(|name| image.tags().any(|tag| tag == name));
        let mut chosen = images.iter().filter(has_name);
        let image = match (chosen.next(), chosen.next()) {
            (Some(image), None) => image,
            (None, _) => return Err(none_of(images.iter().flat_map(SavedImage::tags))),
            (Some(_), Some(_)) => {
                let names = images.iter().flat_map(SavedImage::tags);
                return Err(several(names));
            }
        };
        let mut config: ConfigFile = parse(&image.config, &files.text(&image.config)?)?;
        let digests = config
            .rootfs
            .take()
            .map(|layers| layers.diff_ids)
            .unwrap_or_default();
        if digests.len() != image.layers.len() {
            let reason = "its manifest and its configuration have different numbers of layers";
            return Err(bad(reason.to_owned()));
        }
        let layer = |(path, digest): (&String, &String)| -> Result<ImageLayer, TransferError> {
            Ok(ImageLayer {
                path: path.clone(),
                stored_digest: None,
                archive_digest: Some(hash_of(digest)?.to_owned()),
            })
        };
        Ok(ImageManifest {
            layers: image
                .layers
                .iter()
                .zip(&digests)
                .map(layer)
                .collect::<Result<_, TransferError>>()?,
            names: image.tags().map(str::to_owned).collect(),
            config: config.into_config()?,
        })
    }
}

impl SavedImage {
    fn tags(&self) -> impl Iterator<Item = &str> {
        self.repo_tags.iter().flatten().map(String::as_str)
    }
}

impl Descriptor {
    fn hash(&self) -> Result<&str, TransferError> {
        hash_of(&self.digest)
    }

    fn path(&self) -> Result<String, TransferError> {
        Ok(format!("blobs/sha256/{}", self.hash()?))
    }

    fn is_index(&self) -> bool {
        self.media_type.contains("image.index") || self.media_type.contains("manifest.list")
    }

    fn name(&self) -> Option<&str> {
        let annotations = self.annotations.as_ref()?;
        let names = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
        names
            .iter()
            .find_map(|name| annotations.get(*name))
            .map(String::as_str)
    }

    fn is_called(&self, wanted: &str) -> bool {
        let annotations = self.annotations.iter().flat_map(|annotations| annotations.iter());
        annotations
            .filter(|(key, _)| key.ends_with(".name"))
            .any(|(_, name)| name == wanted)
    }

    fn is_for(&self, architecture: &str) -> bool {
        self.platform
            .as_ref()
            .is_some_and(|platform| platform.os == "linux" && platform.architecture == architecture)
    }

    /// What a builder says about how it made an image.
    fn is_attestation(&self) -> bool {
        self.platform
            .as_ref()
            .is_some_and(|platform| platform.architecture == "unknown")
    }

    fn shown(&self) -> String {
        match (self.name(), &self.platform) {
            (Some(name), _) => name.to_owned(),
            (None, Some(platform)) => format!("{}/{}", platform.os, platform.architecture),
            (None, None) => self.digest.clone(),
        }
    }
}

fn choose(manifests: Vec<Descriptor>, wish: ImageWish<'_>) -> Result<Descriptor, TransferError> {
    let all: Vec<String> = manifests.iter().map(Descriptor::shown).collect();
    let mut left: Vec<Descriptor> = manifests
        .into_iter()
        .filter(|image| !image.is_attestation())
        .filter(|image| wish.name.is_none_or(|name| image.is_called(name)))
        .collect();
    if left.len() > 1 {
        let fitting: Vec<Descriptor> = left
            .iter()
            .filter(|image| image.is_for(wish.architecture))
            .cloned()
            .collect();
        if fitting.len() == 1 {
            left = fitting;
        }
    }
    match left.pop() {
        None => Err(none_of(all.iter().map(String::as_str))),
        Some(image) if left.is_empty() => Ok(image),
        Some(_) => Err(several(all.iter().map(String::as_str))),
    }
}

fn none_of<'a>(names: impl Iterator<Item = &'a str>) -> TransferError {
    let names: Vec<&str> = names.collect();
    bad(if names.is_empty() {
        "it holds no image".to_owned()
    } else {
        format!("none of its images was asked for; it holds {}", names.join(", "))
    })
}

fn several<'a>(names: impl Iterator<Item = &'a str>) -> TransferError {
    TransferError::SeveralImages {
        names: names.map(|name| avfs_core::printable(name.as_bytes())).collect(),
    }
}

/// The hash in a digest. It becomes part of a path.
fn hash_of(digest: &str) -> Result<&str, TransferError> {
    let is_hash =
        |hash: &&str| hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    digest.strip_prefix("sha256:").filter(is_hash).ok_or_else(|| {
        let shown = avfs_core::printable(digest.as_bytes());
        bad(format!("'{shown}' is not a checksum by sha256"))
    })
}

/// A part that describes others, if it is the one that was named.
fn checked(files: &ImageFiles, descriptor: &Descriptor) -> Result<Vec<u8>, TransferError> {
    let text = files.text(&descriptor.path()?)?;
    if sha256::of(&text) == descriptor.hash()? {
        Ok(text)
    } else {
        Err(bad(format!("{} has another checksum", descriptor.path()?)))
    }
}

fn parse<T: DeserializeOwned>(what: &str, text: &[u8]) -> Result<T, TransferError> {
    serde_json::from_slice(text).map_err(|error| {
        let what = avfs_core::printable(what.as_bytes());
        bad(format!("{what} cannot be read: {error}"))
    })
}

fn bad(reason: String) -> TransferError {
    TransferError::BadImage { reason }
}
