//! A whole vault in one file: its objects, history, checkpoints and audit log.
//!
//! The file is a magic, records, and an end with the BLAKE3 of everything before it. A record is a tag, then
//! for an object its kind, id, length and bytes, for a ref its key (without the vault's number) and value.

mod rows;

use avfs_transfer::TransferError;
use std::collections::HashSet;
use std::io::{Read, Write};

use avfs_core::{ObjectId, ObjectKind};
use avfs_store::{NewObject, RefEdit};
use avfs_tree::{validate, walk_needed};

use crate::error::{Error, Result, VaultError};
use crate::history::VaultHistory;
use crate::name::VaultName;
use crate::record::{self, VaultId, VaultRecord, key};
use crate::roots::needed;
use crate::store::Store;
use crate::vault::Vault;
use rows::{Bundle, Rows};

const MAGIC: &[u8; 8] = b"avfsvlt1";
const OBJECT: u8 = b'O';
const REF: u8 = b'R';
const END: u8 = b'E';
/// Larger objects are not ours.
const LONGEST: u64 = 1 << 30;
/// How much of history, checkpoints and audit log is held in memory.
const MOST_REF_BYTES: u64 = 256 << 20;
const LONGEST_KEY: u64 = 4 << 10;
/// How many bytes of objects are read before they are stored.
const BATCH_BYTES: u64 = 4 << 20;
/// The memory that a record needs beside its bytes.
const RECORD_BYTES: u64 = 80;

/// The contents of an export or import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// The objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The snapshots among them.
    pub snapshots: u64,
}

impl VaultHistory<'_> {
    /// Writes the whole vault to `out`. `place` names it in errors.
    pub fn export(
        &self,
        out: &mut dyn Write,
        place: &str,
        go_on: &mut dyn FnMut(Carried),
    ) -> Result<Carried> {
        self.vault.check_unrestricted("exporting all of it")?;
        // Has the owner store its changes first, so that the bundle holds the vault as it is now.
        self.vault.head()?;
        let _pin = self.vault.store().objects().store().pin()?;
        let bundle = Bundle::of(self.vault)?;
        let mut out = HashingWriter {
            out,
            hasher: blake3::Hasher::new(),
            place,
        };
        out.put(MAGIC)?;
        let mut carried = Carried {
            snapshots: bundle.history.len() as u64,
            ..Carried::default()
        };
        // A few at a time: the objects of a part are in memory together.
        for part in self.needed_by(&bundle)?.chunks(64) {
            for (id, object) in part
                .iter()
                .zip(self.vault.store().objects().store().get_many(part)?)
            {
                if object.kind == ObjectKind::Promise {
                    return Err(Error::Vault(VaultError::StillPromised {
                        vault: self.vault.name()?.to_string(),
                    }));
                }
                out.put(&[OBJECT, object.kind.tag()])?;
                out.put(id.as_bytes())?;
                out.put_sized(&object.bytes)?;
                carried.objects += 1;
                carried.bytes += object.bytes.len() as u64;
            }
            go_on(carried);
        }
        for (key, value) in bundle.refs() {
            out.put_ref(&key, &value)?;
        }
        // Over everything before the end record, whose tag and hash it cannot contain.
        let hash = out.hasher.finalize();
        out.put(&[END])?;
        out.put(hash.as_bytes())?;
        out.flush()?;
        Ok(carried)
    }

    fn needed_by(&self, bundle: &Bundle) -> Result<Vec<ObjectId>> {
        let (mut ids, mut seen) = (Vec::new(), HashSet::new());
        let kept = self.vault.store().objects().all_kept()?;
        walk_needed(
            self.vault.store().objects(),
            &kept,
            needed(bundle.states()?.into_iter()),
            &mut |needed| {
                let new = seen.insert(needed.object());
                ids.extend(new.then(|| needed.object()));
                Ok(new)
            },
        )?;
        Ok(ids)
    }
}

struct HashingWriter<'a> {
    out: &'a mut dyn Write,
    hasher: blake3::Hasher,
    place: &'a str,
}

impl HashingWriter<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.out.write_all(bytes).map_err(|source| self.failed(source))
    }

    fn put_sized(&mut self, bytes: &[u8]) -> Result<()> {
        self.put(&(bytes.len() as u64).to_le_bytes())?;
        self.put(bytes)
    }

    fn put_ref(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.put(&[REF])?;
        self.put_sized(key.as_bytes())?;
        self.put_sized(value)
    }

    fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> Error {
        Error::Host {
            action: "writing",
            place: self.place.to_owned(),
            source,
        }
    }
}

