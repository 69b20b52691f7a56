//! Programs that run code of the tree, or fetch it first.

use super::ToolCall;
use crate::classify::assessor::{Assessor, Findings, shown};
use crate::classify::class::{Class, Classes};
use crate::classify::script::ShellWord;
use crate::classify::{spelling, telling};

fn fetched(what: &str) -> Findings {
    vec![(
        Class::Networked.into(),
        format!("`{}` is fetched before it runs", shown(what)),
    )]
}

/// `npx` and the like: a known tool is one of the tree; any other is downloaded if it is not installed.
pub(crate) fn npx(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let rest = call.arguments.rest;
    let Some(first) = rest.first() else {
        return Vec::new();
    };
    judge.inner(rest);
    match first.literal() {
        Some(name) if spelling::of(name).is_some() => Vec::new(),
        Some(name) if call.arguments.has(&["--no", "--no-install", "--offline"]) => {
            drop_version(judge, name, rest)
        }
        Some(name) => {
            // Both count: what is fetched, and what a tool of this name does.
            let mut findings = drop_version(judge, name, rest);
            findings.extend(fetched(name));
            findings
        }
        None => Vec::new(),
    }
}

/// `rimraf@5` does what `rimraf` does.
fn drop_version(judge: &mut Assessor, name: &str, rest: &[ShellWord]) -> Findings {
    let bare = name
        .rsplit_once('@')
        .map(|(bare, _)| bare)
        .filter(|bare| spelling::of(bare).is_some());
    if let Some(bare) = bare {
        let mut words = rest.to_vec();
        words[0] = ShellWord::exact(bare);
        judge.inner(&words);
    }
    Vec::new()
}

/// `python -m pip` is `pip`; everything else is code.
pub(crate) fn python(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let words = call.arguments.rest;
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.text.starts_with('-')) {
        let letters = word.text.trim_start_matches('-');
        let valued = letters
            // Letters may share a dash, and the first of these takes the rest of the word or the next one.
            .find(['m', 'c', 'W', 'X'])
            .filter(|_| !word.text.starts_with("--"));
        let (flag, attached) = valued.map_or(("", ""), |flag| (&letters[flag..=flag], &letters[flag + 1..]));
        let after = if attached.is_empty() { at + 2 } else { at + 1 };
        match flag {
            "m" => {
                let attached = word.rest_of(attached);
                let name = if attached.text.is_empty() {
                    words.get(at + 1)
                } else {
                    Some(&attached)
                };
                return module(judge, name, words.get(after..).unwrap_or_default());
            }
            "c" => {
                let attached = word.rest_of(attached);
                let text = if attached.text.is_empty() {
                    words.get(at + 1)
                } else {
                    Some(&attached)
                };
                return code()
                    .into_iter()
                    .chain(text.into_iter().flat_map(|text| told_by_code(judge, text)))
                    .collect();
            }
            "" => at += 1,
            _ => at = after,
        }
    }
    let script = words.get(at..).unwrap_or_default();
    // As its own tool as well: running it is code in any case.
    known_script(judge, script);
    if script.first().is_none_or(|word| word.literal() == Some("-")) {
        code().into_iter().chain(told_by_input(judge)).collect()
    } else {
        code()
    }
}

/// The effects of code that an interpreter reads from its input.
fn told_by_input(judge: &mut Assessor) -> Findings {
    let texts: Vec<ShellWord> = judge.texts().map(ShellWord::exact).collect();
    texts.iter().flat_map(|text| told_by_code(judge, text)).collect()
}

/// Scripts that are tools themselves, wherever they are.
const SCRIPTS: [&str; 6] = [
    "manage.py",
    "setup.py",
    "artisan",
    "console",
    "spark",
    "composer.phar",
];

/// `python manage.py` and `php artisan` are also classified by the tables of these scripts.
fn known_script(judge: &mut Assessor, words: &[ShellWord]) {
    let Some((script, rest)) = words.split_first() else {
        return;
    };
    let name = script
        .literal()
        .and_then(|path| path.rsplit('/').next())
        .filter(|name| SCRIPTS.contains(name));
    if let Some(name) = name {
        let words: Vec<ShellWord> = [ShellWord::exact(name)]
            .into_iter()
            .chain(rest.iter().cloned())
            .collect();
        judge.inner(&words);
    }
}

