//! The scope of "always": the words, the programs and the environment that were shown.

use crate::approvals::{Answer, Asker};

const NET: [&str; 2] = ["--net", "a.example"];
const RUNS: [&str; 4] = ["--", "python3", "-c", "print('ran')"];

/// Answers "always" to a request, and sees it run unasked.
#[track_caller]
fn always(asker: &Asker, words: &[&str]) {
    let id = asker.asks(words);
    asker.good(&["approvals", "allow", &id, "--always"]);
    for _ in 0..2 {
        let ran = asker.exec(words);
        assert!(ran.status != 121, "{words:?}: {}", ran.envelope);
    }
}

#[test]
fn always_holds_while_programs_are_found_where_they_were_shown() {
    let asker = Asker::new();
    let words = [&NET[..], &["--env", "PATH=/workspace/bin:/usr/bin"], &RUNS].concat();
    always(&asker, &words);
    asker.good(&["write", "-p", "bin/other", "x"]);
    assert_eq!(asker.exec(&words).envelope["result"]["stdout"], "ran\n");
    asker.good(&["write", "bin/python3", "#!/bin/sh\necho agent\n"]);
    asker.good(&["chmod", "755", "bin/python3"]);
    let id = asker.asks(&words);
    let shown = asker.good(&["approvals", "show", &id]);
    assert!(
        shown.contains("program: python3 is /workspace/bin/python3, a file of the vault"),
        "{shown}"
    );
    asker.good(&["rm", "bin/python3"]);
    assert_eq!(asker.exec(&words).envelope["result"]["stdout"], "ran\n");
    assert_eq!(
        asker
            .exec(&["-c", "mv bin b; ln -s b bin; printf '#!/bin/sh' > b/python3"])
            .status,
        0
    );
    asker.asks(&words);
}

#[test]
fn always_does_not_hold_once_a_run_has_put_the_program_into_a_cache() {
    let asker = Asker::new();
    let tools = asker.path(".local/share/pnpm");
    std::fs::create_dir_all(&tools).unwrap();
    let path = format!("{}:/usr/bin:/bin", tools.display());
    let exec = |words: &[&str]| Answer::of(&asker.command(words).env("PATH", &path).output().unwrap());
    let words = [&NET[..], &RUNS].concat();
    asker.good(&["approvals", "allow", &exec(&words).approval(), "--always"]);
    assert_eq!(exec(&words).envelope["result"]["stdout"], "ran\n");
    let put = format!(
        "cd {}; printf '#!/bin/sh\\necho agent' > python3; chmod +x python3",
        tools.display()
    );
    assert_eq!(exec(&["-c", &put]).status, 0);
    assert_eq!(
        exec(&["--", "python3"]).envelope["result"]["stdout"],
        "agent\n",
        "the control"
    );
    let asked = exec(&words);
    assert_eq!(asked.status, 121, "{}", asked.envelope);
    let refused = asker.bad(&["approvals", "allow", &asked.approval(), "--session"]);
    assert_eq!(refused, (2, "approval-once-only".to_owned()));
}

#[test]
fn always_holds_for_the_surroundings_that_were_shown() {
    let asker = Asker::new();
    let base = [&NET[..], &["--rule", "/src/**=read"]].concat();
    always(&asker, &[&base[..], &RUNS].concat());
    for flags in [
        &["--env", "PATH=/workspace/bin:/usr/bin"][..],
        &["--env", "LD_PRELOAD=/workspace/x.so"],
        &["--env", "A=1"],
        &["--env", "AVFS_ACTOR"],
        &["--path", "src"],
        &["--stdin"],
        &["--read-only"],
        &["--principal", "bob"],
        &["--rule", "/other/**=write"],
        &["--preset", "full-access"],
    ] {
        asker.asks(&[&base[..], flags, &RUNS].concat());
    }
    asker.asks(&[&NET[..], &RUNS].concat());
    asker.asks(&[&NET[..], &["--no-rules"], &RUNS].concat());
    let with = |name: &str, value: &str| {
        let mut command = asker.command(&[&base[..], &RUNS].concat());
        Answer::of(&command.env(name, value).output().unwrap()).status
    };
    assert_eq!(with("PYTHONPATH", "/workspace/evil"), 121);
    assert_eq!(with("LC_ALL", "C"), 0);
    for flags in [
        &["--cwd", "src"][..],
        &["--memory", "512M"],
        &["--timeout", "5000"],
    ] {
        let ran = asker.exec(&[&base[..], flags, &RUNS].concat());
        assert_eq!(ran.status, 0, "{flags:?}: {}", ran.envelope);
    }
}

