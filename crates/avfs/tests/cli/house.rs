//! Promises of the documentation that a test can keep.

use std::process::Command;

use crate::sandbox::Sandbox;

#[test]
fn the_completion_script_for_bash_is_valid() {
    let sandbox = Sandbox::new();
    let script = sandbox.path("avfs.bash");
    let output = sandbox.avfs().args(["completions", "bash"]).output().unwrap();
    std::fs::write(&script, output.stdout).unwrap();
    assert!(Command::new("bash").arg("-n").arg(&script).status().unwrap().success());
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        Sandbox::new().avfs().args(["completions", shell]).assert().success();
    }
}
