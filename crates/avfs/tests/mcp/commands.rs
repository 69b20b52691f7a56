//! Commands: their output, how long they run, and what ends them.

use serde_json::json;

use crate::client::{Client, NEW, PATIENCE, project, texts};

#[test]
fn a_command_runs_in_the_sandbox_and_answers_with_what_it_did() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    let result = client.call(
        "exec",
        json!({ "command": "pwd; id -un; echo bad >&2; echo x >new; exit 3" }),
    );
    assert_ne!(result["isError"], true);
    let answer = &result["structuredContent"];
    let own = sandbox.path("project").canonicalize().unwrap();
    assert_eq!(answer["stdout"], format!("{}\nagent\n", own.display()));
    assert_eq!(
        (&answer["stderr"], &answer["exit_code"]),
        (&json!("bad\n"), &json!(3))
    );
    assert_eq!(
        answer["changed_files"],
        json!([{ "path": "new", "kind": "added" }])
    );
    assert!(
        texts(&result)[1].starts_with("[agentvfs] exit status 3\n"),
        "{result}"
    );
    assert!(!sandbox.path("project/new").exists());
    let more = json!({ "command": "cat; echo $WHO", "cwd": "src", "stdin": "in\n", "env": { "WHO": "me" } });
    assert_eq!(client.good("exec", more)["stdout"], "in\nme\n");
    assert_eq!(
        client.good("exec", json!({ "command": "pwd", "cwd": "src" }))["stdout"],
        format!("{}/src\n", own.display())
    );
}

#[test]
fn a_command_that_may_not_change_anything_cannot() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    let answer = client.good("exec", json!({ "command": "touch new", "read_only": true }));
    assert_eq!(answer["success"], false);
    assert!(
        answer["stderr"]
            .as_str()
            .unwrap()
            .contains("Read-only file system"),
        "{answer}"
    );
}

#[test]
fn long_output_is_cut_and_can_be_read_on() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    let result = client.call("exec", json!({ "command": "seq 1 20000" }));
    let answer = &result["structuredContent"];
    assert_eq!(
        (&answer["cut"], &answer["stdout_bytes"]),
        (&json!(true), &json!(108_894))
    );
    assert!(answer["stdout"].as_str().unwrap().ends_with("\n20000\n"));
    let whole = format!("run:{}/stdout", answer["run"].as_str().unwrap());
    assert!(texts(&result)[1].contains(&whole), "{result}");
    // Some clients show a model the structured content alone.
    assert!(answer["notes"].to_string().contains(&whole), "{result}");
    let middle = client.good("read", json!({ "path": whole, "start_line": 10_000, "lines": 2 }));
    assert_eq!(middle["content"], "10000\n10001\n");
    assert_eq!(
        client.bad("read", json!({ "path": "run:r00-00/stdout" })).0,
        "not-found"
    );
}

#[test]
fn a_command_ends_when_its_time_is_over() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    let answer = client.good("exec", json!({ "command": "sleep 1000", "timeout_seconds": 1 }));
    assert_eq!(
        (&answer["timed_out"], &answer["success"]),
        (&json!(true), &json!(false))
    );
}

#[test]
fn progress_brings_the_end_of_the_output_and_a_cancelled_command_ends() {
    for version in ["2025-06-18", NEW] {
        let sandbox = project();
        let mut client = Client::start_with(&sandbox, &[], version, json!({}));
        let line = "echo begun; sleep 1000; touch never";
        let params = json!({
            "name": "exec", "arguments": { "command": line }, "_meta": { "progressToken": "p1" }
        });
        let id = client.begin("tools/call", params);
        let told = loop {
            let progress = client.notification("notifications/progress");
            assert_eq!(progress["params"]["progressToken"], "p1");
            if progress["params"]["message"] == "begun\n" {
                break progress;
            }
        };
        assert!(told["params"]["progress"].as_f64().unwrap() > 0.0);
        client.notify(
            "notifications/cancelled",
            json!({ "requestId": id, "reason": "enough" }),
        );
        // The run is written down when the command has ended: nothing of it goes on.
        let until = std::time::Instant::now() + PATIENCE;
        loop {
            let processes = client.run("ps -eo args | grep -c '[s]leep 1000' || true");
            if processes == "0\n" {
                break;
            }
            assert!(std::time::Instant::now() < until, "the command goes on");
        }
        assert_eq!(client.run("ls never 2>/dev/null || echo none"), "none\n");
    }
}

#[test]
fn the_end_of_the_connection_ends_commands_and_sandboxes() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    client.good("write", json!({ "path": "work.txt", "content": "kept\n" }));
    let params = json!({
        "name": "exec",
        "arguments": { "command": "echo begun; sleep 1000" },
        "_meta": { "progressToken": 1 },
    });
    client.begin("tools/call", params);
    client.notification("notifications/progress");
    assert_eq!(client.end(), 0);
    // The work is there, and nothing runs or is mounted any longer.
    let tasks = sandbox.object("tasks --all --json");
    assert_eq!(tasks["tasks"][0]["state"], "unmerged", "{tasks}");
    assert_eq!(sandbox.good("cat /work.txt"), "kept\n");
}

#[test]
fn a_signal_ends_the_server_as_the_end_of_its_input_does() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    assert_eq!(client.run("echo x >made; echo done"), "done\n");
    let process = rustix::process::Pid::from_raw(client.process().cast_signed()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert_eq!(client.status(), 0);
    assert_eq!(
        sandbox.object("tasks --all --json")["tasks"][0]["state"],
        "unmerged"
    );
}

#[test]
fn commands_run_beside_each_other_and_beside_files_that_are_written() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    client.run("mkfifo /tmp/pipe");
    // The first can only end because the second runs at the same time.
    let first = client.begin(
        "tools/call",
        json!({ "name": "exec", "arguments": { "command": "cat /tmp/pipe" } }),
    );
    client.good("write", json!({ "path": "beside.txt", "content": "beside\n" }));
    assert_eq!(client.run("cat beside.txt >/tmp/pipe; echo written"), "written\n");
    let answer = client.answer(first);
    assert_eq!(
        answer["result"]["structuredContent"]["stdout"], "beside\n",
        "{answer}"
    );
}
