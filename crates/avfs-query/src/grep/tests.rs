#![allow(
    clippy::disallowed_methods,
    reason = "the program grep is asked for the same lines"
)]

use super::*;
use crate::fixture::{FixtureItem, FixtureTree, memory, path};
use crate::glob::GlobList;

fn options(patterns: &[&str]) -> GrepOptions {
    GrepOptions {
        patterns: patterns.iter().map(|text| (*text).to_owned()).collect(),
        ..Default::default()
    }
}

/// Events as `rg` prints them with `--no-heading -n`.
fn render(event: GrepEvent) -> String {
    match event {
        GrepEvent::Line(line) => {
            let mark = if line.kind == LineKind::Match { ':' } else { '-' };
            let path = String::from_utf8_lossy(line.path.as_bytes()).into_owned();
            format!(
                "{path}{mark}{}{mark}{}",
                line.number,
                String::from_utf8_lossy(&line.bytes)
            )
        }
        GrepEvent::Gap => "--".to_owned(),
        GrepEvent::Binary { path, offset } => format!("{path}: binary file matches ({offset})"),
        GrepEvent::Name(path) => path.to_string(),
        GrepEvent::Count { path, lines } => format!("{path}:{lines}"),
        GrepEvent::Failed { path, error } => format!("{path}: {error}"),
    }
}

fn run(tree: &FixtureTree, starts: &[&str], options: GrepOptions) -> Vec<String> {
    let starts: Vec<_> = starts.iter().map(|start| path(start)).collect();
    let mut lines = Vec::new();
    let grep = Grep::new(options).unwrap();
    let sink = &mut |event| {
        lines.push(render(event));
        ControlFlow::Continue(())
    };
    grep.run(&tree.reader, &starts, sink).unwrap();
    lines
}

fn sample() -> FixtureTree {
    FixtureTree::of(&[
        ("a.txt", "one\nTwo words\nthree\nfour\nfive\nsix\ntwo\n"),
        ("b/c.rs", "fn two() {}\n// nothing\nlet two_things = 2;"),
        (".env", "two secrets\n"),
        ("z.md", "nothing here\n"),
    ])
}

#[test]
fn lines_come_in_path_order_with_numbers() {
    let found = run(&sample(), &["/"], options(&["two"]));
    assert_eq!(
        found,
        [
            "a.txt:7:two",
            "b/c.rs:1:fn two() {}",
            "b/c.rs:3:let two_things = 2;"
        ]
    );
}

#[test]
fn options_change_what_matches() {
    let tree = sample();
    let with = |change: fn(&mut GrepOptions)| {
        let mut options = options(&["two"]);
        change(&mut options);
        run(&tree, &["/"], options)
    };
    assert_eq!(with(|o| o.case = CaseMode::Insensitive).len(), 4);
    assert_eq!(with(|o| o.case = CaseMode::Smart).len(), 4);
    assert_eq!(with(|o| o.word = true), ["a.txt:7:two", "b/c.rs:1:fn two() {}"]);
    assert_eq!(with(|o| o.whole_line = true), ["a.txt:7:two"]);
    assert_eq!(with(|o| o.invert = true).len(), 8);
    assert_eq!(with(|o| o.report = GrepReport::Name), ["/a.txt", "/b/c.rs"]);
    assert_eq!(with(|o| o.report = GrepReport::Count), ["/a.txt:1", "/b/c.rs:2"]);
    assert_eq!(with(|o| o.max_count = Some(1)).len(), 2);
    assert_eq!(with(|o| o.selection.hidden = true).len(), 4);
    assert_eq!(
        with(|o| o.selection.globs = GlobList::parse(&["*.txt"]).unwrap()),
        ["a.txt:7:two"]
    );
    assert_eq!(with(|o| o.patterns = vec!["()".into()]).len(), 11);
    assert_eq!(
        with(|o| {
            o.fixed = true;
            o.patterns = vec!["()".into(), "six".into()];
        }),
        ["a.txt:6:six", "b/c.rs:1:fn two() {}"]
    );
}

#[test]
fn context_is_shown_once_and_gaps_are_marked() {
    let mut wanted = options(&["one", "three", "two"]);
    (wanted.before, wanted.after) = (1, 1);
    wanted.selection.globs = GlobList::parse(&["*.txt"]).unwrap();
    let found = run(&sample(), &["/"], wanted.clone());
    let expected = [
        "a.txt:1:one",
        "a.txt-2-Two words",
        "a.txt:3:three",
        "a.txt-4-four",
        "--",
        "a.txt-6-six",
        "a.txt:7:two",
    ];
    assert_eq!(found, expected);
}

