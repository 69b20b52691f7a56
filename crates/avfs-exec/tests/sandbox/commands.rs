//! Commands, how they end, and what they say.

use avfs_exec::launch::End;

use crate::kit::{exists, launch, plan, prints, run, shell, stderr, stdout, workspace};

#[test]
fn a_command_runs_in_the_workspace_and_what_it_says_is_captured() {
    let workspace = workspace();
    let outcome = launch(&shell(&workspace, "pwd; echo made > file; echo talk >&2"));
    assert_eq!(outcome.end, End::Exited(0), "{}", stderr(&outcome));
    assert_eq!(stdout(&outcome), "/workspace\n");
    assert_eq!(stderr(&outcome), "talk\n");
    assert_eq!(std::fs::read_to_string(workspace.path().join("w/file")).unwrap(), "made\n");
    assert!(!exists(&workspace.path().join("file")));
}

#[test]
fn a_command_that_does_nothing_succeeds() {
    let workspace = workspace();
    let outcome = launch(&plan(&workspace, &["true"]));
    assert_eq!(outcome.end, End::Exited(0));
    assert_eq!((outcome.stdout.total, outcome.stderr.total), (0, 0));
}

#[test]
fn exit_codes_and_signals_are_told_exactly() {
    for code in [1, 2, 42, 125, 126, 127, 137, 255] {
        assert_eq!(run(&format!("exit {code}")).end, End::Exited(code));
    }
    for (name, signal) in [("TERM", 15), ("KILL", 9), ("INT", 2), ("SEGV", 11), ("PIPE", 13)] {
        assert_eq!(run(&format!("kill -{name} $$")).end, End::Signaled(signal), "{name}");
    }
}

#[test]
fn it_says_who_it_is() {
    assert_eq!(prints("id -un; id -u; echo $HOME; hostname"), "agent\n1000\n/home/agent\nsandbox\n");
}
