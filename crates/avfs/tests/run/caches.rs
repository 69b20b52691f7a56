//! Caches of tools: read from the home, written to a layer of the task, and no credential among them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::project::{Project, good};

/// Files that tools keep in a home, and that must be hidden inside. Each contains the word.
const CREDENTIALS: &[(&str, &str)] = &[
    // Rust.
    (".cargo/credentials.toml", "[registry]\ntoken = \"hush-hush\"\n"),
    (".cargo/credentials", "[registry]\ntoken = \"hush-hush\"\n"),
    (".cargo/config.toml", "[registries.own]\ntoken = \"hush-hush\"\n"),
    (
        ".cargo/registry/index/own/config.json",
        "{\"dl\":\"https://me:hush-hush@crates.example.com\"}\n",
    ),
    (
        ".cargo/git/db/own/FETCH_HEAD",
        "1\t\thttps://x-access-token:hush-hush@github.com/o/r\n",
    ),
    (
        ".cargo/git/db/own/config",
        "[remote \"o\"]\n\turl = https://hush-hush@github.com/o/r\n",
    ),
    (
        ".cargo/git/checkouts/own/1/.git/logs/HEAD",
        "0 1 clone: from https://me:hush-hush@github.com/o/r\n",
    ),
    (
        ".cargo/git/checkouts/own/1/.gitmodules",
        "url = https://me:hush-hush@github.com/o/r\n",
    ),
    (".cargo/bin/.env", "CARGO_REGISTRY_TOKEN=hush-hush\n"),
    (".rustup/credentials.toml", "hush-hush\n"),
    (".elan/credentials.toml", "hush-hush\n"),
    // Node.
    (".npmrc", "//registry.npmjs.org/:_authToken=hush-hush\n"),
    (".nvm/.npmrc", "//registry.npmjs.org/:_authToken=hush-hush\n"),
    (
        ".nvm/versions/node/v22.1.0/etc/npmrc",
        "//registry.npmjs.org/:_authToken=hush-hush\n",
    ),
    (
        ".nvm/versions/node/v22.1.0/lib/node_modules/npm/npmrc",
        "_auth=hush-hush\n",
    ),
    (
        ".npm-global/etc/npmrc",
        "//registry.npmjs.org/:_authToken=hush-hush\n",
    ),
    (
        ".npm-global/.npmrc",
        "//registry.npmjs.org/:_authToken=hush-hush\n",
    ),
    (
        ".npm/_cacache/index-v5/cd/ef/01",
        "h\t{\"key\":\"pacote:https://me:hush-hush@npm.example.com/x\"}\n",
    ),
    (
        ".npm/_npx/1/.npmrc",
        "//registry.npmjs.org/:_authToken=hush-hush\n",
    ),
    (".npm/_logs/debug.log", "hush-hush\n"),
    (
        ".local/share/fnm/node-versions/v22.1.0/installation/etc/npmrc",
        "_authToken=hush-hush\n",
    ),
    (".nodenv/versions/22.1.0/etc/npmrc", "_authToken=hush-hush\n"),
    (
        ".volta/hooks.json",
        "{\"node\":{\"index\":{\"template\":\"https://me:hush-hush@x\"}}}\n",
    ),
    (
        ".volta/tools/image/node/22.1.0/etc/npmrc",
        "_authToken=hush-hush\n",
    ),
    (
        ".local/share/pnpm/nodejs/22.1.0/etc/npmrc",
        "_authToken=hush-hush\n",
    ),
    (".pnpmrc", "_authToken=hush-hush\n"),
    (".config/pnpm/rc", "_authToken=hush-hush\n"),
    (".config/pnpm/auth.ini", "_authToken=hush-hush\n"),
    (".yarnrc", "\"//x/:_authToken\" hush-hush\n"),
    (".yarnrc.yml", "npmAuthToken: hush-hush\n"),
    (
        ".bunfig.toml",
        "[install.scopes]\nown = { token = \"hush-hush\" }\n",
    ),
    (".bun/install/global/.npmrc", "_authToken=hush-hush\n"),
    // Python.
    (
        ".config/pip/pip.conf",
        "[global]\nindex-url = https://me:hush-hush@pypi.example.com/simple\n",
    ),
    (
        ".pip/pip.conf",
        "[global]\nindex-url = https://me:hush-hush@pypi.example.com/simple\n",
    ),
    (".pypirc", "password = hush-hush\n"),
    (".config/uv/uv.toml", "password = \"hush-hush\"\n"),
    (".local/share/uv/credentials/credentials.toml", "hush-hush\n"),
    (
        ".local/share/uv/tools/own/uv-receipt.toml",
        "requirements = [{ git = \"https://hush-hush@github.com/o/r\" }]\n",
    ),
    (
        ".local/share/uv/tools/own/pip.conf",
        "index-url = https://me:hush-hush@pypi.example.com/simple\n",
    ),
    (
        ".local/share/pipx/venvs/own/pipx_metadata.json",
        "{\"pip_args\":[\"--index-url=https://me:hush-hush@x/\"]}\n",
    ),
    (".local/share/pipx/logs/cmd.log", "hush-hush\n"),
    (
        ".local/pipx/venvs/own/pip.conf",
        "index-url = https://me:hush-hush@pypi.example.com/simple\n",
    ),
    (
        ".pyenv/.git/config",
        "url = https://me:hush-hush@github.com/o/r\n",
    ),
    (
        ".pyenv/plugins/own/.git/config",
        "url = https://me:hush-hush@github.com/o/r\n",
    ),
    (
        ".pyenv/versions/3.12.1/pip.conf",
        "index-url = https://me:hush-hush@pypi.example.com/simple\n",
    ),
    (".rye/credentials", "hush-hush\n"),
    (".config/pypoetry/auth.toml", "password = \"hush-hush\"\n"),
    (
        ".config/pypoetry/config.toml",
        "[http-basic.own]\npassword = \"hush-hush\"\n",
    ),
    (
        ".cache/pypoetry/virtualenvs/own/pip.conf",
        "index-url = https://me:hush-hush@x/simple\n",
    ),
    (
        ".local/share/virtualenvs/own/pip.conf",
        "index-url = https://me:hush-hush@x/simple\n",
    ),
    (
        ".condarc",
        "channels:\n  - https://conda.anaconda.org/t/hush-hush-0123456789/own\n",
    ),
    (
        "miniconda3/.condarc",
        "channels:\n  - https://conda.anaconda.org/t/hush-hush-0123456789/own\n",
    ),
    (
        "miniconda3/condarc.d/own.yml",
        "channels:\n  - https://conda.anaconda.org/t/hush-hush-0123456789/own\n",
    ),
    (
        "miniconda3/envs/own/.condarc",
        "channels:\n  - https://me:hush-hush@conda.example.com/own\n",
    ),
    (
        "miniconda3/pkgs/urls.txt",
        "https://conda.anaconda.org/t/hush-hush-0123456789/own/x.conda\n",
    ),
    (
        "miniconda3/conda-meta/history",
        "# cmd: conda install -c https://me:hush-hush@conda.example.com/own\n",
    ),
    (".conda/aau_token", "hush-hush\n"),
    (".cache/huggingface/token", "hush-hush\n"),
    (".huggingface/token", "hush-hush\n"),
    (".cache/pre-commit/db.db", "https://me:hush-hush@github.com/o/r\n"),
    // Go, the JVM, .NET, Ruby, PHP and others.
    (
        ".config/go/env",
        "GOPROXY=https://me:hush-hush@proxy.example.com\n",
    ),
    (
        "go/pkg/mod/cache/vcs/0a1b.info",
        "git3:https://me:hush-hush@github.com/o/r\n",
    ),
    (
        "go/pkg/mod/cache/vcs/0a1b/config",
        "url = https://me:hush-hush@github.com/o/r\n",
    ),
    (".gradle/gradle.properties", "ossrhKey=hush-hush\n"),
    (".gradle/init.d/own.gradle", "hush-hush\n"),
    (".m2/settings.xml", "<password>hush-hush</password>\n"),
    (".m2/settings-security.xml", "hush-hush\n"),
    (
        ".m2/repository/own/a.jar.lastUpdated",
        "https\\://me\\:hush-hush@maven.example.com/.error=\n",
    ),
    (".sdkman/etc/config", "hush-hush\n"),
    (
        ".sdkman/candidates/maven/3.9.1/conf/settings.xml",
        "<settings><password>hush-hush</password></settings>\n",
    ),
    (
        ".sdkman/candidates/gradle/8.1/gradle.properties",
        "systemProp.https.proxyPassword=hush-hush\n",
    ),
    (
        ".sdkman/candidates/gradle/8.1/init.d/own.gradle",
        "credentials { password = 'hush-hush' }\n",
    ),
    (".ivy2/.credentials", "password=hush-hush\n"),
    (".sbt/.credentials", "password=hush-hush\n"),
    (
        ".nuget/NuGet/NuGet.Config",
        "<add key=\"ClearTextPassword\" value=\"hush-hush\" />\n",
    ),
    (
        ".nuget/packages/own/1.0.0/.nupkg.metadata",
        "{\"source\":\"https://me:hush-hush@nuget.example.com\"}\n",
    ),
    (".dotnet/corefx/cryptography/x509stores/my/A.pfx", "hush-hush\n"),
    (
        ".dotnet/NuGet.Config",
        "<add key=\"ClearTextPassword\" value=\"hush-hush\" />\n",
    ),
    (".gem/credentials", ":rubygems_api_key: hush-hush\n"),
    (".local/share/gem/credentials", ":rubygems_api_key: hush-hush\n"),
    (".bundle/config", "BUNDLE_GEMS__EXAMPLE__COM: \"me:hush-hush\"\n"),
    (
        ".rbenv/.git/config",
        "url = https://me:hush-hush@github.com/o/r\n",
    ),
    (
        ".rbenv/versions/3.3.0/etc/gemrc",
        ":sources:\n- https://me:hush-hush@gems.example.com/\n",
    ),
    (
        ".composer/auth.json",
        "{\"github-oauth\":{\"github.com\":\"hush-hush\"}}\n",
    ),
    (
        ".config/composer/auth.json",
        "{\"github-oauth\":{\"github.com\":\"hush-hush\"}}\n",
    ),
    (
        ".cache/composer/vcs/own/config",
        "url = https://me:hush-hush@github.com/o/r\n",
    ),
    (".pub-cache/credentials.json", "{\"accessToken\":\"hush-hush\"}\n"),
    (".hex/hex.config", "hush-hush\n"),
    (
        ".ghcup/config.yaml",
        "url-source: https://me:hush-hush@ghcup.example.com\n",
    ),
    (
        ".local/share/mise/installs/node/22.1.0/etc/npmrc",
        "_authToken=hush-hush\n",
    ),
    (
        ".local/share/mise/plugins/own/.git/config",
        "url = https://me:hush-hush@github.com/o/r\n",
    ),
    (".config/mise/config.toml", "[env]\nTOKEN = \"hush-hush\"\n"),
    (".asdf/.git/config", "url = https://me:hush-hush@github.com/o/r\n"),
    (
        ".asdf/plugins/own/.git/config",
        "url = https://me:hush-hush@github.com/o/r\n",
    ),
    (
        ".asdf/installs/nodejs/22.1.0/.npm/etc/npmrc",
        "_authToken=hush-hush\n",
    ),
    (".asdf/installs/nodejs/22.1.0/etc/npmrc", "_authToken=hush-hush\n"),
    (".cache/trunk/user.yaml", "auth:\n  token: hush-hush\n"),
    (".local/bin/.netrc", "machine x password hush-hush\n"),
    // Proxies without a scheme, variables, repositories among packages, and packages installed from an
    // address.
    (
        "miniconda3/envs/e/.condarc",
        "proxy_servers:\n  http: bob:hush-hush@proxy:3128\n",
    ),
    (
        "miniconda3/envs/e/conda-meta/state",
        "{\"env_vars\": {\"DB_PASS\": \"hush-hush\"}}\n",
    ),
    (
        "miniconda3/envs/e/etc/conda/activate.d/env_vars.sh",
        "export DB_PASS=hush-hush\n",
    ),
    (
        "miniconda3/envs/e/src/own/.git/config",
        "url = https://oauth2:hush-hush@git.example.com/o/r\n",
    ),
    (
        ".pyenv/versions/3.12.1/envs/v/src/own/.git/config",
        "url = https://oauth2:hush-hush@git.example.com/o/r\n",
    ),
    (
        ".pyenv/versions/3.12.1/etc/jupyter/jupyter_server_config.json",
        "{\"IdentityProvider\": {\"token\": \"hush-hush\"}}\n",
    ),
    (
        ".npm/_npx/1/package.json",
        "{\"dependencies\":{\"x\":\"git+https://oauth2:hush-hush@git.example.com/o/r\"}}\n",
    ),
    (
        ".npm/_npx/1/package-lock.json",
        "{\"resolved\":\"git+https://oauth2:hush-hush@git.example.com/o/r\"}\n",
    ),
    (
        ".npm/_npx/1/node_modules/.package-lock.json",
        "{\"resolved\":\"git+https://oauth2:hush-hush@git.example.com/o/r\"}\n",
    ),
    (
        ".bun/install/global/package.json",
        "{\"dependencies\":{\"x\":\"git+https://oauth2:hush-hush@git.example.com/o/r\"}}\n",
    ),
    (
        ".local/share/pnpm/global/5/package.json",
        "{\"dependencies\":{\"x\":\"git+https://oauth2:hush-hush@git.example.com/o/r\"}}\n",
    ),
    (
        ".cache/yarn/v6/npm-x/node_modules/x/.yarn-metadata.json",
        "{\"remote\":{\"resolved\":\"https://oauth2:hush-hush@npm.example.com/x.tgz\"}}\n",
    ),
    (
        ".cache/pre-commit/pre-commit.log",
        "fatal: unable to access 'https://oauth2:hush-hush@git.example.com/o/r'\n",
    ),
    (
        ".sdkman/candidates/java/21/conf/net.properties",
        "http.proxyUser=bob\nhttp.proxyPassword=hush-hush\n",
    ),
    // Files beside all of them.
    (".docker/config.json", "{\"auth\":\"hush-hush\"}\n"),
    (".config/gh/hosts.yml", "oauth_token: hush-hush\n"),
    (".git-credentials", "https://me:hush-hush@github.com\n"),
    (".netrc", "machine github.com password hush-hush\n"),
    (
        ".terraform.d/credentials.tfrc.json",
        "{\"token\":\"hush-hush\"}\n",
    ),
    (".terraformrc", "token = \"hush-hush\"\n"),
    (".aws/credentials", "aws_secret_access_key = hush-hush\n"),
    (".kube/config", "token: hush-hush\n"),
    (".config/gcloud/credentials.db", "hush-hush\n"),
    (".ssh/id_ed25519", "hush-hush\n"),
];

