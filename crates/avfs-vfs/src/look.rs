//! Finding entries: through directories, links and providers, past policies and views.
//!
//! This is the only place that decides what a caller can see. A [`CallerLook`] first tries without providers, under the
//! lock of the state; if one is needed, it is done again on a copy of the state, so that a provider runs without a
//! lock.

use std::sync::Arc;

use avfs_core::{EntryName, Timestamp, TreePath};

use crate::error::{Result, Right, VfsError};
use crate::node::{Content, DirectoryBase, DirectoryNode, Metadata, NodeAttributes, TreeNode};
use crate::policy::{InheritedRights, NodePolicy, SeenEntry};
use crate::provider::{Children, ProvidedNode};
use crate::vfs::{DEPTH_MAX, Vfs, VfsState};

/// The most symbolic links on the way to one path, as in Linux.
const LINKS_MAX: u32 = 40;
/// Provided entries have no mode of their own.
const PROVIDED_FILE_MODE: u32 = 0o644;
const PROVIDED_DIRECTORY_MODE: u32 = 0o755;

/// Why a look ended early.
pub(crate) enum LookStop {
    /// A provider has to be called, which is not possible under the lock of the state.
    NeedsProvider,
    Failed(VfsError),
}

impl From<VfsError> for LookStop {
    fn from(error: VfsError) -> LookStop {
        LookStop::Failed(error)
    }
}

pub(crate) type Looked<T> = Result<T, LookStop>;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Bytes, with a version.
    File,
    /// Entries by name.
    Directory,
    /// A path that is followed.
    Symlink,
}

/// One state as one caller sees it.
pub(crate) struct CallerLook<'a> {
    pub state: &'a VfsState,
    pub vfs: &'a Vfs,
    pub may_provide: bool,
}

/// An entry that the caller can see.
#[derive(Clone)]
pub(crate) struct VisibleEntry<'a> {
    /// What the tree itself holds.
    pub own: Option<&'a TreeNode>,
    /// What a provider gives: the file, or what lies below the entries of a directory.
    pub base: Option<ProvidedNode>,
    pub standing: InheritedRights<'a>,
}

/// The end of a path, with the directories on the way to it and no link among them.
pub(crate) struct WalkedPath<'a> {
    /// From the root to the last directory that exists.
    pub above: Vec<VisibleEntry<'a>>,
    /// The path without links, with the names that are missing.
    pub path: TreePath,
    /// The names at the end of the path that do not exist.
    pub missing: Vec<EntryName>,
    pub found: Option<VisibleEntry<'a>>,
}

impl<'a> WalkedPath<'a> {
    pub(crate) fn parent(&self) -> &VisibleEntry<'a> {
        self.above.last().expect("the root is above everything")
    }

    pub(crate) fn existing(self) -> Result<(TreePath, VisibleEntry<'a>)> {
        match self.found {
            Some(found) => Ok((self.path, found)),
            None => Err(VfsError::NotFound { path: self.path }),
        }
    }
}

impl<'a> VisibleEntry<'a> {
    pub(crate) fn kind(&self) -> Kind {
        match (self.own, &self.base) {
            (Some(TreeNode::File(_)), _) => Kind::File,
            (Some(TreeNode::Directory(_)), _) => Kind::Directory,
            (Some(TreeNode::Symlink(_)), _) => Kind::Symlink,
            (Some(TreeNode::Provided(_) | TreeNode::Removed) | None, Some(base)) if base.is_directory() => {
                Kind::Directory
            }
            (Some(TreeNode::Provided(_) | TreeNode::Removed) | None, _) => Kind::File,
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind() == Kind::Directory
    }

    pub(crate) fn own_directory(&self) -> Option<&'a Arc<DirectoryNode>> {
        match self.own {
            Some(TreeNode::Directory(directory)) => Some(directory),
            _ => None,
        }
    }

    /// 0 for everything that is not a file of the tree itself.
    pub(crate) fn version(&self) -> u64 {
        match self.own {
            Some(TreeNode::File(file)) => file.version,
            _ => 0,
        }
    }

    pub(crate) fn mode(&self) -> u32 {
        match self.own.and_then(TreeNode::attributes) {
            Some(attributes) => attributes.mode,
            None if self.is_directory() => PROVIDED_DIRECTORY_MODE,
            None => PROVIDED_FILE_MODE,
        }
    }

    pub(crate) fn mtime(&self) -> Timestamp {
        let attributes = self.own.and_then(TreeNode::attributes);
        attributes.map(|attributes| attributes.mtime).unwrap_or_default()
    }

    pub(crate) fn metadata(&self) -> Option<&Metadata> {
        let own = self.own.and_then(TreeNode::attributes);
        match own {
            Some(own) => own.metadata(),
            None => Some(self.base.as_ref()?.metadata()),
        }
    }

