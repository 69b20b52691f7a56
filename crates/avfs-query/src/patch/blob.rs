//! The names that git gives to the contents of files.

use sha1::{Digest, Sha1};

/// git's name of a file with these contents, in repositories with SHA-1.
pub fn blob_sha1(contents: &[u8]) -> [u8; 20] {
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {}\0", contents.len()));
    hasher.update(contents);
    hasher.finalize().into()
}
