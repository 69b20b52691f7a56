//! The set-up that a project gives to each new task.

use std::fs;

use crate::project::{Project, good};

const SETUP: &str = r#"
[setup]
commands = ["cat .env >made; echo $((1 + 1)) >>made"]

[setup.files]
".env" = "read"
"config/dev.key" = { level = "read", from = "~/keys/dev.key" }
"#;

fn project() -> Project {
    let project = Project::new();
    fs::create_dir(project.home().join("keys")).unwrap();
    for (file, text) in [("keys/dev.key", "key"), ("web/.env", "SECRET=1")] {
        fs::write(project.home().join(file), format!("{text}\n")).unwrap();
    }
    fs::write(project.root().join("avfs.toml"), SETUP).unwrap();
    project
}

#[test]
fn a_setup_is_carried_out_once_it_is_allowed_and_is_no_change_of_the_task() {
    let project = project();
    let script = "cat made .env config/dev.key 2>&1; for file in .env config/dev.key; do echo >>$file; done 2>&1 | wc -l";
    let run = |name: &str| {
        let output = project
            .avfs(&["run", "--name", name, "--", "sh", "-c", script])
            .output()
            .unwrap();
        (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (shown, said) = run("before");
    assert!(said.contains("a [setup] that you have not allowed"), "{said}");
    assert_eq!(shown.matches("No such file").count(), 3, "{shown}");

    good(&mut project.avfs(&["project", "setup", "allow", "--yes"]));
    let (shown, said) = run("after");
    assert_eq!(shown, "SECRET=1\n2\nSECRET=1\nkey\n2\n", "{said}");
    assert!(said.contains("nothing changed"), "{said}");
    assert_eq!(project.read("web/.env"), "SECRET=1\n");
    assert!(!project.root().join("made").exists() && !project.root().join("config").exists());
}

#[test]
fn programs_in_a_task_are_shown_no_more_than_the_task_was_made_with() {
    let project = project();
    good(&mut project.avfs(&["run", "--name", "one", "--", "true"]));
    let exec = |words: &[&str]| {
        let line = [&["exec", "--vault", "one"], words, &["--", "cat", ".env"]].concat();
        String::from_utf8(project.avfs(&line).output().unwrap().stdout).unwrap()
    };
    assert_eq!(exec(&[]), "");
    assert_eq!(exec(&["--no-rules"]), "SECRET=1\n");
}
