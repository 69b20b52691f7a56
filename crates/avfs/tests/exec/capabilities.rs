//! A run can do what it was granted, however its command is spelled.

use serde_json::{Value, json};

use crate::approvals::{Answer, Asker};

/// Tells how many interfaces there are beside the run's own loopback. By its words it changes files.
const LOOK: [&str; 4] = [
    "--",
    "python3",
    "-c",
    "print(sum(':' in l for l in open('/proc/net/dev')) - 1, end='')",
];

/// The same by words that only read.
const READ: [&str; 3] = ["--", "cat", "/proc/net/dev"];

fn interfaces(answer: &Answer) -> usize {
    let text = answer.envelope["result"]["stdout"].as_str().unwrap();
    text.lines().filter(|line| line.contains(':')).count()
}

#[test]
fn network_is_asked_for_whatever_the_words_are() {
    let asker = Asker::new();
    let commands: [&[&str]; 5] = [
        &LOOK,
        &["--", "touch", "made"],
        &["-c", "touch made; cat made"],
        &["--", "bash", "x.sh"],
        &["--", "./made"],
    ];
    for words in commands {
        for net in ["host", "a.example", "127.0.0.1:5432", "10.1.0.0/16", "+npm"] {
            let answer = asker.exec(&[&["--net", net], words].concat());
            assert_eq!(
                (answer.status, answer.code()),
                (121, "approval_required"),
                "{net} {words:?}"
            );
            assert!(
                answer.message().contains("it asks to reach"),
                "{}",
                answer.message()
            );
            assert_eq!(answer.envelope["result"]["granted"], Value::Null);
        }
        assert_eq!(
            asker
                .exec(&[&["--no-ask", "--net", "host"], words].concat())
                .status,
            122,
            "{words:?}"
        );
        assert_eq!(
            asker.exec(&[&["--publish", "0:5173"], words].concat()).status,
            121,
            "{words:?}"
        );
        for asked in [["--net", "host"], ["--publish", "0:5173"]] {
            assert_eq!(
                asker.exec(&[&["--dry-run"], &asked[..], words].concat()).status,
                121,
                "{words:?}"
            );
        }
    }
    assert_eq!(
        asker.bad(&["cat", "made"]),
        (3, "not-found".to_owned()),
        "nothing has run"
    );
    let unasked = asker.exec(&LOOK);
    assert_eq!(
        unasked.envelope["result"]["granted"],
        json!({"write": true, "network": "none", "published": []})
    );
    assert_eq!(unasked.envelope["result"]["stdout"], "0", "{}", unasked.envelope);
}

#[test]
fn commands_that_read_by_their_words_get_no_network() {
    let asker = Asker::new();
    for flags in [&["--net", "host"][..], &["--net", "host", "--read-only"]] {
        let answer = asker.exec(&[flags, &READ].concat());
        assert_eq!(
            (answer.status, interfaces(&answer)),
            (0, 1),
            "{flags:?}: {}",
            answer.envelope
        );
        let granted = json!({"write": false, "network": "none", "published": []});
        assert_eq!(answer.envelope["result"]["granted"], granted, "{flags:?}");
    }
}

#[test]
fn commands_that_read_by_their_words_leave_nothing_in_caches() {
    let asker = Asker::new();
    let cache = asker.path(".cargo/registry");
    std::fs::create_dir_all(&cache).unwrap();
    std::fs::write(cache.join("index"), "index").unwrap();
    let look = |flags: &[&str], script: &str| asker.exec(&[flags, &["--", "python3", "-c", script]].concat());
    let write = format!("open('{}', 'w').write('poison')", cache.join("index").display());
    let read = format!("print(open('{}').read(), end='')", cache.join("index").display());
    // By its words, python3 writes: `--read-only` simulates a wrong class, which gets the same view.
    let refused = look(&["--read-only"], &write);
    let said = refused.envelope["result"]["stderr"].as_str().unwrap();
    assert!(said.contains("PermissionError"), "{}", refused.envelope);
    assert_eq!(look(&[], &read).envelope["result"]["stdout"], "index");
    assert_eq!(look(&[], &write).status, 0);
    assert_eq!(
        look(&["--read-only"], &read).envelope["result"]["stdout"],
        "poison",
        "the control"
    );
}

