//! A program that embeds the library, without the command line and without a store on the disk: vaults in
//! memory are mounted, run commands, hold sessions and are applied to a directory.
//!
//! The commands run in sandboxes and the vaults in mounts, so this needs bubblewrap and `/dev/fuse`.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::sync::Arc;

use agentvfs::apply::ApplyOptions;
use agentvfs::exec::sandbox::classify::Command;
use agentvfs::exec::sandbox::launch::{CommandEnd, InnerProgram};
use agentvfs::exec::sandbox::terminal::TerminalSize;
use agentvfs::exec::sandbox::{Cancel, RunEvent};
use agentvfs::exec::{Envelope, RunContext, RunSpec, RunWatch};
use agentvfs::mount::{MountOptions, UnmountMode, VaultMount};
use agentvfs::session::{SessionCommand, SessionRequest, SessionStartError};
use agentvfs::{NewTask, OpenSandbox, SandboxCommand, Store, Streams, TreePath, Vault, VaultName};

/// The program that is the first one in each sandbox.
fn inside() -> InnerProgram {
    InnerProgram::new(env!("CARGO_BIN_EXE_avfs"))
}

fn store_with_project() -> (tempfile::TempDir, Store, Vault) {
    let project = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::write(project.path().join("a.txt"), "one\n").unwrap();
    std::fs::write(project.path().join(".env"), "TOKEN=1\n").unwrap();
    let store = Store::in_memory();
    let (name, limits) = (VaultName::new("p").unwrap(), agentvfs::VaultLimits::default());
    let (vault, _) = store
        .create_vault_from(&name, project.path(), limits, &())
        .unwrap();
    (project, store, vault)
}

fn run(vault: &Vault, line: &str) -> Envelope {
    let spec = RunSpec::new(Command::Shell(line.to_owned()));
    let cancel = Cancel::new().unwrap();
    let finished = vault.exec(&spec, RunContext::new(inside(), &cancel, &mut ()));
    let envelope = finished.envelope();
    finished.after.wait();
    envelope
}

fn changed(envelope: &Envelope) -> Vec<String> {
    let result = envelope.result.as_ref().unwrap();
    result
        .changed_files
        .iter()
        .map(|file| file.path.path.clone())
        .collect()
}

fn read(vault: &Vault, path: &str) -> String {
    let path = TreePath::parse(path.as_bytes()).unwrap();
    String::from_utf8(vault.begin().unwrap().read(&path).unwrap().to_vec()).unwrap()
}

#[test]
fn a_command_runs_on_a_vault_in_memory_and_its_changes_are_known() {
    let (_project, _store, vault) = store_with_project();
    let envelope = run(&vault, "cat a.txt; echo two >>a.txt; mkdir d; touch d/new");
    assert!(envelope.success, "{:?}", envelope.error);
    assert_eq!(envelope.result.as_ref().unwrap().stdout.stdout, "one\n");
    assert_eq!(changed(&envelope), ["/a.txt", "/d/new"]);
    assert_eq!(read(&vault, "/a.txt"), "one\ntwo\n");
    vault.undo().unwrap();
    assert_eq!(read(&vault, "/a.txt"), "one\n");
}

#[test]
fn commands_side_by_side_share_a_vault_in_memory() {
    let (_project, _store, vault) = store_with_project();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let vault = &vault;
            scope.spawn(move || {
                let envelope = run(vault, &format!("echo {number} >f{number}"));
                assert!(envelope.success, "{:?}", envelope.error);
            });
        }
    });
    for number in 0..4 {
        assert_eq!(read(&vault, &format!("/f{number}")), format!("{number}\n"));
    }
}

