//! The contents of files: reading them from objects, and splitting them into objects.

mod read;
mod write;

pub(crate) use read::zeros;
pub use read::{read_all, read_at, seek_data, seek_hole};
pub use write::ContentBuilder;
pub(crate) use write::put_chunk;
