//! What is called read-only changes nothing when a real shell runs it.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command as Process, Stdio};

use avfs_exec::{Class, Command, classify};

/// A small generator, so that the same commands are tried everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % end as u64) as usize
    }

    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// Tools that only touch files they are told to, here always in a directory of their own.
const TOOLS: [&str; 34] = [
    "cat", "head", "tail", "wc", "sort", "uniq", "cut", "tr", "grep", "sed", "awk", "find", "diff", "cmp",
    "tee", "xxd", "dd", "shuf", "od", "nl", "tac", "paste", "comm", "join", "fold", "fmt", "split", "tar",
    "stat", "ls", "iconv", "ptx", "base64", "file",
];

const WORDS: [&str; 58] = [
    "a",
    "b",
    "dir",
    "dir/c",
    "new",
    "-o",
    "-o new",
    "-onew",
    "-n",
    "-r",
    "-u",
    "-c",
    "-i",
    "-k1",
    "-t,",
    "-d,",
    "-f1",
    "-e",
    "-e p",
    "-e 'w new'",
    "'w new'",
    "'s/x/y/'",
    "'s/x/y/w new'",
    "p",
    "1p",
    "'1,2d'",
    "-exec",
    "touch",
    "{}",
    "';'",
    "-delete",
    "-fprint",
    "-name",
    "-type",
    "f",
    "-print",
    "of=new",
    "if=a",
    "--output=new",
    "--outp=new",
    "-x",
    "-l",
    "x",
    "'{print}'",
    "'{print > \"new\"}'",
    "'BEGIN{system(\"touch new\")}'",
    "-",
    "--",
    "-z",
    "-tf",
    "-cf",
    "new.tar",
    "-s",
    "-p",
    "--in-place",
    "-T.",
    "-b",
    "--filter='touch new'",
];

const ENDS: [&str; 12] = [
    "",
    "",
    "",
    "",
    " | cat",
    " | sort",
    " > new",
    " 2>&1",
    " 2>/dev/null",
    " >/dev/null",
    " | tee new",
    " | xargs cat",
];

const STARTS: [&str; 9] = ["", "", "", "", "timeout 5 ", "nice ", "env ", "LC_ALL=C ", "command "];

fn command(random: &mut Random) -> String {
    let mut text = format!("{}{}", random.pick(&STARTS), random.pick(&TOOLS));
    for _ in 0..random.below(5) {
        text.push(' ');
        text.push_str(random.pick(&WORDS));
    }
    text + random.pick(&ENDS)
}

fn prepare(directory: &Path) {
    fs::create_dir(directory.join("dir")).unwrap();
    fs::write(directory.join("a"), "x,1\ny,2\nx,1\n").unwrap();
    fs::write(directory.join("b"), "y\nx\n").unwrap();
    fs::write(directory.join("dir/c"), "c\n").unwrap();
}

/// Every file with its bytes.
fn contents(directory: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => {
                all.insert(path.display().to_string(), None);
                all.extend(contents(&path));
            }
            false => _ = all.insert(path.display().to_string(), Some(fs::read(&path).unwrap())),
        }
    }
    all
}

fn run(directory: &Path, command: &str) {
    let mut shell = Process::new("timeout");
    shell.args(["10", "bash", "--norc", "--noprofile", "-c", command]).current_dir(directory);
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", directory);
    shell.status().expect("bash and timeout are part of every system that this is built on");
}

#[test]
fn read_only_commands_change_nothing_in_a_real_shell() {
    const SEED: u64 = 20;
    let mut random = Random(SEED);
    let directory = tempfile::tempdir().unwrap();
    prepare(directory.path());
    let before = contents(directory.path());
    let mut tried = 0;
    for _ in 0..3_000 {
        let command = command(&mut random);
        if classify(&Command::Shell(command.clone())).class != Class::ReadOnly {
            continue;
        }
        tried += 1;
        run(directory.path(), &command);
        assert_eq!(contents(directory.path()), before, "seed {SEED}: {command}");
        if tried == 400 {
            break;
        }
    }
    assert_eq!(tried, 400, "too few of the commands are called read-only");
}

#[test]
fn the_same_shell_does_change_something_for_others() {
    let directory = tempfile::tempdir().unwrap();
    prepare(directory.path());
    let before = contents(directory.path());
    for command in ["sort -o new a", "sed -n 'w new' a", "cat a > new", "awk '{print > \"new\"}' a"] {
        assert_ne!(classify(&Command::Shell(command.to_owned())).class, Class::ReadOnly, "{command}");
        run(directory.path(), command);
        assert_ne!(contents(directory.path()), before, "{command}");
        fs::remove_file(directory.path().join("new")).unwrap();
    }
}