/// Makes vaults from exported vaults and from commits of git.
#[derive(Clone, Copy)]
pub struct StoreImports<'a> {
    pub(crate) store: &'a Store,
}

impl StoreImports<'_> {
    /// Makes a vault from a file that [`Vault::export_bundle`] wrote, under its old name or another one.
    /// Everything is verified before the vault appears; a bad file changes nothing.
    pub fn bundle(
        &self,
        input: &mut dyn Read,
        place: &str,
        name: Option<&VaultName>,
        go_on: &mut dyn FnMut(Carried),
    ) -> Result<(Vault, Carried)> {
        // Until the vault is committed, nothing refers to the objects that are stored below.
        let _pin = self.store.objects().store().pin()?;
        let mut input = HashingReader {
            input,
            hasher: blake3::Hasher::new(),
            place,
        };
        let (refs, carried) = self.read_records(&mut input, go_on)?;
        let bad = |reason: String| {
            Error::Transfer(TransferError::BadBundle {
                place: place.to_owned(),
                reason,
            })
        };
        let bundle = Bundle::sort_out(refs).map_err(bad)?;
        let name = name
            .cloned()
            .map_or_else(|| VaultName::new(bundle.record.name.last_part()), Ok)?;
        if self.store.has_vault(name.as_str())? {
            return Err(Error::Vault(VaultError::Exists {
                name: name.to_string(),
            }));
        }
        // After the objects are stored, but before any ref: an incomplete bundle leaves only garbage
        // behind.
        self.check_complete(&bundle, place)?;
        let vault = self.adopt(&bundle, &name)?;
        Ok((
            vault,
            Carried {
                snapshots: bundle.history.len() as u64,
                ..carried
            },
        ))
    }

    fn read_records(
        &self,
        input: &mut HashingReader<'_>,
        go_on: &mut dyn FnMut(Carried),
    ) -> Result<(Rows, Carried)> {
        if input.take::<8>()? != *MAGIC {
            return Err(input.bad("it does not begin as one"));
        }
        let mut refs = Rows::new();
        let (mut ref_bytes, mut batch_bytes) = (0, 0);
        let mut batch: Vec<(ObjectId, ObjectKind, Vec<u8>)> = Vec::new();
        let mut carried = Carried::default();
        loop {
            // Taken before each record, because the end record does not cover itself.
            let hash = input.hasher.finalize();
            match input.take::<1>()?[0] {
                OBJECT => {
                    let object = input.object()?;
                    carried.objects += 1;
                    carried.bytes += object.2.len() as u64;
                    batch_bytes += object.2.len() as u64 + RECORD_BYTES;
                    batch.push(object);
                    if batch_bytes >= BATCH_BYTES {
                        self.store_batch(&mut batch)?;
                        batch_bytes = 0;
                        go_on(carried);
                    }
                }
                REF => {
                    let (key, value) = (input.sized(LONGEST_KEY)?, input.sized(MOST_REF_BYTES)?);
                    let key = String::from_utf8(key).map_err(|_| input.bad("a key is not text"))?;
                    ref_bytes += (key.len() + value.len()) as u64 + RECORD_BYTES;
                    if ref_bytes > MOST_REF_BYTES {
                        return Err(input.bad("its history is too large"));
                    }
                    refs.push((key, value));
                }
                END if input.take::<32>()? == *hash.as_bytes() => break,
                END => return Err(input.bad("it is damaged: its hash does not match")),
                _ => return Err(input.bad("it is damaged: an unknown record")),
            }
        }
        self.store_batch(&mut batch)?;
        Ok((refs, carried))
    }

    fn store_batch(&self, batch: &mut Vec<(ObjectId, ObjectKind, Vec<u8>)>) -> Result<()> {
        let new: Vec<NewObject<'_>> = batch
            .iter()
            .map(|(id, kind, bytes)| NewObject {
                id: *id,
                kind: *kind,
                bytes,
            })
            .collect();
        self.store.objects().store().put_many(&new)?;
        batch.clear();
        Ok(())
    }

    /// Checks that every object that the vault needs exists and matches the references to it.
    fn check_complete(&self, bundle: &Bundle, place: &str) -> Result<()> {
        let bad = |reason: String| {
            Error::Transfer(TransferError::BadBundle {
                place: place.to_owned(),
                reason,
            })
        };
        let states = bundle.states()?;
        let mut seen = HashSet::new();
        let store = self.store.objects().store();
        let mut missing = None;
        let kept = self.store.objects().all_kept()?;
        let walked = walk_needed(
            self.store.objects(),
            &kept,
            needed(states.iter().copied()),
            &mut |needed| {
                let id = needed.object();
                if missing.is_none() && store.contains_many(&[id])? != [true] {
                    missing = Some(id);
                }
                Ok(missing.is_none() && seen.insert(id))
            },
        );
        walked.map_err(|error| bad(error.to_string()))?;
        if let Some(id) = missing {
            return Err(bad(format!("object {id} is missing in it")));
        }
        match validate(self.store.objects(), states, 1).pop() {
            Some(flaw) => Err(bad(flaw.to_string())),
            None => Ok(()),
        }
    }

    fn adopt(&self, bundle: &Bundle, name: &VaultName) -> Result<Vault> {
        let id = self.store.retry(|edits| {
            if self.store.has_vault(name.as_str())? {
                return Err(Error::Vault(VaultError::Exists {
                    name: name.to_string(),
                }));
            }
            let id = VaultId(self.store.take_ids(edits, 1)?);
            // Its parent, if it had one, is a vault of another store, and so is the project of a task.
            let mut record = VaultRecord {
                id,
                name: name.clone(),
                parent: None,
                program_rules: (bundle.record.program_rules.clone())
                    .or_else(|| bundle.record.task.as_ref()?.rules.clone()),
                task: None,
                image: bundle
                    .record
                    .image
                    .clone()
                    .filter(|image| image.root_of.is_none()),
                ..bundle.record.clone()
            };
            // Journals are local to the store that the bundle came from.
            record.head.journal = 0;
            edits.push(RefEdit::create(key::name(name.as_str()), record::encode(&id)));
            edits.push(RefEdit::create(key::vault(id), record::encode(&record)));
            let lists = [
                (key::histories(id), &bundle.history),
                (key::checkpoints(id), &bundle.checkpoints),
                (key::audits(id), &bundle.audit),
            ];
            for (prefix, rows) in lists {
                let rows = rows
                    .iter()
                    .map(|(rest, value)| RefEdit::create(format!("{prefix}{rest}"), value.clone()));
                edits.extend(rows);
            }
            Ok(id)
        })?;
        Ok(Vault::new(self.store.clone(), id))
    }
}

