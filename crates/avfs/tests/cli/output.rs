//! Streams, statuses and colour.

use std::process::{Command, Stdio};

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

#[test]
fn a_misspelt_command_gets_a_suggestion() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.run("confog show"), @r"
    status 2
    --- data
    --- talk
    error: unrecognized subcommand 'confog'

      tip: a similar subcommand exists: 'config'

    Usage: avfs [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(sandbox.run("--json confog show"), @r#"
    status 2
    --- data
    {"schema_version":2,"kind":"error","error":{"code":"usage","message":"unrecognized subcommand 'confog'","hint":"a similar subcommand exists: 'config'"}}
    --- talk
    "#);
}

#[test]
fn a_missing_command_shows_help_and_is_bad_input() {
    let sandbox = Sandbox::new();
    assert!(
        sandbox
            .run("")
            .starts_with("status 2\n--- data\n--- talk\nWorkspaces for AI agents")
    );
    assert_snapshot!(sandbox.run("config --json"), @r#"
    status 2
    --- data
    {"schema_version":2,"kind":"error","error":{"code":"usage","message":"'avfs config' requires a subcommand but one was not provided [subcommands: show, help]"}}
    --- talk
    "#);
}

#[test]
fn help_is_grouped_by_headings() {
    let help = Sandbox::new().run("-h");
    let headings: Vec<&str> = help
        .lines()
        .filter(|line| line.ends_with(':') && !line.starts_with(' '))
        .collect();
    assert_eq!(
        headings,
        [
            "Tasks:",
            "Vaults:",
            "Files:",
            "Versions:",
            "Search:",
            "Running commands:",
            "Agents:",
            "Server:",
            "Rules:",
            "Mounts:",
            "In and out:",
            "Upkeep:",
            "Settings:",
            "Options:"
        ]
    );
}

/// Standard output is a pipe without a reader, as after `head` has ended.
fn with_closed_output(sandbox: &Sandbox, arguments: &[&str]) -> std::process::Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(sandbox.avfs().get_program());
    command
        .args(arguments)
        .env("HOME", sandbox.path("home"))
        .stdout(writer)
        .stderr(Stdio::piped());
    command.spawn().unwrap().wait_with_output().unwrap()
}

#[test]
fn a_closed_pipe_ends_a_command_without_a_word() {
    let sandbox = Sandbox::new();
    for line in [
        &["config", "show"][..],
        &["--help"],
        &["completions", "bash"],
        &["--json", "nonsense"],
    ] {
        let output = with_closed_output(&sandbox, line);
        assert_eq!(output.status.code(), Some(141), "{line:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line:?}");
    }
}

#[test]
fn unwritable_output_is_reported() {
    let sandbox = Sandbox::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(sandbox.avfs().get_program());
    let output = command
        .args(["completions", "bash"])
        .stdout(full)
        .output()
        .unwrap();
    assert_snapshot!(sandbox.show(&output), @r"
    status 7
    --- data
    --- talk
    error: writing the output: No space left on device (os error 28)
    ");
}

#[test]
fn colour_is_for_terminals_or_on_request() {
    let sandbox = Sandbox::new();
    assert!(!sandbox.run("config show").contains('\u{1b}'));
    assert!(sandbox.run("config show --color always").contains('\u{1b}'));
    assert!(sandbox.run("--color=always -h").contains('\u{1b}'));
    let mut avfs = sandbox.avfs();
    sandbox.user_file("color = \"always\"");
    let plain = avfs
        .args(["config", "show"])
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    assert!(!sandbox.show(&plain).contains('\u{1b}'));
}

#[test]
fn man_writes_a_page_per_command_and_names_what_it_cannot_write() {
    let sandbox = Sandbox::new();
    let place = sandbox.path("man");
    let object = sandbox.object(&format!("man {} --json", place.display()));
    let pages: Vec<&str> = object["pages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|page| page.as_str())
        .collect();
    assert!(
        pages.contains(&"avfs.1") && pages.contains(&"avfs-config-show.1"),
        "{pages:?}"
    );
    for page in pages {
        assert!(place.join(page).is_file());
    }
    sandbox.project_file("");
    let file = sandbox.path("project/avfs.toml");
    assert_snapshot!(sandbox.run(&format!("man {}", file.display())), @r"
    status 4
    --- data
    --- talk
    error: creating ROOT/project/avfs.toml: File exists (os error 17)
    ");
}

#[test]
fn quiet_leaves_the_talk_out() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.run("man out -q"), @r"
    status 0
    --- data
    --- talk
    ");
}