#[test]
fn approved_network_is_given_once_and_noted() {
    let asker = Asker::new();
    let words = [&["--net", "host", "--rule", "/src/**=read"], &LOOK[..]].concat();
    let id = asker.asks(&words);
    let shown = asker.good(&["approvals", "show", &id]);
    for part in [
        "network: everything that this machine can reach",
        "given: reads and writes the files of the vault",
        "program: python3 is /usr/bin/python3",
        "because: it asks to reach everything that this machine reaches",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    asker.good(&["approvals", "allow", &id]);
    let ran = asker.exec(&words);
    assert_eq!(
        (ran.status, &ran.envelope["result"]["granted"]["network"]),
        (0, &json!("host"))
    );
    assert_ne!(ran.envelope["result"]["stdout"], "0");
    assert_ne!(asker.asks(&words), id);
    asker.exec(&READ);
    let log = asker.good(&["audit"]);
    let isolation = ran.envelope["result"]["isolation"].as_str().unwrap();
    for part in [
        format!("[write, network host, {isolation}, rules /src/**=read]"),
        format!("[read, network none, {isolation}, no rules]"),
    ] {
        assert!(log.contains(&part), "{part}\n{log}");
    }
    asker.exec(&[&["--no-ask", "--net", "a.example"], &LOOK[..]].concat());
    let log = asker.good(&["audit"]);
    assert!(
        log.contains("[asked for write, network a.example, bubblewrap, no rules]"),
        "{log}"
    );
}

#[test]
fn policy_grants_networks_by_host_and_decides_on_others() {
    let asker = Asker::new();
    let text =
        "[network]\nallow = [\"npm\", \"*.corp.example\"]\npublish = [\"0:5173\"]\nothers = \"deny\"\n";
    asker.good(&["policy", "set", &asker.file("grants.toml", text)]);
    let exec = |flags: &[&str]| asker.exec(&[flags, &LOOK].concat());
    for flags in [
        &["--net", "+npm"][..],
        &["--net", "a.corp.example"],
        &["--publish", "0:5173"],
    ] {
        let answer = exec(flags);
        assert_eq!(answer.status, 0, "{flags:?}: {}", answer.envelope);
    }
    for flags in [
        &["--net", "host"][..],
        &["--net", "+npm,+a.example"],
        &["--publish", "0:80"],
    ] {
        let answer = exec(flags);
        assert_eq!(
            (answer.status, answer.code()),
            (122, "denied_by_policy"),
            "{flags:?}"
        );
        assert!(
            answer.envelope["result"]["decision"]["rule"]
                .as_str()
                .unwrap()
                .starts_with("network (grants.toml")
        );
    }
    let check = asker.object(&["policy", "check", "--net", "+npm", "-c", "npm ci"]);
    assert_eq!(check["action"], "allow_with_checkpoint", "{check}");
    assert_eq!(
        asker.object(&["policy", "check", "--net", "host", "-c", "touch a"])["action"],
        "deny"
    );
}

#[test]
fn network_that_is_allowed_for_always_is_that_of_the_whole_command() {
    let asker = Asker::new();
    asker.good(&["write", "x.py", "print('ran')"]);
    let net = ["--net", "a.example"];
    let words = [&net[..], &["-c", "python3 x.py"]].concat();
    let id = asker.asks(&words);
    asker.good(&["approvals", "allow", &id, "--always"]);
    assert_eq!(asker.exec(&words).status, 0);
    assert_eq!(asker.exec(&words).status, 0);
    for other in [
        "python3 x.py; python3 y.py",
        "python3 y.py",
        "python3 x.py && cat x.py",
        "python3 x.py y",
    ] {
        asker.asks(&[&net[..], &["-c", other]].concat());
    }
    asker.asks(&["--net", "a.example,b.example", "-c", "python3 x.py"]);
    asker.asks(&["--net", "host", "-c", "python3 x.py"]);
    asker.asks(&[&net[..], &["--publish", "0:5173", "-c", "python3 x.py"]].concat());
    let file = asker.file("mine.toml", "");
    let id = asker.asks(&["--net", "b.example", "--policy", &file, "-c", "python3 z.py"]);
    asker.good(&["approvals", "allow", &id, "--always", "--policy", &file]);
    let saved = std::fs::read_to_string(&file).unwrap();
    assert!(saved.contains("network = [\"b.example\"]"), "{saved}");
    assert_ne!(
        asker
            .exec(&["--net", "b.example", "--policy", &file, "-c", "python3 z.py"])
            .status,
        121
    );
    asker.asks(&["--net", "c.example", "--policy", &file, "-c", "python3 z.py"]);
}

#[test]
fn programs_of_the_vault_and_unknown_ones_are_allowed_once_only() {
    let asker = Asker::new();
    asker.good(&["write", "deploy", "#!/bin/sh\necho ran"]);
    asker.good(&["chmod", "755", "deploy"]);
    for command in [
        "./deploy",
        "cd /tmp && ./x",
        "f() { touch a; }; f",
        "nowhere-to-be-found x",
    ] {
        let id = asker.asks(&["--net", "a.example", "-c", command]);
        for scope in ["--session", "--always"] {
            let refused = asker.bad(&["approvals", "allow", &id, scope]);
            assert_eq!(refused, (2, "approval-once-only".to_owned()), "{command} {scope}");
        }
        assert!(
            asker.good(&["approvals", "show", &id]).contains("once only: "),
            "{command}"
        );
        asker.good(&["approvals", "allow", &id]);
    }
    let ran = asker.exec(&["--net", "a.example", "-c", "./deploy"]);
    assert_eq!(ran.envelope["result"]["stdout"], "ran\n", "{}", ran.envelope);
    let shown = asker.good(&[
        "approvals",
        "show",
        &asker.asks(&["--net", "a.example", "-c", "./deploy"]),
    ]);
    let told = "program: ./deploy is /workspace/deploy, a file of the vault, which runs can change";
    assert!(shown.contains(told), "{shown}");
}

#[test]
fn sessions_ask_for_their_network_at_the_start() {
    let asker = Asker::new();
    let start = ["session", "start", "--quiet", "--net", "a.example,127.0.0.1:5432"];
    assert_eq!(asker.bad(&start), (121, "approval_required".to_owned()));
    let open = asker.object(&["approvals", "list"]);
    let approval = &open["approvals"][0];
    assert_eq!(approval["command_mode"], "session", "{approval}");
    let id = approval["id"].as_str().unwrap();
    let shown = asker.good(&["approvals", "show", id]).replace("\n  | ", "");
    for part in [
        "command: (a session)",
        "network: a.example, 127.0.0.1:5432",
        "for every command of the session",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    asker.good(&["approvals", "allow", id]);
    let session = asker.good(&start).trim().to_owned();
    let ran = asker.session(&session, &["--", "touch", "made"]);
    assert_eq!(
        ran.envelope["result"]["granted"]["network"],
        json!(["a.example", "127.0.0.1:5432"])
    );
    asker.good(&["session", "stop", &session]);
    assert_eq!(asker.bad(&start).0, 121, "it was allowed once");
    assert_eq!(asker.bad(&["session", "start", "--publish", "0:5173"]).0, 121);
    let log = asker.good(&["audit"]);
    assert!(
        log.contains("[write, network a.example 127.0.0.1:5432, bubblewrap"),
        "{log}"
    );
    let grants = asker.file(
        "grants.toml",
        "[network]\nallow = [\"a.example\"]\nothers = \"deny\"\n",
    );
    let granted = ["session", "start", "--quiet", "--policy", &grants, "--net"];
    let session = asker
        .good(&[&granted[..], &["a.example"]].concat())
        .trim()
        .to_owned();
    asker.good(&["session", "stop", &session]);
    assert_eq!(
        asker.bad(&[&granted[..], &["host"]].concat()),
        (122, "denied_by_policy".to_owned())
    );
}

#[test]
fn lines_of_a_session_that_can_write_count_as_writing() {
    let asker = Asker::new();
    asker.good(&[
        "policy",
        "set",
        &asker.file("careful.toml", "[classes]\nmutating = \"ask\"\n"),
    ]);
    let session = asker.good(&["session", "start", "--quiet"]).trim().to_owned();
    for line in ["cat src/a.txt", "ls", "true", "x=1", "git diff"] {
        let answer = asker.session(&session, &["-c", line]);
        assert_eq!(
            (answer.status, answer.code()),
            (121, "approval_required"),
            "{line}: {}",
            answer.envelope
        );
    }
    asker.good(&["session", "stop", &session]);
    assert_eq!(
        asker.exec(&["--", "cat", "src/a.txt"]).status,
        0,
        "a run of its own cannot write"
    );
}

/// Ways in which an agent can change the meaning of words in its shell: after each, `told` reports success.
const REDEFINED: [&str; 12] = [
    "curl() { echo fooled > /workspace/told; }",
    "function /usr/bin/curl { echo fooled > /workspace/told; }; alias curl=/usr/bin/curl",
    "function /bin/bash { echo fooled > /workspace/told; }",
    "function /usr/bin/env { echo fooled > /workspace/told; }",
    "alias curl='echo fooled > /workspace/told;'; shopt -s expand_aliases",
    "true() { echo fooled > /workspace/told; }; export -f true",
    "trap 'echo fooled > /workspace/told' DEBUG ERR RETURN EXIT",
    "printf 'trap \"echo fooled > /workspace/told\" EXIT\\n' > /workspace/rc; export BASH_ENV=/workspace/rc ENV=/workspace/rc",
    "mkdir -p /workspace/bin; printf '#!/bin/sh\\necho fooled\\n' > /workspace/bin/curl; \
     chmod 755 /workspace/bin/curl; export PATH=/workspace/bin:$PATH",
    "hash -p /workspace/bin/curl curl",
    "set -- 'https://evil.invalid'; set -x; export PS4='$(echo fooled > /workspace/told)' SHELLOPTS",
    "PROMPT_COMMAND='echo fooled > /workspace/told'; command_not_found_handle() { echo fooled > /workspace/told; }",
];

#[test]
fn approved_commands_of_a_session_do_not_run_in_what_the_agent_made_of_its_shell() {
    let asker = Asker::new();
    // The changes of the shell themselves are not the subject of this test.
    let policy = asker.file("shells.toml", "[classes]\nhost_escape_risk = \"allow\"\n");
    let session = asker
        .good(&["session", "start", "--quiet", "--policy", &policy])
        .trim()
        .to_owned();
    let line = "curl -s https://example.invalid; curl --version > told; true";
    let run = || asker.session(&session, &["-c", line]);
    asker.good(&["approvals", "allow", &run().approval(), "--session"]);
    for redefined in REDEFINED {
        asker.session(&session, &["-c", redefined]);
        let ran = run();
        assert_eq!(ran.status, 0, "{redefined}: {}", ran.envelope);
        assert!(asker.good(&["cat", "told"]).starts_with("curl "), "{redefined}");
    }
    // The shell of the session itself has been made something else.
    let fooled = asker.session(&session, &["-c", "curl --version"]);
    assert_eq!(fooled.envelope["result"]["exit_code"], 0, "{}", fooled.envelope);
    assert_eq!(asker.good(&["cat", "told"]), "fooled\n", "the control");
    asker.good(&["session", "stop", &session]);
}

#[test]
fn approved_commands_of_a_session_have_the_values_that_were_shown() {
    let asker = Asker::new();
    let session = asker
        .good(&["session", "start", "--quiet", "--env", "KEPT=k"])
        .trim()
        .to_owned();
    let tell = |line: &str| assert_eq!(asker.session(&session, &["-c", line]).status, 0, "{line}");
    tell("URL=https://one.invalid; LIST=(a b); export SEEN=s; set -- first second; cd src");
    let line = "echo \"$URL|$LIST|${LIST[1]}|$SEEN|$KEPT|$1|$NEVER|$PWD\" > told; curl -s $URL; true";
    let asked = asker.session(&session, &["-c", line]);
    assert_eq!(asked.status, 121, "{}", asked.envelope);
    let shown = asker.good(&["approvals", "show", &asked.approval()]);
    for part in [
        "variable: URL=https://one.invalid\n",
        "variable: LIST=a\n",
        "variable: SEEN=s\n",
        "variable: KEPT=k\n",
        "directory: /workspace/src\n",
        "program: curl is /usr/bin/curl\n",
        "not set: $NEVER, $1 when the line begins\n",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    asker.good(&["approvals", "allow", &asked.approval(), "--session"]);
    assert_eq!(asker.session(&session, &["-c", line]).status, 0);
    assert_eq!(
        asker.good(&["cat", "src/told"]),
        "https://one.invalid|a||s|k|||/workspace/src\n"
    );
    // Settings that the agent has put into the home of its session are not visible, nor are files in its
    // /tmp.
    tell("echo 'output = /workspace/fooled' > ~/.curlrc; touch /tmp/mine");
    let look = "ls -A ~ /tmp > told; curl -s https://one.invalid; true";
    let asked = asker.session(&session, &["-c", look]);
    asker.good(&["approvals", "allow", &asked.approval()]);
    assert_eq!(asker.session(&session, &["-c", look]).status, 0);
    let told = asker.good(&["cat", "src/told"]);
    assert!(
        told.contains("/tmp:") && !told.contains("curlrc") && !told.contains("mine"),
        "{told}"
    );
    assert!(
        asker.session(&session, &["-c", "ls -A ~"]).envelope["result"]["stdout"]
            .as_str()
            .unwrap()
            .contains("curlrc")
    );
    tell("URL=https://two.invalid");
    let changed = asker.session(&session, &["-c", line]);
    assert_eq!(
        changed.status, 121,
        "another value is another request: {}",
        changed.envelope
    );
    assert!(changed.message().contains("environment"), "{}", changed.message());
    asker.good(&["session", "stop", &session]);
}

#[test]
fn approved_commands_of_a_session_end_with_their_caller_and_their_failures_are_noted() {
    let asker = Asker::new();
    let session = asker.good(&["session", "start", "--quiet"]).trim().to_owned();
    let allow = |line: &str, words: &[&str]| {
        let asked = asker.session(&session, &[words, &["-c", line]].concat());
        assert_eq!(asked.status, 121, "{line}: {}", asked.envelope);
        asker.good(&["approvals", "allow", &asked.approval(), "--session"]);
    };
    let late = "sleep 1000; curl https://example.invalid";
    allow(late, &["--timeout", "200"]);
    let ended = asker.session(&session, &["--timeout", "200", "-c", late]);
    assert_eq!(
        (ended.status, &ended.envelope["result"]["timed_out"]),
        (124, &json!(true))
    );
    let waits = "touch begun; sleep 1000; curl https://example.invalid";
    allow(waits, &[]);
    let mut caller = asker
        .avfs(&["session", "exec", &session, "-c", waits])
        .spawn()
        .unwrap();
    let begun = std::time::Instant::now();
    while asker.avfs(&["cat", "begun"]).output().unwrap().status.code() != Some(0) {
        assert!(begun.elapsed().as_secs() < 60, "it does not begin");
    }
    caller.kill().unwrap();
    caller.wait().unwrap();
    let next = asker.session(&session, &["--wait", "-c", "echo free"]);
    assert_eq!(next.envelope["result"]["stdout"], "free\n", "{}", next.envelope);
    asker.session(&session, &["-c", "mkdir /tmp/only-here && cd /tmp/only-here"]);
    let elsewhere = "curl https://example.invalid";
    allow(elsewhere, &[]);
    let failed = asker.session(&session, &["-c", elsewhere]);
    assert_eq!(
        (failed.status, failed.code()),
        (3, "no_such_directory"),
        "{}",
        failed.envelope
    );
    let log = asker.object(&["audit", "verify"]);
    assert_eq!(log["kind"], "audit-verified", "{log}");
    assert!(asker.good(&["audit"]).contains("exec-failed"));
    asker.good(&["session", "stop", &session]);
}

#[test]
fn long_padded_and_many_lined_commands_are_shown_whole() {
    let asker = Asker::new();
    let padded = format!("curl a.example{}; curl evil.example", " ".repeat(3000));
    let id = asker.asks(&["-c", &padded]);
    let shown = asker.good(&["approvals", "show", &id]);
    assert!(
        shown.contains("command: curl a.example\\{3000 blanks}; curl evil.example\n"),
        "{shown}"
    );
    assert!(asker.good(&["approvals", "list"]).contains("\\{3000 blanks}"));
    let wide = format!("curl a.example{}; curl evil.example", "\u{3000}".repeat(3));
    let shown = asker.good(&["approvals", "show", &asker.asks(&["-c", &wide])]);
    assert!(
        shown.contains("\\u{3000}\\u{3000}\\u{3000}") && !shown.contains('\u{3000}'),
        "{shown}"
    );
    let long = format!("curl {}evil.example", "harmless.example ".repeat(100));
    let id = asker.asks(&["-c", &long]);
    let shown = asker.good(&["approvals", "show", &id]);
    let (_, rest) = shown
        .split_once("command: (1717 characters)\n")
        .unwrap_or_else(|| panic!("{shown}"));
    let rows: Vec<&str> = rest.lines().map_while(|row| row.strip_prefix("  | ")).collect();
    assert_eq!(rows.concat(), long);
    assert!(rows.iter().all(|row| row.len() <= 96), "{shown}");
    let list = asker.good(&["approvals", "list"]);
    assert!(
        list.contains(&format!("characters more: avfs approvals show {id}")),
        "{list}"
    );
    assert!(list.lines().all(|row| row.chars().count() <= 105), "{list}");
    let lines = "curl a.example\nnetwork: none\ncurl evil.example";
    let shown = asker.good(&["approvals", "show", &asker.asks(&["-c", lines])]);
    let told = "command: (48 characters, 3 lines)\n  | curl a.example\\n\n  | network: none\\n\n  | curl evil.example\n";
    assert!(shown.contains(told), "{shown}");
}

#[test]
fn nothing_inside_a_run_can_grant_itself_anything() {
    let asker = Asker::new();
    let id = asker.asks(&["--net", "host", "--", "touch", "a"]);
    asker.good(&["write", "all.toml", "[network]\nallow = [\"host\"]\n"]);
    let commands = [
        format!("avfs approvals allow {id}"),
        "avfs approvals list".to_owned(),
        "avfs policy set all.toml".to_owned(),
        "avfs policy set all.toml --everywhere".to_owned(),
        "avfs exec --net host --policy all.toml -- touch b".to_owned(),
        "avfs session start --net host --policy all.toml".to_owned(),
        "avfs run --net host -- touch b".to_owned(),
        "avfs config set net host".to_owned(),
    ];
    let script: String = commands
        .iter()
        .map(|command| format!("{command} && echo granted: {command}\n"))
        .collect();
    let ran = asker.exec(&["--", "sh", "-c", &script]);
    assert_eq!(ran.envelope["result"]["stdout"], "", "{}", ran.envelope);
    assert_eq!(asker.state(&id), "pending");
    assert_eq!(asker.exec(&["--net", "host", "--", "touch", "a"]).status, 121);
}
