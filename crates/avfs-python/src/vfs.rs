//! A filesystem in memory, for Python.
//!
//! Reads hold the interpreter's lock: they take microseconds, and no thread keeps the filesystem's state while it waits
//! for that lock. Changes release it, because a hook of another thread may be running Python in its turn.

mod callbacks;
mod values;

use std::path::PathBuf;
use std::sync::Arc;

use agentvfs::Timestamp;
use agentvfs::vfs::{
    self, BundleError, FileSystemAdapter, HookTime, Limits, StorageAdapter as _, SystemClock,
    Vfs as Filesystem, VfsError,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::numbers::Whole;
pub use callbacks::{NodeContext, vfs_error, wrapped};
use callbacks::{adapter_of, path_hook, provided_node, storage_fault, write_hook};
use values::{Data, FsPath, policy_of, policy_values, view_of};
pub use values::{DirEntry, PathChange, PathEvent, Stat, WriteEvent};

/// A filesystem in memory. The class `VirtualFileSystem` adds what is easier in Python.
#[pyclass(subclass, frozen, module = "agentvfs._native")]
pub struct Vfs {
    pub vfs: Filesystem,
}

/// A moment of a filesystem.
#[pyclass(frozen, module = "agentvfs")]
pub struct Snapshot(vfs::Snapshot);

#[pymethods]
impl Snapshot {
    fn __repr__(&self) -> String {
        let usage = self.0.usage();
        format!("Snapshot({} entries, {} bytes)", usage.entries, usage.bytes)
    }
}

/// Does a change without the interpreter's lock.
fn change<T: Send>(py: Python<'_>, change: impl FnOnce() -> Result<T, VfsError> + Send) -> PyResult<T> {
    py.detach(change).map_err(|error| vfs_error(py, error))
}

fn read<T>(py: Python<'_>, read: Result<T, VfsError>) -> PyResult<T> {
    read.map_err(|error| vfs_error(py, error))
}

fn bundle_error(py: Python<'_>, error: BundleError) -> PyErr {
    match error {
        BundleError::Vfs(error) => vfs_error(py, error),
        BundleError::Vault(error) => crate::errors::raised(py, &error),
        error => crate::errors::own(py, "invalid", error.to_string()),
    }
}

#[pymethods]
impl Vfs {
    #[new]
    #[pyo3(signature = (*, max_bytes = None, max_entries = None, _handle = None))]
    fn new(max_bytes: Option<Whole<u64>>, max_entries: Option<Whole<u64>>, _handle: Option<&Handle>) -> Vfs {
        let most = |number: Option<Whole<u64>>| number.map_or(u64::MAX, |number| number.0);
        let limits = Limits {
            bytes: most(max_bytes),
            entries: most(max_entries),
        };
        let vfs = _handle.map_or_else(
            || Filesystem::with_options(limits, Arc::new(SystemClock)),
            |handle| handle.0.clone(),
        );
        Vfs { vfs }
    }

    #[pyo3(signature = (path, data, expected_version = None))]
    fn write_file(
        &self,
        py: Python<'_>,
        path: FsPath<'_>,
        data: Data,
        expected_version: Option<Whole<u64>>,
    ) -> PyResult<u64> {
        let path = path.bytes();
        let expected = expected_version.map(|version| version.0);
        change(py, || self.vfs.write_file(path, data.0, expected))
    }

    #[pyo3(signature = (path, data, expected_version = None))]
    fn append_file(
        &self,
        py: Python<'_>,
        path: FsPath<'_>,
        data: Data,
        expected_version: Option<Whole<u64>>,
    ) -> PyResult<u64> {
        let path = path.bytes();
        let expected = expected_version.map(|version| version.0);
        change(py, || self.vfs.append_file(path, data.0, expected))
    }

    fn read_file<'py>(&self, py: Python<'py>, path: FsPath<'_>) -> PyResult<Bound<'py, PyBytes>> {
        let content = read(py, self.vfs.read_file(path.bytes()))?;
        Ok(PyBytes::new(py, &content))
    }

    #[pyo3(signature = (path, offset = Whole(0), length = None))]
    fn read_bytes<'py>(
        &self,
        py: Python<'py>,
        path: FsPath<'_>,
        offset: Whole<u64>,
        length: Option<Whole<u64>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let content = read(py, self.vfs.read_file(path.bytes()))?;
        // Positions beyond the end give what is there, as slices do.
        let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(content.len());
        let end = length.map_or(u64::MAX, |length| offset.0.saturating_add(length.0));
        Ok(PyBytes::new(py, &content[at(offset.0)..at(end)]))
    }

    #[pyo3(signature = (path = FsPath::Root))]
    fn ls(&self, py: Python<'_>, path: FsPath<'_>) -> PyResult<Vec<DirEntry>> {
        let parent: Arc<str> = path.text(py)?.into();
        let entries = read(py, self.vfs.ls(path.bytes()))?;
        Ok(entries
            .into_iter()
            .map(|entry| DirEntry::in_directory(&parent, entry))
            .collect())
    }

    #[pyo3(signature = (path = FsPath::Root))]
    fn walk(&self, py: Python<'_>, path: FsPath<'_>) -> PyResult<Vec<DirEntry>> {
        let entries = read(py, self.vfs.walk(path.bytes()))?;
        Ok(entries
            .into_iter()
            .map(|(path, entry)| DirEntry::at(&path, entry))
            .collect())
    }

    #[pyo3(signature = (path = FsPath::Root, depth = None))]
    fn tree(&self, py: Python<'_>, path: FsPath<'_>, depth: Option<Whole<usize>>) -> PyResult<String> {
        read(py, self.vfs.tree(path.bytes(), depth.map(|depth| depth.0)))
    }

    #[pyo3(signature = (path, *, follow_symlinks = true))]
    fn stat(&self, py: Python<'_>, path: FsPath<'_>, follow_symlinks: bool) -> PyResult<Stat> {
        let stat = if follow_symlinks {
            self.vfs.stat(path.bytes())
        } else {
            self.vfs.lstat(path.bytes())
        };
        Ok(Stat::new(&read(py, stat)?))
    }

    fn exists(&self, py: Python<'_>, path: FsPath<'_>) -> PyResult<bool> {
        read(py, self.vfs.exists(path.bytes()))
    }

    #[pyo3(signature = (path, *, parents = false, exist_ok = false))]
    fn mkdir(&self, py: Python<'_>, path: FsPath<'_>, parents: bool, exist_ok: bool) -> PyResult<()> {
        let path = path.bytes();
        change(py, || self.vfs.mkdir(path, parents, exist_ok))
    }

    fn touch(&self, py: Python<'_>, path: FsPath<'_>) -> PyResult<()> {
        let path = path.bytes();
        change(py, || self.vfs.touch(path))
    }

    #[pyo3(signature = (source, target, *, overwrite = false))]
    fn r#move(
        &self,
        py: Python<'_>,
        source: FsPath<'_>,
        target: FsPath<'_>,
        overwrite: bool,
    ) -> PyResult<String> {
        let (source, target) = (source.bytes(), target.bytes());
        let moved = change(py, || self.vfs.move_to(source, target, overwrite))?;
        Ok(values::path_text(&moved))
    }

    fn rename(&self, py: Python<'_>, source: FsPath<'_>, target: FsPath<'_>) -> PyResult<()> {
        let (source, target) = (source.bytes(), target.bytes());
        change(py, || self.vfs.rename(source, target))
    }

    #[pyo3(signature = (source, target, *, overwrite = false))]
    fn copy(
        &self,
        py: Python<'_>,
        source: FsPath<'_>,
        target: FsPath<'_>,
        overwrite: bool,
    ) -> PyResult<String> {
        let (source, target) = (source.bytes(), target.bytes());
        let copied = change(py, || self.vfs.copy(source, target, overwrite))?;
        Ok(values::path_text(&copied))
    }

    #[pyo3(signature = (path, *, recursive = false))]
    fn remove(&self, py: Python<'_>, path: FsPath<'_>, recursive: bool) -> PyResult<()> {
        let path = path.bytes();
        change(py, || self.vfs.remove(path, recursive))
    }

    fn symlink(&self, py: Python<'_>, target: FsPath<'_>, path: FsPath<'_>) -> PyResult<()> {
        let (target, path) = (target.bytes(), path.bytes());
        change(py, || self.vfs.symlink(target, path))
    }

    fn readlink(&self, py: Python<'_>, path: FsPath<'_>) -> PyResult<String> {
        let target = read(py, self.vfs.read_link(path.bytes()))?;
        Ok(values::lossless(&target))
    }

    fn chmod(&self, py: Python<'_>, path: FsPath<'_>, mode: Whole<u32>) -> PyResult<()> {
        let path = path.bytes();
        change(py, || self.vfs.set_mode(path, mode.0))
    }

    fn set_mtime(&self, py: Python<'_>, path: FsPath<'_>, nanoseconds: Whole<i64>) -> PyResult<()> {
        let path = path.bytes();
        change(py, || {
            self.vfs
                .set_mtime(path, Timestamp::from_nanos(nanoseconds.0.into()))
        })
    }

    fn set_metadata(&self, py: Python<'_>, path: FsPath<'_>, metadata: vfs::Metadata) -> PyResult<()> {
        let path = path.bytes();
        change(py, || self.vfs.set_metadata(path, metadata))
    }

    fn _set_policy(
        &self,
        py: Python<'_>,
        path: FsPath<'_>,
        policy: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let policy = policy.map(policy_of).transpose()?;
        let path = path.bytes();
        change(py, || self.vfs.set_policy(path, policy))
    }

    fn _policy<'py>(&self, py: Python<'py>, path: FsPath<'_>) -> PyResult<Bound<'py, PyDict>> {
        policy_values(py, &read(py, self.vfs.stat(path.bytes()))?.policy)
    }

    fn _with_view(&self, py: Python<'_>, view: &Bound<'_, PyAny>) -> PyResult<Handle> {
        let view = view_of(py, view)?;
        Ok(Handle(read(py, self.vfs.with_view(view))?))
    }

    fn _fork(&self, py: Python<'_>) -> PyResult<Handle> {
        Ok(Handle(read(py, self.vfs.fork())?))
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        Ok(Snapshot(read(py, self.vfs.snapshot())?))
    }

    fn restore(&self, py: Python<'_>, snapshot: &Snapshot) -> PyResult<()> {
        change(py, || self.vfs.restore(&snapshot.0))
    }

    fn changes(&self, py: Python<'_>, since: &Snapshot) -> PyResult<Vec<PathChange>> {
        let changes = change(py, || self.vfs.changes(&since.0))?;
        Ok(changes.iter().map(PathChange::new).collect())
    }

    fn _mount(&self, py: Python<'_>, path: FsPath<'_>, node: &Bound<'_, PyAny>) -> PyResult<()> {
        let node = provided_node(node)?;
        let path = path.bytes();
        change(py, || self.vfs.mount(path, node))
    }

    fn _mount_storage(&self, py: Python<'_>, path: FsPath<'_>, adapter: Py<PyAny>) -> PyResult<()> {
        let path = path.bytes();
        change(py, || self.vfs.mount_storage(path, adapter_of(adapter)))
    }

    fn unmount_storage(&self, py: Python<'_>, path: FsPath<'_>) -> PyResult<bool> {
        let path = path.bytes();
        change(py, || self.vfs.unmount_storage(path))
    }

    fn sync_storage(&self, py: Python<'_>, path: FsPath<'_>) -> PyResult<Vec<PathEvent>> {
        let path = path.bytes();
        let events = change(py, || self.vfs.sync_storage(path))?;
        Ok(events.into_iter().map(PathEvent::new).collect())
    }

    fn _register_write_hook(
        &self,
        py: Python<'_>,
        prefix: FsPath<'_>,
        hook: Py<PyAny>,
        after: bool,
    ) -> PyResult<Hook> {
        let time = if after { HookTime::After } else { HookTime::Before };
        let prefix = prefix.text(py)?;
        Ok(Hook(read(
            py,
            self.vfs.register_write_hook(&prefix, time, write_hook(hook)),
        )?))
    }

    fn _register_path_hook(&self, py: Python<'_>, prefix: FsPath<'_>, hook: Py<PyAny>) -> PyResult<Hook> {
        let prefix = prefix.text(py)?;
        Ok(Hook(read(
            py,
            self.vfs.register_path_hook(&prefix, path_hook(hook)),
        )?))
    }

    fn unregister_hook(&self, py: Python<'_>, hook: &Hook) -> PyResult<bool> {
        read(py, self.vfs.unregister_hook(hook.0))
    }

    fn _export(&self, py: Python<'_>, path: FsPath<'_>, destination: PathBuf) -> PyResult<()> {
        let path = path.bytes();
        change(py, || self.vfs.export(path, &destination))
    }

    fn _import(&self, py: Python<'_>, source: PathBuf, path: FsPath<'_>) -> PyResult<()> {
        let path = path.bytes();
        change(py, || self.vfs.import(&source, path))
    }

    /// Runs `work` while the directory is written out to `place`, and takes over what is different then.
    fn _with_host_directory(
        &self,
        py: Python<'_>,
        path: FsPath<'_>,
        place: PathBuf,
        work: Py<PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let path = path.bytes();
        // `change` has let go of the interpreter, and the program of the caller needs it again.
        let work = || Python::attach(|py| work.call0(py));
        change(py, || self.vfs.with_host_directory(path, &place, work))?
    }

    fn serialize<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bundle = py.detach(|| vfs::serialize(&self.vfs));
        Ok(PyBytes::new(
            py,
            &bundle.map_err(|error| bundle_error(py, error))?,
        ))
    }

    #[staticmethod]
    fn _hydrate(py: Python<'_>, data: &[u8]) -> PyResult<Handle> {
        let vfs = py.detach(|| vfs::hydrate(data));
        Ok(Handle(vfs.map_err(|error| bundle_error(py, error))?))
    }

    /// How many files, directories and links there are, and the sum of the file sizes.
    #[getter]
    fn usage(&self) -> (u64, u64) {
        let usage = self.vfs.usage();
        (usage.entries, usage.bytes)
    }

    fn __repr__(&self) -> String {
        let usage = self.vfs.usage();
        format!(
            "VirtualFileSystem({} entries, {} bytes)",
            usage.entries, usage.bytes
        )
    }
}

