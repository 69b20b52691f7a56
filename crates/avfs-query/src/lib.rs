//! Questions about a tree: which files there are, what is written in them, and what differs between two.
//!
//! | module | answers |
//! |---|---|
//! | [`walk`] | what lies below a directory |
//! | [`find`] | which entries have this name, kind, size or age |
//! | [`grep`] | which lines match a pattern, by reading every file |
//! | [`search`] | which files are about these words, by an index |
//! | [`patch`] | what differs between two trees |
//!
//! All of them read one immutable tree, so their answers are of one moment. There are no ignore files: a
//! vault holds the files that were put there, and globs exclude unwanted ones.
#![warn(missing_docs, unnameable_types, unreachable_pub)]

pub mod find;
pub mod glob;
pub mod grep;
pub mod patch;
pub mod search;
pub mod walk;

#[cfg(test)]
pub(crate) mod fixture;
