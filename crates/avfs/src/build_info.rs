//! `avfs --version --verbose`: what this binary was built from. Bug reports start with it.

use std::ffi::OsString;

use serde::Serialize;

use crate::exit::ExitStatus;
use crate::json;
use crate::printer::{PrintError, Printer};

/// Set by whatever builds a release; a build from a checkout has neither.
const COMMIT: Option<&str> = option_env!("AVFS_BUILD_COMMIT");
const COMPILER: Option<&str> = option_env!("AVFS_BUILD_RUSTC");

#[derive(Serialize)]
struct BuildInfo {
    version: &'static str,
    commit: Option<&'static str>,
    target: &'static str,
    profile: &'static str,
    compiler: Option<&'static str>,
    json_schema: u32,
}

const INFO: BuildInfo = BuildInfo {
    version: env!("CARGO_PKG_VERSION"),
    commit: COMMIT,
    target: TARGET,
    profile: if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    },
    compiler: COMPILER,
    json_schema: json::SCHEMA_VERSION,
};

const TARGET: &str = match (
    cfg!(target_arch = "x86_64"),
    cfg!(target_arch = "aarch64"),
    cfg!(target_env = "musl"),
) {
    (true, _, true) => "x86_64-linux-musl",
    (true, _, false) => "x86_64-linux-gnu",
    (_, true, true) => "aarch64-linux-musl",
    (_, true, false) => "aarch64-linux-gnu",
    _ => "another architecture",
};

/// Whether the arguments are `--version` with `--verbose`, or with `--json`. clap answers `--version` by itself and
/// ignores what stands behind it.
pub fn is_requested(arguments: impl Iterator<Item = OsString>) -> bool {
    let mut version = false;
    let mut detailed = false;
    for argument in arguments {
        match argument.to_str() {
            Some("--version" | "-V") => version = true,
            Some("--verbose" | "--json") => detailed = true,
            _ => return false,
        }
    }
    version && detailed
}

pub fn print(out: &mut Printer) -> Result<ExitStatus, PrintError> {
    if out.is_json() {
        out.object("version", &INFO)?;
        return Ok(ExitStatus::Success);
    }
    let BuildInfo {
        version,
        commit,
        target,
        profile,
        compiler,
        json_schema,
    } = INFO;
    out.line(format_args!("avfs {version}"))?;
    let unknown = "unknown (not a release build)";
    for (name, value) in [
        ("commit", commit.unwrap_or(unknown)),
        ("target", target),
        ("profile", profile),
        ("compiler", compiler.unwrap_or(unknown)),
    ] {
        out.line(format_args!("{name:<12} {value}"))?;
    }
    out.line(format_args!("{:<12} {json_schema}", "JSON schema"))?;
    Ok(ExitStatus::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_version_with_details_is_answered_here() {
        let is_requested = |line: &str| is_requested(line.split(' ').map(OsString::from));
        assert!(is_requested("--version --verbose"));
        assert!(is_requested("--json -V"));
        assert!(!is_requested("--version"));
        assert!(!is_requested("--json"));
        assert!(!is_requested("exec -- tool --version --verbose"));
        assert!(!is_requested("exec --version --json"));
    }
}
