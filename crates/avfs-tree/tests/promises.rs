//! Promises that several processes resolve at once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use avfs_core::{Promise, PromiseId, SourceId, Stamp, TreePath};
use avfs_store::MemoryStore;
use avfs_testkit::CountingStore;
use avfs_tree::{ListedDirectory, ObjectWriter, Objects, Source, SourceError, SourceFinder, TakenFile};

/// A source whose directories are empty.
struct Empty;

impl Source for Empty {
    fn list(&self, _: &TreePath) -> Result<ListedDirectory, SourceError> {
        Ok(ListedDirectory::default())
    }

    fn take(&self, _: &TreePath, _: &Stamp, _: &Objects, _: &ObjectWriter) -> Result<TakenFile, SourceError> {
        Ok(TakenFile::Gone)
    }
}

impl SourceFinder for Empty {
    fn find(&self, _: SourceId) -> Result<Arc<dyn Source>, SourceError> {
        Ok(Arc::new(Empty))
    }
}

/// The store as another process sees it.
fn process(store: &Arc<CountingStore<MemoryStore>>) -> Objects {
    let objects = Objects::new(store.clone());
    objects.set_sources(Arc::new(Empty));
    objects
}

fn promises(objects: &Objects, count: u64) -> Vec<(PromiseId, Promise)> {
    let writer = ObjectWriter::new(objects);
    (0..count)
        .map(|number| {
            let promise = Promise::Directory {
                source: SourceId([1; 16]),
                generation: number,
                path: TreePath::root(),
            };
            (writer.put_promise(&promise).unwrap(), promise)
        })
        .collect()
}

fn resolve(objects: &Objects, promises: &[(PromiseId, Promise)]) {
    for (id, promise) in promises {
        objects.keep(*id, promise).unwrap();
    }
}

#[test]
fn results_that_another_process_has_committed_cost_no_commit_each() {
    const SAME: u64 = 500;
    let store = Arc::<CountingStore<MemoryStore>>::default();
    let (one, other) = (process(&store), process(&store));
    let all = promises(&one, SAME + 10);
    resolve(&one, &all[..SAME as usize]);
    resolve(&other, &all);
    one.commit_kept().unwrap();

    store.take();
    other.commit_kept().unwrap();

    // It tries all, looks at each, and commits those that are left.
    let touched = store.take().refs_touched;
    assert!(touched <= 3 * (SAME + 10), "{touched} refs");
    let third = process(&store);
    assert!(all.iter().all(|(id, _)| third.kept(*id).unwrap().is_some()));
}
