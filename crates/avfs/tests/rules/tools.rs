//! Tools that agents use, in a mount with `--preset development`: they work, and their moves of directories stay moves.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::scene::{Scene, put};
use crate::shell::{command, good, sh};

/// A mount that is seen through the preset, a directory of the host beside it, and a log of the renames that fail.
struct Workshop {
    scene: Scene,
}

impl Workshop {
    fn new() -> Workshop {
        let scene = Scene::new(&[".env", "src/server.key"], &["--preset", "development"]);
        fs::create_dir(scene.ground.path("aside")).unwrap();
        Workshop { scene }
    }

    /// Runs a script in the mount, under a watch of its renames: none may be refused because other rules hold
    /// elsewhere, which would make a copy of it.
    #[track_caller]
    fn run(&self, script: &str) -> String {
        let log = self.scene.ground.path("renames");
        let mut strace = command("strace", &self.scene.agent.dir);
        strace
            .args([
                "-f",
                "--seccomp-bpf",
                "-qq",
                "-e",
                "trace=rename,renameat,renameat2",
                "-o",
            ])
            .arg(&log);
        strace.args(["bash", "-euo", "pipefail", "-c", script]);
        let said = good(strace);
        let renames = fs::read_to_string(&log).unwrap();
        let refused: Vec<&str> = renames.lines().filter(|line| line.contains("EXDEV")).collect();
        assert!(refused.is_empty(), "{refused:#?}");
        said
    }
}

#[test]
fn a_watched_rename_that_is_refused_is_found() {
    let workshop = Workshop::new();
    let script = "mkdir x; mv x .vscode";
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| workshop.run(script)));
    assert!(caught.is_err());
}

#[test]
fn git_works_as_everywhere() {
    let workshop = Workshop::new();
    workshop.run(
        "git init -q -b main repository; cd repository
         git config user.name Agent
         for i in 1 2 3; do echo $i >f$i; git add f$i; git commit -qm \"change $i\"; done
         git checkout -q -b side HEAD~1; echo side >side; git add side; git commit -qm side
         git rebase -q main
         echo more >>f1; git stash -q; git stash pop -q; git commit -qam more
         git worktree add -q ../tree main; echo w >../tree/w; git -C ../tree add w; git -C ../tree commit -qm w
         git worktree remove ../tree
         git clone -q . ../copy; git -C ../copy log --oneline | wc -l | grep -qx 5
         git gc -q; git fsck --strict 2>/dev/null
         mv ../copy ../moved; git -C ../moved status --short
         test -z \"$(git status --short)\"",
    );
    let kept = workshop.scene.host(".env");
    assert!(kept.exists() && !workshop.scene.agent(".env").exists());
}

/// Two packages, one using the other, with names in them that sound like secrets.
fn packages(aside: &Path) {
    let manifest = |name: &str, more: &str| format!("{{\"name\": \"{name}\", \"version\": \"1.0.0\"{more}}}");
    put(&aside.join("lower/package.json"), &manifest("lower", ""));
    put(&aside.join("lower/lib/credentials.js"), "module.exports = 6\n");
    put(&aside.join("lower/secrets"), "module.exports = 7\n");
    let bin = ", \"bin\": {\"upper\": \"cli.js\"}";
    put(&aside.join("upper/package.json"), &manifest("upper", bin));
    let cli =
        "#!/usr/bin/env node\nconsole.log(require('lower/lib/credentials') * require('lower/secrets'))\n";
    put(&aside.join("upper/cli.js"), cli);
    fs::set_permissions(aside.join("upper/cli.js"), fs::Permissions::from_mode(0o755)).unwrap();
    sh(
        aside,
        "npm pack --silent --offline ./lower; npm pack --silent --offline ./upper",
    );
}

