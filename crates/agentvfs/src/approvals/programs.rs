//! The programs that a command names, as a person is shown them.

use serde::{Deserialize, Serialize};

use super::raw::Raw;

/// What the words of a command mean where it would run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meaning {
    /// The programs that it names, each once.
    pub programs: Vec<NamedProgram>,
    /// The directories of the vault in which programs are looked for.
    pub searched: Vec<Raw>,
}

/// A program that a command names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedProgram {
    pub name: String,
    pub found: FoundProgram,
}

/// Where a program is that a command names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoundProgram {
    /// Part of the shell that reads the line.
    Builtin,
    /// At this path of the sandbox, where runs cannot change it.
    Installed(Raw),
    /// At this path of the vault, where any run that can write may have changed it.
    InVault(Raw),
    /// Nowhere, or it is known only when the command runs.
    Unknown,
}

impl FoundProgram {
    /// Whether runs cannot make it another program.
    pub(super) fn is_fixed(&self) -> bool {
        match self {
            FoundProgram::Builtin | FoundProgram::Installed(_) => true,
            FoundProgram::InVault(_) | FoundProgram::Unknown => false,
        }
    }
}

impl NamedProgram {
    /// As a digest is made over it.
    pub(super) fn items(&self) -> [Vec<u8>; 2] {
        let found = match &self.found {
            FoundProgram::Builtin => b"builtin".to_vec(),
            FoundProgram::Installed(path) => [b"installed ", path.as_bytes()].concat(),
            FoundProgram::InVault(path) => [b"vault ", path.as_bytes()].concat(),
            FoundProgram::Unknown => b"unknown".to_vec(),
        };
        [self.name.clone().into_bytes(), found]
    }
}
