//! Paths, contents and records, as Python has them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use agentvfs::vfs::{self, EntryName, Kind, NodePolicy, TreePath, VisibilityView};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

/// A path that a caller gave: text, bytes or a path object.
pub enum FsPath<'a> {
    Root,
    Bytes(Cow<'a, [u8]>),
}

impl FsPath<'_> {
    pub fn bytes(&self) -> &[u8] {
        match self {
            FsPath::Root => b"/",
            FsPath::Bytes(bytes) => bytes,
        }
    }

    /// The path as it is printed.
    pub fn text(&self, py: Python<'_>) -> PyResult<String> {
        let path = vfs::parse(self.bytes()).map_err(|error| super::vfs_error(py, error))?;
        Ok(path_text(&path))
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for FsPath<'a> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<FsPath<'a>> {
        // Not copied: the caller holds the arguments of a call to its end.
        if let Ok(text) = object.extract::<&'a str>() {
            return Ok(FsPath::Bytes(Cow::Borrowed(text.as_bytes())));
        }
        if let Ok(bytes) = object.extract::<&'a [u8]>() {
            return Ok(FsPath::Bytes(Cow::Borrowed(bytes)));
        }
        if object.is_instance_of::<PyString>() {
            // A name that is not UTF-8 is text with surrogates, as everywhere in Python.
            let name: std::ffi::OsString = object.extract()?;
            return Ok(FsPath::Bytes(Cow::Owned(name.into_vec())));
        }
        let path: std::path::PathBuf = object.extract()?;
        Ok(FsPath::Bytes(Cow::Owned(path.into_os_string().into_vec())))
    }
}

/// The content of a file: bytes, or text as UTF-8.
pub struct Data(pub Vec<u8>);

impl<'a, 'py> FromPyObject<'a, 'py> for Data {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Data> {
        if let Ok(text) = object.cast::<PyString>() {
            let text = text.to_str().map_err(|_| {
                let reason = "the text is not valid Unicode; give bytes instead";
                crate::errors::own(object.py(), "invalid", reason)
            })?;
            return Ok(Data(text.as_bytes().to_vec()));
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Data(bytes.as_bytes().to_vec()));
        }
        let bytes = object.py().get_type::<PyBytes>();
        let is_number = object.extract::<i64>().is_ok();
        match bytes.call1((object,)) {
            Ok(copied) if !is_number => Ok(Data(copied.cast::<PyBytes>()?.as_bytes().to_vec())),
            _ => Err(PyTypeError::new_err("the content of a file is str or bytes")),
        }
    }
}

/// Bytes as text. What is not UTF-8 is escaped as messages escape it.
pub fn lossless(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => agentvfs::printable(bytes),
    }
}

/// A path with its leading slash.
pub fn path_text(path: &TreePath) -> String {
    format!("/{}", lossless(path.as_bytes()))
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
    }
}

/// Seconds since 1970.
fn seconds(time: agentvfs::Timestamp) -> f64 {
    time.as_nanos() as f64 / 1e9
}

/// One name in a listing.
///
/// Listings are long, and few of their paths are asked for: a path is made when it is.
#[pyclass(frozen, eq, module = "agentvfs")]
#[derive(PartialEq)]
pub struct DirEntry {
    parent: Arc<str>,
    name: EntryName,
    #[pyo3(get)]
    kind: &'static str,
    #[pyo3(get)]
    is_dir: bool,
    /// `None` if a provider would have to compute the content.
    #[pyo3(get)]
    size: Option<u64>,
    #[pyo3(get)]
    mode: u32,
    #[pyo3(get)]
    mtime: f64,
    #[pyo3(get)]
    version: u64,
}

impl DirEntry {
    pub fn at(path: &TreePath, entry: vfs::DirEntry) -> DirEntry {
        let path = path_text(path);
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        DirEntry::in_directory(&Arc::from(parent), entry)
    }

    pub fn in_directory(parent: &Arc<str>, entry: vfs::DirEntry) -> DirEntry {
        DirEntry {
            parent: Arc::clone(parent),
            name: entry.name,
            kind: kind_word(entry.kind),
            is_dir: entry.kind == Kind::Directory,
            size: entry.size,
            mode: entry.mode,
            mtime: seconds(entry.mtime),
            version: entry.version,
        }
    }
}

#[pymethods]
impl DirEntry {
    #[getter]
    fn name(&self) -> String {
        lossless(self.name.as_bytes())
    }

    #[getter]
    fn path(&self) -> String {
        format!("{}/{}", self.parent.trim_end_matches('/'), self.name())
    }

    fn __repr__(&self) -> String {
        format!("DirEntry('{}', {})", self.path(), self.kind)
    }
}

/// The attributes of an entry.
#[pyclass(frozen, get_all, eq, module = "agentvfs")]
#[derive(PartialEq)]
pub struct Stat {
    path: String,
    kind: &'static str,
    is_dir: bool,
    size: u64,
    mode: u32,
    mtime: f64,
    mtime_ns: i64,
    version: u64,
    metadata: BTreeMap<String, String>,
    is_provided: bool,
}

impl Stat {
    pub fn new(stat: &vfs::Stat) -> Stat {
        Stat {
            path: path_text(&stat.path),
            kind: kind_word(stat.kind),
            is_dir: stat.kind == Kind::Directory,
            size: stat.size,
            mode: stat.mode,
            mtime: seconds(stat.mtime),
            mtime_ns: i64::try_from(stat.mtime.as_nanos()).unwrap_or(i64::MAX),
            version: stat.version,
            metadata: stat.metadata.clone(),
            is_provided: stat.is_provided,
        }
    }
}

