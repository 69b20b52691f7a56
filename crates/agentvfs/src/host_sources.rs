//! The sources of a store, by the records that it keeps of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use avfs_core::SourceId;
use avfs_tree::{Objects, SOURCES, Source, SourceError, SourceFinder};
use serde::{Deserialize, Serialize};

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
        let source = HostSource::open(Path::new(&record.path), record.inode, self.store_home.as_deref())?;
        Ok(Arc::new(source))
    }
}
