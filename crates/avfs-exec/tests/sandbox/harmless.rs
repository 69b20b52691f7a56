//! Commands that are classified as read-only change nothing and use no network: in a writable workspace, with
//! all network packets counted. Tests the corpus of ordinary commands, and randomly assembled commands.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use avfs_exec::{Class, Classes, Command, SandboxPlan, classify};

use crate::kit::{Workspace, launch, stderr, stdout};

/// A small generator, so that the same commands are tried everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % end as u64) as usize
    }

    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// Tools that only touch files that they are given, here always in a directory of their own.
const TOOLS: [&str; 40] = [
    "cat",
    "head",
    "tail",
    "wc",
    "sort",
    "uniq",
    "cut",
    "tr",
    "grep",
    "sed",
    "awk",
    "find",
    "diff",
    "cmp",
    "tee",
    "xxd",
    "dd",
    "shuf",
    "od",
    "nl",
    "tac",
    "paste",
    "comm",
    "join",
    "fold",
    "fmt",
    "split",
    "tar",
    "stat",
    "ls",
    "iconv",
    "ptx",
    "base64",
    "file",
    "getent hosts",
    "getent passwd",
    "hostname",
    "ss",
    "netstat",
    "git status",
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

const STARTS: [&str; 9] = [
    "",
    "",
    "",
    "",
    "timeout 5 ",
    "nice ",
    "env ",
    "LC_ALL=C ",
    "command ",
];

fn command(random: &mut Random) -> String {
    let mut text = format!("{}{}", random.pick(&STARTS), random.pick(&TOOLS));
    for _ in 0..random.below(5) {
        text.push(' ');
        text.push_str(random.pick(&WORDS));
    }
    text + random.pick(&ENDS)
}

/// The number of commands that share a sandbox.
const BATCH: usize = 20;

/// Runs its arguments one by one, each for at most the number of seconds in its name, then prints the
/// counters of the network namespace.
const RUNNER: &str = "for line in \"$@\"; do timeout -k 1 $0 bash --norc --noprofile -c \"$line\" </dev/null \
                      >/dev/null 2>&1; done; cat /proc/net/snmp; sed 's/^/v6 /' /proc/net/snmp6";

/// Counters that increase when a program connects, sends a datagram or finds no route.
const COUNTED: [&str; 6] = [
    "ActiveOpens",
    "OutDatagrams",
    "OutNoRoutes",
    "Ip6OutNoRoutes",
    "Udp6OutDatagrams",
    "Ip6OutRequests",
];

/// A project with samples of everything that such commands read.
fn project() -> Workspace {
    let workspace = Workspace::new();
    let made = launch(&workspace.shell(
        r#"mkdir dir src; printf 'x,1\ny,2\nx,1\n' > a; printf 'y\nx\n' > b; echo c > dir/c; echo one > file.txt
        echo '{"name": "p", "version": "1.0.0", "scripts": {"test": "touch new"}}' > package.json
        printf '[package]\nname = "p"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
        printf 'all:\n\ttouch new\n' > Makefile; echo "open('new', 'w')" > main.py; echo 'fn main() {}' > src/main.rs
        git init -q . && git add . && git -c user.name=n -c user.email=e commit -qm first && echo more >> a"#,
    ));
    assert_eq!(made.status(), 0, "{}", stderr(&made));
    workspace
}

/// Every file: its bytes, its mode and its modification time. A directory: its mode.
fn contents(directory: &Path) -> BTreeMap<String, (u32, Option<(SystemTime, Vec<u8>)>)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let found = fs::symlink_metadata(&path).unwrap();
        let held = if found.is_dir() {
            all.extend(contents(&path));
            None
        } else {
            Some((found.modified().unwrap(), fs::read(&path).unwrap_or_default()))
        };
        all.insert(path.display().to_string(), (found.mode(), held));
    }
    all
}

/// A number that the environment may override.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// Runs commands in one sandbox. Returns the counters.
fn run(workspace: &Workspace, commands: &[String]) -> u64 {
    let seconds = number("AVFS_HARMLESS_SECONDS", 2).to_string();
    let words = ["bash", "-c", RUNNER, &seconds]
        .into_iter()
        .chain(commands.iter().map(String::as_str));
    let mut plan = workspace.plan(&words.collect::<Vec<_>>());
    // As for read-only commands: git does not refresh its index.
    plan.env.push(("GIT_OPTIONAL_LOCKS".into(), "0".into()));
    let outcome = launch(&SandboxPlan {
        read_only: false,
        ..plan
    });
    assert_eq!(outcome.status(), 0, "{}", stderr(&outcome));
    counted(&stdout(&outcome))
}

