//! Ignored files in a task, compared with git's answer for the same directory.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::*;
use crate::project::Project;
use crate::store::Store;
use crate::task::NewTask;

struct Place {
    directory: TempDir,
    store: Store,
}

impl Place {
    fn new(files: &[(&str, &str)]) -> Place {
        let directory = TempDir::new().unwrap();
        let store = Store::open(&directory.path().join("store")).unwrap();
        let place = Place { directory, store };
        fs::create_dir(place.root()).unwrap();
        files.iter().for_each(|(path, text)| place.write(path, text));
        place
    }

    fn root(&self) -> std::path::PathBuf {
        self.directory.path().canonicalize().unwrap().join("project")
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.root().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn git(&self, arguments: &[&str]) -> Vec<u8> {
        self.git_with(arguments, b"")
    }

    fn git_with(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let mut command = Command::new("git");
        command
            .current_dir(self.root())
            .args(arguments)
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        command
            .env("XDG_CONFIG_HOME", self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.code().is_some_and(|code| code < 2),
            "git {arguments:?}"
        );
        output.stdout
    }

    fn ignored(&self) -> Ignored {
        let project: Project = self.store.project(&self.root()).unwrap();
        let task = project
            .new_task(&NewTask {
                command: "make".into(),
                ..NewTask::default()
            })
            .unwrap();
        let reader = |state| task.vault().reader_at(state).unwrap();
        let states = States {
            base: reader(task.base().unwrap()),
            head: reader(task.head().unwrap()),
        };
        Ignored {
            states,
            directories: HashMap::new(),
            users: Vec::new(),
        }
    }

    /// The ignored paths among these; directories end with `/`.
    #[track_caller]
    fn check(&self, paths: &[&str], expected: &[&str]) {
        let mut ignored = self.ignored();
        let found: Vec<&str> = paths
            .iter()
            .copied()
            .filter(|path| is_ignored(&mut ignored, path))
            .collect();
        assert_eq!(found, expected);
    }
}

fn is_ignored(ignored: &mut Ignored, path: &str) -> bool {
    let tree_path = TreePath::parse(path.as_bytes()).unwrap();
    ignored.is_ignored(&tree_path, path.ends_with('/')).unwrap()
}

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

/// Names without wildcards: `git check-ignore` would treat others as patterns.
const NAMES: [&str; 7] = ["a", "b", "ab", "x.log", "dir", "bab", "b c"];
const PIECES: [&str; 16] = [
    "a",
    "b",
    "*",
    "**",
    "?",
    "/",
    "/",
    "x.log",
    "dir",
    "[ab]",
    "[!a]",
    "\\*",
    "*.log",
    "ab",
    "[[:alpha:]]",
    "**/",
];

fn pattern(dice: &mut Dice) -> String {
    let mut text = if dice.roll(5) == 0 {
        "!".to_owned()
    } else {
        String::new()
    };
    for _ in 0..=dice.roll(4) {
        text.push_str(dice.pick(&PIECES));
    }
    if dice.roll(8) == 0 {
        text.push(' ');
    }
    text.push('\n');
    text
}

#[test]
fn random_lists_ignore_what_git_ignores() {
    let seed = std::env::var("AVFS_FUZZ_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(0x5eed);
    for round in 0..6 {
        let mut dice = Dice(seed + round);
        let place = Place::new(&[]);
        place.git(&["init", "-q"]);
        let mut paths = Vec::new();
        for _ in 0..60 {
            let depth = 1 + dice.roll(4);
            let path: Vec<&str> = (0..depth).map(|_| dice.pick(&NAMES)).collect();
            let path = path.join("/");
            let file = place.root().join(&path);
            let is_free = !file.exists() && file.ancestors().skip(1).all(|above| !above.is_file());
            if is_free {
                place.write(&path, "");
                paths.push(path);
            }
        }
        for directory in ["", "a/", "dir/", "a/b/"] {
            if place.root().join(directory).is_dir() {
                let list: String = (0..=dice.roll(5)).map(|_| pattern(&mut dice)).collect();
                place.write(&format!("{directory}.gitignore"), &list);
            }
        }
        place.write(".git/info/exclude", &pattern(&mut dice));
        let tracked: Vec<&String> = paths.iter().filter(|_| dice.roll(6) == 0).collect();
        let names: Vec<u8> = tracked
            .iter()
            .flat_map(|path| [path.as_bytes(), b"\0"].concat())
            .collect();
        let version = ["2", "4"][dice.roll(2)];
        place.git_with(&["update-index", "--add", "-z", "--stdin"], &names);
        place.git(&["update-index", &format!("--index-version={version}")]);
        let given: Vec<u8> = paths
            .iter()
            .flat_map(|path| [b"./", path.as_bytes(), b"\0"].concat())
            .collect();
        let told = place.git_with(&["check-ignore", "-z", "--stdin"], &given);
        let expected: Vec<String> = told
            .split(|byte| *byte == 0)
            .filter(|path| !path.is_empty())
            .map(|path| {
                String::from_utf8(path.to_vec())
                    .unwrap()
                    .trim_start_matches("./")
                    .to_owned()
            })
            .collect();
        let mut ignored = place.ignored();
        let found: Vec<String> = paths
            .iter()
            .filter(|path| is_ignored(&mut ignored, path))
            .cloned()
            .collect();
        let lists = lists(&place.root());
        assert_eq!(found, expected, "AVFS_FUZZ_SEED={} {lists}", seed + round);
    }
}

fn lists(root: &Path) -> String {
    let files = ["", "a/", "dir/", "a/b/"].map(|directory| format!("{directory}.gitignore"));
    let all = files.iter().map(String::as_str).chain([".git/info/exclude"]);
    all.map(|file| {
        format!(
            "{file}: {:?} ",
            fs::read_to_string(root.join(file)).unwrap_or_default()
        )
    })
    .collect()
}

#[test]
fn tracked_file_is_not_ignored_even_below_an_ignored_directory() {
    let place = Place::new(&[
        (".gitignore", "dist/\n*.log\n"),
        ("dist/a", ""),
        ("dist/b", ""),
        ("a.log", ""),
    ]);
    place.git(&["init", "-q"]);
    place.git(&["add", "-f", "dist/a", "a.log"]);
    place.check(
        &["dist/a", "dist/b", "a.log", "b.log", "src/x"],
        &["dist/b", "b.log"],
    );
}

#[test]
fn without_a_repository_lists_and_well_known_names_count() {
    let place = Place::new(&[
        (".gitignore", "out/\n"),
        ("Cargo.toml", ""),
        ("tool/.DS_Store", ""),
    ]);
    let paths = [
        "out/x",
        "node_modules/x/y.js",
        "target/debug/x",
        "tool/target/x",
        "dist/x",
        "a/b.pyc",
    ];
    place.check(
        &paths,
        &["out/x", "node_modules/x/y.js", "target/debug/x", "a/b.pyc"],
    );
}

#[test]
fn in_a_repository_only_its_lists_and_bytecode_count() {
    let place = Place::new(&[("Cargo.toml", ""), ("pkg/tracked.pyc", "")]);
    place.git(&["init", "-q"]);
    place.git(&["add", "-f", "pkg/tracked.pyc"]);
    let paths = [
        "node_modules/x",
        "target/x",
        "pkg/__pycache__/a.pyc",
        "pkg/tracked.pyc",
    ];
    place.check(&paths, &["pkg/__pycache__/a.pyc"]);
}

#[test]
fn a_list_can_want_what_is_known_as_a_build_directory() {
    let place = Place::new(&[(".gitignore", "!node_modules/\n!*.pyc\n")]);
    place.check(&["node_modules/x", "a.pyc"], &[]);
}

#[test]
fn a_repository_in_a_repository_has_its_own_lists_and_index() {
    let place = Place::new(&[
        (".gitignore", "*.log\n"),
        ("inner/a.log", ""),
        ("inner/b.tmp", ""),
    ]);
    place.git(&["init", "-q"]);
    place.git(&["init", "-q", "inner"]);
    place.write("inner/.gitignore", "*.tmp\n");
    place.git(&["-C", "inner", "add", "-f", "b.tmp"]);
    place.check(
        &["a.log", "inner/a.log", "inner/b.tmp", "inner/c.tmp"],
        &["a.log", "inner/c.tmp"],
    );
}

#[test]
fn a_named_path_that_is_ignored_is_meant() {
    let place = Place::new(&[(".gitignore", "dist/\n"), ("dist/a", ""), ("src/dist/a", "")]);
    place.git(&["init", "-q"]);
    let mut ignored = place.ignored();
    let path = |text: &str| TreePath::parse(text.as_bytes()).unwrap();
    let mut is_left_out = |at: &str, named: &str| {
        ignored
            .left_out(&path(at), false, &HashSet::from([path(named)]))
            .unwrap()
            .map(|place| place.to_string())
    };
    assert_eq!(is_left_out("dist/a", "dist"), None);
    assert_eq!(is_left_out("dist/a", "dist/a"), None);
    assert_eq!(is_left_out("src/dist/a", "src"), Some("/src/dist".to_owned()));
    assert_eq!(is_left_out("dist/a", "/"), Some("/dist".to_owned()));
}
