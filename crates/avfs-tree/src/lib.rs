//! The working tree of a vault, and the trees that its snapshots hold.

pub mod content;
pub mod inodes;
mod objects;
mod reader;

pub use objects::{ObjectError, ObjectWriter, Objects};
pub use reader::{Found, Listing, ReadError, TreeReader};
