//! Short words that the tests of vaults share.

#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::atomic::{AtomicI64, Ordering};

use agentvfs::{OpenVault, Result, Timestamp, TreeClock, TreePath, Vault, VaultName};

pub fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

pub fn name(text: &str) -> VaultName {
    VaultName::new(text).unwrap()
}

/// Changes a vault and takes a snapshot.
pub fn change(vault: &Vault, edit: impl FnOnce(&OpenVault)) {
    let open = vault.begin().unwrap();
    edit(&open);
    open.commit("change", "").unwrap();
}

pub fn write(vault: &Vault, at: &str, bytes: impl AsRef<[u8]>) {
    let open = vault.begin().unwrap();
    open.write_bytes(&path(at), bytes.as_ref()).unwrap();
    open.commit("write", at).unwrap();
}

pub fn read(vault: &Vault, at: &str) -> Result<String> {
    let bytes = vault.begin()?.read(&path(at))?;
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

/// A clock that stands still until it is set.
pub struct SetClock(pub AtomicI64);

impl TreeClock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp {
            seconds: self.0.load(Ordering::Relaxed),
            nanos: 0,
        }
    }
}