/// `Tcp: ActiveOpens …` above `Tcp: 0 …`, and `v6 Ip6OutRequests 0`.
fn counted(text: &str) -> u64 {
    let number = |(name, value): (&str, &str)| {
        if COUNTED.contains(&name) {
            value.parse().unwrap()
        } else {
            0
        }
    };
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.windows(2).filter(|pair| {
        let heading = |line: &str| line.split(' ').next().map(str::to_owned);
        heading(pair[0]) == heading(pair[1]) && !pair[0].starts_with("v6")
    });
    let four: u64 = pairs
        .flat_map(|pair| pair[0].split(' ').zip(pair[1].split(' ')).skip(1))
        .map(number)
        .sum();
    let six = lines.iter().filter_map(|line| {
        let mut words = line.strip_prefix("v6 ")?.split_whitespace();
        Some(number((words.next()?, words.next()?)))
    });
    four + six.sum::<u64>()
}

fn is_read_only(command: &str) -> bool {
    classify(&Command::Shell(command.to_owned())).class == Class::ReadOnly
}

/// The effect of a command that runs alone, if it has any.
fn deed(command: &String) -> Option<String> {
    let alone = project();
    let before = contents(&alone.path());
    let sent = run(&alone, std::slice::from_ref(command));
    let after = contents(&alone.path());
    let changed: Vec<&String> = after
        .keys()
        .filter(|key| before.get(*key) != after.get(*key))
        .collect();
    (sent > 0 || after != before).then(|| format!("{command:?} sent {sent}, changed {changed:?}"))
}

/// Runs all commands in batches, and those of a batch with an effect one by one.
fn check(commands: &[String], seed: &str) {
    let mut workspace = project();
    let mut deeds = Vec::new();
    for batch in commands.chunks(BATCH) {
        let before = contents(&workspace.path());
        if run(&workspace, batch) == 0 && contents(&workspace.path()) == before {
            continue;
        }
        let found: Vec<String> = batch.iter().filter_map(deed).collect();
        assert!(
            !found.is_empty(),
            "{seed}: one of {batch:?} did something, and does not when it is alone"
        );
        deeds.extend(found);
        workspace = project();
    }
    assert!(deeds.is_empty(), "{seed}:\n{}", deeds.join("\n"));
}

#[test]
fn read_only_commands_of_the_corpus_change_nothing_and_connect_nowhere() {
    let mut heading = None;
    let mut commands = Vec::new();
    for line in include_str!("../corpus/ordinary.txt")
        .lines()
        .filter(|line| !line.starts_with("# "))
    {
        let name = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        match name.and_then(Classes::parse) {
            Some(classes) => heading = Some(classes),
            None if heading == Some(Class::ReadOnly.into()) => commands.push(line.replace('⏎', "\n")),
            None => {}
        }
    }
    let commands: Vec<String> = commands
        .into_iter()
        .filter(|command| is_read_only(command))
        .collect();
    assert!(commands.len() > 200, "{}", commands.len());
    check(&commands, "of the corpus");
}

#[test]
fn read_only_commands_change_nothing_and_connect_nowhere() {
    let (seed, count) = (
        number("AVFS_FUZZ_SEED", 20),
        number("AVFS_HARMLESS_COMMANDS", 300),
    );
    let mut random = Random(seed);
    let commands = std::iter::repeat_with(|| command(&mut random)).filter(|command| is_read_only(command));
    check(
        &commands.take(count as usize).collect::<Vec<_>>(),
        &format!("AVFS_FUZZ_SEED={seed}"),
    );
}

#[test]
fn changes_of_others_are_seen() {
    let workspace = project();
    let before = contents(&workspace.path());
    for command in [
        "sort -o new a",
        "sed -n 'w new' a",
        "cat a > new",
        "awk '{print > \"new\"}' a",
    ] {
        assert!(!is_read_only(command), "{command}");
        assert_eq!(run(&workspace, &[command.to_owned()]), 0);
        assert_ne!(contents(&workspace.path()), before, "{command}");
        fs::remove_file(workspace.path().join("new")).unwrap();
    }
    for command in [
        "echo > /dev/tcp/192.0.2.1/80",
        "echo > /dev/tcp/127.0.0.1/80",
        "echo > /dev/udp/127.0.0.1/53",
        "echo > /dev/udp/192.0.2.1/53",
        "echo > /dev/tcp/2001:db8::1/80",
        "getent hosts example.com",
    ] {
        assert!(!is_read_only(command), "{command}");
        assert_ne!(run(&workspace, &[command.to_owned()]), 0, "{command}");
    }
}
