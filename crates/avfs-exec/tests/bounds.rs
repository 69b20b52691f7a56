//! For any input an answer arrives, and input that was not examined is never called harmless.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

use avfs_exec::{Class, Classification, Command, classify};

fn shell(text: String) -> Classification {
    classify(&Command::Shell(text))
}

#[track_caller]
fn check_risk(text: String) {
    let shown: String = text.chars().take(40).collect();
    let found = shell(text);
    assert_eq!(found.class, Class::HostEscapeRisk, "{shown}");
    assert!(
        found.parts.iter().any(|part| part.firm),
        "{shown}: {:?}",
        found.parts.last()
    );
}

#[test]
fn many_commands_are_a_risk_and_some_are_not() {
    check_risk("echo a; ".repeat(5_000));
    check_risk("echo a && ".repeat(5_000) + "echo b");
    check_risk("echo a | ".repeat(5_000) + "cat");
    check_risk("echo a\n".repeat(5_000));
    assert_eq!(shell("echo a; ".repeat(900)).class, Class::ReadOnly);
    assert_eq!(shell("echo a && ".repeat(900) + "rm b").class, Class::Destructive);
    assert_eq!(shell("echo a | ".repeat(900) + "cat").class, Class::ReadOnly);
}

#[test]
fn long_texts_are_read_or_refused() {
    check_risk("x".repeat((1 << 20) + 1));
    assert_eq!(
        shell(format!("echo '{}'", "x".repeat(1_000_000))).class,
        Class::ReadOnly
    );
    assert_eq!(
        shell(format!(
            "cat > f <<'EOF'\n{}\nEOF",
            "a (b) {c} $d \n".repeat(60_000)
        ))
        .class,
        Class::Mutating
    );
    check_risk(format!("echo {}", "a ".repeat(500_000)));
    let found = shell(format!("echo {}", "a ".repeat(40_000)));
    assert_eq!(found.class, Class::ReadOnly);
    assert!(found.parts[0].text.len() < 1_000, "the text for people is cut");
}

/// Nested `count` times, then closed as often.
fn nested(before: &str, inner: &str, after: &str, count: usize) -> String {
    format!("{}{inner}{}", before.repeat(count), after.repeat(count))
}

const NESTS: [(&str, &str, &str); 23] = [
    ("$(echo ", "x", ")"),
    ("\"$(echo ", "x", ")\""),
    ("`", "x", "`"),
    ("( ", "ls", " )"),
    ("(", "ls", ")"),
    ("{ ", "ls", "; }"),
    ("if ", "ls", "; then ls; fi; "),
    ("if true; then ", "ls", "; fi"),
    ("while ", "ls", "; do ls; done"),
    ("for i in a; do ", "ls", "; done"),
    ("case x in a) ", "ls", ";; esac"),
    ("case x in a) ", "ls", " esac"),
    ("f() { ", "ls", "; }"),
    ("function f { ", "ls", "; }"),
    ("! ", "ls", ""),
    ("echo ${a:-", "x", "}"),
    ("echo $((", "1", "))"),
    ("(( ", "1", " ))"),
    ("[[ ! ( ", "a", " ) ]]"),
    ("cat <(", "ls", ")"),
    ("echo @(", "a", ")"),
    ("bash -c '", "ls", "'"),
    ("coproc ", "ls", ""),
];

#[test]
fn deep_nesting_is_a_risk_and_never_overflows() {
    for (before, inner, after) in NESTS {
        for count in [20, 300, 20_000] {
            let text = nested(before, inner, after, count);
            assert!(text.len() < 1 << 20);
            let found = shell(text);
            assert!(
                count < 20_000 || found.class == Class::HostEscapeRisk,
                "{before} {count}: {}",
                found.class
            );
        }
    }
}