#[test]
fn matches_carry_their_ranges_and_offsets() {
    let tree = FixtureTree::of(&[("f", "x\nab ab\n")]);
    let mut lines = Vec::new();
    Grep::new(options(&["ab"]))
        .unwrap()
        .run(&tree.reader, &[path("/")], &mut |event| {
            lines.extend(match event {
                GrepEvent::Line(line) => Some(line),
                _ => None,
            });
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(lines[0].matches, [0..2, 3..5]);
    assert_eq!((lines[0].number, lines[0].offset), (2, 2));
}

#[test]
fn a_binary_file_is_left_out_on_a_walk_and_named_when_asked_for() {
    let tree = FixtureTree::of_items(&memory(), &[("bin", FixtureItem::file("match\n\0rest\nmatch\n"))]);
    assert!(run(&tree, &["/"], options(&["match"])).is_empty());
    assert_eq!(
        run(&tree, &["bin"], options(&["match"])),
        ["/bin: binary file matches (6)"]
    );
    let mut text = options(&["match"]);
    text.binary_as_text = true;
    assert_eq!(run(&tree, &["/"], text).len(), 2);
}

#[test]
fn a_file_that_turns_binary_late_is_reported_after_its_matches() {
    let mut bytes = b"match\n".to_vec();
    bytes.extend(b"filler line\n".repeat(20_000));
    bytes.extend(b"match \0 here\n");
    let tree = FixtureTree::of_items(&memory(), &[("late", FixtureItem::file(bytes))]);
    let found = run(&tree, &["/"], options(&["match"]));
    assert_eq!(found, ["late:1:match", "/late: binary file matches (240012)"]);
}

#[test]
fn a_large_file_is_streamed_with_the_same_answers() {
    let mut bytes = b"some ordinary line of text\n".repeat(400_000);
    bytes.extend(b"the needle is here\nlast\n");
    let tree = FixtureTree::of_items(
        &memory(),
        &[
            ("big", FixtureItem::file(bytes)),
            ("small", FixtureItem::file("needle")),
        ],
    );
    let found = run(&tree, &["/"], options(&["needle"]));
    assert_eq!(found, ["big:400001:the needle is here", "small:1:needle"]);
}

#[test]
fn many_files_keep_their_order_and_a_break_ends_the_search() {
    let names: Vec<String> = (0..3000).map(|n| format!("d{}/f{n:05}", n % 7)).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "hit\n")).collect();
    let tree = FixtureTree::of(&files);
    let found = run(&tree, &["/"], options(&["hit"]));
    assert!(found.is_sorted() && found.len() == 3000);
    let mut seen = 0;
    let sink = &mut |_| {
        seen += 1;
        if seen == 5 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let summary = Grep::new(options(&["hit"]))
        .unwrap()
        .run(&tree.reader, &[path("/")], sink)
        .unwrap();
    assert_eq!(seen, 5);
    assert!(summary.files_searched < 100, "{summary:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_the_search_goes_on() {
    let tree = FixtureTree::of_items(
        &memory(),
        &[("lost", FixtureItem::Lost), ("sound", FixtureItem::file("hit"))],
    );
    let found = run(&tree, &["/"], options(&["hit"]));
    assert!(
        found[0].starts_with("/lost: object ") && found[0].ends_with(" is not in the store"),
        "{found:?}"
    );
    assert_eq!(found[1..], ["sound:1:hit"]);
}

#[test]
fn bad_patterns_are_refused_with_the_reason() {
    let error = |patterns: &[&str]| Grep::new(options(patterns)).unwrap_err().to_string();
    assert_eq!(error(&[]), "there is no pattern to look for");
    assert!(error(&["a("]).starts_with("'a(' is not a regular expression: "));
    assert!(error(&["a\nb"]).contains("is not a regular expression"));
}

type Change = fn(&mut GrepOptions);

/// The same question to the real program.
#[test]
fn the_answers_are_those_of_grep() {
    let words = ["alpha", "beta", "Gamma", "delta_x", "x", ""];
    let mut names = Vec::new();
    let mut texts = Vec::new();
    for file in 0..40usize {
        names.push(format!("d{}/file{file:02}", file % 3));
        let line = |n: usize| format!("{} {}", words[(n * 7 + file) % 6], words[(n * n + file) % 6]);
        texts
            .push((0..file).map(line).collect::<Vec<_>>().join("\n") + if file % 2 == 0 { "\n" } else { "" });
    }
    let files: Vec<(&str, &str)> = names
        .iter()
        .map(String::as_str)
        .zip(texts.iter().map(String::as_str))
        .collect();
    let tree = FixtureTree::of(&files);
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in &files {
        let place = directory.path().join(name);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, text).unwrap();
    }
    let cases: [(&[&str], Change); 6] = [
        (&[], |_| {}),
        (&["-i"], |o| o.case = CaseMode::Insensitive),
        (&["-w"], |o| o.word = true),
        (&["-v"], |o| o.invert = true),
        (&["-C2"], |o| (o.before, o.after) = (2, 2)),
        (&["-m2"], |o| o.max_count = Some(2)),
    ];
    for pattern in ["alpha", "gam+a", "x", "^$", "a .*b"] {
        for (flags, change) in cases {
            let mut wanted = options(&[pattern]);
            change(&mut wanted);
            let mut ours = run(&tree, &["/"], wanted);
            ours.retain(|line| line != "--");
            let output = std::process::Command::new("grep")
                .args(["-E", "-n"])
                .args(flags)
                .args(["-e", pattern])
                .args(
                    files
                        .iter()
                        .map(|(name, _)| *name)
                        .collect::<std::collections::BTreeSet<_>>(),
                )
                .current_dir(&directory)
                .output()
                .unwrap();
            let theirs = String::from_utf8(output.stdout).unwrap();
            let theirs: Vec<&str> = theirs.lines().filter(|line| *line != "--").collect();
            assert_eq!(ours, theirs, "{pattern} {flags:?}");
        }
    }
}
