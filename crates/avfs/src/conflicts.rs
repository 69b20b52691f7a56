//! Open conflicts, as every command reports them.

use agentvfs::{Entry, OpenConflict, Vault};
use anyhow::Result;
use serde::Serialize;

use crate::entry::{kind_name, octal};
use crate::json::{PathField, byte_field, from_root};
use crate::printer::Printer;
use crate::versions::count;

byte_field!(TheirPath, their_path, their_path_bytes_hex);

/// One conflict in JSON.
#[derive(Serialize)]
pub struct ConflictBody {
    #[serde(flatten)]
    path: PathField,
    conflict: &'static str,
    from: String,
    #[serde(flatten)]
    their_path: Option<TheirPath>,
    base: Option<SideBody>,
    ours: Option<SideBody>,
    theirs: Option<SideBody>,
}

#[derive(Serialize)]
struct SideBody {
    #[serde(rename = "type")]
    kind: &'static str,
    size: u64,
    mode: String,
}

impl ConflictBody {
    pub fn new(open: &OpenConflict) -> ConflictBody {
        let conflict = &open.conflict;
        let side = |entry: &Option<Entry>| {
            entry.as_ref().map(|entry| SideBody {
                kind: kind_name((&entry.kind).into()),
                size: entry.size(),
                mode: octal(entry.meta.mode),
            })
        };
        ConflictBody {
            path: (&conflict.path).into(),
            conflict: conflict.kind.name(),
            from: open.from.clone(),
            their_path: conflict
                .their_path
                .as_ref()
                .map(|path| TheirPath::new(&from_root(path))),
            base: side(&conflict.base),
            ours: side(&conflict.ours),
            theirs: side(&conflict.theirs),
        }
    }
}

/// Says that a vault has open conflicts, if it has.
pub fn warn_of_open(out: &mut Printer, vault: &Vault) -> Result<u64> {
    let open = vault.info()?.conflicts;
    warn_of(out, vault.name()?.as_str(), open);
    Ok(open)
}

pub fn warn_of(out: &mut Printer, vault: &str, open: u64) {
    if open > 0 {
        let open = count(open, "open conflict");
        out.warn(format_args!(
            "vault '{vault}' has {open}; `avfs conflicts --vault {vault}` lists them"
        ));
    }
}
