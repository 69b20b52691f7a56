//! The programs that a command names, as a person is shown them.

use serde::{Deserialize, Serialize};

use crate::stored_bytes::StoredBytes;

/// The meaning of the words of a command where it would run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandMeaning {
    /// The programs that it names, each once.
    pub programs: Vec<NamedProgram>,
    /// The directories of the vault in which programs are looked for.
    pub searched: Vec<StoredBytes>,
}

/// A program that a command names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedProgram {
    /// The name, as the command has it.
    pub name: String,
    /// Where it is.
    pub found: FoundProgram,
}

/// Where a program is that a command names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoundProgram {
    /// Part of the shell that reads the line.
    Builtin,
    /// At this path of the sandbox, where runs cannot change it.
    Installed(StoredBytes),
    /// At this path of the vault, where any run that can write may have changed it.
    InVault(StoredBytes),
    /// Nowhere, or it is known only when the command runs.
    Unknown,
}

impl FoundProgram {
    /// Whether runs cannot replace the program.
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
