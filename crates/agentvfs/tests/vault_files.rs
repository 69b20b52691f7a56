//! Vault files that were taken while someone wrote, and files that someone made up.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use agentvfs::transfer::TransferError;
use agentvfs::{Error, Store, Vault};
use support::{name, write};

fn export(vault: &Vault) -> Vec<u8> {
    let mut file = Vec::new();
    vault.export_bundle(&mut file, "file", &mut |_| {}).unwrap();
    file
}

/// Why a store refuses this file. It must not have changed.
fn refusal(file: &[u8]) -> String {
    let store = Store::in_memory();
    let refused = store.import_bundle(&mut &file[..], "file", None, &mut |_| {});
    assert_eq!(store.vaults().unwrap().vaults, [], "a bad file changes nothing");
    match refused.err().unwrap() {
        Error::Transfer(TransferError::BadBundle { reason, .. }) => reason,
        other => panic!("not refused as a bad file: {other:?}"),
    }
}

/// A file whose hash is correct again after a change.
fn rehashed(mut file: Vec<u8>) -> Vec<u8> {
    let end = file.len() - 33;
    let hash = blake3::hash(&file[..end]);
    file[end + 1..].copy_from_slice(hash.as_bytes());
    file
}

fn position(file: &[u8], text: &str) -> usize {
    file.windows(text.len())
        .position(|window| window == text.as_bytes())
        .unwrap()
}

fn vault_with_a_file() -> Vault {
    let vault = Store::in_memory().create_vault(&name("main")).unwrap();
    write(&vault, "/a", b"1");
    vault
}

#[test]
fn an_export_taken_while_someone_writes_holds_the_state_from_before() {
    let home = tempfile::tempdir().unwrap();
    let vault = Store::open(home.path())
        .unwrap()
        .create_vault(&name("main"))
        .unwrap();
    write(&vault, "/a", b"1");
    let before = vault.head().unwrap();
    let (mut file, mut once) = (Vec::new(), true);
    let mut write_once = |_| {
        if std::mem::take(&mut once) {
            write(&vault, "/b", b"2");
        }
    };
    vault.export_bundle(&mut file, "file", &mut write_once).unwrap();
    assert_ne!(vault.head().unwrap(), before);
    let (copy, _) = Store::in_memory()
        .import_bundle(&mut &file[..], "file", None, &mut |_| {})
        .unwrap();
    assert_eq!(copy.head().unwrap(), before);
    copy.verify_audit(None).unwrap();
}

#[test]
fn a_vault_file_with_a_forged_audit_log_is_refused() {
    let mut file = export(&vault_with_a_file());
    let audit = position(&file, "audit/00");
    let actor = audit + position(&file[audit..], "\"actor\":\"") + 9;
    file[actor] ^= 1;
    assert!(refusal(&rehashed(file)).contains("was changed"));
}

#[test]
fn a_vault_file_whose_history_ends_elsewhere_than_its_record_is_refused() {
    let mut file = export(&vault_with_a_file());
    let seq = position(&file, "\"seq\":2,") + 6;
    file[seq] = b'1';
    assert_eq!(
        refusal(&rehashed(file)),
        "its history does not end with its present state"
    );
}

#[test]
fn a_vault_file_whose_history_is_not_in_order_is_refused() {
    let mut file = export(&vault_with_a_file());
    let key = position(&file, "history/000000000001");
    file[key..key + 20].copy_from_slice(b"history/000000000002");
    assert_eq!(refusal(&rehashed(file)), "its history is not in order");
}

#[test]
fn a_vault_file_that_undoes_the_future_is_refused() {
    let vault = vault_with_a_file();
    vault.undo().unwrap();
    let mut file = export(&vault);
    let undoes = position(&file, "\"undoes\":2") + 9;
    file[undoes] = b'9';
    assert!(refusal(&rehashed(file)).contains("undoes what came later"));
}

#[test]
fn a_vault_file_with_a_record_too_large_for_memory_is_refused_before_it_is_read() {
    let mut file = b"avfsvlt1R".to_vec();
    file.extend(5u64.to_le_bytes());
    file.extend(b"vault");
    file.extend((300u64 << 20).to_le_bytes());
    assert_eq!(refusal(&file), "it is damaged: a record is too long");
}
