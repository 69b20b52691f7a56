//! Shells that stay.

use std::time::Duration;

use avfs_exec::launch::{End, Heard, SessionError, Stop};
use avfs_exec::{Launcher, Limits, Plan, Session};

use crate::kit::{Workspace, bubblewrap, is_held, landlocked};

fn plan(workspace: &Workspace) -> Plan {
    let limits = Limits { timeout: None, grace: Duration::from_secs(20), ..Limits::default() };
    Plan { limits, ..workspace.plan(&["bash"]) }
}

fn open(workspace: &Workspace) -> Session {
    Session::open(bubblewrap(), plan(workspace)).unwrap()
}

/// The status, the output and the errors of a script.
fn run(session: &mut Session, script: &str) -> (i32, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = session.run(script, None, &mut |heard| match heard {
        Heard::Stdout(bytes) => out.extend_from_slice(bytes),
        Heard::Stderr(bytes) => err.extend_from_slice(bytes),
        Heard::Done(_) => {}
    });
    (code.unwrap(), String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

fn said(code: i32, out: &str) -> (i32, String, String) {
    (code, out.to_owned(), String::new())
}

fn remembers(launcher: impl Launcher + Send + 'static, workspace: &Workspace) {
    let mut session = Session::open(launcher, plan(workspace)).unwrap();
    assert_eq!(
        run(&mut session, "mkdir -p sub; cd sub; export NAME=value; f() { echo from f; }"),
        said(0, "")
    );
    assert_eq!(
        run(&mut session, "basename $PWD; env | grep ^NAME; f; sh -c 'echo $NAME'"),
        said(0, "sub\nNAME=value\nfrom f\nvalue\n")
    );
    assert_eq!(run(&mut session, "echo out; echo err >&2; (exit 3)"), (3, "out\n".into(), "err\n".into()));
    assert_eq!(run(&mut session, "echo $?"), said(0, "3\n"));
    session.close().unwrap();
}

#[test]
fn a_session_remembers_where_it_is_and_what_it_was_told() {
    remembers(bubblewrap(), &Workspace::new());
    remembers(landlocked(), &Workspace::reachable());
}

#[test]
fn mistakes_do_not_end_a_session() {
    let workspace = Workspace::new();
    let mut session = open(&workspace);
    let (code, _, err) = run(&mut session, "if then fi");
    assert!(code != 0 && err.contains("syntax error"), "{code} {err}");
    assert_eq!(run(&mut session, "no-such-program 2>/dev/null").0, 127);
    assert_eq!(run(&mut session, "cat; read x; echo \"got $x\""), said(0, "got \n"));
    assert_eq!(run(&mut session, "cat <<'EOF'\nseveral\nlines\nEOF"), said(0, "several\nlines\n"));
    let long = format!("x='{}'; echo ${{#x}}", "y".repeat(300_000));
    assert_eq!(run(&mut session, &long), said(0, "300000\n"));
}

#[test]
fn scripts_do_not_see_how_they_are_given() {
    let workspace = Workspace::new();
    let mut session = open(&workspace);
    let (_, out, err) = run(&mut session, "sh -c 'ls /proc/self/fd'; echo x >&64; echo x >&65; true");
    assert_eq!(out, "0\n1\n2\n3\n", "ls itself has the third");
    assert_eq!(
        err.matches("Bad file descriptor").count() + err.matches("bad file descriptor").count(),
        2,
        "{err}"
    );
}

#[test]
fn a_script_that_exits_ends_the_session() {
    let workspace = Workspace::new();
    let fifo = workspace.fifo("held");
    let mut session = open(&workspace);
    assert_eq!(run(&mut session, "sleep 999 5>held & exec 5>held; echo started").1, "started\n");
    assert!(matches!(session.run("exit 9", None, &mut |_| ()), Err(SessionError::Ended)));
    assert!(matches!(session.run("echo more", None, &mut |_| ()), Err(SessionError::Ended)));
    assert_eq!(session.close().unwrap().end, End::Exited(9));
    assert!(!is_held(&fifo));
}

#[test]
fn a_script_that_takes_too_long_is_interrupted_and_the_session_goes_on() {
    let workspace = Workspace::new();
    let mut session = open(&workspace);
    run(&mut session, "X=kept");
    let late = session.run("sleep 999", Some(Duration::from_millis(300)), &mut |_| ());
    assert!(matches!(late, Err(SessionError::Interrupted { code: 130 })), "{late:?}");
    assert_eq!(run(&mut session, "echo $X"), said(0, "kept\n"));
}

#[test]
fn a_script_that_cannot_be_interrupted_ends_the_session() {
    let workspace = Workspace::new();
    let mut plan = plan(&workspace);
    plan.limits.grace = Duration::from_millis(200);
    let mut session = Session::open(bubblewrap(), plan).unwrap();
    let late =
        session.run("trap '' TERM; while :; do :; done", Some(Duration::from_millis(300)), &mut |_| ());
    assert!(matches!(late, Err(SessionError::TimedOut)), "{late:?}");
    assert_eq!(session.close().unwrap().stopped, Some(Stop::Cancelled));
}

#[test]
fn a_session_that_is_dropped_is_gone_whatever_it_says() {
    let workspace = Workspace::new();
    let fifo = workspace.fifo("held");
    let mut session = open(&workspace);
    run(&mut session, "setsid yes 5>held & exec 5>held");
    assert!(is_held(&fifo));
    drop(session);
    assert!(!is_held(&fifo));
}