struct HashingReader<'a> {
    input: &'a mut dyn Read,
    hasher: blake3::Hasher,
    place: &'a str,
}

impl HashingReader<'_> {
    fn bad(&self, reason: &str) -> Error {
        Error::Transfer(TransferError::BadBundle {
            place: self.place.to_owned(),
            reason: reason.to_owned(),
        })
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        match self.input.read_exact(bytes) {
            Ok(()) => {
                self.hasher.update(bytes);
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.bad("it ends too early"))
            }
            Err(source) => Err(Error::Host {
                action: "reading",
                place: self.place.to_owned(),
                source,
            }),
        }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// A length and that many bytes. Memory is allocated as bytes arrive, not as the length claims.
    fn sized(&mut self, longest: u64) -> Result<Vec<u8>> {
        let len = u64::from_le_bytes(self.take()?);
        if len > longest {
            return Err(self.bad("it is damaged: a record is too long"));
        }
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < len {
            let start = bytes.len();
            let more = (len - start as u64).min(1 << 20) as usize;
            bytes.resize(start + more, 0);
            self.fill(&mut bytes[start..])?;
        }
        Ok(bytes)
    }

    fn object(&mut self) -> Result<(ObjectId, ObjectKind, Vec<u8>)> {
        let kind = ObjectKind::from_tag(self.take::<1>()?[0]);
        let kind = kind.ok_or_else(|| self.bad("it is damaged: an unknown kind of object"))?;
        // The author of the bundle could name a source to read parts of a directory of this machine.
        if kind == ObjectKind::Promise {
            return Err(self.bad("it holds a promise, which no export writes"));
        }
        let id = ObjectId(self.take()?);
        let bytes = self.sized(LONGEST)?;
        if kind.hash(&bytes) != id {
            return Err(self.bad("it is damaged: an object does not match its name"));
        }
        Ok((id, kind, bytes))
    }
}
