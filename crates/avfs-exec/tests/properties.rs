//! Properties of all commands, tested on random ones.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use avfs_exec::{Classes, Command, Policy, classify};
use proptest::prelude::*;

fn classes_of(command: &str) -> Classes {
    classify(&Command::Shell(command.to_owned())).classes
}

/// Everything in the second is in the first.
fn holds(all: Classes, part: Classes) -> bool {
    all.and(part) == all
}

/// One-line commands from the list of ordinary ones, without comments and here-documents.
fn ordinary() -> Vec<&'static str> {
    let lines = include_str!("corpus/ordinary.txt").lines();
    let joinable = |line: &&str| {
        let heading = line.starts_with('[')
            && line.ends_with(']')
            && Classes::parse(&line[1..line.len() - 1]).is_some();
        !line.is_empty()
            && !heading
            && !line.contains(['#', '⏎', '&'])
            && !line.contains("<<")
            && !line.contains("| while")
    };
    lines.filter(joinable).collect()
}

/// The commands that consist only of plain words.
fn plain_words() -> Vec<&'static str> {
    let keywords = ["time", "if", "for", "while", "until", "case", "function"];
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./ ".contains(&byte);
    let is_plain = |command: &&str| {
        command.bytes().all(plain)
            && !command
                .split(' ')
                .any(|word| word.is_empty() || keywords.contains(&word))
    };
    ordinary().into_iter().filter(is_plain).collect()
}

/// Pieces of the language, so that random texts get past the first character.
const PIECES: [&str; 64] = [
    "ls",
    "rm",
    "echo",
    "cat",
    "f",
    "x",
    "-rf",
    "--",
    "=",
    "a=1",
    "$x",
    "${x}",
    "${x:-",
    "}",
    "$(",
    ")",
    "`",
    "(",
    "((",
    "))",
    "{",
    "[",
    "[[",
    "]",
    "]]",
    "'",
    "\"",
    "\\",
    "\n",
    " ",
    " ",
    " ",
    ";",
    ";;",
    "&",
    "&&",
    "|",
    "||",
    "|&",
    ">",
    ">>",
    ">&",
    "2>&1",
    "<",
    "<<EOF\n",
    "\nEOF\n",
    "<<<",
    "<(",
    "if ",
    "then ",
    "fi",
    "for ",
    "in ",
    "do ",
    "done",
    "while ",
    "case ",
    "esac",
    "!",
    "*",
    "~",
    "#",
    "$((",
    "function ",
];

fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&PIECES[..]), 0..60).prop_map(|pieces| pieces.concat())
}

/// A word in another notation with the same meaning.
fn quoted(word: &str, way: u8) -> String {
    match way % 5 {
        0 => format!("'{word}'"),
        1 => format!("\"{word}\""),
        2 => word.chars().map(|c| format!("\\{c}")).collect(),
        3 => format!("''{word}\"\""),
        _ => word.chars().map(|c| format!("'{c}'")).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn commands_put_together_are_at_least_each_of_them(
        first in prop::sample::select(ordinary()),
        second in prop::sample::select(ordinary()),
        third in prop::sample::select(ordinary()),
        joints in prop::array::uniform2(prop::sample::select(vec![" && ", "; ", " | ", "\n", " || ", " & "])),
    ) {
        let all = classes_of(&format!("{first}{}{second}{}{third}", joints[0], joints[1]));
        for part in [first, second, third] {
            let part_classes = classes_of(part);
            let risk = all.contains(avfs_exec::Class::HostEscapeRisk);
            prop_assert!(risk || holds(all, part_classes), "{part}: {part_classes}, all: {all}");
        }
    }

    #[test]
    fn a_command_inside_another_is_found(inner in prop::sample::select(ordinary()), way in 0_usize..7) {
        let outer = match way {
            0 => format!("echo \"$({inner})\""),
            1 => format!("( {inner} )"),
            2 => format!("if true; then {inner}; fi"),
            3 => format!("for i in a b; do {inner}; done"),
            4 => format!("cat <({inner})"),
            5 => format!("f() {{ {inner}; }}; f"),
            _ => format!("{{ {inner}; }} | cat"),
        };
        let (all, part) = (classes_of(&outer), classes_of(inner));
        let risk = all.contains(avfs_exec::Class::HostEscapeRisk);
        prop_assert!(risk || holds(all, part), "{outer}: {all} does not hold {part}");
    }

    #[test]
    fn quoting_a_word_in_another_way_never_makes_it_milder(
        command in prop::sample::select(plain_words()),
        which in any::<prop::sample::Index>(),
        way in any::<u8>(),
    ) {
        let words: Vec<&str> = command.split(' ').collect();
        let at = which.index(words.len());
        let mut other: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        other[at] = quoted(words[at], way);
        let (before, after) = (classes_of(command), classes_of(&other.join(" ")));
        prop_assert!(holds(after, before), "{}: {after} instead of {before}", other.join(" "));
    }

    #[test]
    fn any_text_gets_an_answer(text in any::<String>()) {
        let found = classify(&Command::Shell(text));
        Policy::built_in().decide(&found, false);
    }

    #[test]
    fn any_pieces_of_the_language_get_an_answer(text in pieces()) {
        let found = classify(&Command::Shell(text));
        let all: Classes = found.parts.iter().map(|part| part.classes).collect();
        prop_assert_eq!(found.classes, all);
        prop_assert_eq!(found.class, all.worst());
    }

    #[test]
    fn words_get_the_same_classes_with_and_without_a_shell(command in prop::sample::select(plain_words())) {
        let words = command.split_whitespace().map(Into::into).collect();
        prop_assert_eq!(classify(&Command::Argv(words)).classes, classes_of(command));
    }
}