/// A filesystem on its way to a `VirtualFileSystem`.
#[pyclass(frozen, module = "agentvfs._native")]
pub struct Handle(pub Filesystem);

/// Names a hook, to remove it.
#[pyclass(frozen, module = "agentvfs")]
pub struct Hook(vfs::HookId);

#[pymethods]
impl Hook {
    fn __repr__(&self) -> String {
        format!("Hook({:?})", self.0)
    }
}

/// A directory of the host as a storage. The class `FileSystemAdapter` gives its methods their types.
#[pyclass(frozen, module = "agentvfs._native")]
pub struct DirectoryStorage(FileSystemAdapter);

#[pymethods]
impl DirectoryStorage {
    #[new]
    fn new(directory: PathBuf) -> PyResult<DirectoryStorage> {
        Ok(DirectoryStorage(FileSystemAdapter::new(directory)?))
    }

    fn read<'py>(&self, py: Python<'py>, path: &str) -> PyResult<(Bound<'py, PyBytes>, u64)> {
        let file = py
            .detach(|| self.0.read(path))
            .map_err(|fault| storage_fault(py, fault))?;
        Ok((PyBytes::new(py, &file.data), file.version))
    }

    fn write(&self, py: Python<'_>, path: &str, data: &[u8], version: u64) -> PyResult<()> {
        py.detach(|| self.0.write(path, data, version))
            .map_err(|fault| storage_fault(py, fault))
    }

    fn list(&self, py: Python<'_>) -> PyResult<Vec<(String, u64)>> {
        py.detach(|| self.0.list())
            .map_err(|fault| storage_fault(py, fault))
    }

    fn delete(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        py.detach(|| self.0.delete(path))
            .map_err(|fault| storage_fault(py, fault))
    }
}
