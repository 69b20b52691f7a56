//! To and from directories of the host.

use std::ffi::OsStr;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use avfs_core::{EntryName, Timestamp, TreePath};

use crate::change::{ChangePlan, StateDraft, StoreChange};
use crate::error::{Result, VfsError};
use crate::look::{CallerLook, Looked};
use crate::node::{DirectoryNode, FileNode, NodeAttributes, SymlinkNode, TreeNode};
use crate::snapshot::differences;
use crate::vfs::{DEPTH_MAX, Vfs, parse};
use crate::write::WriteWay;

/// [`Vfs::export`].
pub(crate) fn export(vfs: &Vfs, path: impl AsRef<[u8]>, destination: &Path) -> Result<()> {
    let path = parse(path.as_ref())?;
    let node = vfs.look(|look| {
        let (path, found) = look.find(&path)?;
        look.copied(&found, &path)
    })?;
    // Looked at before anything is written: nothing of the host is replaced.
    let is_empty = destination
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_none());
    if destination.symlink_metadata().is_ok() && !(is_empty && matches!(node, TreeNode::Directory(_))) {
        let source = io::ErrorKind::AlreadyExists.into();
        return Err(failed("exporting to", destination, source));
    }
    write_out(&node, destination)
}

/// [`Vfs::import`].
pub(crate) fn import(vfs: &Vfs, source: &Path, path: impl AsRef<[u8]>) -> Result<()> {
    let path = parse(path.as_ref())?;
    let Some(node) = read_in(source, 0)? else {
        let fault = io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a directory");
        return Err(failed("importing", source, fault));
    };
    vfs.change_many(StoreChange::Stored, |draft| {
        // The root cannot be replaced: what belongs into it is put there one by one.
        if path.is_root() {
            let TreeNode::Directory(directory) = &node else {
                return Err(VfsError::Root { action: "replaced" });
            };
            return directory.entries.iter().try_for_each(|(name, node)| {
                draft.step(|look, plan| plan_graft(look, plan, &path.join(name), node))
            });
        }
        draft.step(|look, plan| plan_graft(look, plan, &path, &node))
    })
}

/// [`Vfs::with_host_directory`].
pub(crate) fn with_host_directory<T>(
    vfs: &Vfs,
    path: impl AsRef<[u8]>,
    place: &Path,
    work: impl FnOnce() -> T,
) -> Result<T> {
    let path = parse(path.as_ref())?;
    let (path, before) = vfs.look(|look| {
        let (path, found) = look.find_directory(&path)?;
        let node = look.copied(&found, &path)?;
        Ok((path, node))
    })?;
    write_out(&before, place)?;
    // Without any lock: it may take long, and may use the filesystem itself.
    let answer = work();
    let after = read_in(place, 0)?;
    let after = after.ok_or(VfsError::Invalid("the directory of the host is gone"))?;
    let mut steps = Vec::new();
    differences(&before, &after, &path, &mut |path, old, new| {
        steps.push((path.clone(), old, new));
    });
    vfs.change_many(StoreChange::Stored, |draft| {
        steps
            .iter()
            .try_for_each(|(path, old, new)| take_over(draft, path, *old, *new))
    })?;
    Ok(answer)
}

/// One path that a program of the host has changed.
fn take_over(
    draft: &mut StateDraft<'_>,
    path: &TreePath,
    old: Option<&TreeNode>,
    new: Option<&TreeNode>,
) -> Result<()> {
    match (old, new) {
        (Some(TreeNode::File(_)), Some(TreeNode::File(file))) => draft.step(|look, plan| {
            look.plan_write(plan, path, &file.content, None, WriteWay::Replace)
                .map(drop)
        })?,
        (Some(TreeNode::Directory(_)), Some(TreeNode::Directory(_))) => {}
        (old, new) => {
            if old.is_some() {
                draft.step(|look, plan| look.plan_removal(plan, path, true))?;
            }
            if let Some(new) = new {
                draft.step(|look, plan| plan_graft(look, plan, path, new))?;
            }
            return Ok(());
        }
    }
    let Some(attributes) = new.and_then(TreeNode::attributes) else {
        return Ok(());
    };
    draft.step(|look, plan| {
        let walked = look.walk(path, false)?;
        if let Some(found) = &walked.found {
            found.check_write(&walked.path)?;
        }
        // The time is that of the change, as for any other write.
        look.plan_attributes(plan, &walked, |own| own.mode = attributes.mode)
    })
}