    /// The size, unless a provider would have to compute the content.
    pub(crate) fn known_size(&self) -> Option<u64> {
        match (self.own, &self.base) {
            (Some(TreeNode::File(file)), _) => Some(file.content.len() as u64),
            (Some(TreeNode::Symlink(link)), _) => Some(link.target.len() as u64),
            (Some(TreeNode::Directory(_)), _) => Some(0),
            (_, Some(base)) if base.is_directory() => Some(0),
            (_, Some(base)) => base.known_size(),
            (_, None) => None,
        }
    }

    /// The attributes that a directory of the tree gets which stands over a provided one.
    pub(crate) fn attributes(&self, now: Timestamp) -> NodeAttributes {
        let own = self.own.and_then(TreeNode::attributes);
        own.cloned()
            .unwrap_or_else(|| NodeAttributes::new(self.mode(), now))
    }
}

/// What may be done with an entry, as errors that name it.
impl VisibleEntry<'_> {
    pub(crate) fn check_read(&self, path: &TreePath) -> Result<()> {
        allowed(self.standing.can_read(), path, Right::Read)
    }

    pub(crate) fn check_append(&self, path: &TreePath) -> Result<()> {
        allowed(self.standing.can_append(), path, Right::Append)
    }

    pub(crate) fn check_write(&self, path: &TreePath) -> Result<()> {
        allowed(self.standing.can_write(), path, Right::Write)
    }
}

fn allowed(is_allowed: bool, path: &TreePath, right: Right) -> Result<()> {
    if is_allowed {
        Ok(())
    } else {
        let path = path.clone();
        Err(VfsError::Denied { path, right })
    }
}

/// Where a walk is.
struct WalkPosition<'a> {
    stack: Vec<VisibleEntry<'a>>,
    path: TreePath,
    links: u32,
}

impl WalkPosition<'_> {
    fn go_up(&mut self) {
        if self.stack.len() > 1 {
            self.stack.pop();
            self.path = self
                .path
                .split_last()
                .map_or_else(TreePath::root, |(above, _)| above);
        }
    }
}

/// One name more, checked.
pub(crate) trait PushName {
    fn push_name(&mut self, name: &[u8]) -> Result<()>;
}

impl PushName for TreePath {
    fn push_name(&mut self, name: &[u8]) -> Result<()> {
        self.push(&EntryName::new(name)?);
        Ok(())
    }
}

