//! What tests of mounts share.

#![allow(dead_code, reason = "each test file uses its part")]

use std::time::{Duration, Instant};

use avfs_fuse::transport::Transport;

/// Makes two tests of each function that takes a [`Transport`].
macro_rules! over_both_transports {
    ($($name:ident,)*) => {
        mod over_device {
            $(#[test] fn $name() { super::$name(avfs_fuse::transport::Transport::Device) })*
        }

        mod over_io_uring {
            $(#[test] fn $name() { super::$name(avfs_fuse::transport::Transport::Uring) })*
        }
    };
}

/// FUSE over io_uring has a switch for the whole system. Root switches it on, and leaves it on: that does
/// nothing to mounts which do not ask for it.
pub fn switch_on(transport: Transport) {
    const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
    if transport == Transport::Uring && !std::fs::read(SWITCH).is_ok_and(|state| state.starts_with(b"Y")) {
        std::fs::write(SWITCH, "Y").expect("root can switch FUSE over io_uring on (Linux 6.14 or later)");
    }
}

/// Waits for what happens soon.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::yield_now();
    }
}