#[test]
fn a_vault_in_memory_is_mounted_by_the_process_that_has_it() {
    let (_project, _store, vault) = store_with_project();
    let (dir, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let report = || -> agentvfs::mount::Report { Arc::new(|_| ()) };
    let options = MountOptions::default();
    let VaultMount::Here(service) = vault.mount(dir.path(), &options, report()).unwrap() else {
        panic!("another process has a vault in memory");
    };
    assert_eq!(
        std::fs::read_to_string(dir.path().join("a.txt")).unwrap(),
        "one\n"
    );
    std::fs::write(dir.path().join("b.txt"), "mounted\n").unwrap();
    assert_eq!(read(&vault, "/b.txt"), "mounted\n");
    // A later caller asks the owner of the vault, within the process too.
    let VaultMount::ByOwner { pid } = vault.mount(second.path(), &options, report()).unwrap() else {
        panic!("the vault has two owners");
    };
    assert_eq!(pid, std::process::id());
    assert!(second.path().join("b.txt").exists());
    service.unmount(second.path(), UnmountMode::IfUnused).unwrap();
    service.unmount(dir.path(), UnmountMode::IfUnused).unwrap();
    service.close().unwrap();
    assert_eq!(read(&vault, "/b.txt"), "mounted\n");
}

#[test]
fn a_session_on_a_vault_in_memory_keeps_its_shell() {
    let (_project, store, vault) = store_with_project();
    let request = SessionRequest {
        exec: RunSpec::new(Command::Shell(String::new())),
        idle: agentvfs::session::IDLE,
    };
    let session = vault
        .sessions()
        .hold(request, inside(), None, Arc::new(|_: &str| ()))
        .unwrap();
    let exec = |line: &str| {
        let command = SessionCommand::new(Command::Shell(line.to_owned()));
        session.exec(&command, &mut |_| ()).unwrap().envelope
    };
    exec("mkdir d && cd d && name=value");
    let told = exec("echo $name >f; pwd");
    assert_eq!(told["result"]["stdout"], "/workspace/d\n");
    assert_eq!(read(&vault, "/d/f"), "value\n");
    session.end().unwrap();
    assert_eq!(store.sessions().list().unwrap(), []);
}

#[test]
fn a_cancelled_command_of_a_session_is_stopped_and_its_caller_is_told() {
    let (_project, _store, vault) = store_with_project();
    let request = SessionRequest {
        exec: RunSpec::new(Command::Shell(String::new())),
        idle: agentvfs::session::IDLE,
    };
    let session = vault
        .sessions()
        .hold(request, inside(), None, Arc::new(|_: &str| ()))
        .unwrap();
    let cancel = Cancel::new().unwrap();
    let command = |text: &str| SessionCommand {
        wait: true,
        ..SessionCommand::new(Command::Shell(text.to_owned()))
    };
    let sleep = command("echo started; sleep 600; touch never");
    let told = session.exec_until(&sleep, &cancel, &mut |event| {
        if matches!(event, RunEvent::Stdout(_)) {
            cancel.cancel();
        }
    });
    told.unwrap_err();
    let again = Cancel::new().unwrap();
    let answer = session.exec_until(&command("ls never; pgrep -c sleep"), &again, &mut |_| ());
    assert_eq!(answer.unwrap().envelope["result"]["stdout"], "0\n");
    session.end().unwrap();
}

#[test]
fn a_sandbox_that_is_stopped_ends_its_commands() {
    struct StopAtOutput<'a>(&'a OpenSandbox);
    impl RunWatch for StopAtOutput<'_> {
        fn event(&mut self, event: RunEvent<'_>) {
            if matches!(event, RunEvent::Stdout(_)) {
                self.0.stop();
            }
        }
    }
    let (_project, _store, vault) = store_with_project();
    let sandbox = opened(&vault);
    let cancel = Cancel::new().unwrap();
    let finished = sandbox.exec(
        line("echo work >f; echo started; sleep 600"),
        &cancel,
        &mut StopAtOutput(&sandbox),
    );
    assert!(!finished.outcome.is_success());
    sandbox.end().unwrap().wait();
    assert_eq!(read(&vault, "/f"), "work\n");
}

#[test]
fn task_of_a_store_in_memory_is_applied_to_its_directory_and_undone() {
    let (project, store, _) = store_with_project();
    let known = store.project(project.path()).unwrap();
    let task = known.new_task(&NewTask::default()).unwrap();
    let envelope = run(task.vault(), "echo changed >a.txt; echo new >b.txt");
    assert!(envelope.success, "{:?}", envelope.error);
    let text = |name: &str| std::fs::read_to_string(project.path().join(name)).ok();
    assert_eq!(text("a.txt").as_deref(), Some("one\n"));
    let applied = task.apply(&ApplyOptions::default()).unwrap();
    assert_eq!(
        (text("a.txt").as_deref(), text("b.txt").as_deref()),
        (Some("changed\n"), Some("new\n"))
    );
    store.undo_apply(applied.id.unwrap(), false).unwrap();
    assert_eq!((text("a.txt").as_deref(), text("b.txt")), (Some("one\n"), None));
}

fn opened(vault: &Vault) -> OpenSandbox {
    let spec = RunSpec::new(Command::Shell(String::new()));
    vault
        .open_sandbox(&spec, inside(), None, Arc::new(|_: &str| ()))
        .unwrap()
}

