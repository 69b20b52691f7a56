//! Files of rules: which are accepted, and the messages for those that are refused.

use super::*;
use crate::error::Hint;

const OTHERS: [&str; 2] = ["vault", "retention"];

#[track_caller]
fn check(text: &str, expected: &str) {
    let shown = match RuleFile::parse("r.toml", text, &OTHERS) {
        Ok(file) => {
            let rules = file
                .rules
                .list()
                .iter()
                .map(|rule| format!("{rule} ({})", rule.origin));
            rules.chain(file.notes).collect::<Vec<_>>().join("; ")
        }
        Err(fault) => match &fault.hint {
            Some(hint) => format!("{fault} [{hint}]"),
            None => fault.to_string(),
        },
    };
    assert_eq!(shown, expected, "{:.300}", text);
}

#[test]
fn a_file_gives_rules_with_their_lines() {
    check(
        "vault = \"web\"\n[rules]\nextends = \"read-only\"\n[rules.levels]\n\"/a/**\" = \"write\"\n\"label:x\" = \"none@7\"",
        "/**=read (preset read-only); /a/**=write (r.toml:5); label:x=none@7 (r.toml:6)",
    );
    check(
        "rules.extends = [\"view-only\", \"full-access\"]",
        "/**=view (preset view-only); /**=write (preset full-access)",
    );
    check("[rules]", "");
}

#[test]
fn expectations_that_hold_are_counted() {
    let text = "[rules]\nextends=\"read-only\"\n[rules.levels]\n\"**/k\"=\"none\"\n[rules.expect]\n\"/a\"=\"read\"\n\"x/k\"=\"none\"";
    assert_eq!(RuleFile::parse("r.toml", text, &[]).unwrap().expected, 2);
}

#[test]
fn a_name_alone_is_noted_to_be_at_the_root_only() {
    let noted = ["\".env\"", "\"*.pem\"", "\"secrets/\"", "\"secrets/**\""];
    for pattern in noted {
        let text = format!("[rules.levels]\n{pattern} = \"none\"");
        let file = RuleFile::parse("r.toml", &text, &[]).unwrap();
        assert_eq!(file.notes.len(), 1, "{pattern}");
    }
    for pattern in [
        "\"/.env\"",
        "\"**/.env\"",
        "\"a/b\"",
        "\"/\"",
        "\"**\"",
        "\"label:x\"",
    ] {
        let text = format!("[rules.levels]\n{pattern} = \"none\"");
        let file = RuleFile::parse("r.toml", &text, &[]).unwrap();
        assert_eq!(file.notes, Vec::<String>::new(), "{pattern}");
    }
    check(
        "[rules.levels]\n\".env\" = \"none\"",
        ".env=none (r.toml:2); r.toml:2:1: '.env' means the one at the root; '**/.env' is about every one, at any depth",
    );
}

#[test]
fn bad_files_are_refused_with_place_and_reason() {
    let levels = |line: &str| format!("[rules.levels]\n{line}");
    let cases = [
        ("", "r.toml:1:1: there is no section [rules]"),
        ("[rules\n", "r.toml:1:7: unclosed table, expected `]`"),
        (
            "rules = 3",
            "r.toml:1:1: 'rules' is to be a section: write [rules]",
        ),
        (
            "\n[rule]\nx=1",
            "r.toml:2:2: unknown key 'rule' [did you mean 'rules'?]",
        ),
        (
            "[rules]\nextend = \"x\"",
            "r.toml:2:1: unknown key 'extend' [did you mean 'extends'?]",
        ),
        (
            "[rules]\nlevels = 1",
            "r.toml:2:1: 'rules.levels' is to be a section: write [rules.levels]",
        ),
        (
            "[rules]\nextends = \"developement\"",
            "r.toml:2:12: there is no preset 'developement' [did you mean 'development'?]",
        ),
        (
            "[rules]\nextends = [\"read-only\", \"zzz\"]",
            "r.toml:2:26: there is no preset 'zzz' [there are read-only, full-access, view-only, agent-safe, development]",
        ),
        (
            "[rules]\nextends = 7",
            "r.toml:2:11: 'extends' is the name of a preset, or a list of names",
        ),
        (
            &levels("\"/a\" = \"raed\""),
            "r.toml:2:9: 'raed' is not a level: none, view, read, append or write [did you mean 'read'?]",
        ),
        (
            &levels("\"/a\" = \"read@x\""),
            "r.toml:2:14: 'x' is not a priority: a whole number from -2147483648 to 2147483647",
        ),
        (
            &levels("\"/a\" = \"b=read\""),
            "r.toml:2:9: 'b=read' is not a level: none, view, read, append or write [did you mean 'read'?]",
        ),
        (
            &levels("\"/a\" = 3"),
            "r.toml:2:8: a level is to be written in quotes, such as \"read\" or \"read@10\"",
        ),
        (
            &levels("\"/a/[b\" = \"read\""),
            "r.toml:2:5: '[' is not closed by ']'",
        ),
        (
            &levels("\"/ä/[b\" = \"read\""),
            "r.toml:2:5: '[' is not closed by ']'",
        ),
        (
            &levels("\"label:X\" = \"none\""),
            "r.toml:2:8: a label has lower-case letters, digits, '.', '_' and '-' only: 'X' at byte 0",
        ),
        (
            &levels("\"/a\" = \"read\"\n\"/a\" = \"none\""),
            "r.toml:3:1: duplicate key",
        ),
        (
            "[rules.levels]\n\"/**\" = \"read\"\n[rules.expect]\n\"/a\" = \"nine\"",
            "r.toml:4:9: 'nine' is not a level: none, view, read, append or write [did you mean 'none'?]",
        ),
        (
            "[rules.levels]\n\"/**\" = \"read\"\n[rules.expect]\n\"/a\" = \"none\"",
            "r.toml:4:1: /a is expected to have level none, and has read by /**=read (r.toml:2)",
        ),
        (
            "[rules.expect]\n\"/a\" = \"read\"",
            "r.toml:2:1: /a is expected to have level read, and has none as no rule is about it",
        ),
        (
            "[rules.expect]\n\"/../a\" = \"read\"",
            "r.toml:2:1: '..' is not a name in a vault: write the path from the vault's root",
        ),
    ];
    for (text, expected) in cases {
        check(text, expected);
    }
}

#[test]
fn too_many_rules_are_refused() {
    let lines: String = (0..5001)
        .map(|index| format!("\"/{index}\" = \"read\"\n"))
        .collect();
    check(
        &format!("[rules.levels]\n{lines}"),
        "r.toml:1:1: a list has at most 5000 rules, this one has 5001",
    );
}

#[test]
fn a_line_is_refused_with_its_column() {
    let shown = |text: &str| match line("--rule", text) {
        Ok(rule) => rule.to_string(),
        Err(error) => format!("{error} {:?}", error.hint()),
    };
    assert_eq!(shown("/a/**=read@3"), "/a/**=read@3");
    assert_eq!(
        shown("/a"),
        "--rule:1: a rule is PATTERN=LEVEL, and this one has no '=' None"
    );
    assert_eq!(
        shown("/ä=wriet"),
        "--rule:4: 'wriet' is not a level: none, view, read, append or write Some(Note(\"did you mean 'write'?\"))"
    );
    assert_eq!(shown("/a/[=read"), "--rule:4: '[' is not closed by ']' None");
    let hint = preset("--preset", "read-onyl").unwrap_err().hint();
    assert_eq!(hint, Some(Hint::Note("did you mean 'read-only'?".to_owned())));
}
