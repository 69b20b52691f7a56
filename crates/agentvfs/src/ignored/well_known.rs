//! Build results, recognised by their names: for directories without a `.gitignore`.

/// Never work, whatever they lie in.
const DIRECTORIES: &[&str] = &[
    "node_modules",
    ".venv",
    ".tox",
    ".nox",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".ipynb_checkpoints",
    ".eggs",
    ".gradle",
    ".next",
    ".nuxt",
    ".svelte-kit",
    ".parcel-cache",
    ".turbo",
    ".angular",
    ".dart_tool",
    ".terraform",
    ".zig-cache",
    "zig-cache",
];

/// Ambiguous names, and the files that must be beside them, or in them, so that they count as build results.
const BESIDE: &[(&str, &[&str])] = &[
    ("target", &["Cargo.toml", "pom.xml", "build.sbt"]),
    ("build", &["build.gradle", "build.gradle.kts"]),
    ("_build", &["mix.exs", "dune-project"]),
    ("deps", &["mix.exs"]),
    ("Pods", &["Podfile"]),
    (".build", &["Package.swift"]),
];
const WITHIN: &[(&str, &str)] = &[("venv", "pyvenv.cfg"), ("env", "pyvenv.cfg")];

/// A directory that contains this file is a cache.
pub(super) const CACHE_TAG: &str = "CACHEDIR.TAG";

const FILES: &[&str] = &[".DS_Store", ".eslintcache", ".coverage"];
const ENDINGS: &[&str] = &[".tsbuildinfo"];

/// Whether a name is one of Python's compiled files: created wherever a program is run, and never work.
pub(super) fn is_bytecode(name: &[u8], is_directory: bool) -> bool {
    if is_directory {
        name == b"__pycache__"
    } else {
        [&b".pyc"[..], b".pyo"].iter().any(|end| name.ends_with(end))
    }
}

pub(super) fn is_build_file(name: &[u8]) -> bool {
    let is = |known: &&str| known.as_bytes() == name;
    FILES.iter().any(is) || ENDINGS.iter().any(|end| name.ends_with(end.as_bytes()))
}

/// `beside` returns whether a name is in the same directory, `within` whether it is in the directory itself.
pub(super) fn is_build_directory<E>(
    name: &[u8],
    mut beside: impl FnMut(&str) -> Result<bool, E>,
    mut within: impl FnMut(&str) -> Result<bool, E>,
) -> Result<bool, E> {
    if DIRECTORIES.iter().any(|known| known.as_bytes() == name) || within(CACHE_TAG)? {
        return Ok(true);
    }
    for (_, signs) in BESIDE.iter().filter(|(known, _)| known.as_bytes() == name) {
        for sign in *signs {
            if beside(sign)? {
                return Ok(true);
            }
        }
    }
    for (_, sign) in WITHIN.iter().filter(|(known, _)| known.as_bytes() == name) {
        if within(sign)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, beside: &[&str], within: &[&str], expected: bool) {
        let has = |names: &[&str], name: &str| Ok::<bool, ()>(names.contains(&name));
        let found = is_build_directory(
            name.as_bytes(),
            |name| has(beside, name),
            |name| has(within, name),
        );
        assert_eq!(found, Ok(expected), "{name}");
    }

    #[test]
    fn names_that_can_mean_anything_need_a_sign() {
        check("node_modules", &[], &[], true);
        check("target", &[], &[], false);
        check("target", &["Cargo.toml"], &[], true);
        check("target", &[], &["CACHEDIR.TAG"], true);
        check("venv", &[], &[], false);
        check("venv", &[], &["pyvenv.cfg"], true);
        check("dist", &["package.json"], &[], false);
        check("src", &["Cargo.toml"], &[], false);
    }

    #[test]
    fn bytecode_is_known_by_its_name() {
        assert!(is_bytecode(b"__pycache__", true) && is_bytecode(b"a.cpython-312.pyc", false));
        assert!(!is_bytecode(b"__pycache__", false) && !is_bytecode(b"a.py", false));
        assert!(
            is_build_file(b".DS_Store") && is_build_file(b"tsconfig.tsbuildinfo") && !is_build_file(b"a")
        );
    }
}
