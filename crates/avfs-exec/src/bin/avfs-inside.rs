//! The stage as a program of its own, for this crate's tests: the product is its own stage.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let asked = arguments.next().is_some_and(|first| first == avfs_exec::inside::ARGUMENT);
    let descriptors = arguments.next().filter(|_| asked);
    let status = avfs_exec::inside::main(descriptors.as_deref());
    u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from)
}