#[test]
fn npm_installs_packages_and_workspaces() {
    let workshop = Workshop::new();
    packages(&workshop.scene.ground.path("aside"));
    put(
        &workshop.scene.agent("web/package.json"),
        "{\"name\": \"web\", \"version\": \"1.0.0\", \"workspaces\": [\"packages/own\"]}",
    );
    put(
        &workshop.scene.agent("web/packages/own/package.json"),
        "{\"name\": \"own\", \"version\": \"1.0.0\"}",
    );
    put(
        &workshop.scene.agent("web/packages/own/index.js"),
        "module.exports = 'own'\n",
    );
    workshop.run(
        "cd web; cp ../../aside/*.tgz .
         install='npm install --offline --no-audit --no-fund --silent --cache ../../aside/cache'
         $install ./lower-1.0.0.tgz ./upper-1.0.0.tgz
         node_modules/.bin/upper | grep -qx 42
         node -e \"console.log(require('own'))\" | grep -qx own
         test -L node_modules/own; test -L node_modules/.bin/upper
         rm -rf node_modules; $install; node_modules/.bin/upper | grep -qx 42",
    );
}

#[test]
fn cargo_builds_and_builds_again() {
    let workshop = Workshop::new();
    let manifest = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    put(&workshop.scene.agent("app/Cargo.toml"), manifest);
    put(
        &workshop.scene.agent("app/src/main.rs"),
        "fn main() {\n    println!(\"{}\", 6 * 7);\n}\n",
    );
    let cargo = env!("CARGO");
    workshop.run(&format!(
        "cd app; export CARGO_INCREMENTAL=1
         {cargo} run -q --offline | grep -qx 42
         sed -i 's/7/8/' src/main.rs
         {cargo} run -q --offline | grep -qx 48
         {cargo} build --offline 2>&1 | grep -q Finished"
    ));
}

#[test]
fn python_makes_an_environment_and_pip_fills_it() {
    let workshop = Workshop::new();
    wheel(&workshop.scene.ground.path("aside"));
    workshop.run(
        "python3 -m venv --without-pip environment
         pip() { python3 -m pip --python environment/bin/python -q --disable-pip-version-check \"$@\"; }
         pip install --no-index ../aside/*.whl
         environment/bin/python -c 'import own.credentials; print(own.credentials.NUMBER)' | grep -qx 42
         pip uninstall -y own; pip check",
    );
}

/// A wheel is an archive with some files about itself.
fn wheel(aside: &Path) {
    put(&aside.join("wheel/own/__init__.py"), "");
    put(&aside.join("wheel/own/credentials.py"), "NUMBER = 42\n");
    let about = "Metadata-Version: 2.1\nName: own\nVersion: 1.0\n";
    put(&aside.join("wheel/own-1.0.dist-info/METADATA"), about);
    let kind = "Wheel-Version: 1.0\nGenerator: own\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    put(&aside.join("wheel/own-1.0.dist-info/WHEEL"), kind);
    let files = [
        "own/__init__.py",
        "own/credentials.py",
        "own-1.0.dist-info/METADATA",
        "own-1.0.dist-info/WHEEL",
    ];
    let record: String = files.iter().map(|file| format!("{file},,\n")).collect();
    put(
        &aside.join("wheel/own-1.0.dist-info/RECORD"),
        &(record + "own-1.0.dist-info/RECORD,,\n"),
    );
    sh(
        &aside.join("wheel"),
        "python3 -m zipfile -c ../own-1.0-py3-none-any.whl own own-1.0.dist-info",
    );
}

#[test]
fn a_directory_with_hundreds_of_files_moves_in_one_step() {
    let workshop = Workshop::new();
    let top = &workshop.scene.agent.dir;
    sh(
        top,
        "mkdir -p build/node_modules/a; cd build/node_modules/a; touch $(seq 500); ln -s 1 one",
    );
    let before = fs::metadata(top.join("build/node_modules/a")).unwrap().ino();
    workshop.run("mv build out; mv out/node_modules/a out/node_modules/b; mkdir deep; mv out deep/out");
    assert_eq!(
        fs::metadata(top.join("deep/out/node_modules/b")).unwrap().ino(),
        before
    );
}