fn line(text: &str) -> SandboxCommand {
    SandboxCommand::new(Command::Shell(text.to_owned()))
}

fn in_sandbox(sandbox: &OpenSandbox, command: SandboxCommand) -> Envelope {
    let cancel = Cancel::new().unwrap();
    let finished = sandbox.exec(command, &cancel, &mut ());
    assert!(finished.error.is_none(), "{:?}", finished.error);
    finished.envelope()
}

#[test]
fn commands_run_one_after_another_in_an_open_sandbox_and_each_is_a_step_that_can_be_undone() {
    let (_project, _store, vault) = store_with_project();
    let sandbox = opened(&vault);
    let first = in_sandbox(
        &sandbox,
        line("echo 1 >/tmp/kept; mkdir d; echo one >d/x; exit 3"),
    );
    let result = first.result.as_ref().unwrap();
    assert_eq!(result.exit_code, Some(3));
    assert_eq!(changed(&first), ["/d/x"]);
    let second = SandboxCommand {
        cwd: Some("d".into()),
        env: vec![("WHO".into(), "me".into())],
        stdin: Some(b"from the caller".to_vec()),
        ..line("cat /tmp/kept; pwd; echo $WHO; cat")
    };
    let second = in_sandbox(&sandbox, second);
    assert_eq!(
        second.result.as_ref().unwrap().stdout.stdout,
        "1\n/workspace/d\nme\nfrom the caller"
    );
    in_sandbox(&sandbox, line("echo two >d/x"));
    assert_eq!(read(&vault, "/d/x"), "two\n");
    vault.undo().unwrap();
    assert_eq!(
        in_sandbox(&sandbox, line("cat d/x"))
            .result
            .unwrap()
            .stdout
            .stdout,
        "one\n"
    );
    sandbox.end().unwrap().wait();
    assert_eq!(read(&vault, "/d/x"), "one\n");
}

#[test]
fn commands_run_side_by_side_in_an_open_sandbox() {
    let (_project, _store, vault) = store_with_project();
    let sandbox = opened(&vault);
    // Each waits for the output of the other one.
    let partner = |own: &str, other: &str| {
        line(&format!(
            "echo >{own}; while [ ! -e {other} ]; do sleep 0.01; done; echo met"
        ))
    };
    std::thread::scope(|scope| {
        for (own, other) in [("a", "b"), ("b", "a")] {
            let sandbox = &sandbox;
            scope.spawn(move || {
                let envelope = in_sandbox(sandbox, partner(own, other));
                assert_eq!(envelope.result.unwrap().stdout.stdout, "met\n");
            });
        }
    });
}

#[test]
fn a_process_goes_on_beside_its_caller_and_is_written_down_at_its_end() {
    let (_project, _store, vault) = store_with_project();
    let sandbox = opened(&vault);
    let started = sandbox.start(line("read word; echo $word >said; exit 4"), Streams::Pipes);
    let started = started.map_err(|finished| finished.error).unwrap();
    in_sandbox(&sandbox, line("test ! -e said"));
    started.process().write_stdin(b"hello\n", None).unwrap();
    let finished = started.finish();
    let process = finished.outcome.process.unwrap();
    assert_eq!((process.status(), read(&vault, "/said").as_str()), (4, "hello\n"));
    let terminal = Streams::Terminal(TerminalSize { rows: 7, columns: 30 });
    let started = sandbox
        .start(line("stty size"), terminal)
        .map_err(|finished| finished.error)
        .unwrap();
    let output = started.finish().outcome.process.unwrap().stdout.bytes();
    assert_eq!(String::from_utf8_lossy(&output).trim(), "7 30");
}

#[test]
fn a_cancelled_command_ends_with_everything_that_it_started_and_the_sandbox_goes_on() {
    let (_project, _store, vault) = store_with_project();
    let sandbox = opened(&vault);
    let cancel = Cancel::new().unwrap();
    struct CancelsAtOutput<'a>(&'a Cancel);
    impl RunWatch for CancelsAtOutput<'_> {
        fn event(&mut self, event: RunEvent<'_>) {
            if let RunEvent::Stdout(_) = event {
                self.0.cancel();
            }
        }
    }
    let endless = line("echo begun; sleep 1000 & wait");
    let finished = sandbox.exec(endless, &cancel, &mut CancelsAtOutput(&cancel));
    assert_eq!(finished.outcome.process.unwrap().end, CommandEnd::Signaled(9));
    let left = in_sandbox(&sandbox, line("pgrep -x sleep || echo none"));
    assert_eq!(left.result.unwrap().stdout.stdout, "none\n");
}

