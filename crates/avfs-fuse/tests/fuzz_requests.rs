//! Requests that no kernel would send: the result is an errno, never a panic.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use avfs_fuse::abi::{InHeader, Opcode};
use avfs_fuse::{FuseOperation, FuseRequest};
use avfs_testkit::fuzz;
use zerocopy::{FromBytes, IntoBytes};

/// A request of each kind: a header, arguments with some bytes set to all ones, and two names.
fn seeds() -> Vec<Vec<u8>> {
    let seed = |opcode: &Opcode| {
        let header = InHeader {
            len: 0,
            opcode: *opcode as u32,
            unique: 2,
            nodeid: 1,
            uid: 0,
            gid: 0,
            pid: 1,
            total_extlen: 0,
            padding: 0,
        };
        let argument = (0..opcode.argument_size()).map(|index| u8::from(index % 8 == 0) * 3);
        let bytes = header.as_bytes().iter().copied().chain(argument);
        bytes
            .chain(*b"name\0another name\0and some data behind them")
            .collect()
    };
    Opcode::ALL.iter().map(seed).collect()
}

fn check(bytes: &[u8]) {
    let Ok((header, body)) = InHeader::read_from_prefix(bytes) else {
        return;
    };
    let (argument, payload) = FuseRequest::split(&header, body);
    let Ok(request) = FuseRequest::decode(&header, argument, payload) else {
        return;
    };
    match request.operation {
        FuseOperation::BatchForget { nodes } => assert!(nodes.iter().count() * 16 <= bytes.len()),
        FuseOperation::Write { write, data } => assert_eq!(data.len(), write.size as usize),
        FuseOperation::Lookup { name } => assert!(!name.contains(&0)),
        _ => {}
    }
}

#[test]
fn damaged_requests() {
    assert!(fuzz(&seeds(), check) > 1000);
}