/// Functions of languages that remove files.
const TAKES_AWAY: [&str; 20] = [
    "unlink",
    "unlinkSync",
    "removeRecursive",
    "rmSync",
    "rm_r",
    "rm_f",
    "rm_rf",
    "rmtree",
    "rmdir",
    "rmdirSync",
    "remove_dir",
    "remove_entry",
    "remove_tree",
    "remove_entry_secure",
    "removeSync",
    "removedirs",
    "deltree",
    "truncate",
    "truncateSync",
    "emptyDirSync",
];
const TAKES_AWAY_OF: [&str; 7] = [
    "os.remove(",
    "File.delete",
    "FileUtils.rm",
    "Deno.remove",
    "File.rm",
    "fs.rm(",
    "promises.rm(",
];

/// Modules and functions of languages that use the network, or download packages. Ambiguous words include the
/// text that follows them.
const TALKS: [&str; 40] = [
    "import urllib",
    "from urllib.request",
    "import requests",
    "from requests",
    "import httpx",
    "import aiohttp",
    "http.client",
    "import socket",
    "from socket",
    "import ftplib",
    "import smtplib",
    "import paramiko",
    "import boto3",
    "pip.main",
    "socket.connect",
    "net.connect",
    "require('net')",
    "require(\"net\")",
    "net.createConnection",
    "http.get(",
    "https.get(",
    "http.request(",
    "https.request(",
    "require('axios')",
    "require(\"axios\")",
    "Net::HTTP",
    "TCPSocket",
    "IO::Socket",
    "LWP::",
    "HTTP::Tiny",
    "fsockopen",
    "curl_init",
    "socket.http",
    "install.packages(",
    "install_github(",
    "devtools::install",
    "remotes::install",
    "BiocManager::install",
    "pak::pkg_install",
    "Pkg.add",
];

/// A line of code that uses the network.
fn talks(text: &ShellWord) -> Option<(Classes, String)> {
    let address = telling::address_in(&text.text);
    let found = address.or_else(|| TALKS.into_iter().find(|name| text.text.contains(name)));
    found.map(|name| {
        (
            Class::Networked.into(),
            format!("`{}` uses the network", shown(name)),
        )
    })
}

/// The effects of a line of code itself. The programs that it starts are classified as well.
fn told_by_code(judge: &mut Assessor, text: &ShellWord) -> Findings {
    started(judge, &text.text);
    taken_away(text).into_iter().chain(talks(text)).collect()
}

/// Functions of languages that start programs. A line with back quotes may be one of Perl or Ruby.
const STARTS: [&str; 10] = [
    "system",
    "popen",
    "subprocess",
    "child_process",
    "exec",
    "spawn",
    "Popen",
    "Deno.Command",
    "Bun.$",
    "`",
];

/// Classifies the strings of a line of code that begin with the name of a tool: a command line, or a program
/// with the following strings as its arguments.
fn started(judge: &mut Assessor, code: &str) {
    if !STARTS.iter().any(|name| code.contains(name)) {
        return;
    }
    let strings = strings_of(code);
    for (at, string) in strings.iter().enumerate() {
        let first = string.split_whitespace().next().unwrap_or_default();
        if spelling::of(first).is_none() || !judge.may_try() {
            continue;
        }
        // A string with spaces is for a shell; several without are the words of one command.
        if string.contains(char::is_whitespace) {
            judge.inner_shell(string)
        } else {
            let words: Vec<ShellWord> = strings[at..]
                .iter()
                .map(|string| ShellWord::exact(*string))
                .collect();
            judge.inner(&words);
        }
    }
}

/// The quoted strings in a line of code.
fn strings_of(code: &str) -> Vec<&str> {
    let mut strings = Vec::new();
    let mut open: Option<(char, usize)> = None;
    let mut is_escaped = false;
    for (at, c) in code.char_indices() {
        match open {
            // The rules of most languages at once: a string that ends too late only gives more to look at.
            _ if is_escaped => is_escaped = false,
            Some(_) if c == '\\' => is_escaped = true,
            Some((quote, start)) if c == quote => {
                strings.push(&code[start..at]);
                open = None;
            }
            None if matches!(c, '"' | '\'' | '`') => open = Some((c, at + 1)),
            _ => {}
        }
    }
    strings
}

/// A line of code that removes files.
fn taken_away(text: &ShellWord) -> Option<(Classes, String)> {
    // Whole names first: `unlink` in `unlinked` removes nothing.
    let names = text.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let found = names.into_iter().find(|name| TAKES_AWAY.contains(name));
    let found = found.or_else(|| TAKES_AWAY_OF.into_iter().find(|name| text.text.contains(name)));
    found.map(|name| (Class::Destructive.into(), format!("`{name}` takes files away")))
}