/// Puts a node where nothing is, or an empty directory.
pub(crate) fn plan_graft(
    look: &CallerLook<'_>,
    plan: &mut ChangePlan,
    path: &TreePath,
    node: &TreeNode,
) -> Looked<()> {
    let target = look.walk(path, true)?;
    if target.found.as_ref().is_some_and(|there| !there.is_directory()) {
        return Err(VfsError::Exists { path: target.path }.into());
    }
    look.plan_arrival(plan, &target, node)?;
    let node = crate::change::renumbered(node, &target.path, look.state, false);
    plan.tell_all(
        &node,
        &target.path,
        crate::change::hooks::PathEventKind::Create,
        None,
    );
    plan.put(&target.path, node);
    Ok(())
}

fn failed(action: &'static str, place: &Path, source: io::Error) -> VfsError {
    let place = place.display().to_string();
    VfsError::Host {
        action,
        place,
        source,
    }
}

fn write_out(node: &TreeNode, place: &Path) -> Result<()> {
    let failed = |source| failed("writing", place, source);
    match node {
        TreeNode::File(file) => {
            let mode = file.attributes.mode;
            let mut options = OpenOptions::new();
            // Nobody else reads it before it has its own mode.
            options.write(true).create_new(true).mode(0o600);
            let mut out = options.open(place).map_err(failed)?;
            out.write_all(&file.content).map_err(failed)?;
            out.set_permissions(PermissionsExt::from_mode(mode))
                .map_err(failed)?;
            out.set_modified(host_time(file.attributes.mtime)).map_err(failed)
        }
        TreeNode::Symlink(link) => symlink(OsStr::from_bytes(&link.target), place).map_err(failed),
        TreeNode::Directory(directory) => {
            if !place.is_dir() {
                DirBuilder::new().mode(0o700).create(place).map_err(failed)?;
            }
            for (name, node) in directory.entries.iter() {
                write_out(node, &place.join(OsStr::from_bytes(name.as_bytes())))?;
            }
            // Mode and time last: writing into the directory would change one, and the other might forbid
            // it.
            let handle = std::fs::File::open(place).map_err(failed)?;
            let mode = PermissionsExt::from_mode(directory.attributes.mode);
            handle.set_permissions(mode).map_err(failed)?;
            handle
                .set_modified(host_time(directory.attributes.mtime))
                .map_err(failed)
        }
        TreeNode::Provided(_) | TreeNode::Removed => Ok(()),
    }
}

fn host_time(time: Timestamp) -> SystemTime {
    let nanos = time.as_nanos();
    let distance = Duration::from_nanos(u64::try_from(nanos.unsigned_abs()).unwrap_or(u64::MAX));
    let moved = if nanos < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    };
    moved.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// `None` for what is neither a file, a directory nor a link.
fn read_in(place: &Path, depth: usize) -> Result<Option<TreeNode>> {
    let failed = |source| failed("reading", place, source);
    // A link is taken as a link, and never followed out of the directory.
    let host = place.symlink_metadata().map_err(failed)?;
    let mtime = Timestamp::new(host.mtime(), host.mtime_nsec() as u32).unwrap_or_default();
    let attributes = NodeAttributes::new(host.mode() & 0o7777, mtime);
    if host.is_symlink() {
        let target = place
            .read_link()
            .map_err(failed)?
            .into_os_string()
            .into_vec()
            .into();
        return Ok(Some(TreeNode::Symlink(Arc::new(SymlinkNode {
            target,
            attributes,
        }))));
    }
    if host.is_file() {
        let content = Arc::new(std::fs::read(place).map_err(failed)?);
        return Ok(Some(TreeNode::File(Arc::new(FileNode {
            content,
            version: 0,
            attributes,
            shadows: false,
        }))));
    }
    if !host.is_dir() {
        return Ok(None);
    }
    if depth > DEPTH_MAX {
        let fault = io::Error::new(io::ErrorKind::InvalidInput, "directories are nested too deeply");
        return Err(failed(fault));
    }
    let mut directory = DirectoryNode {
        attributes,
        ..DirectoryNode::default()
    };
    for entry in place.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = EntryName::new(entry.file_name().as_bytes())?;
        if let Some(node) = read_in(&entry.path(), depth + 1)? {
            directory.entries.insert(name, node);
        }
    }
    Ok(Some(TreeNode::Directory(Arc::new(directory))))
}
