//! Caches of tools: read from the home, written to a layer of the task, and no credential among them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::project::{Project, good};

/// What tools keep in a home, and must not be seen inside. Each holds the word.
const CREDENTIALS: &[(&str, &str)] = &[
    (".cargo/credentials.toml", "[registry]\ntoken = \"hush-hush\"\n"),
    (".cargo/credentials", "[registry]\ntoken = \"hush-hush\"\n"),
    (".cargo/config.toml", "[registries.own]\ntoken = \"hush-hush\"\n"),
    (".cargo/registry/index/own/config.json", "{\"dl\":\"https://me:hush-hush@crates.example.com\"}\n"),
    (".cargo/git/db/own/FETCH_HEAD", "1\t\thttps://x-access-token:hush-hush@github.com/o/r\n"),
    (".cargo/git/db/own/config", "[remote \"o\"]\n\turl = https://hush-hush@github.com/o/r\n"),
    (".npmrc", "//registry.npmjs.org/:_authToken=hush-hush\n"),
    (".yarnrc.yml", "npmAuthToken: hush-hush\n"),
    (".config/pip/pip.conf", "[global]\nindex-url = https://me:hush-hush@pypi.example.com/simple\n"),
    (".pypirc", "password = hush-hush\n"),
    (".config/uv/uv.toml", "password = \"hush-hush\"\n"),
    (".local/share/uv/credentials/credentials.toml", "hush-hush\n"),
    (".config/go/env", "GOPROXY=https://me:hush-hush@proxy.example.com\n"),
    (".gradle/gradle.properties", "ossrhKey=hush-hush\n"),
    (".gradle/init.d/own.gradle", "hush-hush\n"),
    (".m2/settings.xml", "<password>hush-hush</password>\n"),
    (".m2/settings-security.xml", "hush-hush\n"),
    (".cache/huggingface/token", "hush-hush\n"),
    (".docker/config.json", "{\"auth\":\"hush-hush\"}\n"),
    (".config/gh/hosts.yml", "oauth_token: hush-hush\n"),
    (".git-credentials", "https://me:hush-hush@github.com\n"),
];

const CACHED: &[(&str, &str)] = &[
    (".cargo/registry/src/index/left-1.0.0/Cargo.toml", "[package]\n"),
    (".cargo/registry/index/plain/config.json", "{\"dl\":\"https://static.crates.io/crates\"}\n"),
    (".npm/_cacache/index-v5/ab", "one\n"),
    (".cache/pip/http/x", "wheel\n"),
    ("go/pkg/mod/cache/download/list", "v1\n"),
    (".m2/repository/a.jar", "jar\n"),
];

