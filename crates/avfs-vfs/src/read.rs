//! Reading: contents, attributes, listings.

use avfs_core::{EntryName, Timestamp, TreePath};

use crate::error::{Result, VfsError};
use crate::look::{CallerLook, Kind, Looked, VisibleEntry, plain_content};
use crate::node::{Content, Metadata, TreeNode};
use crate::policy::NodePolicy;
use crate::vfs::{Vfs, parse};

/// The attributes of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The path without links.
    pub path: TreePath,
    /// What it is.
    pub kind: Kind,
    /// Bytes of a file, of a link's target, or 0.
    pub size: u64,
    /// Permission bits. They are kept and not enforced: policies are.
    pub mode: u32,
    /// When the content was last changed.
    pub mtime: Timestamp,
    /// The version of a file; 0 for everything else, and for what providers give.
    pub version: u64,
    /// What callers attached to it.
    pub metadata: Metadata,
    /// What may be done with it, its own policy or the nearest above.
    pub policy: NodePolicy,
    /// Whether a provider gives it.
    pub is_provided: bool,
}

/// One name in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name.
    pub name: EntryName,
    /// What it is.
    pub kind: Kind,
    /// The size, unless a provider would have to compute the content.
    pub size: Option<u64>,
    /// Permission bits.
    pub mode: u32,
    /// When the content was last changed.
    pub mtime: Timestamp,
    /// The version of a file.
    pub version: u64,
}

impl Vfs {
    /// The content of a file. It is shared, not copied.
    pub fn read_file(&self, path: impl AsRef<[u8]>) -> Result<Content> {
        let path = parse(path.as_ref())?;
        if self.view.is_none()
            && let Some(content) = plain_content(&self.state(), &path)
        {
            return Ok(content);
        }
        self.look(|look| look.read(&path))
    }

    /// `length` bytes from `offset`; fewer at the end of the file.
    pub fn read_bytes(&self, path: impl AsRef<[u8]>, offset: u64, length: u64) -> Result<Vec<u8>> {
        let content = self.read_file(path)?;
        let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(content.len());
        Ok(content[at(offset)..at(offset.saturating_add(length))].to_vec())
    }

    /// The attributes of an entry. Links are followed.
    pub fn stat(&self, path: impl AsRef<[u8]>) -> Result<Stat> {
        let path = parse(path.as_ref())?;
        self.look(|look| look.stat(&path, true))
    }

    /// The attributes of an entry, or of the link if it is one.
    pub fn lstat(&self, path: impl AsRef<[u8]>) -> Result<Stat> {
        let path = parse(path.as_ref())?;
        self.look(|look| look.stat(&path, false))
    }

    /// Whether something is there. A link that leads nowhere does not count.
    pub fn exists(&self, path: impl AsRef<[u8]>) -> Result<bool> {
        let path = parse(path.as_ref())?;
        match self.look(|look| Ok(look.walk(&path, true)?.found.is_some())) {
            Err(VfsError::NotFound { .. } | VfsError::NotADirectory { .. }) => Ok(false),
            answer => answer,
        }
    }

    /// The entries of a directory in the order of their names.
    pub fn ls(&self, path: impl AsRef<[u8]>) -> Result<Vec<DirEntry>> {
        let path = parse(path.as_ref())?;
        self.look(|look| {
            let (path, found) = look.find_directory(&path)?;
            found.check_read(&path)?;
            let children = look.children(&found, &path)?;
            Ok(children.into_iter().map(DirEntry::new).collect())
        })
    }