impl<'a> CallerLook<'a> {
    pub(crate) fn root(&self) -> VisibleEntry<'a> {
        let root = &self.state.root;
        let TreeNode::Directory(directory) = root else {
            unreachable!("the root is a directory");
        };
        let extra = directory.attributes.extra.as_ref();
        VisibleEntry {
            own: Some(root),
            base: mounted_base(root),
            standing: InheritedRights::root(
                self.vfs_view(),
                extra.and_then(|extra| extra.policy.as_ref()),
                extra.map(|extra| &extra.metadata),
            ),
        }
    }

    fn vfs_view(&self) -> Option<&'a crate::policy::VisibilityView> {
        self.vfs.view.as_deref()
    }

    /// Goes along a path. Links on the way are followed, the last name only if `follow` says so.
    pub(crate) fn walk(&self, path: &TreePath, follow: bool) -> Looked<WalkedPath<'a>> {
        let mut position = WalkPosition {
            stack: Vec::with_capacity(8),
            path: TreePath::root(),
            links: 0,
        };
        position.stack.push(self.root());
        let missing = self.go(&mut position, &mut path.names(), path, follow, true)?;
        for name in &missing {
            position.path.push(name);
        }
        let found = match position.stack.len() {
            _ if !missing.is_empty() => None,
            // The root is both the end of the path and what is above it.
            1 => position.stack.first().cloned(),
            _ => position.stack.pop(),
        };
        Ok(WalkedPath {
            above: position.stack,
            path: position.path,
            missing,
            found,
        })
    }

    /// The entry at a path; an error if there is none.
    pub(crate) fn find(&self, path: &TreePath) -> Looked<(TreePath, VisibleEntry<'a>)> {
        Ok(self.walk(path, true)?.existing()?)
    }

    /// The directory at a path.
    pub(crate) fn find_directory(&self, path: &TreePath) -> Looked<(TreePath, VisibleEntry<'a>)> {
        let (path, found) = self.find(path)?;
        if found.is_directory() {
            Ok((path, found))
        } else {
            Err(VfsError::NotADirectory { path }.into())
        }
    }

    /// Returns the names from the first that does not exist. `is_end`: these names end the path that was asked for.
    fn go(
        &self,
        position: &mut WalkPosition<'a>,
        names: &mut dyn Iterator<Item = &[u8]>,
        asked: &TreePath,
        follow: bool,
        is_end: bool,
    ) -> Looked<Vec<EntryName>> {
        let mut names = names.peekable();
        while let Some(name) = names.next() {
            if name == b".." {
                // Only targets of links have such names: paths of callers are refused with them.
                position.go_up();
                continue;
            }
            // The last name of a link's target is not the end of the path, unless the link was.
            let is_last = is_end && names.peek().is_none();
            let here = position.stack.last().expect("the root is below everything");
            if !here.is_directory() {
                let path = position.path.clone();
                return Err(VfsError::NotADirectory { path }.into());
            }
            // Against providers that give directories within directories without end.
            if position.stack.len() > DEPTH_MAX {
                let path = asked.clone();
                return Err(VfsError::TooDeep { path }.into());
            }
            let Some(found) = self.child(here, &position.path, name)? else {
                // Names may be missing only at the end of the path that was asked for, where a caller wants
                // to make them.
                if !is_end {
                    let path = asked.clone();
                    return Err(VfsError::NotFound { path }.into());
                }
                let missing = std::iter::once(name).chain(names).map(EntryName::new);
                return Ok(missing.collect::<Result<_, _>>().map_err(VfsError::from)?);
            };
            match found.own {
                Some(TreeNode::Symlink(link)) if follow || !is_last => {
                    let missing = self.go_through(position, &found, &link.target, name, asked, is_last)?;
                    if !missing.is_empty() {
                        return Ok(missing);
                    }
                }
                _ => {
                    position.path.push_name(name)?;
                    position.stack.push(found);
                }
            }
        }
        Ok(Vec::new())
    }

    /// Goes to where a link leads.
    fn go_through(
        &self,
        position: &mut WalkPosition<'a>,
        link: &VisibleEntry<'a>,
        target: &[u8],
        name: &[u8],
        asked: &TreePath,
        is_end: bool,
    ) -> Looked<Vec<EntryName>> {
        if !link.standing.can_read() {
            let mut path = position.path.clone();
            path.push_name(name)?;
            link.check_read(&path)?;
        }
        // Counted for the whole walk: links that lead to each other would otherwise never end.
        position.links += 1;
        if position.links > LINKS_MAX {
            let path = asked.clone();
            return Err(VfsError::TooManyLinks { path }.into());
        }
        if target.first() == Some(&b'/') {
            // The root of the filesystem stays: links cannot lead out of it.
            position.stack.truncate(1);
            position.path = TreePath::root();
        }
        let parts = target.split(|byte| *byte == b'/');
        // As the kernel reads a path: several slashes are one, and a dot stays where it is.
        let mut parts = parts.filter(|part| !part.is_empty() && *part != b".");
        self.go(position, &mut parts, asked, true, is_end)
    }

    /// The entry with this name, if there is one that the caller can see.
    pub(crate) fn child(
        &self,
        parent: &VisibleEntry<'a>,
        parent_path: &TreePath,
        name: &[u8],
    ) -> Looked<Option<VisibleEntry<'a>>> {
        let own = parent
            .own_directory()
            .and_then(|directory| directory.entries.get(name));
        let base = match own {
            // Hides what a provider has under this name.
            Some(TreeNode::Removed) => return Ok(None),
            Some(TreeNode::Directory(directory)) if matches!(directory.base, DirectoryBase::OfParent) => {
                self.provided(parent, parent_path)?.get(name).cloned()
            }
            Some(node) => mounted_base(node),
            None if parent.base.is_none() => return Ok(None),
            None => match self.provided(parent, parent_path)?.get(name) {
                Some(base) => Some(base.clone()),
                None => return Ok(None),
            },
        };
        let path = || {
            let mut path = parent_path.clone();
            // A name that is in a directory is a name.
            let _ = path.push_name(name);
            path
        };
        Ok(self.seen(parent, path, own, base))
    }

    /// Applies policies and the view.
    fn seen(
        &self,
        parent: &VisibleEntry<'a>,
        path: impl FnOnce() -> TreePath,
        own: Option<&'a TreeNode>,
        base: Option<ProvidedNode>,
    ) -> Option<VisibleEntry<'a>> {
        let attributes = own.and_then(TreeNode::attributes);
        let provided = base.as_ref().filter(|_| attributes.is_none());
        let policy = match attributes {
            Some(attributes) => attributes.policy(),
            None => provided.and_then(ProvidedNode::policy),
        };
        // The usual case, without computing a path.
        if self.vfs.view.is_none() && policy.is_none() {
            let standing = parent.standing.clone();
            return Some(VisibleEntry { own, base, standing });
        }
        let mut found = VisibleEntry {
            own,
            base,
            standing: parent.standing.clone(),
        };
        // Its own policy comes before that of its provider, and both before what it inherits.
        let policy: Option<Arc<NodePolicy>> = policy_of(&found).cloned();
        found.standing = parent.standing.below(&SeenEntry {
            path: &path(),
            policy: policy.as_ref(),
            metadata: found.metadata(),
            is_directory: found.is_directory(),
        })?;
        Some(found)
    }

    /// What lies below the entries of a directory.
    pub(crate) fn provided(&self, directory: &VisibleEntry<'a>, path: &TreePath) -> Looked<Arc<Children>> {
        match &directory.base {
            None => Ok(Arc::default()),
            Some(_) if !self.may_provide => Err(LookStop::NeedsProvider),
            // Providers work for the filesystem and not for one caller: they see all of it.
            Some(base) => Ok(base.children(&self.vfs.owner(), path)?),
        }
    }

    /// The entries of a directory in the order of their names.
    pub(crate) fn children(
        &self,
        directory: &VisibleEntry<'a>,
        path: &TreePath,
    ) -> Looked<Vec<(EntryName, VisibleEntry<'a>)>> {
        let provided = self.provided(directory, path)?;
        let mut children = Vec::new();
        let own = directory.own_directory().map(|directory| &directory.entries);
        for (name, node) in own.into_iter().flat_map(|entries| entries.iter()) {
            let base = match node {
                TreeNode::Removed => continue,
                TreeNode::Directory(directory) if matches!(directory.base, DirectoryBase::OfParent) => {
                    provided.get(name).cloned()
                }
                node => mounted_base(node),
            };
            let found = self.seen(directory, || path.join(name), Some(node), base);
            children.extend(found.map(|found| (name.clone(), found)));
        }
        if !provided.is_empty() {
            for (name, base) in provided.iter() {
                // An entry of the tree stands over a provided one, also if it says that the name was
                // removed.
                if own.is_none_or(|entries| entries.get(name.as_bytes()).is_none()) {
                    let found = self.seen(directory, || path.join(name), None, Some(base.clone()));
                    children.extend(found.map(|found| (name.clone(), found)));
                }
            }
            // Both parts are in order, and together they are not.
            children.sort_by(|a, b| a.0.cmp(&b.0));
        }
        Ok(children)
    }

    /// Whether a view hides entries of the directory.
    pub(crate) fn hides_in(&self, directory: &VisibleEntry<'a>, path: &TreePath) -> Looked<bool> {
        if self.vfs.view.is_none() {
            return Ok(false);
        }
        let shown = self.children(directory, path)?.len();
        let open = CallerLook {
            state: self.state,
            vfs: &self.vfs.owner(),
            may_provide: self.may_provide,
        };
        // The same directory with all rights and without the view, to compare what each of them shows.
        let all = VisibleEntry {
            standing: InheritedRights::root(None, None, None),
            ..directory.clone()
        };
        Ok(open.children(&all, path)?.len() != shown)
    }

    /// The bytes of a file.
    pub(crate) fn content(&self, found: &VisibleEntry<'a>, path: &TreePath) -> Looked<Content> {
        match (found.own, &found.base) {
            (Some(TreeNode::File(file)), _) => Ok(Arc::clone(&file.content)),
            (_, Some(_)) if !self.may_provide => Err(LookStop::NeedsProvider),
            (_, Some(base)) => Ok(base.content(&self.vfs.owner(), path)?),
            (_, None) => Err(VfsError::IsADirectory { path: path.clone() }.into()),
        }
    }
}