/// Parts of their own directories that tools need to run.
const TOOLS: &[(&str, &str)] = &[
    (".nvm/versions/node/v22.1.0/bin/node", "node\n"),
    (
        ".nvm/versions/node/v22.1.0/lib/node_modules/npm/package.json",
        "{\"dependencies\":{\"js-tokens\":\"1\"}}\n",
    ),
    (".npm-global/lib/node_modules/x/.npmrc", "fund=false\n"),
    (
        ".local/share/fnm/node-versions/v22.1.0/installation/bin/node",
        "fnm\n",
    ),
    (".volta/bin/volta", "volta\n"),
    (".pyenv/libexec/pyenv", "pyenv\n"),
    (".pyenv/version", "3.12.1\n"),
    (".pyenv/versions/3.12.1/lib/python3.12/os.py", "os\n"),
    (
        ".local/share/uv/tools/plain/uv-receipt.toml",
        "requirements = [{ name = \"ruff\" }]\n",
    ),
    (".local/share/pipx/venvs/plain/pipx_metadata.json", "{}\n"),
    ("miniconda3/lib/python3.12/os.py", "conda\n"),
    (
        "miniconda3/conda-meta/python.json",
        "{\"url\":\"https://repo.anaconda.com/pkgs/main\"}\n",
    ),
    (
        ".sdkman/candidates/maven/3.8.1/conf/settings.xml",
        "<settings><!-- a <password> --></settings>\n",
    ),
    (".dotnet/sdk/9.0.100/dotnet.dll", "dll\n"),
    (
        ".sdkman/candidates/java/17/conf/net.properties",
        "# http.proxyPassword\njdk.http.auth.tunneling.disabledSchemes=Basic\n",
    ),
    (
        ".sdkman/candidates/java/17/conf/security/java.security",
        "# a password\nkeystore.type=pkcs12\n",
    ),
    (
        "miniconda3/envs/plain/etc/profile.d/conda.sh",
        "export CONDA_SHLVL=0\n",
    ),
    (
        "miniconda3/envs/plain/src/own/.git/config",
        "url = https://git.example.com/o/r\n",
    ),
    (".rbenv/versions/3.3.0/bin/ruby", "ruby\n"),
    (".asdf/installs/nodejs/22.1.0/bin/node", "asdf\n"),
    (".local/share/mise/installs/node/22.1.0/bin/node", "mise\n"),
    (".ghcup/bin/ghc", "ghc\n"),
    (".rustup/settings.toml", "version = \"12\"\n"),
];

