//! How much disk a tenant uses. It is measured now and then, and what would add to it is refused while it is too much.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use agentvfs::ErrorKind;

use super::error::{ServiceError, ServiceResult};

/// So many looks after its sandboxes lie between two measurements.
const EVERY: u64 = 5;

/// What was measured last.
#[derive(Default)]
pub(crate) struct DiskUse {
    bytes: AtomicU64,
    looks: AtomicU64,
}

impl DiskUse {
    /// What was measured last.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Measures the store of a tenant, if that was not done for a while. Another tenant's is not part of it.
    pub fn look(&self, store: &Path) {
        if self.looks.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY) {
            self.measure(store);
        }
    }

    pub fn measure(&self, store: &Path) {
        // What cannot be listed is measured the next time.
        if let Ok(bytes) = bytes_below(store, &store.join("server/tenants")) {
            self.bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// Refuses what adds to a store that is too large.
    pub fn check(&self, most: Option<u64>) -> ServiceResult<()> {
        let Some(most) = most.filter(|most| self.bytes() > *most) else {
            return Ok(());
        };
        let text = format!(
            "the files and states of the tenant take up more than {most} bytes; delete sandboxes or vaults, and what they leave is removed by `avfs gc`"
        );
        Err(ServiceError::new("tenant-full", ErrorKind::Full, text))
    }
}

/// What files take up, and not how long they are: those of a store have holes.
fn bytes_below(directory: &Path, without: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        let entries = match std::fs::read_dir(&directory) {
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let (kind, path) = (entry.file_type()?, entry.path());
            if kind.is_dir() {
                // A mount shows files that are stored elsewhere.
                if path != without && !is_mount(&directory, &path) {
                    waiting.push(path);
                }
            } else if let Ok(found) = entry.metadata() {
                bytes += found.blocks() * 512;
            }
        }
    }
    Ok(bytes)
}

fn is_mount(above: &Path, path: &Path) -> bool {
    let device = |path: &Path| std::fs::symlink_metadata(path).map(|found| found.dev()).ok();
    device(above) != device(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_too_large_takes_no_more() {
        let store = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(store.path().join("a/b")).unwrap();
        std::fs::create_dir_all(store.path().join("server/tenants/acme")).unwrap();
        std::fs::write(store.path().join("a/b/file"), vec![1; 100_000]).unwrap();
        std::fs::write(store.path().join("server/tenants/acme/file"), vec![1; 900_000]).unwrap();
        let used = DiskUse::default();
        used.check(Some(0)).unwrap();
        used.measure(store.path());
        assert!((100_000..200_000).contains(&used.bytes()), "{}", used.bytes());
        used.check(Some(200_000)).unwrap();
        used.check(None).unwrap();
        assert_eq!(used.check(Some(50_000)).unwrap_err().code, "tenant-full");
    }
}
