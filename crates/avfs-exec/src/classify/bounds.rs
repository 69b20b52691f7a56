//! How much of a command line is examined, and for how long. Anything beyond these bounds is never called
//! harmless.

use std::time::Duration;

/// Bytes of a command line.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// Simple commands, including those in substitutions.
pub(crate) const MAX_COMMANDS: usize = 1_000;
/// Words and operators; here-documents are one each.
pub(crate) const MAX_WORDS: usize = 50_000;
/// Substitutions within substitutions.
pub(crate) const MAX_DEPTH: usize = 16;
/// Groups, loops and brackets, counted together whether or not they are nested.
pub(crate) const MAX_NESTING: usize = 1_000;
/// Levels of a tree of the second reader, in which each command of a list is one level.
pub(crate) const MAX_TREE_DEPTH: usize = 4_000;
/// Wrappers and shells around a command.
pub(crate) const MAX_WRAPPERS: usize = 8;
/// Readings beside the usual ones, and words that are tried as programs: each may start others.
pub(crate) const MAX_TRIALS: usize = 512;
/// Directories that are followed in one line.
pub(crate) const MAX_DIRECTORIES: usize = 32;
/// How long both readers may take together. The longest text takes a fraction of it, on a busy machine too.
pub(crate) const READING: Duration = Duration::from_secs(20);
/// Both readers use recursion: enough for everything that the bounds above allow.
pub(crate) const STACK_BYTES: usize = 64 << 20;
