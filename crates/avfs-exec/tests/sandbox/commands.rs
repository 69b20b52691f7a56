//! Commands, how they end, and their environment.

use std::fs::File;
use std::io::{Seek, Write};

use avfs_exec::launch::{CommandEnd, LaunchHint, LaunchRequest};
use avfs_exec::{Cancel, LaunchError, Launcher, RunEvent, SandboxPlan, Stdin};

use crate::kit::{
    Workspace, bubblewrap, landlocked, launch, launch_by, launch_with, prints, prints_of, run, stderr,
    stdout, wait_until_free,
};

#[test]
fn a_command_runs_in_the_workspace_and_what_it_says_is_captured() {
    let workspace = Workspace::new();
    let outcome = launch(&workspace.shell("pwd; echo made > file; echo talk >&2"));
    assert_eq!(outcome.end, CommandEnd::Exited(0), "{}", stderr(&outcome));
    assert_eq!(stdout(&outcome), "/workspace\n");
    assert_eq!(stderr(&outcome), "talk\n");
    assert_eq!(workspace.read("file"), "made\n");
}

#[test]
fn a_command_begins_when_what_was_left_to_do_is_done() {
    let workspace = Workspace::new();
    let plan = workspace.shell("cat made-meanwhile");
    let mut ready = || {
        workspace.write("made-meanwhile", "by us");
        true
    };
    let (cancel, mut unheard) = (Cancel::new().unwrap(), |_: RunEvent<'_>| ());
    let run = LaunchRequest {
        ready: Some(&mut ready),
        ..LaunchRequest::new(&plan, Stdin::Nothing, &cancel, &mut unheard)
    };
    assert_eq!(stdout(&bubblewrap().launch(run).unwrap()), "by us");
}

#[test]
fn withdrawn_command_never_begins_and_leaves_nothing() {
    for launcher in [&bubblewrap() as &dyn Launcher, &landlocked()] {
        // As often as needed to hit each moment of building a sandbox.
        for _ in 0..20 {
            let workspace = Workspace::new();
            let plan = workspace.shell("echo done > file");
            let held = workspace.fifo("held");
            let stdin = Stdin::File(
                File::options()
                    .write(true)
                    .open(workspace.path().join("held"))
                    .unwrap(),
            );
            let (cancel, mut unheard) = (Cancel::new().unwrap(), |_: RunEvent<'_>| ());
            let mut ready = || false;
            let run = LaunchRequest {
                ready: Some(&mut ready),
                ..LaunchRequest::new(&plan, stdin, &cancel, &mut unheard)
            };
            let error = launcher.launch(run).unwrap_err();
            assert!(matches!(error, LaunchError::Withdrawn), "{error}");
            assert!(!workspace.path().join("file").exists());
            // On a busy machine, the kernel may still be closing the descriptors of a killed process.
            wait_until_free(&held);
        }
    }
}

#[test]
fn a_command_that_does_nothing_succeeds() {
    let outcome = launch(&Workspace::new().plan(&["true"]));
    assert_eq!(outcome.end, CommandEnd::Exited(0));
    assert_eq!((outcome.stdout.total, outcome.stderr.total), (0, 0));
    assert!(
        outcome.isolation.to_string().starts_with("bubblewrap 0."),
        "{}",
        outcome.isolation
    );
}

#[test]
fn exit_codes_and_signals_are_reported_exactly() {
    for code in [1, 42, 126, 127, 137, 255] {
        assert_eq!(run(&format!("exit {code}")).end, CommandEnd::Exited(code));
    }
    for (name, signal) in [("TERM", 15), ("KILL", 9), ("SEGV", 11), ("PIPE", 13)] {
        let outcome = run(&format!("kill -{name} $$"));
        assert_eq!(outcome.end, CommandEnd::Signaled(signal), "{name}");
        assert_eq!(outcome.status(), 128 + signal);
    }
}

#[test]
fn missing_or_invalid_program_differs_from_one_that_fails() {
    let workspace = Workspace::new();
    workspace.write("data", "no program");
    let missing = launch(&workspace.plan(&["no-such-program"]));
    assert_eq!(
        (missing.end, missing.status()),
        (CommandEnd::NotStarted { errno: libc::ENOENT }, 127)
    );
    let not_executable = launch(&workspace.plan(&["/workspace/data"]));
    assert_eq!(
        (not_executable.end, not_executable.status()),
        (CommandEnd::NotStarted { errno: libc::EACCES }, 126)
    );
}

#[test]
fn sandbox_has_its_own_user_home_and_host_name() {
    assert_eq!(
        prints("id -un; id -u; echo $HOME; hostname"),
        "agent\n1000\n/home/agent\nsandbox\n"
    );
}

#[test]
fn it_starts_where_the_plan_says_and_not_without_that_place() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path().join("src")).unwrap();
    let at = |cwd: &str| SandboxPlan {
        cwd: cwd.into(),
        ..workspace.plan(&["pwd"])
    };
    assert_eq!(prints_of(&at("/workspace/src")), "/workspace/src\n");
    let error = launch_by(&bubblewrap(), &at("/workspace/missing")).unwrap_err();
    assert!(matches!(error, LaunchError::NoDirectory { .. }), "{error:?}");
    assert_eq!(error.code(), "no_such_directory");
}