#[pymethods]
impl Stat {
    fn __repr__(&self) -> String {
        format!(
            "Stat('{}', {}, {} bytes, version {})",
            self.path, self.kind, self.size, self.version
        )
    }
}

/// A path that differs from a snapshot.
#[pyclass(frozen, get_all, eq, module = "agentvfs")]
#[derive(PartialEq)]
pub struct PathChange {
    path: String,
    /// `created`, `updated` or `deleted`.
    change: &'static str,
    kind: &'static str,
}

impl PathChange {
    pub fn new(change: &vfs::Change) -> PathChange {
        PathChange {
            path: path_text(&change.path),
            change: change.change.as_str(),
            kind: kind_word(change.kind),
        }
    }
}

#[pymethods]
impl PathChange {
    fn __repr__(&self) -> String {
        format!("PathChange('{}', {})", self.path, self.change)
    }
}

/// A change of one file or link, as a path hook is told.
#[pyclass(frozen, module = "agentvfs")]
pub struct PathEvent(vfs::PathEvent);

impl PathEvent {
    pub fn new(event: vfs::PathEvent) -> PathEvent {
        PathEvent(event)
    }
}

#[pymethods]
impl PathEvent {
    #[getter]
    fn path(&self) -> String {
        path_text(&self.0.path)
    }

    #[getter]
    fn event(&self) -> &'static str {
        self.0.event.as_str()
    }

    #[getter]
    fn content<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.content.as_ref().map(|content| PyBytes::new(py, content))
    }

    #[getter]
    fn version(&self) -> u64 {
        self.0.version
    }

    /// The old path after a move.
    #[getter]
    fn source(&self) -> Option<String> {
        self.0.from.as_ref().map(path_text)
    }

    fn __eq__(&self, other: &PathEvent) -> bool {
        self.0 == other.0
    }

    fn __repr__(&self) -> String {
        let from = self
            .source()
            .map_or_else(String::new, |from| format!(" from '{from}'"));
        format!(
            "PathEvent({} '{}'{from}, version {})",
            self.event(),
            self.path(),
            self.0.version
        )
    }
}

/// New content of a file, as a write hook is told.
#[pyclass(frozen, module = "agentvfs")]
pub struct WriteEvent(pub vfs::WriteEvent);

#[pymethods]
impl WriteEvent {
    #[getter]
    fn path(&self) -> String {
        path_text(&self.0.path)
    }

    #[getter]
    fn content<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.content)
    }

    #[getter]
    fn version(&self) -> u64 {
        self.0.version
    }

    #[getter]
    fn append(&self) -> bool {
        self.0.append
    }

    fn __eq__(&self, other: &WriteEvent) -> bool {
        self.0 == other.0
    }

    fn __repr__(&self) -> String {
        format!(
            "WriteEvent('{}', {} bytes, version {})",
            self.path(),
            self.0.content.len(),
            self.0.version
        )
    }
}

/// A `NodePolicy` of Python.
pub fn policy_of(policy: &Bound<'_, PyAny>) -> PyResult<NodePolicy> {
    Ok(NodePolicy {
        readable: policy.getattr("readable")?.extract()?,
        writable: policy.getattr("writable")?.extract()?,
        append_only: policy.getattr("append_only")?.extract()?,
        classification: policy.getattr("classification")?.extract()?,
        principals: strings(&policy.getattr("principals")?)?,
    })
}

pub fn policy_values<'py>(py: Python<'py>, policy: &NodePolicy) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    values.set_item("readable", policy.readable)?;
    values.set_item("writable", policy.writable)?;
    values.set_item("append_only", policy.append_only)?;
    values.set_item("classification", &policy.classification)?;
    values.set_item("principals", policy.principals.iter().collect::<Vec<_>>())?;
    Ok(values)
}

/// A `VisibilityView` of Python.
pub fn view_of(py: Python<'_>, view: &Bound<'_, PyAny>) -> PyResult<VisibilityView> {
    let set = |name: &str| -> PyResult<Option<BTreeSet<String>>> {
        let value = view.getattr(name)?;
        if value.is_none() {
            Ok(None)
        } else {
            strings(&value).map(Some)
        }
    };
    let prefixes = view.getattr("path_prefixes")?;
    let path_prefixes = if prefixes.is_none() {
        None
    } else {
        let mut paths = Vec::new();
        for prefix in prefixes.try_iter()? {
            let prefix = prefix?;
            let path: FsPath<'_> = prefix.extract()?;
            paths.push(vfs::parse(path.bytes()).map_err(|error| super::vfs_error(py, error))?);
        }
        Some(paths)
    };
    let mut metadata_filters = BTreeMap::new();
    for pair in view
        .getattr("metadata_filters")?
        .call_method0("items")?
        .try_iter()?
    {
        let (key, values): (String, Bound<'_, PyAny>) = pair?.extract()?;
        metadata_filters.insert(key, strings(&values)?);
    }
    Ok(VisibilityView {
        classifications: set("classifications")?,
        principals: set("principals")?,
        path_prefixes,
        metadata_filters,
    })
}

fn strings(values: &Bound<'_, PyAny>) -> PyResult<BTreeSet<String>> {
    values.try_iter()?.map(|value| value?.extract()).collect()
}
