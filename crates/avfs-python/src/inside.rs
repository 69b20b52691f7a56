//! The sandbox's first program, which the wheel carries.

use std::path::PathBuf;

use agentvfs::exec::sandbox::launch::InnerProgram;
use pyo3::prelude::*;

/// The program that the environment names, that was installed with the package, or that is on the `PATH`, in this order.
pub fn find(py: Python<'_>) -> PyResult<InnerProgram> {
    let place = py.import("agentvfs._programs")?.getattr("inside")?.call0()?;
    Ok(InnerProgram::new(place.extract::<PathBuf>()?))
}
