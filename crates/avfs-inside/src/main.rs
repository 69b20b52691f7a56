//! `avfs-inside`: the first program in a sandbox, for processes that embed the library. It does nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == avfs_inside::ARGUMENT => {
            let status = avfs_inside::main(arguments.next().as_deref());
            u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Some(_) | None => usage(),
    }
}

#[allow(
    clippy::print_stderr,
    reason = "a user who starts it by hand is told what it is for"
)]
fn usage() -> ExitCode {
    eprintln!("avfs-inside is started by agentvfs inside a sandbox; there is no other use for it");
    ExitCode::from(2)
}
