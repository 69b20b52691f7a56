//! Images of containers: vaults that hold the root of a system, with what their makers say of it.

use std::io;
use std::path::Path;

use avfs_core::Meta;
use avfs_transfer::{
    ImageConfig, ImageImport, ImageSource, ImportedImage, MOST_BYTES, MOST_ENTRIES, TransferProgress,
    TransferReport, import_image,
};
use avfs_tree::{ObjectWriter, VaultLimits};

use crate::creation::Seed;
use crate::error::{Error, Result, VaultError};
use crate::logged_action::LoggedAction;
use crate::name::{VaultName, closest};
pub(crate) use crate::record::ImageRecord;
use crate::record::{Head, VaultId, VaultRecord};
use crate::store::Store;
use crate::vault::{Vault, VaultInfo};
use crate::vault_limits::check_limits;

/// An image of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageInfo {
    /// The vault that holds it.
    pub vault: VaultInfo,
    /// What it says about starting programs.
    pub config: ImageConfig,
    /// The file or the vault that it was made from.
    pub source: String,
    /// How many layers it had.
    pub layers: u64,
}

/// How an image is imported.
#[derive(Clone, Debug)]
pub struct ImageOptions {
    /// The name of the image; `None`: as in its archive, or of its file.
    pub name: Option<VaultName>,
    /// The one to take if the archive holds several, by its name there.
    pub wanted: Option<String>,
    /// Entries that cannot be imported are left out and reported; otherwise they fail the import.
    pub skip_refused: bool,
    /// The most bytes that the archives of the image may have, uncompressed, and the most entries.
    pub most_bytes: u64,
    /// The most entries that its archives may have.
    pub most_entries: u64,
    /// The limits of the vault.
    pub limits: VaultLimits,
}

impl Default for ImageOptions {
    fn default() -> ImageOptions {
        ImageOptions {
            name: None,
            wanted: None,
            skip_refused: false,
            most_bytes: MOST_BYTES,
            most_entries: MOST_ENTRIES,
            limits: VaultLimits::default(),
        }
    }
}

/// Images of containers, and the vaults that hold them.
#[derive(Clone, Copy)]
pub struct Images<'a> {
    pub(crate) store: &'a Store,
}

impl Images<'_> {
    /// Makes an image of an archive or a directory, all of it or nothing. `shown` says where it comes from.
    pub fn import(
        &self,
        source: ImageSource<'_>,
        shown: &str,
        options: &ImageOptions,
        progress: &dyn TransferProgress,
    ) -> Result<(Vault, TransferReport)> {
        if let Some(name) = &options.name {
            self.check_free_name(name)?;
        }
        let _pin = self.store.objects().store().pin()?;
        let writer = ObjectWriter::new(self.store.objects());
        let implied = Meta {
            mode: 0o755,
            mtime: self.store.now(),
            ..Meta::default()
        };
        let import = ImageImport {
            most_bytes: options.most_bytes,
            most_entries: options.most_entries,
            wanted: options.wanted.as_deref(),
            architecture: architecture(),
            skip_refused: options.skip_refused,
            implied,
            scratch: &|| self.scratch_file(),
        };
        let ImportedImage {
            tree,
            config,
            layers,
            names,
        } = import_image(self.store.objects(), &writer, source, &import, progress)?;
        let name = match &options.name {
            Some(name) => name.clone(),
            None => name_for(names.first().map_or(shown, String::as_str))?,
        };
        self.check_free_name(&name)?;
        let (root, report) = self.store.root_of(tree, &writer)?;
        check_limits(&root.totals, options.limits)?;
        let action = format!("image import {shown}");
        let logged = LoggedAction {
            actor: &self.store.actor().name,
            action: &action,
            detail: "",
            undoes: None,
            since: None,
            task_base: None,
        };
        let snapshot = self.store.put_snapshot(root, Vec::new(), &logged)?;
        let seed = Seed {
            head: Head {
                snapshot,
                inodes: None,
                journal: 0,
                conflicts: None,
            },
            parent: None,
            action,
            limits: options.limits,
            rules: None,
            program_rules: None,
            task: None,
            image: Some(ImageRecord {
                config,
                source: shown.to_owned(),
                layers,
                root_of: None,
            }),
        };
        let made = self.store.add_vaults(std::slice::from_ref(&name), &seed)?;
        Ok((made.into_iter().next().expect("one name gives one vault"), report))
    }

    /// All images that can be read, by name.
    pub fn list(&self) -> Result<Vec<ImageInfo>> {
        let records = self.store.vault_records()?;
        let images = records.iter().filter_map(|record| {
            let image = record.image.as_ref().filter(|image| image.root_of.is_none())?;
            let info = self.store.info_of(record, &records).ok()?;
            Some(image.with(info))
        });
        let mut images: Vec<ImageInfo> = images.collect();
        images.sort_by(|a, b| a.vault.name.cmp(&b.vault.name));
        Ok(images)
    }

    /// The vault of an image, by its name.
    pub fn get(&self, name: &str) -> Result<Vault> {
        let records = self.store.vault_records()?;
        let is_image =
            |record: &&VaultRecord| record.image.as_ref().is_some_and(|image| image.root_of.is_none());
        let images: Vec<&VaultRecord> = records.iter().filter(is_image).collect();
        match images.iter().find(|record| record.name.as_str() == name) {
            Some(record) => Ok(Vault::new(self.store.clone(), record.id)),
            None => Err(Error::Vault(VaultError::UnknownImage {
                name: avfs_core::printable(name.as_bytes()),
                similar: closest(name, images.iter().map(|record| record.name.as_str())),
            })),
        }
    }

    /// The root directories of the sandboxes of a vault.
    pub(crate) fn roots_of(&self, vault: VaultId) -> Result<Vec<Vault>> {
        let records = self.store.vault_records()?.into_iter();
        let roots = records.filter(|record| {
            let image = record.image.as_ref();
            image.is_some_and(|image| image.root_of == Some(vault))
        });
        Ok(roots
            .map(|record| Vault::new(self.store.clone(), record.id))
            .collect())
    }

    fn check_free_name(&self, name: &VaultName) -> Result<()> {
        if self.store.has_vault(name.as_str())? {
            return Err(Error::Vault(VaultError::Exists {
                name: name.to_string(),
            }));
        }
        Ok(())
    }

    /// A file without a name on the disk of the store, where there should be room for it.
    fn scratch_file(&self) -> io::Result<std::fs::File> {
        match self.store.work().lasting() {
            Some(place) => tempfile::tempfile_in(place),
            None => tempfile::tempfile(),
        }
    }
}

