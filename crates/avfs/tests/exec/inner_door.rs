//! What `avfs` reveals inside a run: nothing about other vaults, and nothing that rules hide.

use crate::runs::Runs;

/// The answer that a run gets, without the name that it asked for.
fn told(runs: &Runs, flags: &[&str], line: &str, name: &str) -> String {
    let script = format!("{line} 2>&1; echo status $?");
    runs.prints(flags, &script).replace(name, "NAME")
}

#[test]
fn inner_door_tells_nothing_of_other_vaults() {
    let runs = Runs::new();
    runs.avfs(&["vault", "create", "payroll"]);
    runs.avfs(&["--vault", "payroll", "write", "salary", "much"]);
    let log: serde_json::Value =
        serde_json::from_str(&runs.avfs(&["--vault", "payroll", "log", "--json"])).unwrap();
    let snapshot = log["entries"][0]["snapshot"].as_str().unwrap().to_owned();
    let no_snapshot = "0".repeat(64);
    let names = [
        ("payroll", "nothing"),
        ("payrol", "nothin"),
        (&snapshot, &no_snapshot),
    ];
    for question in [
        "avfs diff NAME",
        "avfs diff NAME:",
        "avfs diff @ NAME",
        "avfs checkpoint show NAME",
        "avfs checkpoint restore NAME",
        "avfs checkpoint restore NAME:@",
        "avfs checkout NAME -- /salary",
    ] {
        for (known, unknown) in names {
            let [of_known, of_unknown] =
                [known, unknown].map(|name| told(&runs, &[], &question.replace("NAME", name), name));
            assert_eq!(of_known, of_unknown, "{question} {known}");
            assert!(
                !of_known.contains("payroll") && !of_known.contains("status 0"),
                "{of_known}"
            );
        }
    }
}

#[test]
fn inner_door_tells_nothing_of_what_a_label_hides() {
    let runs = Runs::new();
    runs.avfs(&["--vault", "work", "write", "secret", "text"]);
    runs.avfs(&["--vault", "work", "label", "set", "secret", "private"]);
    let flags = ["--rule", "/**=write", "--rule", "label:private=none"];
    for question in [
        "avfs rules explain NAME",
        "avfs rules explain NAME --json",
        "avfs diff -- NAME",
        "avfs checkout @ NAME",
    ] {
        let [of_hidden, of_nothing] =
            ["/secret", "/absent"].map(|name| told(&runs, &flags, &question.replace("NAME", name), name));
        assert_eq!(of_hidden, of_nothing, "{question}");
    }
}

/// A vault with a checkpoint `c0` from before a change of each file.
fn changed_since_a_checkpoint() -> Runs {
    let runs = Runs::new();
    for (name, text) in [("f", "old"), ("sub/f", "old in sub"), ("secret", "old secret")] {
        runs.avfs(&["write", "-p", name, text]);
    }
    runs.avfs(&["checkpoint", "save", "c0"]);
    for name in ["f", "sub/f", "secret"] {
        runs.avfs(&["write", name, "new"]);
    }
    runs
}

fn contents(runs: &Runs) -> [String; 3] {
    ["f", "sub/f", "secret"].map(|name| runs.avfs(&["cat", name]).trim_end().to_owned())
}

const NEW: [&str; 3] = ["new"; 3];

/// Commands that change a vault and can be requested from inside.
const CHANGES: [&str; 4] = [
    "avfs checkout c0 f",
    "avfs checkpoint restore c0",
    "avfs checkpoint restore c0 --path sub",
    "avfs checkpoint save mine",
];

