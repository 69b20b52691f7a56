//! Promises of the documentation that a test can keep.

use avfs_testkit::TestEnv;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sandbox::Sandbox;

#[test]
fn the_completion_script_for_bash_is_valid() {
    let sandbox = Sandbox::new();
    let script = sandbox.path("avfs.bash");
    let output = sandbox.avfs().args(["completions", "bash"]).output().unwrap();
    std::fs::write(&script, output.stdout).unwrap();
    assert!(
        Command::new("bash")
            .arg("-n")
            .arg(&script)
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        Sandbox::new()
            .avfs()
            .args(["completions", shell])
            .assert()
            .success();
    }
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}

#[test]
fn every_kind_of_object_is_documented() {
    let house = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(house.join("../../docs/json.md")).unwrap();
    let mut kinds = 0;
    for file in files(&house.join("src/commands")) {
        let source = std::fs::read_to_string(&file).unwrap();
        for call in source.split(".object(").skip(1) {
            let Some(kind) = call
                .trim_start()
                .strip_prefix('"')
                .and_then(|text| text.split('"').next())
            else {
                continue;
            };
            assert!(
                page.contains(&format!("`{kind}`")),
                "{kind} of {}",
                file.display()
            );
            kinds += 1;
        }
    }
    assert!(kinds > 30, "{kinds}");
}

/// The completions of a real bash at the end of each line, with the store of the sandbox.
fn completed(sandbox: &Sandbox, lines: &[&str]) -> Vec<String> {
    let bin = assert_cmd::cargo::cargo_bin!("avfs")
        .parent()
        .unwrap()
        .display()
        .to_string();
    let mut script = format!("export PATH={bin}:$PATH\nsource <(avfs completions bash)\n");
    script.push_str(
        "try() { COMP_WORDS=(avfs \"$@\"); COMP_CWORD=$#; COMP_TYPE=9; COMPREPLY=()
        _clap_complete_avfs avfs \"${@: -1}\" \"${COMP_WORDS[$(($# - 1))]}\"; echo \"${COMPREPLY[*]}\"; }\n",
    );
    lines
        .iter()
        .for_each(|line| script.push_str(&format!("try {line}\n")));
    let mut bash = std::process::Command::new("bash");
    bash.args(["--norc", "-c", &script]).env_clear();
    let environment = TestEnv::of_home(sandbox.path("home"))
        .with_programs()
        .with_store(sandbox.store());
    bash.envs(&environment).current_dir(sandbox.path("."));
    let output = bash.output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn bash_completes_names_that_are_in_the_store() {
    let sandbox = Sandbox::new();
    sandbox.seed("web", &[("a", "1")]);
    sandbox.good("checkpoint save before-lunch");
    sandbox.good("vault create workshop");
    let found = completed(
        &sandbox,
        &[
            "revi",
            "vault use w",
            "--vault wo",
            "cat --vault wo",
            "checkpoint restore b",
            "--vault workshop checkpoint restore b",
            "run --profile clau",
            "--home /nowhere vault use w",
        ],
    );
    let expected = [
        "review",
        "web workshop",
        "workshop",
        "workshop",
        "before-lunch",
        "",
        "claude",
        "",
    ];
    assert_eq!(found, expected);
}

#[test]
fn completing_makes_no_store() {
    let sandbox = Sandbox::new();
    assert_eq!(completed(&sandbox, &["vault use w", "review f"]), ["", ""]);
    assert!(!sandbox.store().exists());
}
