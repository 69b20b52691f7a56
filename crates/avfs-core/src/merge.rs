//! Three-way merge: what two sides made of one base, put together.

pub mod lines;

pub use lines::{LineMerge, MarkerStyle, Sides, is_text, merge_lines};
