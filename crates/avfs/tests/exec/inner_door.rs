//! What `avfs` tells inside a run: nothing of other vaults, and nothing of what rules hide.

use crate::runs::Runs;

/// What a run hears of a question, without the name that it asked for.
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
    let names = [("payroll", "nothing"), ("payrol", "nothin"), (&snapshot, &no_snapshot)];
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
            assert!(!of_known.contains("payroll") && !of_known.contains("status 0"), "{of_known}");
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
