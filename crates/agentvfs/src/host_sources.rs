//! The sources of a store, by the records that it keeps of them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use avfs_core::SourceId;
use avfs_tree::{Objects, SOURCES, Source, SourceError, SourceFinder};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::host_source::HostSource;
use crate::record;

/// What is kept of a source, under `source/ID`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceRecord {
    /// Canonical.
    pub path: String,
    pub inode: u64,
    /// When the directory was made, in nanoseconds since 1970: the number of an inode is given to another one when it is
    /// deleted. Not known of what older versions noted, and of file systems that do not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<u64>,
    /// The last one that was started.
    pub generation: u64,
}

pub(crate) fn key(id: SourceId) -> String {
    format!("{SOURCES}{id}")
}

/// Opens the sources of a store when they are first needed.
pub(crate) struct HostSources {
    /// Not the store itself, which holds these.
    objects: std::sync::Weak<dyn avfs_store::Store>,
    /// Left out of every listing.
    store_home: Option<PathBuf>,
}

impl HostSources {
    pub(crate) fn install(objects: &Objects, store_home: Option<&Path>) {
        let store_home = store_home.map(Path::to_owned);
        objects.set_sources(Arc::new(HostSources {
            objects: Arc::downgrade(objects.store()),
            store_home,
        }));
    }
}

impl SourceFinder for HostSources {
    fn find(&self, id: SourceId) -> Result<Arc<dyn Source>, SourceError> {
        let store = self.objects.upgrade().ok_or(SourceError::Unknown)?;
        let refs: &dyn avfs_store::RefStore = &*store;
        let found = record::read::<SourceRecord>(refs, &key(id)).map_err(|_| SourceError::Unknown)?;
        let (record, _) = found.ok_or(SourceError::Unknown)?;
        let open = |path: &Path| HostSource::open(path, record.inode, self.store_home.as_deref());
        let source = open(Path::new(&record.path)).or_else(|error| {
            // In a workspace that is shown at the project's own path, the project is shown here.
            let aside = self.store_home.as_deref().map(|home| aside(home, record.inode));
            aside.and_then(|aside| open(&aside).ok()).ok_or(error)
        })?;
        Ok(Arc::new(source))
    }
}

/// Where a directory with this inode number is shown to processes for which its own path leads to a workspace.
/// For everyone else, that is an empty directory.
fn aside(store_home: &Path, inode: u64) -> PathBuf {
    store_home.join("aside").join(inode.to_string())
}

/// Makes the place at which the sources of tasks are found if `root` is covered by something else; `None` for a store in
/// memory.
pub(crate) fn make_aside(store_home: Option<&Path>, root: &Path) -> Result<Option<PathBuf>> {
    let Some(home) = store_home else { return Ok(None) };
    let host = |action, place: &Path, source| Error::Host {
        action,
        place: place.display().to_string(),
        source,
    };
    let stat = std::fs::metadata(root).map_err(|source| host("reading", root, source))?;
    let place = aside(home, stat.ino());
    std::fs::create_dir_all(&place).map_err(|source| host("making", &place, source))?;
    Ok(Some(place))
}
