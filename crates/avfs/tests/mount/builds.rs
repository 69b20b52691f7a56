//! Package managers and compilers: thousands of files, renames, hard links, locks, times that decide what is
//! rebuilt.

use std::fs;
use std::path::Path;

use crate::compare::Freedom;
use crate::place::in_both;
use crate::shell::{command, good, sh};

/// A program, a library that it needs, and a build script.
fn cargo_workspace(dir: &Path) {
    let files = [
        (
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\"app\", \"shapes\"]\n",
        ),
        (
            "app/Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
             [dependencies]\nshapes = { path = \"../shapes\" }\n",
        ),
        (
            "app/src/main.rs",
            "fn main() {\n    println!(\"{}\", shapes::area(6, 7));\n}\n",
        ),
        (
            "shapes/Cargo.toml",
            "[package]\nname = \"shapes\"\nversion = \"0.1.0\"\nedition = \"2024\"\nbuild = \"build.rs\"\n",
        ),
        (
            "shapes/build.rs",
            "fn main() {\n    let out = std::env::var(\"OUT_DIR\").unwrap();\n    \
             std::fs::write(out + \"/unit.rs\", \"pub const UNIT: u32 = 1;\").unwrap();\n    \
             println!(\"cargo::rerun-if-changed=build.rs\");\n}\n",
        ),
        (
            "shapes/src/lib.rs",
            "include!(concat!(env!(\"OUT_DIR\"), \"/unit.rs\"));\n\
             pub fn area(width: u32, height: u32) -> u32 {\n    width * height * UNIT\n}\n",
        ),
    ];
    for (name, contents) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
}

#[track_caller]
fn cargo(dir: &Path, arguments: &[&str]) -> String {
    let mut cargo = command(env!("CARGO"), dir);
    cargo
        .args(arguments)
        .arg("--offline")
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_INCREMENTAL", "1");
    good(cargo)
}

#[test]
fn cargo_builds_once_and_again_only_what_changed() {
    // Cargo writes some lists in the order of a hash table, and the names within libraries are chance.
    let own_bytes = &[
        ".rlib",
        ".rustc_info.json",
        "/dep-lib-shapes",
        "/dep-bin-app",
        "/dep-build-script-build-script-build",
    ];
    let freedom = Freedom {
        left_out: &["target/debug/incremental"],
        own_bytes,
    };
    in_both(&freedom, |run| {
        cargo_workspace(run.dir);
        let first = cargo(run.dir, &["build"]);
        assert_eq!(first.matches("Compiling").count(), 2, "{first}");
        let again = cargo(run.dir, &["build", "-v"]);
        assert_eq!(
            (again.matches("Fresh").count(), again.contains("Compiling")),
            (2, false),
            "{again}"
        );
        assert!(cargo(run.dir, &["run", "-q"]).contains("42"));
        let main = fs::read_to_string(run.dir.join("app/src/main.rs")).unwrap();
        fs::write(run.dir.join("app/src/main.rs"), main.replace('7', "8")).unwrap();
        let changed = cargo(run.dir, &["build", "-v"]);
        assert_eq!(
            (
                changed.matches("Fresh").count(),
                changed.matches("Compiling").count()
            ),
            (1, 1),
            "{changed}"
        );
        assert!(cargo(run.dir, &["run", "-q"]).contains("48"));
    });
}

#[test]
fn npm_installs_hundreds_of_packages() {
    in_both(&Freedom::default(), |run| {
        let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mount/npm");
        for name in ["package.json", "package-lock.json"] {
            fs::copy(pinned.join(name), run.dir.join(name)).unwrap();
        }
        let mut npm = command("npm", run.dir);
        npm.args(["ci", "--no-audit", "--no-fund", "--prefer-offline", "--cache"])
            .arg(run.aside.join("npm"));
        good(npm);
        fs::write(
            run.dir.join("entry.js"),
            "console.log(require('express').Router().stack.length)\n",
        )
        .unwrap();
        fs::write(
            run.dir.join("eslint.config.js"),
            "module.exports = [{ rules: { semi: 'error' } }];\n",
        )
        .unwrap();
        sh(
            run.dir,
            "node entry.js >printed; grep -qx 0 printed
             node -e \"require('webpack')({ mode: 'production', target: 'node', entry: './entry.js' },
                 (error, stats) => process.exit(error || stats.hasErrors() ? 1 : 0))\"
             node dist/main.js | grep -qx 0
             if node_modules/.bin/eslint entry.js >/dev/null; then exit 1; fi
             node_modules/.bin/eslint --fix entry.js",
        );
    });
}

#[test]
fn python_makes_an_environment_and_pip_fills_it() {
    // Compiled files hold the times of their sources.
    let freedom = Freedom {
        left_out: &[],
        own_bytes: &[".pyc"],
    };
    in_both(&freedom, |run| {
        sh(
            run.dir,
            "wheels=../aside/wheels
             python3 -m venv environment
             test -e $wheels ||
                 environment/bin/pip download -q --no-deps --only-binary :all: -d $wheels \\
                     attrs==24.2.0 click==8.1.7 packaging==24.1 Jinja2==3.1.4 MarkupSafe==2.1.5
             environment/bin/pip install -q --no-index --find-links $wheels attrs click packaging Jinja2
             environment/bin/python -c \"import jinja2; print(jinja2.Template('{{ 6 * 7 }}').render())\" >printed
             grep -qx 42 printed
             environment/bin/pip uninstall -q -y click
             environment/bin/pip check",
        );
    });
}
