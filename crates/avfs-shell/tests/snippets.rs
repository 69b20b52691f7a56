//! Snippets as agents write them answer as in the machine's bash.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use avfs_shell::{SandboxShell, ShellOptions};
use avfs_vfs::Vfs;

const SNIPPETS: [(&str, &str); 5] = [
    ("reading", include_str!("snippets/reading.sh")),
    ("text", include_str!("snippets/text.sh")),
    ("changing", include_str!("snippets/changing.sh")),
    ("language", include_str!("snippets/language.sh")),
    ("options", include_str!("snippets/options.sh")),
];
/// Snippets that differ: a name, and why.
const KNOWN: &str = include_str!("snippets/known.txt");

/// The tree in which each snippet runs.
const FILES: [(&str, &str); 10] = [
    (
        "README.md",
        "# Sample\n\nA project to read.\n\n## Usage\n\nRun `main.py`.\n",
    ),
    (
        "src/main.py",
        "import sys\nimport util\n\n# TODO: arguments\ndef main():\n    print(util.add(1, 2))\n\n\nif __name__ == '__main__':\n    main()\n",
    ),
    (
        "src/util.py",
        "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n",
    ),
    ("src/.hidden", "x\n"),
    ("notes/todo.md", "- TODO: write tests\n- done\n"),
    (
        "data.csv",
        "name,count,city\napple,10,Rome\npear,2,Oslo\nplum,33,Bern\n",
    ),
    (
        "data.json",
        "{\"name\": \"sample\", \"version\": 1, \"items\": [{\"id\": \"a\", \"price\": 3}, {\"id\": \"b\", \"price\": 7.5}]}\n",
    ),
    (
        "log.txt",
        "2024-01-01 INFO start id=1\n2024-01-02 ERROR failed id=22\n2024-01-03 INFO retry id=3\n2024-01-04 WARN slow id=4\n2024-01-05 ERROR failed again id=55\n",
    ),
    ("words.txt", "alpha\nbeta\na.b\ngamma\nalpha\n"),
    ("numbers.txt", "10\n9\n2\n33\n1\n"),
];

struct Snippet {
    name: String,
    text: &'static str,
}

fn snippets() -> Vec<Snippet> {
    let of_file = |(file, text): (&'static str, &'static str)| {
        let parts = text.split("#---\n").enumerate();
        parts.map(move |(index, text)| Snippet {
            name: format!("{file}:{}", index + 1),
            text,
        })
    };
    SNIPPETS.into_iter().flat_map(of_file).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    stdout: String,
    status: i32,
}

fn in_bash(text: &str) -> Answer {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("work");
    for (path, content) in FILES {
        let file = place.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    fs::write(place.join("empty.txt"), "").unwrap();
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-c", text])
        .current_dir(&place)
        .env_clear()
        .envs([
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("LC_ALL", "C.UTF-8"),
            ("TMPDIR", temporary(home.path())),
        ])
        .env("HOME", home.path())
        .stdin(Stdio::null());
    let output = bash.output().unwrap();
    Answer {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        status: output.status.code().unwrap(),
    }
}

fn temporary(home: &Path) -> &str {
    home.to_str().unwrap()
}

fn in_shell(text: &str) -> Answer {
    let vfs = Vfs::new();
    for (path, content) in FILES {
        vfs.write_file(format!("/work/{path}"), content, None).unwrap();
    }
    vfs.write_file("/work/empty.txt", "", None).unwrap();
    vfs.mkdir("/tmp", false, false).unwrap();
    let options = ShellOptions {
        cwd: Some("/work".to_owned()),
        ..ShellOptions::default()
    };
    let mut shell = SandboxShell::with_options(&vfs, options).unwrap();
    match shell.exec(text) {
        Ok(result) => Answer {
            stdout: result.stdout_text().into_owned(),
            status: result.exit_code,
        },
        Err(error) => Answer {
            stdout: format!("{}: {error}", error.code()),
            status: -1,
        },
    }
}

#[test]
fn snippets_answer_as_in_bash() {
    let snippets = snippets();
    let known: BTreeSet<&str> = KNOWN
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let mut report = Vec::new();
    let mut different = 0;
    for snippet in &snippets {
        let (ours, bash) = (in_shell(snippet.text), in_bash(snippet.text));
        let is_known = known.contains(snippet.name.as_str());
        different += usize::from(ours != bash);
        if (ours != bash) != is_known {
            writeln!(
                report,
                "{} {}\n{}  ours: {ours:?}\n  bash: {bash:?}\n",
                snippet.name,
                if is_known {
                    "is listed as different, and is equal"
                } else {
                    "differs"
                },
                snippet.text,
            )
            .unwrap();
        }
    }
    let equal = snippets.len() - different;
    println!("{equal} of {} snippets are equal", snippets.len());
    assert!(report.is_empty(), "{}", String::from_utf8_lossy(&report));
    assert!(
        snippets.len() >= 200 && equal * 100 >= snippets.len() * 95,
        "{equal} of {}",
        snippets.len()
    );
}