#[test]
fn an_open_sandbox_has_what_was_granted_and_asks_for_the_rest() {
    let (_project, _store, vault) = store_with_project();
    let mut spec = RunSpec::new(Command::Shell(String::new()));
    spec.rules = Some(agentvfs::rules::lines(&["/**=read", "*.txt=write", ".env=none"]).unwrap());
    let sandbox = vault
        .open_sandbox(&spec, inside(), None, Arc::new(|_: &str| ()))
        .unwrap();
    let envelope = in_sandbox(&sandbox, line("ls -A; echo x >other; echo y >b.txt"));
    let result = envelope.result.as_ref().unwrap();
    assert_eq!(result.stdout.stdout, "a.txt\n");
    assert!(result.stderr.stderr.contains("other"), "{}", result.stderr.stderr);
    assert_eq!(changed(&envelope), ["/b.txt"]);
    let asked = sandbox.exec(line("curl https://a.example"), &Cancel::new().unwrap(), &mut ());
    assert_eq!(asked.error.unwrap().code(), "approval_required");
    let missing = in_sandbox(
        &sandbox,
        SandboxCommand::new(Command::Argv(vec!["no-such-program".into()])),
    );
    assert_eq!(missing.result.unwrap().exit_code, Some(127));
    let mut networked = spec.clone();
    networked.network = agentvfs::exec::sandbox::Network::Host;
    let refused = vault.open_sandbox(&networked, inside(), None, Arc::new(|_: &str| ()));
    assert!(
        matches!(refused.err(), Some(SessionStartError::Refused(body)) if body.code == "approval_required")
    );
}

#[test]
fn a_handle_with_rules_mounts_and_runs_through_them() {
    let (_project, _store, vault) = store_with_project();
    let rules = agentvfs::rules::lines(&["/**=read", ".env=none"]).unwrap();
    let seen = vault.through(agentvfs::rules::Rules::new(rules).unwrap());
    let report = || -> agentvfs::mount::Report { Arc::new(|_| ()) };
    let names = "ls -A; touch new 2>/dev/null || echo refused";
    let told = "a.txt\nrefused\n";
    assert_eq!(run(&seen, names).result.unwrap().stdout.stdout, told);

    let dir = tempfile::tempdir().unwrap();
    let VaultMount::Here(service) = seen
        .mount(dir.path(), &MountOptions::default(), report())
        .unwrap()
    else {
        panic!("another process has a vault in memory");
    };
    let second = tempfile::tempdir().unwrap();
    let asked = seen
        .mounts()
        .ask_owner(second.path(), &MountOptions::default())
        .unwrap();
    assert_eq!(asked, Some(std::process::id()));
    for place in [dir.path(), second.path()] {
        assert!(place.join("a.txt").exists() && !place.join(".env").exists());
        std::fs::write(place.join("new"), "").unwrap_err();
        service.unmount(place, UnmountMode::IfUnused).unwrap();
    }
    service.close().unwrap();

    let spec = RunSpec::new(Command::Shell(String::new()));
    let sandbox = seen.open_sandbox(&spec, inside(), None, report()).unwrap();
    assert_eq!(
        in_sandbox(&sandbox, line(names)).result.unwrap().stdout.stdout,
        told
    );
    sandbox.end().unwrap().wait();

    let request = SessionRequest {
        exec: spec,
        idle: agentvfs::session::IDLE,
    };
    let session = seen.sessions().hold(request, inside(), None, report()).unwrap();
    let answer = session.exec(
        &SessionCommand::new(Command::Shell(names.to_owned())),
        &mut |_| (),
    );
    assert_eq!(answer.unwrap().envelope["result"]["stdout"], told);
    session.end().unwrap();
}

#[test]
fn nothing_is_left_of_a_store_in_memory() {
    let (_project, store, vault) = store_with_project();
    let envelope = run(&vault, "touch x");
    assert!(envelope.success, "{:?}", envelope.error);
    let place = vault.log_place().unwrap();
    let place: PathBuf = place.ancestors().nth(3).unwrap().to_owned();
    assert!(place.is_dir(), "{}", place.display());
    drop((store, vault));
    assert!(!place.exists(), "{}", place.display());
}
