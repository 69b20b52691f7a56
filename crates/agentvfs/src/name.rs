//! Names that users give: to vaults, tasks and checkpoints.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, VaultError};

/// The longest name of a vault or checkpoint.
const LONGEST: usize = 100;

fn check(what: &'static str, name: &str) -> Result<()> {
    let bad = |reason| {
        Err(Error::Vault(VaultError::BadName {
            what,
            name: avfs_core::printable(name.as_bytes()),
            reason,
        }))
    };
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    match name.chars().next() {
        None => bad("it is empty"),
        Some('.' | '-') => bad("it starts with '.' or '-'"),
        Some(_) if name.len() > LONGEST => bad("it has more than 100 bytes"),
        Some(_) if !name.chars().all(allowed) => bad("only letters, digits, '-', '_' and '.' are allowed"),
        Some(_) => Ok(()),
    }
}

macro_rules! label {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Checks a name.
            pub fn new(name: &str) -> Result<$name> {
                check($what, name)?;
                Ok($name(name.to_owned()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

label!(
    /// The name of a vault: letters, digits, `-`, `_` and `.`, at most 100 bytes. The vault of a task is called
    /// `PROJECT/TASK`, after the vault of its project.
    VaultName,
    "vault"
);

impl VaultName {
    /// The name of a task's vault. A task's name cannot contain another one: `/` occurs at most once in a
    /// name.
    pub(crate) fn of_task(project: &VaultName, task: &TaskName) -> VaultName {
        VaultName(format!("{project}/{task}"))
    }

    /// The name of the project, if this is the name of a task of it.
    pub fn project(&self) -> Option<&str> {
        self.0.split_once('/').map(|(project, _)| project)
    }

    /// The name without that of a project.
    pub fn last_part(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, task)| task)
    }

    /// The same name, in the project that this one is in.
    pub(crate) fn beside(&self, name: &VaultName) -> VaultName {
        match self.project() {
            Some(project) => VaultName(format!("{project}/{name}")),
            None => name.clone(),
        }
    }
}
label!(
    /// The name of a task among those of its project: letters, digits, `-`, `_` and `.`, at most 100 bytes.
    TaskName,
    "task"
);
label!(
    /// The name of a checkpoint: letters, digits, `-`, `_` and `.`, at most 100 bytes.
    CheckpointName,
    "checkpoint"
);

/// The name among `known` that is closest to a mistyped one, if one is close.
pub(crate) fn closest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    // The first recognises prefixes, the second swapped letters, also in short names.
    let likeness = |name: &str| {
        let same_beginning = strsim::jaro_winkler(typed, name);
        let few_edits = strsim::normalized_damerau_levenshtein(typed, name);
        (same_beginning > 0.8 || few_edits > 0.6).then(|| same_beginning.max(few_edits))
    };
    let scored = known.filter_map(|name| Some((likeness(name)?, name)));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vault_of_a_task_has_the_name_of_its_project_before_its_own() {
        let project = VaultName::new("web").unwrap();
        let name = VaultName::of_task(&project, &TaskName::new("fix-login").unwrap());
        assert_eq!(
            (name.as_str(), name.project(), name.last_part()),
            ("web/fix-login", Some("web"), "fix-login")
        );
        assert_eq!((project.project(), project.last_part()), (None, "web"));
        assert_eq!(name.beside(&VaultName::new("fix").unwrap()).as_str(), "web/fix");
        assert_eq!(project.beside(&VaultName::new("fix").unwrap()).as_str(), "fix");
    }

    #[test]
    fn names_are_checked_once() {
        for good in ["a", "main-2", "Ünï_1.0"] {
            assert_eq!(VaultName::new(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            ".x",
            "-x",
            "a/b",
            "..",
            "a b",
            "a\0",
            "a\nb",
            "@",
            &"x".repeat(101),
        ] {
            assert!(VaultName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_mistyped_name_finds_its_neighbour() {
        assert_eq!(
            closest("mian", ["main", "other"].into_iter()),
            Some("main".into())
        );
        assert_eq!(closest("wbe", ["main", "web"].into_iter()), Some("web".into()));
        assert_eq!(closest("zzz", ["main", "other"].into_iter()), None);
    }
}
