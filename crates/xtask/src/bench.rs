//! `cargo xtask bench`: measurements, as tables for people and JSON for programs.

mod core;
mod exec;
mod fixture;
mod measure;
mod merge;
mod mount;
mod options;
mod rules;
mod scale;
mod server;
mod throughput;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage:
  cargo xtask bench core [--sizes N,N,…] [--json FILE] [--dir DIR]
  cargo xtask bench exec [--rounds N] [--sizes N,N,…] [--sandboxes N] [--dir DIR]
  cargo xtask bench merge [--sizes N,N,…] [--dir DIR]
  cargo xtask bench mount [--rounds N] [--steps WORD,WORD,…] [--transport NAME,NAME,…] [--target NAME=DIR]…
                          [--json FILE] [--dir DIR] [--help]
  cargo xtask bench options [--rounds N] [--transport NAME]
  cargo xtask bench rules [--rounds N] [--steps WORD,WORD,…] [--transport NAME] [--json FILE] [--dir DIR]
  cargo xtask bench scale [--full] [--files N] [--directory N] [--write-gib N] [--mounts N]
                          [--parts files,directory,large,mounts] [--transport NAME] [--json FILE] [--dir DIR]
  cargo xtask bench server [--avfs FILE] [--parts cycles,fork,large,alive,listeners] [--clients N,N,…] [--cycles N]
                           [--sandboxes N] [--files N] [--megabytes N] [--listeners N] [--docker SOCKET=IMAGE]
                           [--dir DIR]";

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    match arguments.split_first() {
        Some((which, rest)) if which == "core" => core::run(rest),
        Some((which, rest)) if which == "exec" => exec::run(rest),
        Some((which, rest)) if which == "merge" => merge::run(rest),
        Some((which, rest)) if which == "mount" => mount::run(rest),
        Some((which, rest)) if which == "options" => options::run(rest),
        Some((which, rest)) if which == "rules" => rules::run(rest),
        Some((which, rest)) if which == "scale" => scale::run(rest),
        Some((which, rest)) if which == "server" => server::run(rest),
        // The benchmark starts itself again with this.
        Some((which, [home])) if which == "open-memory" => core::print_open_memory(home.as_ref()),
        Some((which, _)) if which == "--help" || which == "-h" => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        Some((which, _)) => bail!("no benchmark '{which}'\n{USAGE}"),
        None => bail!("which benchmark?\n{USAGE}"),
    }
}
