//! Programs that run code of the tree, or fetch it first.

use super::Call;
use crate::classify::class::{Class, Classes};
use crate::classify::judge::{Findings, Judge, shown};
use crate::classify::script::Word;
use crate::classify::spelling;

fn fetched(what: &str) -> Findings {
    vec![(Class::Networked.into(), format!("`{}` is fetched before it runs", shown(what)))]
}

/// `npx` and the like: a tool that is known is one of the tree; any other is fetched when it is not there.
pub(crate) fn npx(judge: &mut Judge, call: &Call<'_>) -> Findings {
    let rest = call.arguments.rest;
    let Some(first) = rest.first() else { return Vec::new() };
    judge.inner(rest);
    match first.literal() {
        Some(name) if spelling::of(name).is_some() => Vec::new(),
        Some(name) if call.arguments.has(&["--no", "--no-install", "--offline"]) => {
            drop_version(judge, name, rest)
        }
        Some(name) => {
            let mut findings = drop_version(judge, name, rest);
            findings.extend(fetched(name));
            findings
        }
        None => Vec::new(),
    }
}

/// `rimraf@5` does what `rimraf` does.
fn drop_version(judge: &mut Judge, name: &str, rest: &[Word]) -> Findings {
    let bare = name.rsplit_once('@').map(|(bare, _)| bare).filter(|bare| spelling::of(bare).is_some());
    if let Some(bare) = bare {
        let mut words = rest.to_vec();
        words[0] = Word::exact(bare);
        judge.inner(&words);
    }
    Vec::new()
}

/// `python -m pip` is `pip`; everything else is code.
pub(crate) fn python(judge: &mut Judge, call: &Call<'_>) -> Findings {
    let words = call.arguments.rest;
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.text.starts_with('-')) {
        let letters = word.text.trim_start_matches('-');
        let valued = letters.find(['m', 'c', 'W', 'X']).filter(|_| !word.text.starts_with("--"));
        let (flag, attached) = valued.map_or(("", ""), |flag| (&letters[flag..=flag], &letters[flag + 1..]));
        let after = if attached.is_empty() { at + 2 } else { at + 1 };
        match flag {
            "m" => {
                let attached = word.rest_of(attached);
                let name = if attached.text.is_empty() { words.get(at + 1) } else { Some(&attached) };
                return module(judge, name, words.get(after..).unwrap_or_default());
            }
            "c" => {
                let attached = word.rest_of(attached);
                let text = if attached.text.is_empty() { words.get(at + 1) } else { Some(&attached) };
                return code().into_iter().chain(text.and_then(taken_away)).collect();
            }
            "" => at += 1,
            _ => at = after,
        }
    }
    known_script(judge, words.get(at..).unwrap_or_default());
    code()
}

/// Scripts that are a tool of their own, wherever they lie.
const SCRIPTS: [&str; 5] = ["manage.py", "setup.py", "artisan", "console", "spark"];

/// `python manage.py` and `php artisan` are judged as what they are as well.
fn known_script(judge: &mut Judge, words: &[Word]) {
    let Some((script, rest)) = words.split_first() else { return };
    let name =
        script.literal().and_then(|path| path.rsplit('/').next()).filter(|name| SCRIPTS.contains(name));
    if let Some(name) = name {
        let words: Vec<Word> = [Word::exact(name)].into_iter().chain(rest.iter().cloned()).collect();
        judge.inner(&words);
    }
}

/// Functions of languages that take files away.
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
const TAKES_AWAY_OF: [&str; 7] =
    ["os.remove(", "File.delete", "FileUtils.rm", "Deno.remove", "File.rm", "fs.rm(", "promises.rm("];

/// A line of a language that takes files away.
fn taken_away(text: &Word) -> Option<(Classes, String)> {
    let names = text.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let found = names.into_iter().find(|name| TAKES_AWAY.contains(name));
    let found = found.or_else(|| TAKES_AWAY_OF.into_iter().find(|name| text.text.contains(name)));
    found.map(|name| (Class::Destructive.into(), format!("`{name}` takes files away")))
}

/// `perl`, `ruby`, `node` and `php`: a line of code, or a script.
pub(crate) fn interpreter(judge: &mut Judge, call: &Call<'_>) -> Findings {
    let lines: &[&str] = match call.name {
        "php" => &["-r", "-R", "-B", "-E"],
        _ => &["-e", "-E", "--eval", "-p", "--print", "-pe"],
    };
    let operands: Vec<Word> = call.arguments.operands.iter().map(|word| (*word).clone()).collect();
    if !call.arguments.has(lines) {
        known_script(judge, &operands);
    }
    let evaluated = operands.iter().filter(|_| call.name.ends_with(" eval"));
    call.arguments.values(lines).chain(evaluated).filter_map(taken_away).collect()
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

/// A module is code as any other, unless it is a tool that the tables know.
fn module(judge: &mut Judge, name: Option<&Word>, rest: &[Word]) -> Findings {
    match name.and_then(Word::literal).filter(|name| MODULES.contains(name)) {
        Some(name) => {
            let words: Vec<Word> = [Word::exact(name)].into_iter().chain(rest.iter().cloned()).collect();
            judge.inner(&words);
            Vec::new()
        }
        None => code(),
    }
}

/// `go run` and `deno run`: a module with a version, or an address, is fetched.
pub(crate) fn module_run(_: &mut Judge, call: &Call<'_>) -> Findings {
    let operand = call.arguments.operands.first().map(|word| word.text.as_str()).unwrap_or_default();
    let schemes = ["http://", "https://", "npm:", "jsr:"];
    let remote = schemes.iter().any(|scheme| operand.starts_with(scheme)) || operand.contains('@');
    if remote { fetched(operand) } else { Vec::new() }
}

/// `uv run`: a command, or the address of a script.
pub(crate) fn uv_run(judge: &mut Judge, call: &Call<'_>) -> Findings {
    let Some(first) = call.arguments.rest.first() else { return Vec::new() };
    judge.inner(call.arguments.rest);
    match first.text.starts_with("https://") || first.text.starts_with("http://") {
        true => fetched(&first.text),
        false => Vec::new(),
    }
}
