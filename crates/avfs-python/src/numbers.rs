//! Whole numbers, as Python has them: of any size.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

use crate::errors::own;

/// A number that `T` can have. Another one is bad input of the caller, which is another exception than an overflow in a
/// computation.
pub struct Whole<T>(pub T);

impl<'a, 'py, T: FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Whole<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Whole<T>> {
        let py = object.py();
        match object.extract::<T>() {
            Ok(number) => Ok(Whole(number)),
            Err(error) => {
                let error: PyErr = error.into();
                if error.is_instance_of::<PyOverflowError>(py) {
                    return Err(own(py, "invalid", format!("{} is out of range", *object)));
                }
                Err(error)
            }
        }
    }
}