/// The content of a file to which nothing leads but directories of the tree itself, without links, policies or
/// providers that count. Most reads are such, and need no walk: whatever is missing here is left to [`CallerLook::walk`].
pub(crate) fn plain_content(state: &VfsState, path: &TreePath) -> Option<Content> {
    let mut node = &state.root;
    for name in path.names() {
        match node {
            TreeNode::Directory(directory) if directory.attributes.policy().is_none() => {
                node = directory.entries.get(name)?;
            }
            _ => return None,
        }
    }
    match node {
        TreeNode::File(file) if file.attributes.policy().is_none() => Some(Arc::clone(&file.content)),
        _ => None,
    }
}

fn policy_of<'f>(found: &'f VisibleEntry<'_>) -> Option<&'f Arc<NodePolicy>> {
    match found.own.and_then(TreeNode::attributes) {
        Some(attributes) => attributes.policy(),
        None => found.base.as_ref()?.policy(),
    }
}

/// The provider of a node that was mounted.
fn mounted_base(node: &TreeNode) -> Option<ProvidedNode> {
    match node {
        TreeNode::Provided(provided) => Some((**provided).clone()),
        TreeNode::Directory(directory) => match &directory.base {
            DirectoryBase::Mounted(provided) => Some((**provided).clone()),
            DirectoryBase::Nothing | DirectoryBase::OfParent => None,
        },
        TreeNode::File(_) | TreeNode::Symlink(_) | TreeNode::Removed => None,
    }
}