fn project() -> Project {
    let project = Project::new();
    for (name, text) in CREDENTIALS.iter().chain(CACHED) {
        let file = project.home().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    project
}

#[test]
fn caches_are_there_and_no_credential_is_found_from_inside() {
    let project = project();
    let search = "cd; grep -rIl hush-hush . ; find . -type f | grep -i credential; true";
    let read = CACHED.iter().map(|(name, _)| format!("~/{name}")).collect::<Vec<_>>().join(" ");
    let expected: String = CACHED.iter().map(|(_, text)| *text).collect();
    good(&mut project.avfs(&["run", "--name", "one", "--", "true"]));
    for words in [&["run", "--task", "one", "--", "bash", "-c"][..], &["exec", "--vault", "web/one", "-c"]] {
        assert_eq!(good(&mut project.avfs(&[words, &[search]].concat())), "");
        assert_eq!(good(&mut project.avfs(&[words, &[&format!("cat {read}")]].concat())), expected);
    }
}

/// Changes a cache in all ways that tools do; then tells what is there.
const CHANGES: &str = "cd ~; echo two >>.npm/_cacache/index-v5/ab; rm .cache/pip/http/x; \
    mkdir -p .cache/pip/wheels/d && echo new >.cache/pip/wheels/d/f && chmod 555 .cache/pip/wheels/d; \
    mv .m2/repository/a.jar .m2/repository/b.jar; echo scratch >.scratch";
const TELL: &str = "cd ~; cat .npm/_cacache/index-v5/ab .cache/pip/wheels/d/f .m2/repository/b.jar; \
    ls .cache/pip/http .m2/repository .scratch 2>/dev/null; true";

fn check_layer(project: &Project, avfs: impl Fn(&[&str]) -> String) {
    avfs(&["run", "--name", "one", "--", "bash", "-c", CHANGES]);
    let told = avfs(&["run", "--task", "one", "--", "bash", "-c", TELL]);
    assert_eq!(told, "one\ntwo\nnew\njar\n.cache/pip/http:\n\n.m2/repository:\nb.jar\n");
    // Another task has what the host has, and so has the host.
    let other = avfs(&["run", "--name", "other", "--", "bash", "-c", "cd ~; cat .npm/_cacache/index-v5/ab"]);
    assert_eq!(other, "one\n");
    for (name, text) in CACHED {
        assert_eq!(&project.read(name), text, "{name}");
    }
    let diff = avfs(&["diff", "one"]);
    assert_eq!(diff, "", "caches are no work of the task");
    let layers = || {
        let works = fs::read_dir(project.store().join("work")).unwrap();
        works.filter(|work| work.as_ref().unwrap().path().join("caches/files/.cache").exists()).count()
    };
    assert_eq!(layers(), 1);
    avfs(&["discard", "one", "--yes"]);
    assert_eq!(layers(), 0, "the layer goes with the task");
}

#[test]
fn what_is_written_to_caches_stays_with_the_task() {
    let project = project();
    check_layer(&project, |words| good(&mut project.avfs(words)));
}

#[test]
fn what_an_ordinary_user_writes_to_caches_stays_with_the_task() {
    let project = project();
    check_layer(&project, |words| {
        let output = project.avfs_as_nobody(&project.root(), words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    });
}

/// A user's environment in which cargo is found, as rustup has installed it.
fn with_cargo(project: &Project, command: &mut Command) {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap());
    let rustup = std::env::var_os("RUSTUP_HOME").map_or_else(|| home.join(".rustup"), PathBuf::from);
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let path = format!("{}:/usr/bin:/bin", cargo.join("bin").display());
    command.env("PATH", path).env("RUSTUP_HOME", rustup).env("CARGO_HOME", cargo).current_dir(project.root());
}

#[test]
fn an_unchanged_crate_is_not_built_again_inside() {
    let project = project();
    for file in [".cargo/config.toml", ".cargo/credentials.toml", ".cargo/credentials"] {
        fs::remove_file(project.home().join(file)).unwrap();
    }
    fs::create_dir_all(project.root().join("src")).unwrap();
    fs::write(project.root().join("Cargo.toml"), "[package]\nname = \"w\"\nversion = \"1.0.0\"\n").unwrap();
    fs::write(project.root().join("src/main.rs"), "fn main() {}\n").unwrap();
    let mut build = Command::new("cargo");
    build.args(["build", "--offline"]).env_clear().env("HOME", project.home());
    with_cargo(&project, &mut build);
    good(&mut build);
    for words in [&["run", "--name", "one"][..], &["exec", "--vault", "web/one"]] {
        let words = [words, &["--", "cargo", "build", "-v", "--offline"]].concat();
        let mut inside = project.avfs(&words);
        with_cargo(&project, &mut inside);
        let output = inside.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("Fresh w v1.0.0"), "{said}");
        assert!(!said.contains("Compiling"), "{said}");
    }
}

#[test]
fn runs_exec_sessions_and_setup_have_the_project_at_its_own_path() {
    let project = project();
    fs::create_dir(project.root().join("src")).unwrap();
    let root = project.root().display().to_string();
    fs::write(project.root().join("avfs.toml"), "[setup]\ncommands = [\"pwd >where\"]\n").unwrap();
    good(&mut project.avfs(&["setup", "allow", "--yes"]));
    let told = good(&mut project.avfs(&["run", "--name", "one", "--", "bash", "-c", "pwd; cat where"]));
    assert_eq!(told, format!("{root}\n{root}\n"));
    let exec = |words: &[&str]| good(&mut project.avfs(&[&["exec", "--vault", "web/one"], words].concat()));
    assert_eq!(exec(&["-c", "pwd; echo ~"]), format!("{root}\n{}\n", project.home().display()));
    assert_eq!(exec(&["--cwd", "src", "--", "pwd"]), format!("{root}/src\n"));
    assert_eq!(exec(&["--path", "src", "--", "pwd"]), format!("{root}/src\n"));
    // Without a word, where it is typed, if the task has that directory.
    let typed_in = |below: &str| {
        let mut typed = project.avfs(&["exec", "--vault", "web/one", "--", "pwd"]);
        good(typed.current_dir(project.root().join(below)))
    };
    fs::create_dir(project.root().join("later")).unwrap();
    assert_eq!((typed_in("src"), typed_in("later")), (format!("{root}/src\n"), format!("{root}\n")));
    assert_eq!(exec(&["--cwd", "/workspace/src", "--", "pwd"]), "/workspace/src\n");
    let answer = exec(&["--json", "--", "true"]);
    assert!(answer.contains(&format!("\"mountpoint\":\"{root}\"")), "{answer}");
    let session = good(&mut project.avfs(&["session", "start", "--vault", "web/one"]));
    let session = session.trim();
    let told =
        good(&mut project.avfs(&["session", "exec", session, "-c", "pwd; cat ~/.npm/_cacache/index-v5/ab"]));
    assert_eq!(told, format!("{root}\none\n"));
    good(&mut project.avfs(&["session", "stop", session]));
}
