//! Questions about a tree: which files there are, and what is written in them.
//!
//! | module | answers |
//! |---|---|
//! | [`walk`] | what lies below a directory |
//! | [`find`] | which entries have this name, kind, size or age |
//! | [`grep`] | which lines match a pattern, by reading every file |
//! | [`search`] | which files are about these words, by an index |
//!
//! All of them read one immutable tree, so their answers belong to one moment. There are no ignore files: a
//! vault holds what was put there, and what is not wanted is left out with a glob.

pub mod find;
pub mod glob;
pub mod grep;
pub mod search;
pub mod walk;

#[cfg(test)]
pub(crate) mod fixture;