#[test]
fn always_does_not_hold_for_lines_that_set_variables() {
    let asker = Asker::new();
    let line = "python3 -c 'import json; print(1)'";
    let net = |line: &str| asker.exec(&[&NET[..], &["-c", line]].concat());
    always(&asker, &[&NET[..], &["-c", line]].concat());
    // So that these lines do not need approval merely for lack of a rule.
    for set in ["printf -v A x", "read A", "let A=1"] {
        always(
            &asker,
            &[&NET[..], &["-c", &format!("{set}; touch made")]].concat(),
        );
    }
    for set in [
        "PYTHONPATH=/workspace/evil",
        "PYTHONPATH+=/workspace/evil",
        "export A=1",
        "printf -v A x",
        "read A",
        "let A=1",
        "((PYTHONPATH = 5))",
        "((PYTHONPATH++))",
        ": ${PYTHONPATH:=/workspace/evil}",
        "npm_config_script_shell=x",
    ] {
        let asked = net(&format!("{set}; {line}"));
        assert_eq!(asked.status, 121, "{set}: {}", asked.envelope);
    }
    assert_eq!(
        net(&format!("for PYTHONPATH in evil; do {line}; done")).status,
        121
    );
    assert_eq!(net(&format!("PYTHONPATH=/workspace/evil {line}")).status, 121);
    // A variable that stays in the shell affects no other program.
    assert_eq!(net(&format!("for i in 1 2; do {line}; done")).status, 0);
    // Unless it is a variable of the run.
    let given = [&NET[..], &["--env", "mine=1", "-c"]].concat();
    always(&asker, &[&given[..], &[line]].concat());
    asker.asks(&[&given[..], &[&format!("mine=2; {line}")]].concat());
}

#[test]
fn always_for_a_line_with_input_is_for_the_whole_line() {
    let asker = Asker::new();
    asker.good(&["write", "x.py", "print('x')"]);
    let reads = "python3 -c 'import sys; print(*sys.stdin)'";
    let piped = format!("cat x.py | {reads}");
    let words = [&NET[..], &["-c", &piped]].concat();
    let shown = asker.good(&["approvals", "show", &asker.asks(&words)]);
    assert!(shown.contains("for this line as a whole"), "{shown}");
    always(&asker, &words);
    let others = [
        format!("{reads} < src/a.txt"),
        reads.to_owned(),
        format!("cat src/a.txt | {reads}"),
        format!("{reads} <<< secret"),
        format!("{piped}; {piped}"),
    ];
    for line in &others {
        let asked = asker.exec(&[&NET[..], &["-c", line]].concat());
        assert_eq!(asked.status, 121, "{line}: {}", asked.envelope);
    }
    // An answer for the command without input does not cover the same words with input.
    always(&asker, &[&NET[..], &["-c", reads]].concat());
    asker.asks(&[&NET[..], &["-c", &others[0]]].concat());
    let id = asker.asks(&[&NET[..], &["-c", &format!("{reads} < x.py")]].concat());
    let file = asker.file("rules.toml", "");
    let refused = asker.bad(&["approvals", "allow", &id, "--always", "--policy", &file]);
    assert_eq!(refused, (2, "nothing-to-save".to_owned()));
}

