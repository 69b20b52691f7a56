use avfs_core::ObjectId;
use avfs_exec::policy::Policy;

use super::*;

fn head(digit: u8) -> SnapshotId {
    let digits = format!("{digit:02x}").repeat(32);
    SnapshotId::from_object(ObjectId::parse_hex(&digits).unwrap())
}

fn argv(words: &[&str]) -> Command {
    Command::Argv(words.iter().map(OsString::from).collect())
}

fn request() -> RunSpec {
    RunSpec {
        home: Some("/home/agent".into()),
        env: vec![("A".into(), "1".into()), ("B".into(), "2".into())],
        passed: vec![("T".into(), "s3cret".into())],
        caller_env: vec![("LANG".into(), "C".into()), ("PATH".into(), "/x".into())],
        stdin: Some(b"input".to_vec()),
        rules: Some(vec![crate::rules::line("test", "/src/**=read").unwrap()]),
        network: Network::Hosts(vec!["example.com".parse().unwrap()]),
        principal: Some("agent".into()),
        ..RunSpec::new(argv(&["curl", "https://example.com"]))
    }
}

fn binding(request: &RunSpec) -> Binding {
    Binding::of(
        request,
        VaultId(1),
        Path::new("/workspace"),
        CommandMeaning::default(),
        head(1),
    )
}

#[track_caller]
fn check(changed: &'static str, request: RunSpec) {
    let (before, after) = (binding(&self::request()), binding(&request));
    assert_eq!(before.differences(&after), [changed]);
    assert_ne!(before.digest(), after.digest(), "{changed}");
    assert_ne!(before.request_digest(), after.request_digest(), "{changed}");
}

#[test]
fn every_thing_that_decides_a_run_is_in_the_digest() {
    let limits = RunLimits {
        pids: Some(7),
        ..RunLimits::default()
    };
    check(
        "command",
        RunSpec {
            command: argv(&["curl", "https://example.org"]),
            ..request()
        },
    );
    check(
        "command",
        RunSpec {
            command: argv(&["curl https://example.com"]),
            ..request()
        },
    );
    check(
        "command",
        RunSpec {
            command: Command::Shell("curl https://example.com".into()),
            ..request()
        },
    );
    check(
        "environment",
        RunSpec {
            env: vec![("A".into(), "1".into())],
            ..request()
        },
    );
    check(
        "environment",
        RunSpec {
            env: vec![("A".into(), "1B2".into())],
            ..request()
        },
    );
    check(
        "inherited environment",
        RunSpec {
            caller_env: vec![("LANG".into(), "de".into())],
            ..request()
        },
    );
    check(
        "standard input",
        RunSpec {
            stdin: Some(b"other".to_vec()),
            ..request()
        },
    );
    check(
        "standard input",
        RunSpec {
            stdin: None,
            ..request()
        },
    );
    let source = TreePath::parse(b"/src").unwrap();
    check(
        "part of the vault",
        RunSpec {
            path: Some(source),
            ..request()
        },
    );
    check(
        "home",
        RunSpec {
            home: Some("/home/other".into()),
            ..request()
        },
    );
    check(
        "rules",
        RunSpec {
            rules: None,
            ..request()
        },
    );
    check(
        "rules",
        RunSpec {
            rules: Some(Vec::new()),
            ..request()
        },
    );
    check(
        "network",
        RunSpec {
            network: Network::Host,
            ..request()
        },
    );
    check(
        "network",
        RunSpec {
            network: Network::None,
            ..request()
        },
    );
    let published = vec![
        "0:5173"
            .parse::<avfs_exec::network::PortPublication>()
            .unwrap()
            .open()
            .unwrap(),
    ];
    check(
        "published ports",
        RunSpec {
            published,
            ..request()
        },
    );
    check(
        "passed environment",
        RunSpec {
            passed: vec![("T".into(), "other".into())],
            ..request()
        },
    );
    check(
        "passed environment",
        RunSpec {
            passed: Vec::new(),
            ..request()
        },
    );
    check("limits", RunSpec { limits, ..request() });
    check(
        "read-only",
        RunSpec {
            read_only: true,
            ..request()
        },
    );
    check(
        "checkpoint",
        RunSpec {
            checkpoint: CheckpointMode::Never,
            ..request()
        },
    );
    check(
        "isolation",
        RunSpec {
            isolation: IsolationChoice::Landlock,
            ..request()
        },
    );
    check(
        "principal",
        RunSpec {
            principal: None,
            ..request()
        },
    );
    check(
        "session",
        RunSpec {
            session: Some("s1".into()),
            ..request()
        },
    );
    let policy = Policy::parse(Path::new("p"), "[classes]\ndestructive = \"deny\"\n").unwrap();
    check(
        "policy",
        RunSpec {
            policy: Some(policy),
            ..request()
        },
    );
}