const CACHED: &[(&str, &str)] = &[
    (".cargo/registry/src/index/left-1.0.0/Cargo.toml", "[package]\n"),
    (
        ".cargo/registry/index/plain/config.json",
        "{\"dl\":\"https://static.crates.io/crates\"}\n",
    ),
    (".npm/_cacache/index-v5/ab", "one\n"),
    (".cache/pip/http/x", "wheel\n"),
    ("go/pkg/mod/cache/download/list", "v1\n"),
    (".m2/repository/a.jar", "jar\n"),
    (
        ".npm/_npx/2/package.json",
        "{\"dependencies\":{\"x\":\"git+https://git@github.com/o/r\"}}\n",
    ),
    (
        ".npm/_npx/2/node_modules/x/package.json",
        "{\"scripts\":{\"deploy\":\"x --token=$TOKEN\"}}\n",
    ),
];

fn project() -> Project {
    let project = Project::new();
    for (name, text) in CREDENTIALS.iter().chain(CACHED).chain(TOOLS) {
        let file = project.home().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    project
}

#[test]
fn caches_are_there_and_no_credential_is_found_from_inside() {
    let project = project();
    let search = "cd; grep -rIl hush-hush . | sort; find . -type f | grep -i credential; true";
    let shown = || CACHED.iter().chain(TOOLS);
    let read = shown()
        .map(|(name, _)| format!("~/{name}"))
        .collect::<Vec<_>>()
        .join(" ");
    let expected: String = shown().map(|(_, text)| *text).collect();
    good(&mut project.avfs(&["run", "--name", "one", "--", "true"]));
    for words in [
        &["run", "--task", "one", "--", "bash", "-c"][..],
        &["exec", "--vault", "web/one", "-c"],
    ] {
        assert_eq!(good(&mut project.avfs(&[words, &[search]].concat())), "");
        assert_eq!(
            good(&mut project.avfs(&[words, &[&format!("cat {read}")]].concat())),
            expected
        );
    }
}

/// Changes a cache in all ways that tools do; then prints its contents.
const CHANGES: &str = "cd ~; echo two >>.npm/_cacache/index-v5/ab; rm .cache/pip/http/x; \
    mkdir -p .cache/pip/wheels/d && echo new >.cache/pip/wheels/d/f && chmod 555 .cache/pip/wheels/d; \
    mv .m2/repository/a.jar .m2/repository/b.jar; echo scratch >.scratch";
const TELL: &str = "cd ~; cat .npm/_cacache/index-v5/ab .cache/pip/wheels/d/f .m2/repository/b.jar; \
    ls .cache/pip/http .m2/repository .scratch 2>/dev/null; true";

fn check_layer(project: &Project, avfs: impl Fn(&[&str]) -> String) {
    avfs(&["run", "--name", "one", "--", "bash", "-c", CHANGES]);
    let told = avfs(&["run", "--task", "one", "--", "bash", "-c", TELL]);
    assert_eq!(
        told,
        "one\ntwo\nnew\njar\n.cache/pip/http:\n\n.m2/repository:\nb.jar\nown\n"
    );
    // Another task sees the host's contents, and so does the host.
    let other = avfs(&[
        "run",
        "--name",
        "other",
        "--",
        "bash",
        "-c",
        "cd ~; cat .npm/_cacache/index-v5/ab",
    ]);
    assert_eq!(other, "one\n");
    for (name, text) in CACHED {
        assert_eq!(&project.read(name), text, "{name}");
    }
    let diff = avfs(&["diff", "one"]);
    assert_eq!(diff, "", "caches are no work of the task");
    let layers = || {
        let works = fs::read_dir(project.store().join("work")).unwrap();
        works
            .filter(|work| work.as_ref().unwrap().path().join("caches/files/.cache").exists())
            .count()
    };
    assert_eq!(layers(), 1);
    avfs(&["discard", "one", "--yes"]);
    assert_eq!(layers(), 0, "the layer goes with the task");
}

#[test]
fn cache_writes_stay_with_the_task() {
    let project = project();
    check_layer(&project, |words| good(&mut project.avfs(words)));
}

#[test]
fn cache_writes_of_an_ordinary_user_stay_with_the_task() {
    let project = project();
    check_layer(&project, |words| {
        let output = project.avfs_as_nobody(&project.root(), words);
        assert!(
            output.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    });
}

/// A user's environment in which cargo is found, as rustup has installed it.
fn with_cargo(project: &Project, command: &mut Command) {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap());
    let rustup = std::env::var_os("RUSTUP_HOME").map_or_else(|| home.join(".rustup"), PathBuf::from);
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let path = format!("{}:/usr/bin:/bin", cargo.join("bin").display());
    command
        .env("PATH", path)
        .env("RUSTUP_HOME", rustup)
        .env("CARGO_HOME", cargo)
        .current_dir(project.root());
}

#[test]
fn an_unchanged_crate_is_not_built_again_inside() {
    let project = project();
    for file in [
        ".cargo/config.toml",
        ".cargo/credentials.toml",
        ".cargo/credentials",
    ] {
        fs::remove_file(project.home().join(file)).unwrap();
    }
    fs::create_dir_all(project.root().join("src")).unwrap();
    fs::write(
        project.root().join("Cargo.toml"),
        "[package]\nname = \"w\"\nversion = \"1.0.0\"\n",
    )
    .unwrap();
    fs::write(project.root().join("src/main.rs"), "fn main() {}\n").unwrap();
    let mut build = Command::new("cargo");
    build
        .args(["build", "--offline"])
        .env_clear()
        .env("HOME", project.home());
    with_cargo(&project, &mut build);
    good(&mut build);
    for words in [&["run", "--name", "one"][..], &["exec", "--vault", "web/one"]] {
        let words = [words, &["--", "cargo", "build", "-v", "--offline"]].concat();
        let mut inside = project.avfs(&words);
        with_cargo(&project, &mut inside);
        let output = inside.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.contains("Fresh w v1.0.0"),
            "{said}"
        );
        assert!(!said.contains("Compiling"), "{said}");
    }
}

