//! Python code that a filesystem calls: providers, hooks and storage adapters. And errors, on their way to Python.
//!
//! An exception of a hook reaches the caller of the change as it is. One of a provider or an adapter becomes the cause
//! of an error that names the path.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentvfs::vfs::{
    self, CallbackError, Children, EntryName, PathHook, ProvidedNode, StorageAdapter, StorageFault,
    StoredFile, VfsError, WriteHook,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::Handle;
use super::values::{Data, PathEvent, WriteEvent, path_text, policy_of};
use crate::errors::own;

/// The exception for an error of a filesystem.
pub fn vfs_error(py: Python<'_>, error: VfsError) -> PyErr {
    exception(py, error).unwrap_or_else(|error| error)
}

fn exception(py: Python<'_>, error: VfsError) -> PyResult<PyErr> {
    let details = PyDict::new(py);
    if let Some(path) = path_of(&error) {
        details.set_item("path", path_text(path))?;
    }
    if let VfsError::VersionMismatch { expected, actual, .. } = &error {
        details.set_item("expected", expected)?;
        details.set_item("actual", actual)?;
    }
    let (code, message) = (error.code(), error.to_string());
    let cause = match error {
        VfsError::Hook { source, .. } | VfsError::AfterHook { source, .. } => {
            let cause = cause_of(py, &*source);
            if let Some(cause) = cause {
                // What a hook raises reaches its caller as it was: hooks refuse changes with exceptions of
                // their own.
                return Ok(cause);
            }
            None
        }
        VfsError::Provider { source, .. } => cause_of(py, &*source),
        VfsError::Storage { source, .. } | VfsError::StorageConflict { source, .. } => cause_of(py, &*source),
        VfsError::Host { source, .. } => {
            details.set_item("errno", source.raw_os_error())?;
            Some(PyErr::from(source))
        }
        _ => None,
    };
    // The classes are Python's, so that they can have several bases.
    let make = py.import("agentvfs._vfs_errors")?.getattr("from_vfs")?;
    let made = PyErr::from_value(make.call1((code, message, details))?);
    made.set_cause(py, cause);
    Ok(made)
}

/// The exception of Python code, or of a filesystem that such code has called.
fn cause_of(py: Python<'_>, source: &(dyn std::error::Error + 'static)) -> Option<PyErr> {
    let mut source = Some(source);
    // A filesystem that calls itself in a callback wraps the exception in errors of its own.
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<PyErr>() {
            return Some(error.clone_ref(py));
        }
        source = error.source();
    }
    None
}

fn path_of(error: &VfsError) -> Option<&vfs::TreePath> {
    match error {
        VfsError::TooDeep { path }
        | VfsError::NotFound { path }
        | VfsError::Exists { path }
        | VfsError::NotADirectory { path }
        | VfsError::IsADirectory { path }
        | VfsError::NotALink { path }
        | VfsError::NotEmpty { path }
        | VfsError::TooManyLinks { path }
        | VfsError::IntoItself { path }
        | VfsError::Denied { path, .. }
        | VfsError::VersionMismatch { path, .. }
        | VfsError::OverLimit { path, .. }
        | VfsError::FilesOnly { path }
        | VfsError::Hook { path, .. }
        | VfsError::AfterHook { path, .. }
        | VfsError::Provider { path, .. }
        | VfsError::Storage { path, .. }
        | VfsError::StorageConflict { path, .. }
        | VfsError::Mounted { path } => Some(path),
        VfsError::BadPath(_)
        | VfsError::Root { .. }
        | VfsError::Invalid(_)
        | VfsError::WithinChange
        | VfsError::HookChain
        | VfsError::Host { .. } => None,
    }
}

/// The exception for what a storage of ours did not do.
pub fn storage_fault(py: Python<'_>, fault: StorageFault) -> PyErr {
    // The adapter knows no path of a filesystem; its message names the file.
    let path = vfs::TreePath::root();
    vfs_error(
        py,
        match fault {
            StorageFault::Conflict(source) => VfsError::StorageConflict { path, source },
            StorageFault::Failed(source) => VfsError::Storage { path, source },
        },
    )
}