#[test]
fn unclosed_nesting_is_a_risk() {
    for (before, _, _) in NESTS
        .iter()
        .filter(|(before, _, after)| !after.is_empty() && !before.contains("bash"))
    {
        for count in [1, 100, 100_000 / before.len()] {
            let found = shell(before.repeat(count));
            assert_eq!(found.class, Class::HostEscapeRisk, "{before} {count}");
        }
    }
}

#[test]
fn repeated_characters_of_the_language_do_not_stall() {
    for piece in [
        "(", ")", "{", "}", "[", "[[ ", "$", "`", "'", "\"", "\\", "<", ">", "|", "&", ";", "#", "!", "~",
        "*", "<<a\n", "$((", "${", "$[", "<(", "@(", "a=(", "a[", "case ", "if ", "\"$(", "'\"", "\\\n",
        "{a,", "..", "é", "( ", "(( a ", "( a; ",
    ] {
        shell(piece.repeat(3_000));
        shell(format!("echo {}", piece.repeat(3_000)));
        shell(format!("ls {} x", format!("{piece} ").repeat(2_000)));
    }
}

#[test]
fn wrappers_are_followed_eight_deep() {
    let wrapped = |count: usize| shell(format!("{}touch F", "nice ".repeat(count)));
    assert_eq!(wrapped(8).class, Class::Mutating);
    assert_eq!(wrapped(9).class, Class::HostEscapeRisk);
    assert_eq!(wrapped(100_000).class, Class::HostEscapeRisk);
}

#[test]
fn readings_inside_of_readings_come_to_an_end() {
    for (piece, count) in [
        ("nice --a ", 400),
        ("timeout --a 1 ", 400),
        ("poetry --a run ", 400),
        ("uv --a b run --c d ", 400),
        ("ssh ", 400),
        ("ssh ssh ssh ssh ssh ssh ssh ssh; ", 900),
        ("ssh h 'ssh h rm x; ssh h rm y' ", 100),
        ("docker --a b compose --c d run ", 100),
    ] {
        let begun = Instant::now();
        let found = shell(format!("{}rm x", piece.repeat(count)));
        assert_eq!(found.class, Class::HostEscapeRisk, "{piece}");
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{piece}: {:?}",
            begun.elapsed()
        );
    }
}

#[test]
fn words_without_a_shell_are_taken_as_they_are() {
    let argv = |words: &[&str]| classify(&Command::Argv(words.iter().map(OsString::from).collect()));
    assert_eq!(argv(&["echo", "$(rm x)", "> f", "; rm x"]).class, Class::ReadOnly);
    assert_eq!(
        argv(&["git", "commit", "-m", "two\nlines\tand a tab"]).class,
        Class::Mutating
    );
    assert_eq!(argv(&["rm", "-rf", "a b"]).class, Class::Destructive);
    assert_eq!(argv(&["bash", "-c", "ls; rm x"]).class, Class::Destructive);
    assert_eq!(argv(&["ls *"]).class, Class::Mutating);
    assert_eq!(argv(&["A=1", "ls"]).class, Class::Mutating);
    for odd in [
        &[][..],
        &[""],
        &["ls", "a\rb"],
        &["ls", "a\0b"],
        &["ls", "\u{202e}"],
    ] {
        assert_eq!(argv(odd).class, Class::HostEscapeRisk, "{odd:?}");
    }
    let bytes = OsString::from_vec(vec![b'l', 0xff]);
    assert_eq!(
        classify(&Command::Argv(vec!["ls".into(), bytes])).class,
        Class::HostEscapeRisk
    );
}

#[test]
fn shown_text_is_one_safe_line() {
    for text in ["ls \u{1b}[2J", "ls\rrm", "ls '\u{202e}'", "echo 'a\nb'"] {
        for part in shell(text.to_owned()).parts {
            let safe = |shown: &str| !shown.chars().any(|c| c.is_control() || c == '\u{202e}');
            assert!(
                safe(&part.text) && safe(&part.reason) && safe(&part.verb),
                "{part:?}"
            );
        }
    }
}
