//! Programs that run code of the tree, or fetch it first.

use super::Call;
use crate::classify::class::Class;
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
            "c" => return code(),
            "" => at += 1,
            _ => at = after,
        }
    }
    code()
}

fn code() -> Findings {
    vec![(Class::Mutating.into(), "code runs".to_owned())]
}

/// Modules that are the tool of their name. `python -m test` is not `test`.
const MODULES: [&str; 18] = [
    "alembic", "black", "celery", "coverage", "flask", "gunicorn", "hatch", "mypy", "nox", "pdm", "pip",
    "pipx", "poetry", "pytest", "ruff", "tox", "twine", "uv",
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
