//! Mounts of a vault: the FUSE protocol of the kernel and the skin that translates it to a working tree.
//!
//! A request passes through in one direction: bytes from a transport, a typed [`FuseRequest`], the
//! [`FuseService`] that serves it, a [`FuseReply`], and bytes again.
#![warn(missing_docs, unnameable_types, unreachable_pub)]

#[allow(
    missing_docs,
    unnameable_types,
    reason = "the names are those of linux/fuse.h, which explains them; a derive makes helper types of its own"
)]
pub mod abi;
mod counters;
pub mod mounting;
mod notify;
pub mod null;
mod passthrough;
mod reply;
mod request;
pub mod service;
mod session;
mod skin;
pub mod transport;

pub use counters::{Counters, OperationCount};
pub use notify::{NotFlushed, Notifier};
pub use passthrough::{CacheOptions, CachedPlace, LAYER_FILES, PassthroughFs, PassthroughOptions};
pub use reply::{Answered, FuseReply, ListingReply, ReplyCourier, ReplySlot};
pub use request::{CallerId, ForgottenNodes, FuseOperation, FuseRequest, KeptRequest};
pub use rustix::io::Errno;
pub use service::FuseService;
pub use session::{FuseSession, NegotiatedProtocol, SessionLog, SessionSettings};
pub use skin::{MountAccess, OneOwner, Skin, SkinOptions};
