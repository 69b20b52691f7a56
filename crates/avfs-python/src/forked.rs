//! What a forked child must not touch. Mounts, sandboxes and locks belong to the process that made them: a child has
//! copies of their descriptors and memory, but none of the threads that serve them.

use pyo3::prelude::*;
use rustix::process::{Pid, getpid};

use crate::errors;

/// Something that only the process that made it can use. In a forked child it is not there, and it is not dropped either:
/// that would wait for threads that do not exist, or unmount what the parent uses.
pub struct OwnProcess<T> {
    value: Option<T>,
    maker: Pid,
}

impl<T> OwnProcess<T> {
    pub fn new(value: T) -> OwnProcess<T> {
        OwnProcess {
            value: Some(value),
            maker: getpid(),
        }
    }

    pub fn into_inner(mut self) -> Option<T> {
        if self.maker == getpid() {
            self.value.take()
        } else {
            None
        }
    }

    pub fn get(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.maker == getpid())
    }
}

impl<T: Sync> OwnProcess<T> {
    /// Does work of the library with it, without the interpreter's lock.
    pub fn detached<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&T) -> agentvfs::Result<R> + Send,
    ) -> PyResult<R> {
        let value = self.get().ok_or_else(|| errors::of_parent(py))?;
        errors::detached(py, || work(value))
    }
}

impl<T> Drop for OwnProcess<T> {
    fn drop(&mut self) {
        if self.maker != getpid() {
            std::mem::forget(self.value.take());
        }
    }
}
