//! A filesystem in memory, and its way into the file of a vault and back.
//!
//! ```
//! use agentvfs::vfs::{Vfs, hydrate, serialize};
//!
//! # fn main() -> Result<(), agentvfs::vfs::BundleError> {
//! let vfs = Vfs::new();
//! vfs.write_file("/notes.md", "text", None)?;
//! let bundle = serialize(&vfs)?;                 // what `Vault::export_bundle` writes
//! let again = hydrate(&bundle)?;
//! assert_eq!(&again.read_file("/notes.md")?[..], b"text");
//! assert_eq!(again.write_file("/notes.md", "more", Some(1))?, 2);
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;

use avfs_tree::{FsError, InodeKind as TreeKind};
use serde_json::{Value, json};

pub use avfs_vfs::*;

use crate::VaultName;
use crate::error::Error;
use crate::open::OpenVault;
use crate::store::Store;

/// Extended attributes with what a vault has no place for.
const VERSION: &[u8] = b"user.agentvfs.version";
const METADATA: &[u8] = b"user.agentvfs.metadata";
const POLICY: &[u8] = b"user.agentvfs.policy";

const NAME: &str = "vfs";
const PLACE: &str = "the serialized filesystem";

/// Why a filesystem did not become a file, or a file no filesystem.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The filesystem in memory refused.
    #[error(transparent)]
    Vfs(#[from] VfsError),
    /// The vault that stands between refused: the bytes are damaged, or no vault.
    #[error(transparent)]
    Vault(#[from] Error),
    /// An entry of the vault that a filesystem in memory has no place for.
    #[error("{path} is a {kind}, which a filesystem in memory does not have")]
    Unsupported {
        /// The entry.
        path: TreePath,
        /// What it is.
        kind: &'static str,
    },
    /// An attribute that [`serialize`] did not write.
    #[error("the {what} of {path} cannot be read")]
    BadAttribute {
        /// The entry.
        path: TreePath,
        /// Which attribute.
        what: &'static str,
    },
}

/// A filesystem as the file of a vault, with contents, versions, modes, times, links, metadata and policies. What
/// providers give is kept as it is now.
pub fn serialize(vfs: &Vfs) -> Result<Vec<u8>, BundleError> {
    let store = Store::in_memory();
    let vault = store.create_vault(&VaultName::new(NAME)?)?;
    let open = vault.begin()?;
    let entries = vfs.entries()?;
    for entry in &entries {
        write_entry(&open, entry)?;
    }
    // What is made in a directory sets its time, so directories come last, and those inside first.
    for entry in entries.iter().rev() {
        open.set_mtime(&entry.path, entry.mtime)?;
    }
    open.commit("import", "a filesystem in memory")?;
    let mut bundle = Vec::new();
    vault.export_bundle(&mut bundle, PLACE, &mut |_| ())?;
    Ok(bundle)
}

/// The filesystem that is in the file of a vault, written by [`serialize`] or exported from any vault.
pub fn hydrate(mut bundle: &[u8]) -> Result<Vfs, BundleError> {
    let store = Store::in_memory();
    let input: &mut dyn Read = &mut bundle;
    let (vault, _) = store.import_bundle(input, PLACE, Some(&VaultName::new(NAME)?), &mut |_| ())?;
    let open = vault.begin()?;
    let mut entries = Vec::new();
    read_entries(&open, &TreePath::root(), &mut entries)?;
    Ok(Vfs::from_entries(entries)?)
}

fn write_entry(open: &OpenVault, entry: &PortableEntry) -> Result<(), BundleError> {
    let path = &entry.path;
    let mut version = None;
    match &entry.node {
        PortableNode::Directory if path.is_root() => {}
        PortableNode::Directory => open.make_directory(path, false)?,
        PortableNode::Symlink { target } => open.symlink(target, path)?,
        PortableNode::File {
            content,
            version: count,
        } => {
            open.write_bytes(path, content)?;
            version = Some(count.to_string());
        }
    }
    if !matches!(entry.node, PortableNode::Symlink { .. }) {
        open.set_mode(path, entry.mode)?;
    }
    let metadata = (!entry.metadata.is_empty()).then(|| json!(entry.metadata).to_string());
    let policy = entry
        .policy
        .as_ref()
        .map(|policy| policy_json(policy).to_string());
    for (name, value) in [(VERSION, version), (METADATA, metadata), (POLICY, policy)] {
        if let Some(value) = value {
            let ino = open.stat(path)?.ino;
            let set = open.tree().set_xattr(ino, name, value.as_bytes());
            set.map_err(|error| open.fail(path, error))?;
        }
    }
    Ok(())
}

fn read_entries(
    open: &OpenVault,
    path: &TreePath,
    entries: &mut Vec<PortableEntry>,
) -> Result<(), BundleError> {
    let attr = open.stat(path)?;
    let unsupported = |kind| BundleError::Unsupported {
        path: path.clone(),
        kind,
    };
    let node = match attr.kind {
        TreeKind::Directory => PortableNode::Directory,
        TreeKind::File => PortableNode::File {
            content: Arc::new(open.read(path)?.to_vec()),
            version: match attribute(open, path, VERSION)? {
                None => 1,
                Some(text) => text.parse().map_err(|_| bad(path, "version"))?,
            },
        },
        TreeKind::Symlink => PortableNode::Symlink {
            target: open
                .tree()
                .read_link(attr.ino)
                .map_err(|error| open.fail(path, error))?,
        },
        TreeKind::Fifo => return Err(unsupported("pipe")),
        TreeKind::Socket => return Err(unsupported("socket")),
        TreeKind::CharDevice { .. } | TreeKind::BlockDevice { .. } => return Err(unsupported("device")),
    };
    let metadata = match attribute(open, path, METADATA)? {
        None => Metadata::new(),
        Some(text) => serde_json::from_str(&text).map_err(|_| bad(path, "metadata"))?,
    };
    let policy = match attribute(open, path, POLICY)? {
        None => None,
        Some(text) => Some(policy_of_json(&text).ok_or_else(|| bad(path, "policy"))?),
    };
    let is_directory = node == PortableNode::Directory;
    entries.push(PortableEntry {
        path: path.clone(),
        node,
        mode: attr.meta.mode,
        mtime: attr.meta.mtime,
        metadata,
        policy,
    });
    if is_directory {
        for child in open.children(path)? {
            read_entries(open, &child, entries)?;
        }
    }
    Ok(())
}

fn attribute(open: &OpenVault, path: &TreePath, name: &[u8]) -> Result<Option<String>, BundleError> {
    let ino = open.stat(path)?.ino;
    match open.tree().xattr(ino, name) {
        Ok(value) => Ok(String::from_utf8(value).ok()),
        Err(FsError::NoXattr) => Ok(None),
        Err(error) => Err(open.fail(path, error).into()),
    }
}

fn bad(path: &TreePath, what: &'static str) -> BundleError {
    let path = path.clone();
    BundleError::BadAttribute { path, what }
}

fn policy_json(policy: &NodePolicy) -> Value {
    json!({
        "readable": policy.readable,
        "writable": policy.writable,
        "append_only": policy.append_only,
        "classification": policy.classification,
        "principals": policy.principals,
    })
}

fn policy_of_json(text: &str) -> Option<NodePolicy> {
    let value: Value = serde_json::from_str(text).ok()?;
    let principals = value["principals"].as_array()?.iter();
    Some(NodePolicy {
        readable: value["readable"].as_bool()?,
        writable: value["writable"].as_bool()?,
        append_only: value["append_only"].as_bool()?,
        classification: value["classification"].as_str()?.to_owned(),
        principals: principals
            .map(|name| name.as_str().map(str::to_owned))
            .collect::<Option<BTreeSet<String>>>()?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_filesystem_comes_back_from_the_file_of_a_vault() {
        let vfs = Vfs::new();
        vfs.write_file("/d/run", "#!/bin/sh\n", None).unwrap();
        vfs.write_file("/d/run", "#!/bin/bash\n", None).unwrap();
        vfs.set_mode("/d/run", 0o755).unwrap();
        vfs.set_mtime(
            "/d/run",
            Timestamp {
                seconds: -5,
                nanos: 7,
            },
        )
        .unwrap();
        vfs.symlink("run", "/d/link").unwrap();
        vfs.mkdir("/empty", false, false).unwrap();
        vfs.write_file("/large", vec![7; 300_000], None).unwrap();
        vfs.write_file(b"/\xff", "", None).unwrap();
        vfs.mount("/computed", ProvidedNode::computed_file(|_| Ok(b"now".to_vec())))
            .unwrap();
        vfs.set_metadata("/d", BTreeMap::from([("team".into(), "blue".into())]))
            .unwrap();
        let policy = NodePolicy {
            writable: false,
            principals: BTreeSet::from(["bob".into()]),
            ..NodePolicy::default()
        };
        vfs.set_policy("/d/run", Some(policy)).unwrap();
        let again = hydrate(&serialize(&vfs).unwrap()).unwrap();
        let mut expected = vfs.entries().unwrap();
        let found = again.entries().unwrap();
        // A provided file has no time of its own.
        for (expected, found) in expected.iter_mut().zip(&found) {
            if found.path.to_string() == "/computed" {
                expected.mtime = found.mtime;
            }
        }
        assert!(found == expected, "it came back as something else");
        assert_eq!(again.stat("/d/run").unwrap().version, 2);
        assert_eq!(again.write_file("/d/run", "", None).unwrap_err().code(), "denied");
    }

    #[test]
    fn bytes_that_are_no_vault_are_refused() {
        let good = serialize(&Vfs::new()).unwrap();
        assert!(hydrate(&good).is_ok());
        for bad in [&b""[..], b"nonsense", &good[..good.len() - 1]] {
            assert!(matches!(hydrate(bad), Err(BundleError::Vault(_))));
        }
        let mut flipped = good.clone();
        flipped[good.len() / 2] ^= 1;
        assert!(hydrate(&flipped).is_err());
    }

    #[test]
    fn the_file_of_any_vault_is_a_filesystem() {
        let store = Store::in_memory();
        let vault = store.create_vault(&VaultName::new("v").unwrap()).unwrap();
        let open = vault.begin().unwrap();
        let path = TreePath::parse(b"/a.txt").unwrap();
        open.write_bytes(&path, b"x").unwrap();
        open.commit("write", "/a.txt").unwrap();
        let mut bundle = Vec::new();
        vault.export_bundle(&mut bundle, "memory", &mut |_| ()).unwrap();
        let vfs = hydrate(&bundle).unwrap();
        assert_eq!(vfs.stat("/a.txt").unwrap().version, 1);
    }
}