fn failed(error: PyErr) -> CallbackError {
    Box::new(error)
}

pub fn write_hook(hook: Py<PyAny>) -> Arc<WriteHook> {
    Arc::new(move |event: &vfs::WriteEvent| {
        Python::attach(|py| hook.call1(py, (WriteEvent(event.clone()),)).map(drop)).map_err(failed)
    })
}

pub fn path_hook(hook: Py<PyAny>) -> Arc<PathHook> {
    Arc::new(move |event: &vfs::PathEvent| {
        Python::attach(|py| hook.call1(py, (PathEvent::new(event.clone()),)).map(drop)).map_err(failed)
    })
}

/// What a provider is told.
#[pyclass(frozen, module = "agentvfs")]
pub struct NodeContext {
    #[pyo3(get)]
    path: String,
    #[pyo3(get)]
    metadata: BTreeMap<String, String>,
    vfs: vfs::Vfs,
}

#[pymethods]
impl NodeContext {
    fn __repr__(&self) -> String {
        format!("NodeContext('{}')", self.path)
    }

    /// The filesystem.
    #[getter]
    fn vfs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        wrapped(py, &self.vfs)
    }
}

/// A `VirtualFileSystem` of a filesystem.
pub fn wrapped<'py>(py: Python<'py>, vfs: &vfs::Vfs) -> PyResult<Bound<'py, PyAny>> {
    let arguments = PyDict::new(py);
    arguments.set_item("_handle", Handle(vfs.clone()).into_pyobject(py)?)?;
    let class = py.import("agentvfs.vfs")?.getattr("VirtualFileSystem")?;
    class.call((), Some(&arguments))
}

fn context(context: &vfs::NodeContext<'_>) -> NodeContext {
    NodeContext {
        path: path_text(context.path),
        metadata: context.metadata.clone(),
        vfs: context.vfs.clone(),
    }
}

/// A `ProvidedNode` of Python.
pub fn provided_node(node: &Bound<'_, PyAny>) -> PyResult<ProvidedNode> {
    // The short forms first, as they have none of the attributes.
    if let Ok(data) = node.extract::<Data>() {
        return Ok(ProvidedNode::file(data.0));
    }
    if node.is_instance_of::<PyDict>() {
        return Ok(ProvidedNode::directory(children(node)?));
    }
    // By attribute and not by class: a class of the caller's own will do.
    let attribute = |name: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        let value = node.getattr(name).map_err(|_| {
            PyTypeError::new_err("a provided node is a ProvidedNode, str, bytes, or a dict of them")
        })?;
        Ok((!value.is_none()).then_some(value))
    };
    let mut made = if let Some(provider) = attribute("content_provider")? {
        let provider = provider.unbind();
        ProvidedNode::computed_file(move |told| {
            let content = |py: Python<'_>| provider.call1(py, (context(told),))?.extract::<Data>(py);
            Ok(Python::attach(content).map_err(failed)?.0)
        })
    } else if let Some(provider) = attribute("directory_provider")? {
        let provider = provider.unbind();
        ProvidedNode::computed_directory(move |told| {
            let entries = |py: Python<'_>| children(provider.call1(py, (context(told),))?.bind(py));
            Python::attach(entries).map_err(failed)
        })
    } else if let Some(entries) = attribute("children")? {
        ProvidedNode::directory(children(&entries)?)
    } else {
        let content =
            attribute("content")?.ok_or_else(|| PyTypeError::new_err("a provided node is empty"))?;
        ProvidedNode::file(content.extract::<Data>()?.0)
    };
    if let Some(metadata) = attribute("metadata")? {
        made = made.with_metadata(metadata.extract()?);
    }
    if let Some(policy) = attribute("policy")? {
        made = made.with_policy(policy_of(&policy)?);
    }
    if let Some(ttl) = attribute("ttl")? {
        let ttl = Duration::try_from_secs_f64(ttl.extract()?);
        made = made.with_ttl(ttl.map_err(|error| invalid(node.py(), format!("ttl: {error}")))?);
    }
    Ok(made)
}

fn invalid(py: Python<'_>, reason: String) -> PyErr {
    own(py, "invalid", reason)
}