#[test]
fn the_project_is_also_at_its_own_path_and_below_the_root() {
    let workspace = Workspace::new();
    workspace.write("notes.txt", "hello\n");
    let plan = SandboxPlan {
        also_at: Some("/home/me/project".into()),
        top_level: vec!["notes.txt".into(), "etc".into()],
        cwd: "/home/me/project".into(),
        ..workspace.shell(
            "pwd; cat /notes.txt notes.txt /workspace/notes.txt; echo more >> /home/me/project/notes.txt",
        )
    };
    assert_eq!(prints_of(&plan), "/home/me/project\nhello\nhello\nhello\n");
    assert_eq!(workspace.read("notes.txt"), "hello\nmore\n");
}

#[test]
fn standard_input_is_nothing_or_bytes_or_a_file() {
    let workspace = Workspace::new();
    let plan = workspace.shell("cat; echo end");
    assert_eq!(prints_of(&plan), "end\n");
    let much = vec![b'x'; 300_000];
    let outcome = launch_with(&workspace.plan(&["wc", "-c"]), Stdin::Bytes(much), &mut |_| ());
    assert_eq!(stdout(&outcome), "300000\n");
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"from a file ").unwrap();
    file.rewind().unwrap();
    assert_eq!(
        stdout(&launch_with(&plan, Stdin::File(file), &mut |_| ())),
        "from a file end\n"
    );
}

#[test]
fn a_command_that_does_not_read_its_input_is_not_waited_for() {
    let workspace = Workspace::new();
    let plan = workspace.plan(&["true"]);
    let outcome = launch_with(&plan, Stdin::Bytes(vec![b'x'; 1 << 20]), &mut |_| ());
    assert_eq!(outcome.end, CommandEnd::Exited(0));
}

#[test]
fn the_environment_is_the_plans_and_nothing_more() {
    let workspace = Workspace::new();
    let plan = SandboxPlan {
        env: vec![("ONLY".into(), "this".into())],
        ..workspace.plan(&["/usr/bin/env"])
    };
    assert_eq!(
        prints_of(&SandboxPlan {
            network: avfs_exec::Network::Host,
            ..plan.clone()
        }),
        "ONLY=this\n"
    );
    // A network of its own includes the variables for its proxy.
    let is_other = |line: &&str| !line.to_ascii_lowercase().contains("_proxy=");
    let rest: Vec<String> = prints_of(&plan)
        .lines()
        .filter(is_other)
        .map(str::to_owned)
        .collect();
    assert_eq!(rest, ["ONLY=this"]);
}

#[test]
fn without_bubblewrap_a_run_is_refused_with_the_way_to_get_it() {
    let inside = avfs_exec::launch::InnerProgram::new(crate::kit::STAGE);
    let launcher = avfs_exec::Bubblewrap::at("/nonexistent/bwrap", inside);
    let error = launch_by(&launcher, &Workspace::new().plan(&["true"])).unwrap_err();
    assert_eq!(error.code(), "cannot_isolate");
    assert_eq!(error.hint(), Some(LaunchHint::InstallBubblewrap));
}

#[test]
fn failure_of_bubblewrap_to_create_namespaces_is_reported_with_its_message() {
    use std::os::unix::fs::PermissionsExt;
    // Root covers `/tmp` before it starts bubblewrap.
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let fake = place.path().join("bwrap");
    let text = "#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n";
    std::fs::write(&fake, text).unwrap();
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
    let launcher = avfs_exec::Bubblewrap::at(&fake, avfs_exec::launch::InnerProgram::new(crate::kit::STAGE));
    let error = launch_by(&launcher, &Workspace::new().plan(&["true"])).unwrap_err();
    assert_eq!(error.code(), "cannot_isolate");
    assert!(
        error
            .to_string()
            .contains("No permissions to create a new namespace"),
        "{error}"
    );
    assert_eq!(error.hint(), Some(LaunchHint::AllowNamespaces));
}