#[test]
fn sources_outside_of_the_home_are_at_their_own_path_and_what_is_beside_them_is_not() {
    let project = project();
    let elsewhere = tempfile::tempdir().unwrap();
    let cargo = elsewhere.path().canonicalize().unwrap().join("cargo");
    fs::create_dir_all(cargo.join("registry/src")).unwrap();
    fs::write(cargo.join("registry/src/lib.rs"), "one\n").unwrap();
    fs::write(cargo.join("credentials.toml"), "token = \"hush-hush\"\n").unwrap();
    let script =
        "echo two >>$CARGO_HOME/registry/src/lib.rs; cat ~/.cargo/registry/src/lib.rs; ls $CARGO_HOME";
    for words in [
        &["run", "--name", "one", "--", "bash", "-c"][..],
        &["exec", "--vault", "web/one", "-c"],
    ] {
        let mut inside = project.avfs(&[words, &[script]].concat());
        let told = good(inside.env("CARGO_HOME", &cargo));
        let twos = "two\n".repeat(if words[0] == "run" { 1 } else { 2 });
        assert_eq!(told, format!("one\n{twos}registry\n"));
    }
    assert_eq!(
        fs::read_to_string(cargo.join("registry/src/lib.rs")).unwrap(),
        "one\n"
    );
}

