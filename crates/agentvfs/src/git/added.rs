//! The object files that were added to a repository in a tree.

use avfs_core::{Content, EntryKind, TreePath};

use super::host::HostRepository;
use super::quarantine::{Quarantine, QuarantinedFile};
use super::work::Work;
use crate::error::GitError;
use crate::git_names::{ObjectFormat, ObjectName};

/// A file that was added or changed.
struct Added {
    file: ObjectFile,
    size: u64,
    content: Content,
}

/// Files that hold objects. Everything else in the directory of objects, such as references to other
/// directories or indexes of packs, is ignored.
enum ObjectFile {
    Loose(ObjectName),
    Pack,
}

/// [`Work::suspects`].
pub(super) fn suspects(
    work: &Work,
    format: ObjectFormat,
    host: Option<&HostRepository>,
) -> Result<Quarantine, GitError> {
    let added = added(work)?;
    let (bytes, most) = (
        added.iter().map(|added| added.size).sum::<u64>(),
        work.bounds().objects,
    );
    if bytes > most {
        let reason = format!("their objects have {bytes} bytes, and {most} are looked at");
        return Err(GitError::Refused { reason });
    }
    let quarantine = Quarantine::new(format, host, Some(work.bounds()))?;
    let objects = work.head().objects();
    for Added { file, size, content } in added {
        let stored = QuarantinedFile {
            objects,
            size,
            content,
        };
        match file {
            ObjectFile::Loose(name) => quarantine.add_loose(&name, &stored)?,
            ObjectFile::Pack => quarantine.add_pack(&stored)?,
        }
    }
    Ok(quarantine)
}

fn added(work: &Work) -> Result<Vec<Added>, GitError> {
    let top = work
        .place()
        .join_path(&TreePath::parse(b"objects").expect("this is a path"));
    let mut added = Vec::new();
    work.base().diff(work.head(), &top, &mut |seen| {
        let change = seen.change;
        let kind = change.after.map(|entry| entry.kind);
        let file = object_file(
            change
                .path
                .as_bytes()
                .strip_prefix(top.as_bytes())
                .unwrap_or_default(),
        );
        if let (Some(EntryKind::File { size, content }), Some(file), true) =
            (kind, file, seen.changes_content)
        {
            added.push(Added { file, size, content });
        }
        Ok(())
    })?;
    Ok(added)
}

/// The kind of a file, by its path below the directory of objects.
fn object_file(path: &[u8]) -> Option<ObjectFile> {
    let names: Vec<&[u8]> = path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
        .collect();
    match names[..] {
        [b"pack", name] if name.starts_with(b"pack-") && name.ends_with(b".pack") => Some(ObjectFile::Pack),
        [start, rest] if start.len() == 2 => ObjectName::new(&[start, rest].concat()).map(ObjectFile::Loose),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_and_packs_are_taken() {
        let loose = format!("/ab/{}", "c".repeat(38));
        assert!(matches!(
            object_file(loose.as_bytes()),
            Some(ObjectFile::Loose(_))
        ));
        assert!(matches!(
            object_file(b"/pack/pack-1.pack"),
            Some(ObjectFile::Pack)
        ));
        let others = [
            "/info/alternates",
            "/info/commit-graph",
            "/pack/pack-1.idx",
            "/pack/multi-pack-index",
            "/ab/cd",
            "/../x",
            "/pack/x/pack-1.pack",
        ];
        for other in others {
            assert!(object_file(other.as_bytes()).is_none(), "{other}");
        }
    }
}