impl ImageRecord {
    fn with(&self, vault: VaultInfo) -> ImageInfo {
        ImageInfo {
            vault,
            config: self.config.clone(),
            source: self.source.clone(),
            layers: self.layers,
        }
    }
}

/// A vault as an image of containers, and the root directories that its sandboxes get from images.
#[derive(Clone, Copy)]
pub struct VaultImage<'a> {
    pub(crate) vault: &'a Vault,
}

impl VaultImage<'_> {
    /// What is known of an image; `None` for other vaults.
    pub fn info(&self) -> Result<Option<ImageInfo>> {
        let image = self
            .vault
            .record()?
            .0
            .image
            .filter(|image| image.root_of.is_none());
        image.map(|image| Ok(image.with(self.vault.info()?))).transpose()
    }

    /// Deletes an image. What was forked from it needs nothing of it.
    pub fn delete(&self) -> Result<()> {
        self.vault.check_unrestricted("deleting it")?;
        let store = self.vault.store();
        let name = self.vault.name()?;
        self.vault.clone().remove(false)?;
        store.applies().forget_undone(name.as_str())
    }

    /// Keeps the present state of this vault as an image. If it is the root directory of
    /// sandboxes, programs are started in the image as in the one that it came from.
    pub fn save(&self, name: &VaultName) -> Result<Vault> {
        let at = self.vault.revision("@")?;
        let of_record = self.vault.record()?.0;
        let image = ImageRecord {
            config: match of_record.image {
                Some(image) => image.config,
                None => ImageConfig {
                    architecture: architecture().to_owned(),
                    os: "linux".to_owned(),
                    ..ImageConfig::default()
                },
            },
            source: format!("vault '{}'", of_record.name),
            layers: 1,
            root_of: None,
        };
        let made = self
            .vault
            .fork_as(&at, std::slice::from_ref(name), None, Some(image))?;
        Ok(made.into_iter().next().expect("one name gives one vault"))
    }
}

/// The architecture of this machine, as images call it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

/// The name for an image of which only the name in a registry, or the file, is known:
/// `docker.io/library/debian:12` becomes `debian-12`, and `/tmp/rootfs.tar.gz` becomes `rootfs`.
fn name_for(known: &str) -> Result<VaultName> {
    let last = Path::new(known)
        .file_name()
        .map_or(known, |name| name.to_str().unwrap_or(known));
    let mut stem = last;
    for ending in [".gz", ".tgz", ".tar", ".oci"] {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    let stem = stem.strip_suffix(":latest").unwrap_or(stem);
    let plain = |c: char| {
        if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') {
            c
        } else {
            '-'
        }
    };
    let name: String = stem.chars().map(plain).collect();
    VaultName::new(name.trim_start_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_called_after_what_is_known_of_it() {
        let cases = [
            ("docker.io/library/debian:12", "debian-12"),
            ("alpine:latest", "alpine"),
            ("/tmp/rootfs.tar.gz", "rootfs"),
            ("images/web app.tgz", "web-app"),
            ("./layout", "layout"),
        ];
        for (known, expected) in cases {
            assert_eq!(name_for(known).unwrap().as_str(), expected, "{known}");
        }
        assert!(name_for("-").is_err());
    }
}
