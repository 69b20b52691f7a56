//! Mounts of a vault: the FUSE protocol of the kernel and the skin that translates it to a working tree.
//!
//! A request walks through in one direction: bytes from a transport, a typed [`Request`], the [`Service`]
//! that serves it, a [`Reply`], and bytes again.

pub mod abi;
mod counters;
pub mod mounting;
mod notify;
pub mod null;
mod passed;
mod reply;
mod request;
pub mod service;
mod session;
mod skin;
pub mod transport;

pub use counters::{Counters, OperationCount};
pub use notify::{NotFlushed, Notifier};
pub use passed::{Cache, CacheOptions, LAYER_FILES, Passed, PassedOptions};
pub use reply::{Answered, Courier, Listing, Reply, Slot};
pub use request::{CallerId, Forgets, KeptRequest, Operation, Request};
pub use rustix::io::Errno;
pub use service::Service;
pub use session::{Log, Negotiated, Session, Settings};
pub use skin::{Access, OneOwner, Skin, SkinOptions};