/// `perl`, `ruby`, `node` and `php`: a line of code, or a script.
pub(crate) fn interpreter(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let lines: &[&str] = match call.name {
        "php" => &["-r", "-R", "-B", "-E"],
        _ => &["-e", "-E", "--eval", "-p", "--print", "-pe"],
    };
    let operands: Vec<ShellWord> = call
        .arguments
        .operands
        .iter()
        .map(|word| (*word).clone())
        .collect();
    if !call.arguments.has(lines) {
        known_script(judge, &operands);
    }
    let evaluated = operands.iter().filter(|_| call.name.ends_with(" eval"));
    // Without a script and without a line of code, the interpreter reads its input.
    let is_fed = operands.iter().all(|word| word.literal() == Some("-")) && !call.arguments.has(lines);
    let fed = if is_fed {
        told_by_input(judge)
    } else {
        Findings::new()
    };
    let lines: Vec<&ShellWord> = call.arguments.values(lines).chain(evaluated).collect();
    let serves = server_of(call);
    lines
        .into_iter()
        .flat_map(|text| told_by_code(judge, text))
        .chain(fed)
        .chain(serves)
        .collect()
}

/// `php -S ADDRESS` and `ruby -run -e httpd`.
fn server_of(call: &ToolCall<'_>) -> Option<(Classes, String)> {
    match call.name {
        "php" => {
            let mut addresses = call.arguments.values(&["-S"]);
            addresses.next().and_then(|address| served(Some(&address.text)))
        }
        "ruby" => {
            let is_server = call
                .arguments
                .values(&["-e"])
                .any(|word| word.literal() == Some("httpd"));
            is_server.then(|| served(None)).flatten()
        }
        _ => None,
    }
}

fn code() -> Findings {
    vec![(Class::Mutating.into(), "code runs".to_owned())]
}

/// Modules that are the tool of their name. `python -m test` is not `test`.
const MODULES: [&str; 25] = [
    "alembic", "anaconda", "black", "celery", "coverage", "fabric", "flask", "flit", "gunicorn", "hatch",
    "invoke", "kaggle", "maturin", "mkdocs", "mypy", "nox", "pdm", "pip", "pipx", "poetry", "pytest", "ruff",
    "tox", "twine", "uv",
];

/// A module is ordinary code, unless it is a tool of the tables.
fn module(judge: &mut Assessor, name: Option<&ShellWord>, rest: &[ShellWord]) -> Findings {
    match name.and_then(ShellWord::literal) {
        Some(name) if MODULES.contains(&name) => {
            let words: Vec<ShellWord> = [ShellWord::exact(name)]
                .into_iter()
                .chain(rest.iter().cloned())
                .collect();
            judge.inner(&words);
            Vec::new()
        }
        Some("http.server" | "SimpleHTTPServer" | "CGIHTTPServer") => {
            // Without an address the module listens on all of them.
            let bound = value_of(rest, &["--bind", "-b"]);
            let serves = !rest
                .iter()
                .any(|word| matches!(word.literal(), Some("-h" | "--help")));
            code()
                .into_iter()
                .chain(served(bound).filter(|_| serves))
                .collect()
        }
        _ => code(),
    }
}

/// The value after a flag, or in the same word.
fn value_of<'a>(words: &'a [ShellWord], flags: &[&str]) -> Option<&'a str> {
    words.iter().enumerate().find_map(|(at, word)| {
        let (flag, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        match (flags.contains(&flag), value) {
            (false, _) => None,
            (true, "") => words.get(at + 1).map(|next| next.text.as_str()),
            (true, value) => Some(value),
        }
    })
}

/// A server that other machines can reach, unless it is bound to an address that only this machine can reach.
fn served(bound: Option<&str>) -> Option<(Classes, String)> {
    let is_own = |address: &str| {
        ["localhost", "127.", "[::1]", "::1"]
            .iter()
            .any(|own| address.starts_with(own))
    };
    (!bound.is_some_and(is_own)).then(|| {
        (
            Class::Networked.into(),
            "files are served to every address".to_owned(),
        )
    })
}

/// `go run` and `deno run`: a module with a version, or an address, is downloaded.
pub(crate) fn module_run(_: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let operand = call
        .arguments
        .operands
        .first()
        .map(|word| word.text.as_str())
        .unwrap_or_default();
    let schemes = ["http://", "https://", "npm:", "jsr:"];
    let remote = schemes.iter().any(|scheme| operand.starts_with(scheme)) || operand.contains('@');
    if remote { fetched(operand) } else { Vec::new() }
}

/// `uv run`: a command, or the address of a script.
pub(crate) fn uv_run(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let Some(first) = call.arguments.rest.first() else {
        return Vec::new();
    };
    judge.inner(call.arguments.rest);
    if first.text.starts_with("https://") || first.text.starts_with("http://") {
        fetched(&first.text)
    } else {
        Vec::new()
    }
}
