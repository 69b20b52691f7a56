//! Who may see and change what: policies on entries, and views that select among them.
//!
//! The policy nearest above an entry decides its rights. Visibility adds up instead: whatever lies below a hidden
//! directory is hidden as well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use avfs_core::TreePath;

use crate::node::Metadata;

/// What may be done with an entry, and with everything below it that has no policy of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePolicy {
    /// Whether contents can be read and a directory listed.
    pub readable: bool,
    /// Whether it can be changed at all.
    pub writable: bool,
    /// Whether files only grow, and directories lose nothing.
    pub append_only: bool,
    /// The word by which views select it.
    pub classification: String,
    /// Who may see it. If there are any, they decide instead of the classification.
    pub principals: BTreeSet<String>,
}

/// The classification of entries without a policy.
pub const PUBLIC: &str = "public";

impl Default for NodePolicy {
    fn default() -> NodePolicy {
        NodePolicy {
            readable: true,
            writable: true,
            append_only: false,
            classification: PUBLIC.to_owned(),
            principals: BTreeSet::new(),
        }
    }
}

/// What one reader of a filesystem can see. The default shows everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisibilityView {
    /// Only entries with one of these classifications.
    pub classifications: Option<BTreeSet<String>>,
    /// Who is looking: opens entries whose policy names one of them.
    pub principals: Option<BTreeSet<String>>,
    /// Only these paths and what lies below; the directories above can be walked through.
    pub path_prefixes: Option<Vec<TreePath>>,
    /// For each key, the values of which a file must have one, itself or from a directory above.
    pub metadata_filters: BTreeMap<String, BTreeSet<String>>,
}

impl VisibilityView {
    /// Whether entries with this policy are shown.
    pub fn allows(&self, policy: &NodePolicy) -> bool {
        if !policy.principals.is_empty() {
            let known = self.principals.as_ref();
            return known.is_some_and(|known| !known.is_disjoint(&policy.principals));
        }
        self.shows_classification(&policy.classification)
    }

    fn shows_classification(&self, classification: &str) -> bool {
        let shown = self.classifications.as_ref();
        shown.is_none_or(|shown| shown.contains(classification))
    }

    fn shows_path(&self, path: &TreePath) -> bool {
        let Some(prefixes) = &self.path_prefixes else {
            return true;
        };
        prefixes
            .iter()
            .any(|prefix| path.starts_with(prefix) || prefix.starts_with(path))
    }

    /// Whether the path is itself asked for, rather than only on the way to one that is.
    fn covers(&self, path: &TreePath) -> bool {
        let prefixes = self.path_prefixes.as_ref();
        prefixes.is_none_or(|prefixes| prefixes.iter().any(|prefix| path.starts_with(prefix)))
    }

    /// A directory may still lead to files that match.
    fn shows_metadata(&self, metadata: &Metadata, is_directory: bool) -> bool {
        self.metadata_filters.iter().all(|(key, values)| {
            metadata
                .get(key)
                .map_or(is_directory, |value| values.contains(value))
        })
    }
}

/// What holds at a path: the rights that were inherited so far, and what a view still needs to know.
#[derive(Clone, Debug)]
pub(crate) struct InheritedRights<'a> {
    policy: Option<Arc<NodePolicy>>,
    view: Option<&'a VisibilityView>,
    /// What the directories above carry; only filled in for views that ask for it.
    metadata: Metadata,
    is_covered: bool,
}

/// What a policy and a view need to know of an entry.
pub(crate) struct SeenEntry<'b> {
    pub path: &'b TreePath,
    pub policy: Option<&'b Arc<NodePolicy>>,
    pub metadata: Option<&'b Metadata>,
    pub is_directory: bool,
}

impl<'a> InheritedRights<'a> {
    /// Where the root stands. No view hides it.
    pub(crate) fn root(
        view: Option<&'a VisibilityView>,
        policy: Option<&Arc<NodePolicy>>,
        metadata: Option<&Metadata>,
    ) -> InheritedRights<'a> {
        let asks = view.is_some_and(|view| !view.metadata_filters.is_empty());
        InheritedRights {
            policy: policy.cloned(),
            view,
            metadata: metadata.filter(|_| asks).cloned().unwrap_or_default(),
            is_covered: view.is_none_or(|view| view.covers(&TreePath::root())),
        }
    }

    /// One step down; `None` if the view hides the entry.
    pub(crate) fn below(&self, entry: &SeenEntry<'_>) -> Option<InheritedRights<'a>> {
        let policy = entry.policy.or(self.policy.as_ref()).cloned();
        let Some(view) = self.view else {
            return Some(InheritedRights {
                policy,
                view: None,
                metadata: Metadata::new(),
                is_covered: true,
            });
        };
        let mut metadata = Metadata::new();
        if !view.metadata_filters.is_empty() {
            metadata.clone_from(&self.metadata);
            metadata.extend(entry.metadata.cloned().unwrap_or_default());
        }
        let by_policy = match &policy {
            Some(policy) => view.allows(policy),
            None => view.shows_classification(PUBLIC),
        };
        let is_shown =
            by_policy && view.shows_path(entry.path) && view.shows_metadata(&metadata, entry.is_directory);
        is_shown.then(|| InheritedRights {
            policy,
            view: Some(view),
            metadata,
            is_covered: view.covers(entry.path),
        })
    }

    pub(crate) fn can_read(&self) -> bool {
        self.policy.as_ref().is_none_or(|policy| policy.readable)
    }

    /// A path that is only on the way to what the view covers cannot be changed.
    pub(crate) fn can_append(&self) -> bool {
        self.is_covered && self.policy.as_ref().is_none_or(|policy| policy.writable)
    }

    pub(crate) fn can_write(&self) -> bool {
        self.can_append() && self.policy.as_ref().is_none_or(|policy| !policy.append_only)
    }

    pub(crate) fn policy(&self) -> NodePolicy {
        self.policy.as_deref().cloned().unwrap_or_default()
    }
}