#[test]
fn always_holds_for_the_input_that_was_given() {
    let asker = Asker::new();
    let words = [&NET[..], &["--stdin"], &RUNS].concat();
    let asked = asker.exec_with("one", &words);
    asker.good(&["approvals", "allow", &asked.approval(), "--always"]);
    assert_eq!(asker.exec_with("one", &words).status, 0);
    assert_eq!(asker.exec_with("two", &words).status, 121);
    asker.asks(&[&NET[..], &RUNS].concat());
}

#[test]
fn approved_commands_of_a_session_have_only_variables_that_their_words_name() {
    let asker = Asker::new();
    let session = asker.good(&[
        "session", "start", "--quiet", "--env", "KEPT=k", "--env", "CC=gcc",
    ]);
    let session = session.trim();
    let set = "export NODE_OPTIONS=--max-old-space-size=99 CURL_HOME=/workspace CC=/workspace/cc SEEN=s";
    asker.session(session, &["-c", set]);
    let line = "env > told; echo $SEEN >> told; curl -s https://example.invalid; true";
    let asked = asker.session(session, &["-c", line]);
    assert_eq!(asked.status, 121, "{}", asked.envelope);
    let shown = asker.good(&["approvals", "show", &asked.approval()]);
    for part in [
        "variable: SEEN=s\n",
        "variable: KEPT=k\n",
        "variable: CC=gcc\n",
        "left out: CC, CURL_HOME, NODE_OPTIONS ",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    asker.good(&["approvals", "allow", &asked.approval()]);
    assert_eq!(asker.session(session, &["-c", line]).status, 0);
    let told = asker.good(&["cat", "told"]);
    assert!(told.contains("CC=gcc\n") && told.ends_with("s\n"), "{told}");
    assert!(
        !told.contains("NODE_OPTIONS") && !told.contains("CURL_HOME"),
        "{told}"
    );
    asker.good(&["session", "stop", session]);
}

#[test]
fn session_is_approved_with_its_idle_limit() {
    let asker = Asker::new();
    let start = |idle: &str| {
        let output = asker
            .avfs(&["session", "start", "--net", "a.example", "--idle", idle])
            .output()
            .unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    assert_eq!(start("60").0, 121);
    let listed = asker.object(&["approvals", "list"]);
    let id = listed["approvals"][0]["id"].as_str().unwrap();
    let shown = asker.good(&["approvals", "show", id]);
    assert!(
        shown.contains("idle: it ends after 60 seconds without a command\n"),
        "{shown}"
    );
    assert_eq!(asker.object(&["approvals", "show", id])["idle_seconds"], 60);
    asker.good(&["approvals", "allow", id]);
    let (status, told) = start("99999");
    assert!(
        status == 121 && told.contains("this has changed since: the idle limit"),
        "{status} {told}"
    );
    assert_eq!(start("60").0, 0);
}

#[test]
fn parts_of_a_command_are_shown_with_a_margin() {
    let asker = Asker::new();
    let id = asker.asks(&[
        "--",
        "curl",
        "x\nls (read_only): `ls` only reads",
        &"y".repeat(200),
    ]);
    let shown = asker.good(&["approvals", "show", &id]);
    let (_, below) = shown
        .split_once("\ndoes: networked")
        .unwrap_or_else(|| panic!("{shown}"));
    let rows: Vec<&str> = below
        .lines()
        .skip(1)
        .take_while(|row| row.starts_with(' '))
        .collect();
    assert!(
        rows.len() > 2 && rows.iter().all(|row| row.starts_with("  | ")),
        "{shown}"
    );
    let (_, below) = shown
        .split_once("\nalways: ")
        .unwrap_or_else(|| panic!("{shown}"));
    assert!(
        below.lines().skip(1).all(|row| row.starts_with("  | ")),
        "{shown}"
    );
}
