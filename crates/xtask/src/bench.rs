//! `cargo xtask bench`: measurements, as tables for people and JSON for programs.

mod core;
mod fixture;
mod measure;
mod throughput;

use std::process::ExitCode;

use anyhow::{Result, bail};

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    match arguments.split_first() {
        Some((which, rest)) if which == "core" => core::run(rest),
        // The benchmark starts itself again with this.
        Some((which, [home])) if which == "open-memory" => core::print_open_memory(home.as_ref()),
        _ => bail!("usage: cargo xtask bench core [--sizes N,N,…] [--json FILE] [--dir DIR]"),
    }
}
