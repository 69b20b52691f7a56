//! Vaults with something in them, made through the library.

use std::path::Path;

use agentvfs::{Actor, EntryKind, Store, StoreOptions, TreePath, TreeReader, Vault, VaultName};

use crate::sandbox::Sandbox;

pub fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

impl Sandbox {
    pub fn library(&self) -> Store {
        let actor = Actor {
            name: "seed".to_owned(),
            uid: 1000,
            gid: 1000,
        };
        Store::open_with(
            &self.store(),
            StoreOptions {
                actor,
                ..StoreOptions::default()
            },
        )
        .unwrap()
    }

    /// A vault that is chosen, with these files, written by one command each.
    pub fn seed(&self, name: &str, files: &[(&str, &str)]) -> Vault {
        let store = self.library();
        let vault = store.create_vault(&VaultName::new(name).unwrap()).unwrap();
        store.use_vault(name).unwrap();
        files
            .iter()
            .for_each(|(path, text)| write(&vault, path, text.as_bytes()));
        vault
    }

    /// Runs a line and hides ids, so that the rest can be compared.
    #[track_caller]
    pub fn scrubbed(&self, line: &str) -> String {
        scrub(&self.run(line))
    }

    /// The data of a line that must succeed.
    #[track_caller]
    pub fn data(&self, line: &str) -> Vec<u8> {
        let output = self.avfs().args(line.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{}", self.show(&output));
        output.stdout
    }
}

pub fn write(vault: &Vault, file: &str, bytes: &[u8]) {
    let open = vault.begin().unwrap();
    if let Some((parent, _)) = path(file).split_last() {
        open.make_directory(&parent, true).unwrap();
    }
    open.write_bytes(&path(file), bytes).unwrap();
    open.commit("write", &path(file).to_string()).unwrap();
}

pub fn remove(vault: &Vault, file: &str) {
    let open = vault.begin().unwrap();
    open.remove(&path(file), true).unwrap();
    open.commit("rm", &path(file).to_string()).unwrap();
}

/// Every file of a state with its contents.
pub fn contents(reader: &TreeReader) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut open = vec![TreePath::root()];
    while let Some(directory) = open.pop() {
        for entry in reader.list(&directory).unwrap() {
            let (name, found) = entry.unwrap();
            let path = directory.join(&name);
            match found.entry.kind {
                EntryKind::Directory { .. } => open.push(path),
                _ => files.push((path.to_string(), reader.read(&path).unwrap().to_vec())),
            }
        }
    }
    files.sort();
    files
}

/// Writes the files of a state to the disk.
pub fn export(reader: &TreeReader, to: &Path) {
    for (path, bytes) in contents(reader) {
        let place = to.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, bytes).unwrap();
    }
}

/// Replaces ids, short and long.
pub fn scrub(text: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        let is_id = matches!(word.len(), 12 | 64) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        out.push_str(if is_id { "ID" } else { &word });
        out.push(c);
        word.clear();
    }
    out.pop();
    out
}