#[test]
fn inner_door_changes_nothing_for_a_run_that_cannot_write() {
    let runs = changed_since_a_checkpoint();
    for flags in [&["--read-only"][..], &["--preset", "read-only"]] {
        for line in CHANGES {
            let answer = runs.free(flags, &format!("{line} --json"));
            assert_eq!(
                answer.result("exit_code"),
                9,
                "{flags:?} {line}: {:#}",
                answer.value
            );
            assert!(
                answer.stdout().contains("\"read-only-run\""),
                "{}",
                answer.stdout()
            );
        }
        let looked = runs.prints(flags, "avfs diff c0 && avfs checkpoint list && avfs rules list");
        assert!(looked.contains("secret") && looked.contains("c0"), "{looked}");
    }
    assert_eq!(contents(&runs), NEW);
    assert!(!runs.avfs(&["checkpoint", "list"]).contains("mine"));
    let policy = runs.path("read.toml");
    let text = "[classes]\nread_only = \"allow\"\nmutating = \"deny\"\ndestructive = \"deny\"\n";
    std::fs::write(&policy, text).unwrap();
    let made = "git init -q -b main . && git add f && git -c user.name=a -c user.email=a@b commit -qm one && \
                git config core.fsmonitor 'avfs checkpoint restore c0 #'";
    assert_eq!(runs.free(&[], made).status, 0);
    let policy = policy.display().to_string();
    let status = runs.exec(&["--policy", &policy, "--", "git", "status"]);
    assert_eq!(status.status, 0, "{:#}", status.value);
    assert_eq!(status.result("granted")["write"], false);
    assert_eq!(contents(&runs), NEW);
    assert_eq!(
        runs.free(&[], "avfs checkpoint restore c0").status,
        0,
        "the control"
    );
    assert_ne!(contents(&runs), NEW);
}

#[test]
fn inner_door_leads_nowhere_outside_of_the_directory_of_a_run() {
    let runs = changed_since_a_checkpoint();
    runs.avfs(&["label", "set", "secret", "private"]);
    let flags = ["--path", "sub"];
    let looked = runs.prints(
        &flags,
        "avfs diff --patch c0; avfs checkpoint show c0; avfs checkpoint list --json; avfs diff --stat; true",
    );
    assert!(looked.contains("old in sub"), "the control: {looked}");
    assert!(
        !looked.contains("secret") && !looked.contains("\"files\":4"),
        "{looked}"
    );
    for line in [
        "avfs diff c0 -- NAME",
        "avfs checkout c0 NAME",
        "avfs checkpoint restore c0 --path NAME",
    ] {
        let [of_hidden, of_nothing] =
            ["/secret", "/absent"].map(|name| told(&runs, &flags, &line.replace("NAME", name), name));
        assert_eq!(of_hidden, of_nothing, "{line}");
    }
    let explained = told(&runs, &flags, "avfs rules explain /secret", "/secret");
    assert!(
        explained.contains("none") && !explained.contains("private"),
        "{explained}"
    );
    assert_eq!(contents(&runs), NEW);
    runs.prints(&flags, "avfs checkpoint restore c0");
    assert_eq!(contents(&runs), ["new", "old in sub", "new"]);
    // In this directory, the rules of the run hold as before.
    let answer = runs.free(
        &["--path", "sub", "--preset", "read-only"],
        "avfs checkout @~1 sub/f",
    );
    assert_ne!(answer.status, 0, "{:#}", answer.value);
    assert_eq!(runs.avfs(&["cat", "sub/f"]), "old in sub\n");
}

#[test]
fn inner_door_says_what_a_run_is_and_what_it_can_ask_for() {
    let runs = Runs::new();
    runs.avfs(&["vault", "create", "payroll"]);
    let told = runs.prints(&[], "avfs status 2>&1; echo status $?");
    assert!(
        told.contains("vault    work (of this run)")
            && told.contains("avfs checkpoint save|list|show|restore"),
        "{told}"
    );
    assert!(
        told.ends_with("status 0\n") && !told.contains("payroll"),
        "{told}"
    );
    let refused = runs.prints(&[], "avfs vault list 2>&1; echo status $?");
    assert!(
        refused.contains("not available inside a run") && refused.ends_with("status 9\n"),
        "{refused}"
    );
}
