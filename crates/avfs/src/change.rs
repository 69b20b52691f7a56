//! A change of a vault by one command: all of it in one snapshot, or nothing.

use agentvfs::{Error, OpenVault, Saved, TreePath, Vault};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::json::PathField;
use crate::view::View;

/// How many bytes of paths the history holds for one command.
const DETAIL_MAX: usize = 1000;

/// The result of a change.
pub struct ChangeResult {
    vault: Vault,
    saved: Option<Saved>,
}

/// The fields of every changing command: the snapshot that holds the change, if anything changed.
#[derive(Serialize)]
pub struct ChangedBody {
    snapshot: Option<String>,
    seq: Option<u64>,
}

/// The body of a command that does one thing to several paths.
#[derive(Serialize)]
pub struct PathsBody {
    paths: Vec<PathField>,
    #[serde(flatten)]
    changed: ChangedBody,
}

impl Context<'_> {
    /// Opens the vault, lets `edit` change it, and commits that. If `edit` fails, nothing has happened. It is
    /// called again when another process has changed the same paths meanwhile.
    pub fn change<T>(
        &self,
        verb: &str,
        detail: &str,
        edit: impl FnMut(&OpenVault) -> Result<T>,
    ) -> Result<(T, ChangeResult)> {
        let vault = self.vault()?;
        let (value, saved) = vault.change(verb, detail, edit)?;
        Ok((value, ChangeResult { vault, saved }))
    }

    /// The same for a change that deletes something: on a full disk it uses the space that is reserved for
    /// deletions.
    pub fn remove<T>(
        &self,
        verb: &str,
        detail: &str,
        mut edit: impl FnMut(&OpenVault) -> Result<T, Error>,
    ) -> Result<(T, ChangeResult)> {
        let vault = self.vault()?;
        let (value, saved) = vault
            .store()
            .maintenance()
            .making_room(|| vault.change(verb, detail, &mut edit))?;
        Ok((value, ChangeResult { vault, saved }))
    }
}

impl ChangeResult {
    pub fn body(&self) -> ChangedBody {
        ChangedBody {
            snapshot: self.saved.as_ref().map(|saved| saved.snapshot.to_string()),
            seq: self.saved.as_ref().map(|saved| saved.seq),
        }
    }

    /// The state after the change, ignoring later changes by other processes.
    pub fn view(&self) -> Result<View> {
        let snapshot = match &self.saved {
            Some(saved) => saved.snapshot,
            None => self.vault.head()?,
        };
        Ok(View::new(self.vault.clone(), snapshot)?)
    }

    pub fn paths_body(&self, paths: &[TreePath]) -> PathsBody {
        PathsBody {
            paths: paths.iter().map(PathField::from).collect(),
            changed: self.body(),
        }
    }
}

/// The paths of a command as one line for the history.
pub fn describe<'a>(paths: impl IntoIterator<Item = &'a TreePath>) -> String {
    let mut text = String::new();
    let mut rest = 0usize;
    for path in paths {
        let shown = path.to_string();
        if rest > 0 || text.len() + shown.len() > DETAIL_MAX && !text.is_empty() {
            rest += 1;
            continue;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&shown);
    }
    match rest {
        0 => text,
        rest => format!("{text} and {rest} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_paths_is_cut() {
        let path = |name: &str| TreePath::parse(name.as_bytes()).unwrap();
        assert_eq!(describe(&[path("a"), path("b\n")]), "/a /b\\n");
        let long = vec![path(&"x".repeat(200)); 10];
        assert!(describe(&long).ends_with("x and 6 more"), "{}", describe(&long));
    }
}