    /// The target of a symbolic link.
    pub fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let path = parse(path.as_ref())?;
        self.look(|look| {
            let (path, found) = look.walk(&path, false)?.existing()?;
            found.check_read(&path)?;
            match found.own {
                Some(TreeNode::Symlink(link)) => Ok(link.target.to_vec()),
                _ => Err(VfsError::NotALink { path }.into()),
            }
        })
    }

    /// Everything at and below a path, parents first, in the order of the names. Links are not followed; what cannot
    /// be listed is left out.
    pub fn walk(&self, path: impl AsRef<[u8]>) -> Result<Vec<(TreePath, DirEntry)>> {
        let path = parse(path.as_ref())?;
        self.look(|look| {
            let (path, found) = look.find(&path)?;
            let name = path.name();
            let mut all = Vec::new();
            if let Some(name) = name {
                all.push((path.clone(), DirEntry::new((name, found.clone()))));
            }
            look.walk_below(&found, &path, &mut all)?;
            Ok(all)
        })
    }

    /// A directory as a picture with one line for each entry below it, down to `depth` levels.
    pub fn tree(&self, path: impl AsRef<[u8]>, depth: Option<usize>) -> Result<String> {
        let path = parse(path.as_ref())?;
        self.look(|look| {
            let (path, found) = look.find_directory(&path)?;
            let mut text = format!("{path}\n");
            look.draw(&found, &path, "", depth.unwrap_or(usize::MAX), &mut text)?;
            Ok(text)
        })
    }
}

impl DirEntry {
    fn new((name, found): (EntryName, VisibleEntry<'_>)) -> DirEntry {
        DirEntry {
            name,
            kind: found.kind(),
            size: found.known_size(),
            mode: found.mode(),
            mtime: found.mtime(),
            version: found.version(),
        }
    }
}

impl<'a> CallerLook<'a> {
    fn read(&self, path: &TreePath) -> Looked<Content> {
        let (path, found) = self.find(path)?;
        found.check_read(&path)?;
        if found.is_directory() {
            return Err(VfsError::IsADirectory { path }.into());
        }
        self.content(&found, &path)
    }

    fn stat(&self, path: &TreePath, follow: bool) -> Looked<Stat> {
        let (path, found) = self.walk(path, follow)?.existing()?;
        let size = match found.known_size() {
            Some(size) => size,
            None => self.content(&found, &path)?.len() as u64,
        };
        Ok(Stat {
            kind: found.kind(),
            size,
            mode: found.mode(),
            mtime: found.mtime(),
            version: found.version(),
            metadata: found.metadata().cloned().unwrap_or_default(),
            policy: found.standing.policy(),
            is_provided: found.own.is_none() || matches!(found.own, Some(TreeNode::Provided(_))),
            path,
        })
    }

    fn walk_below(
        &self,
        found: &VisibleEntry<'a>,
        path: &TreePath,
        all: &mut Vec<(TreePath, DirEntry)>,
    ) -> Looked<()> {
        if !found.is_directory() || found.check_read(path).is_err() {
            return Ok(());
        }
        for (name, child) in self.children(found, path)? {
            let path = path.join(&name);
            all.push((path.clone(), DirEntry::new((name, child.clone()))));
            self.walk_below(&child, &path, all)?;
        }
        Ok(())
    }

    fn draw(
        &self,
        found: &VisibleEntry<'a>,
        path: &TreePath,
        indent: &str,
        depth: usize,
        out: &mut String,
    ) -> Looked<()> {
        if depth == 0 || found.check_read(path).is_err() {
            return Ok(());
        }
        let children = self.children(found, path)?;
        let last = children.len().saturating_sub(1);
        for (index, (name, child)) in children.into_iter().enumerate() {
            let (branch, below) = if index == last {
                ("└── ", "    ")
            } else {
                ("├── ", "│   ")
            };
            let mark = match child.own {
                Some(TreeNode::Symlink(link)) => format!(" -> {}", avfs_core::printable(&link.target)),
                _ => String::new(),
            };
            out.push_str(&format!("{indent}{branch}{name}{mark}\n"));
            if child.is_directory() {
                let indent = format!("{indent}{below}");
                self.draw(&child, &path.join(&name), &indent, depth - 1, out)?;
            }
        }
        Ok(())
    }
}
