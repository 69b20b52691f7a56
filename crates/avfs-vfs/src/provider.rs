//! Entries that are computed when they are read.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use avfs_core::{EntryName, Timestamp, TreePath};

use crate::error::{CallbackError, Result, VfsError};
use crate::node::{Content, Metadata};
use crate::policy::NodePolicy;
use crate::vfs::Vfs;

/// How deep providers may read what other providers provide.
const NESTING_MAX: u32 = 16;

thread_local! {
    static NESTING: Cell<u32> = const { Cell::new(0) };
}

/// What a provider is told about what is read.
pub struct NodeContext<'a> {
    /// The path that is read.
    pub path: &'a TreePath,
    /// The metadata of the provided node.
    pub metadata: &'a Metadata,
    /// The filesystem, to read other files.
    pub vfs: &'a Vfs,
}

/// Computes the content of a file.
pub type ContentProvider = dyn Fn(&NodeContext<'_>) -> Result<Vec<u8>, CallbackError> + Send + Sync;

/// Computes the entries of a directory.
pub type DirectoryProvider = dyn Fn(&NodeContext<'_>) -> Result<Children, CallbackError> + Send + Sync;

/// The entries of a provided directory by name.
pub type Children = BTreeMap<EntryName, ProvidedNode>;

/// A file or directory that a provider gives.
#[derive(Clone)]
pub struct ProvidedNode {
    kind: ProvidedKind,
    metadata: Metadata,
    policy: Option<Arc<NodePolicy>>,
}

#[derive(Clone)]
enum ProvidedKind {
    File(ValueSource<ContentProvider, Content>),
    Directory(ValueSource<DirectoryProvider, Arc<Children>>),
}

/// A value that is known, or a provider of it with its cache.
enum ValueSource<P: ?Sized, T> {
    Known(T),
    Computed {
        provider: Arc<P>,
        ttl: Option<Duration>,
        cache: Arc<Mutex<Option<(Timestamp, T)>>>,
    },
}

impl<P: ?Sized, T: Clone> Clone for ValueSource<P, T> {
    fn clone(&self) -> Self {
        match self {
            ValueSource::Known(value) => ValueSource::Known(value.clone()),
            ValueSource::Computed { provider, ttl, cache } => ValueSource::Computed {
                provider: Arc::clone(provider),
                ttl: *ttl,
                cache: Arc::clone(cache),
            },
        }
    }
}

impl<P: ?Sized, T: Clone> ValueSource<P, T> {
    fn computed(provider: Arc<P>) -> Self {
        ValueSource::Computed {
            provider,
            ttl: None,
            cache: Arc::default(),
        }
    }

    fn get(&self, now: Timestamp, compute: impl FnOnce(&P) -> Result<T>) -> Result<T> {
        let (provider, ttl, cache) = match self {
            ValueSource::Known(value) => return Ok(value.clone()),
            ValueSource::Computed { provider, ttl, cache } => (provider, ttl, cache),
        };
        let Some(ttl) = ttl else {
            return compute(provider);
        };
        // The lock is not held while the provider works: it may read its own filesystem, from other threads too.
        let lock = || cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, value)) = &*lock() {
            let age = now.as_nanos() - since.as_nanos();
            // A clock that was set back makes the age negative: the value is then computed again.
            if (0..ttl.as_nanos() as i128).contains(&age) {
                return Ok(value.clone());
            }
        }
        let value = compute(provider)?;
        *lock() = Some((now, value.clone()));
        Ok(value)
    }
}

impl ProvidedNode {
    fn new(kind: ProvidedKind) -> ProvidedNode {
        ProvidedNode {
            kind,
            metadata: Metadata::new(),
            policy: None,
        }
    }

    /// A file with this content.
    pub fn file(content: impl Into<Vec<u8>>) -> ProvidedNode {
        ProvidedNode::new(ProvidedKind::File(ValueSource::Known(Arc::new(content.into()))))
    }

