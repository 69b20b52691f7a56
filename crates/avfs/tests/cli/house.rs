//! Promises of the documentation that a test can keep.

use std::path::{Path, PathBuf};
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

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn every_kind_of_object_is_documented() {
    let house = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(house.join("../../docs/json.md")).unwrap();
    let mut kinds = 0;
    for file in files(&house.join("src/commands")) {
        let source = std::fs::read_to_string(&file).unwrap();
        for call in source.split(".object(").skip(1) {
            let Some(kind) = call.trim_start().strip_prefix('"').and_then(|text| text.split('"').next())
            else {
                continue;
            };
            assert!(page.contains(&format!("`{kind}`")), "{kind} of {}", file.display());
            kinds += 1;
        }
    }
    assert!(kinds > 30, "{kinds}");
}