#[test]
fn runs_exec_sessions_and_setup_have_the_project_at_its_own_path() {
    let project = project();
    fs::create_dir(project.root().join("src")).unwrap();
    let root = project.root().display().to_string();
    fs::write(
        project.root().join("avfs.toml"),
        "[setup]\ncommands = [\"pwd >where\"]\n",
    )
    .unwrap();
    good(&mut project.avfs(&["project", "setup", "allow", "--yes"]));
    let told = good(&mut project.avfs(&["run", "--name", "one", "--", "bash", "-c", "pwd; cat where"]));
    assert_eq!(told, format!("{root}\n{root}\n"));
    let exec = |words: &[&str]| good(&mut project.avfs(&[&["exec", "--vault", "web/one"], words].concat()));
    assert_eq!(
        exec(&["-c", "pwd; echo ~"]),
        format!("{root}\n{}\n", project.home().display())
    );
    assert_eq!(exec(&["--cwd", "src", "--", "pwd"]), format!("{root}/src\n"));
    assert_eq!(exec(&["--path", "src", "--", "pwd"]), format!("{root}/src\n"));
    // Without a word, where it is typed, if the task has that directory.
    let typed_in = |below: &str| {
        let mut typed = project.avfs(&["exec", "--vault", "web/one", "--", "pwd"]);
        good(typed.current_dir(project.root().join(below)))
    };
    fs::create_dir(project.root().join("later")).unwrap();
    assert_eq!(
        (typed_in("src"), typed_in("later")),
        (format!("{root}/src\n"), format!("{root}\n"))
    );
    assert_eq!(
        exec(&["--cwd", "/workspace/src", "--", "pwd"]),
        "/workspace/src\n"
    );
    let answer = exec(&["--json", "--", "true"]);
    assert!(answer.contains(&format!("\"mountpoint\":\"{root}\"")), "{answer}");
    let session = good(&mut project.avfs(&["session", "start", "--vault", "web/one"]));
    let session = session.trim();
    let told = good(&mut project.avfs(&[
        "session",
        "exec",
        session,
        "-c",
        "pwd; cat ~/.npm/_cacache/index-v5/ab",
    ]));
    assert_eq!(told, format!("{root}\none\n"));
    good(&mut project.avfs(&["session", "stop", session]));
}