    /// A file whose content is computed at each read.
    pub fn computed_file(
        provider: impl Fn(&NodeContext<'_>) -> Result<Vec<u8>, CallbackError> + Send + Sync + 'static,
    ) -> ProvidedNode {
        ProvidedNode::new(ProvidedKind::File(ValueSource::computed(Arc::new(provider))))
    }

    /// A directory with these entries.
    pub fn directory(children: Children) -> ProvidedNode {
        ProvidedNode::new(ProvidedKind::Directory(ValueSource::Known(Arc::new(children))))
    }

    /// A directory whose entries are computed at each access.
    pub fn computed_directory(
        provider: impl Fn(&NodeContext<'_>) -> Result<Children, CallbackError> + Send + Sync + 'static,
    ) -> ProvidedNode {
        ProvidedNode::new(ProvidedKind::Directory(ValueSource::computed(Arc::new(provider))))
    }

    /// What is computed is kept for so long.
    #[must_use]
    pub fn with_ttl(mut self, kept: Duration) -> ProvidedNode {
        match &mut self.kind {
            ProvidedKind::File(ValueSource::Computed { ttl, .. })
            | ProvidedKind::Directory(ValueSource::Computed { ttl, .. }) => *ttl = Some(kept),
            ProvidedKind::File(ValueSource::Known(_)) | ProvidedKind::Directory(ValueSource::Known(_)) => {}
        }
        self
    }

    /// With metadata, which the provider sees and views can filter by.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> ProvidedNode {
        self.metadata = metadata;
        self
    }

    /// With a policy.
    #[must_use]
    pub fn with_policy(mut self, policy: NodePolicy) -> ProvidedNode {
        self.policy = Some(Arc::new(policy));
        self
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self.kind, ProvidedKind::Directory(_))
    }

    pub(crate) fn policy(&self) -> Option<&Arc<NodePolicy>> {
        self.policy.as_ref()
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The size of a file, if nothing has to be computed for it.
    pub(crate) fn known_size(&self) -> Option<u64> {
        match &self.kind {
            ProvidedKind::File(ValueSource::Known(content)) => Some(content.len() as u64),
            ProvidedKind::File(ValueSource::Computed { .. }) | ProvidedKind::Directory(_) => None,
        }
    }

    /// The content of a file.
    pub(crate) fn content(&self, vfs: &Vfs, path: &TreePath) -> Result<Content> {
        match &self.kind {
            ProvidedKind::Directory(_) => Err(VfsError::IsADirectory { path: path.clone() }),
            ProvidedKind::File(source) => source.get(vfs.now(), |provider| {
                Ok(Arc::new(self.call(vfs, path, |context| provider(context))?))
            }),
        }
    }

    /// The entries of a directory.
    pub(crate) fn children(&self, vfs: &Vfs, path: &TreePath) -> Result<Arc<Children>> {
        match &self.kind {
            ProvidedKind::File(_) => Err(VfsError::NotADirectory { path: path.clone() }),
            ProvidedKind::Directory(source) => source.get(vfs.now(), |provider| {
                Ok(Arc::new(self.call(vfs, path, |context| provider(context))?))
            }),
        }
    }

    fn call<T>(
        &self,
        vfs: &Vfs,
        path: &TreePath,
        provider: impl FnOnce(&NodeContext<'_>) -> Result<T, CallbackError>,
    ) -> Result<T> {
        let failed = |source: CallbackError| VfsError::Provider {
            path: path.clone(),
            source: source.into(),
        };
        let _nesting =
            ProviderNesting::enter().ok_or_else(|| failed("providers read each other without end".into()))?;
        let context = NodeContext {
            path,
            metadata: &self.metadata,
            vfs,
        };
        provider(&context).map_err(failed)
    }
}

impl fmt::Debug for ProvidedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_directory() { "directory" } else { "file" };
        write!(f, "ProvidedNode({kind})")
    }
}

/// Counts the providers that wait for each other on this thread.
struct ProviderNesting;

impl ProviderNesting {
    fn enter() -> Option<ProviderNesting> {
        NESTING.with(|depth| {
            (depth.get() < NESTING_MAX).then(|| {
                depth.set(depth.get() + 1);
                ProviderNesting
            })
        })
    }
}

impl Drop for ProviderNesting {
    fn drop(&mut self) {
        NESTING.with(|depth| depth.set(depth.get() - 1));
    }
}