#[test]
fn values_of_the_callers_variables_are_not_kept() {
    let kept = serde_json::to_string(&binding(&request())).unwrap();
    assert!(kept.contains("\"T\"") && !kept.contains("s3cret"), "{kept}");
}

#[test]
fn the_place_and_the_vault_are_in_the_digest() {
    let own = binding(&request());
    let elsewhere = Binding::of(
        &request(),
        VaultId(1),
        Path::new("/workspace/src"),
        CommandMeaning::default(),
        head(1),
    );
    assert_eq!(own.differences(&elsewhere), ["working directory"]);
    let other = Binding::of(
        &request(),
        VaultId(2),
        Path::new("/workspace"),
        CommandMeaning::default(),
        head(1),
    );
    assert_eq!(own.differences(&other), ["vault"]);
    assert_ne!(own.digest(), elsewhere.digest());
    assert_ne!(own.digest(), other.digest());
}

#[test]
fn the_state_of_the_vault_is_in_the_digest_and_not_in_that_of_the_request() {
    let own = binding(&request());
    let later = Binding {
        head: head(2),
        ..own.clone()
    };
    assert_eq!(own.differences(&later), ["head"]);
    assert_ne!(own.digest(), later.digest());
    assert_eq!(own.request_digest(), later.request_digest());
}

#[test]
fn digest_leaves_out_what_does_not_decide_a_run() {
    let own = binding(&request());
    let other_order = vec![
        ("B".into(), "2".into()),
        ("A".into(), "0".into()),
        ("A".into(), "1".into()),
    ];
    let same = [
        RunSpec {
            env: other_order,
            ..request()
        },
        RunSpec {
            caller_env: vec![("LANG".into(), "C".into()), ("SECRET".into(), "x".into())],
            ..request()
        },
        RunSpec {
            dry_run: true,
            ..request()
        },
        RunSpec {
            left_out: vec!["PATH".into()],
            ..request()
        },
        RunSpec {
            asking: crate::exec::Asking::Wait(None),
            ..request()
        },
    ];
    for request in same {
        assert_eq!(binding(&request).digest(), own.digest());
    }
}

#[test]
fn a_binding_reads_back_and_gives_the_request_again() {
    let odd = std::os::unix::ffi::OsStringExt::from_vec(b"caf\xe9".to_vec());
    let odd = RunSpec {
        command: Command::Argv(vec!["cat".into(), odd]),
        ..request()
    };
    for request in [request(), odd] {
        let own = binding(&request);
        let read: Binding = serde_json::from_slice(&serde_json::to_vec(&own).unwrap()).unwrap();
        assert_eq!(read, own);
        let (stdin, passed) = (request.stdin.clone(), request.passed.clone());
        let again = RunSpec {
            stdin,
            passed,
            ..read.request().unwrap()
        };
        assert_eq!(binding(&again).digest(), own.digest());
    }
}

#[test]
fn a_command_is_shown_with_nothing_hidden_in_it() {
    let command = argv(&["echo", "a b", "\u{1b}[31m\u{202e}x", "it's", "", "new\nline"]);
    let shown = AskedCommand::from(&command).shown();
    assert!(shown.is_ascii() && !shown.contains(char::is_control), "{shown}");
    assert_eq!(
        shown,
        r"echo 'a b' '\u{1b}[31m\u{202e}x' 'it'\''s' '' 'new\nline'"
    );
}