fn children(entries: &Bound<'_, PyAny>) -> PyResult<Children> {
    let mut children = Children::new();
    for pair in entries.call_method0("items")?.try_iter()? {
        let (name, node): (String, Bound<'_, PyAny>) = pair?.extract()?;
        let name =
            EntryName::new(name.as_bytes()).map_err(|error| invalid(entries.py(), error.to_string()))?;
        children.insert(name, provided_node(&node)?);
    }
    Ok(children)
}

/// An object with `read`, `write`, `list` and `delete`.
struct PythonAdapter(Py<PyAny>);

pub fn adapter_of(adapter: Py<PyAny>) -> Arc<dyn StorageAdapter> {
    Arc::new(PythonAdapter(adapter))
}

impl PythonAdapter {
    fn call<T>(
        &self,
        call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T, StorageFault> {
        Python::attach(|py| call(py, self.0.bind(py)).map_err(|error| fault(py, error)))
    }
}

/// A `ValueError` or one of our conflicts is a conflict.
fn fault(py: Python<'_>, error: PyErr) -> StorageFault {
    // Looked up and not kept: the module is loaded after this one.
    let is_ours = |name: &str| {
        let class = py
            .import("agentvfs._vfs_errors")
            .and_then(|module| module.getattr(name));
        class.is_ok_and(|class| error.matches(py, class).unwrap_or(false))
    };
    let is_conflict = error.is_instance_of::<PyValueError>(py)
        || is_ours("ConflictError")
        || is_ours("VersionMismatchError");
    if is_conflict {
        StorageFault::Conflict(failed(error))
    } else {
        StorageFault::Failed(failed(error))
    }
}

/// What `read` and `list` give for a file: an object with `data` (or `content`) and `version`, a pair, or the content.
fn stored(file: &Bound<'_, PyAny>) -> PyResult<StoredFile> {
    if let Ok(data) = file.extract::<Data>() {
        return Ok(StoredFile {
            data: data.0,
            version: 1,
        });
    }
    // Before the object with attributes, because a named tuple is both.
    if let Ok((data, version)) = file.extract::<(Data, u64)>() {
        return Ok(StoredFile {
            data: data.0,
            version,
        });
    }
    let data = file.getattr("data").or_else(|_| file.getattr("content"))?;
    Ok(StoredFile {
        data: data.extract::<Data>()?.0,
        version: file.getattr("version")?.extract()?,
    })
}

impl StorageAdapter for PythonAdapter {
    fn list(&self) -> Result<Vec<(String, u64)>, StorageFault> {
        self.call(|_, adapter| {
            let listed = adapter.call_method0("list")?;
            let mut files = Vec::new();
            // A mapping from paths to versions or files, or the paths alone.
            if listed.hasattr("items")? {
                for pair in listed.call_method0("items")?.try_iter()? {
                    let (path, file): (String, Bound<'_, PyAny>) = pair?.extract()?;
                    let version = match file.extract::<u64>() {
                        Ok(version) => version,
                        // The mapping holds whole files; only their versions are wanted here.
                        Err(_) => stored(&file)?.version,
                    };
                    files.push((path, version));
                }
                return Ok(files);
            }
            for path in listed.try_iter()? {
                let path = path?;
                let path = path.cast::<PyString>()?.to_str()?.to_owned();
                let version = stored(&adapter.call_method1("read", (&path,))?)?.version;
                files.push((path, version));
            }
            Ok(files)
        })
    }

    fn read(&self, path: &str) -> Result<StoredFile, StorageFault> {
        self.call(|_, adapter| stored(&adapter.call_method1("read", (path,))?))
    }

    fn write(&self, path: &str, data: &[u8], version: u64) -> Result<(), StorageFault> {
        self.call(|py, adapter| {
            let data = pyo3::types::PyBytes::new(py, data);
            adapter.call_method1("write", (path, data, version)).map(drop)
        })
    }

    fn delete(&self, path: &str) -> Result<(), StorageFault> {
        self.call(|_, adapter| adapter.call_method1("delete", (path,)).map(drop))
    }
}
