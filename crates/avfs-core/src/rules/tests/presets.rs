//! What the presets hide, protect and leave open.

use super::meaning::{at, path};
use crate::rules::*;
use crate::{Label, Labels};

fn preset(preset: Preset) -> Rules {
    Rules::new(preset.rules()).unwrap()
}

#[track_caller]
fn check(rules: &Rules, level: Level, paths: &[&str]) {
    for text in paths {
        let found = at(rules, text).level();
        assert_eq!(
            found,
            level,
            "{}",
            rules.explain(&path(text), |_| Labels::default())
        );
    }
}

const BOTH: [Preset; 2] = [Preset::AgentSafe, Preset::Development];

/// The names of secrets, with each `*` filled in.
fn secret_names() -> Vec<String> {
    let lists = [
        presets::names::SECRETS,
        presets::names::SECRETS_WITH_PUBLIC,
        presets::names::SECRETS_BY_WORD,
    ];
    lists.concat().iter().map(|name| name.replace('*', "q")).collect()
}

#[test]
fn the_simple_presets_say_one_thing() {
    for (name, level) in [
        ("read-only", Level::Read),
        ("full-access", Level::Write),
        ("view-only", Level::View),
    ] {
        let preset: Preset = name.parse().unwrap();
        let rules = self::preset(preset);
        check(&rules, level, &["/", "/a", "/.env", "/.git/config"]);
        assert!(rules.is_all_below(&at(&rules, "/"), level));
    }
    assert!("devel".parse::<Preset>().is_err());
}

#[test]
fn secrets_are_hidden_at_any_depth_and_nothing_shows_below_them() {
    for rules in BOTH.map(preset) {
        for name in secret_names() {
            for place in ["", "/a", "/a/b", "/output", "/tmp/x"] {
                check(
                    &rules,
                    Level::None,
                    &[&format!("{place}/{name}"), &format!("{place}/{name}/x/y")],
                );
                assert!(
                    !rules.is_passable(&at(&rules, &format!("{place}/{name}"))),
                    "{place}/{name} is seen"
                );
            }
        }
        check(
            &rules,
            Level::None,
            &[
                "/.env/.env.example",
                "/secrets/node_modules/a.key",
                "/.ssh/id_rsa.pub",
            ],
        );
    }
}

#[test]
fn public_file_is_not_hidden() {
    let public = [
        "/.env.example",
        "/a/.env.sample",
        "/.env.template",
        "/.env.dist",
        "/keys/id_rsa.pub",
        "/id_ed25519.pub",
    ];
    let packages = [
        "/node_modules/aws-sdk/lib/credentials.js",
        "/node_modules/aws-sdk/lib/credentials/x.js",
        "/web/node_modules/x/test/key.pem",
        "/.venv/lib/python3.12/site-packages/certifi/cacert.pem",
    ];
    check(
        &preset(Preset::Development),
        Level::Write,
        &[&public[..], &packages].concat(),
    );
    check(
        &preset(Preset::AgentSafe),
        Level::Read,
        &[&public[..], &packages].concat(),
    );
}

#[test]
fn files_that_tools_of_the_host_run_are_not_writable() {
    for rules in BOTH.map(preset) {
        for place in ["", "/a/b", "/output"] {
            for name in [
                ".git/hooks",
                ".git/hooks/pre-commit",
                ".git/config",
                ".git/config.worktree",
                ".git/commondir",
                ".git/info/attributes",
                ".git/modules/a/b/config",
                ".git/modules/a/hooks/x",
                ".git/worktrees/w/config.worktree",
                ".git/worktrees/w/commondir",
                ".git/worktrees/w/gitdir",
                ".git/modules/a/worktrees/w/commondir",
                ".git/modules/a/worktrees/w/gitdir",
                ".git/modules/a/worktrees/w/config.worktree",
                ".mcp.json",
                ".vscode/tasks.json",
                ".vscode/settings.json",
                ".vscode/launch.json",
                ".idea/workspace.xml",
                ".bashrc",
                ".profile",
                ".zshrc",
                ".husky/pre-commit",
                ".claude/settings.local.json",
                ".cursor/mcp.json",
                ".devcontainer/devcontainer.json",
                ".gitconfig",
                ".githooks/pre-commit",
                ".git-hooks/pre-commit",
                ".overcommit.yml",
                ".hg/hgrc",
                ".vscode/c_cpp_properties.json",
                ".helix/config.toml",
                ".helix/languages.toml",
                ".opencode/plugin/x.ts",
                ".opencode/plugins/x.ts",
                ".opencode/command/x.md",
                ".opencode/tool/x.ts",
                ".opencode/opencode.json",
                "opencode.json",
                "opencode.jsonc",
                ".aider.conf.yml",
                ".amp/settings.json",
                ".qwen/settings.json",
                ".github/hooks/x.json",
                ".kiro/hooks/x",
                ".kiro/settings/mcp.json",
                ".roo/mcp.json",
                ".continue/config.yaml",
                ".continue/mcpServers/x.yaml",
                ".continuerc.json",
                ".config/mise/config.toml",
                ".hg/requires",
                ".hg/sharedpath",
                ".hg/hgrc-not-shared",
                ".hg/store/00changelog.i",
                ".jj/repo/config.toml",
                ".sl/config",
                ".pijul/config",
                ".bzr/branch/branch.conf",
                "_darcs/prefs/defaults",
                "CVS/Root",
                "lefthook-local.yml",
                ".lefthook/pre-commit/lint.sh",
                ".huskyrc",
                ".huskyrc.json",
                "crush.json",
                ".crush.json",
                ".clinerules/hooks/x",
                "mise.local.toml",
                "mise.test.local.toml",
                ".mise/config.toml",
                "mise/config.toml",
                "jupyter_notebook_config.py",
                "jupyter_server_config.json",
                ".ghci",
                ".ocamlinit",
                ".iex.exs",
                ".Renviron",
                ".Rprofile",
                ".irbrc",
                ".pryrc",
                ".dir-locals.el",
                ".dir-locals-2.el",
            ] {
                check(&rules, Level::Read, &[&format!("{place}/{name}")]);
            }
        }
    }
}

#[test]
fn installed_packages_may_have_files_that_tools_of_the_host_run_elsewhere() {
    let packages = [
        "/node_modules/iconv-lite/.idea/workspace.xml",
        "/node_modules/iconv-lite/.idea",
        "/web/node_modules/x/.vscode/settings.json",
        "/node_modules/x/.husky/pre-commit",
        "/.venv/lib/python3.12/site-packages/x/.devcontainer/a",
    ];
    check(&preset(Preset::Development), Level::Write, &packages);
    check(&preset(Preset::AgentSafe), Level::Read, &packages);
    for rules in BOTH.map(preset) {
        let protected = [
            "/.husky/node_modules/x/.idea/y",
            "/.idea/node_modules/x/tasks.json",
            "/node_modules/x/.git/config",
            "/node_modules/x/.git/hooks/pre-commit",
            "/node_modules/x/.dir-locals.el",
            "/node_modules/x/.dir-locals-2.el",
            "/node_modules/x/.hg/hgrc",
        ];
        check(&rules, Level::Read, &protected);
    }
}

#[test]
fn names_that_the_host_runs_are_known_without_a_preset() {
    for name in [
        "/.husky/pre-commit",
        "/a/.vscode/tasks.json",
        "/.idea",
        "/.envrc",
        "/a/.dir-locals.el",
        "/.gitconfig",
        "/.git/config",
        "/node_modules/x/.dir-locals.el",
    ] {
        assert!(Preset::names_run_by_host(&path(name)), "{name}");
    }
    for name in [
        "/src/main.rs",
        "/.vscode/notes.md",
        "/.env",
        "/node_modules/iconv-lite/.idea/a",
        "/",
    ] {
        assert!(!Preset::names_run_by_host(&path(name)), "{name}");
    }
}

#[test]
fn links_that_bring_files_to_names_that_the_host_runs_are_known() {
    let leads = |link: &str, target: &str| Preset::leads_to_run_by_host(&path(link), target.as_bytes());
    for (link, target) in [
        ("/.vscode", "tools"),
        ("/a/.config", "../conf"),
        ("/.claude", "/elsewhere"),
        ("/web", "node_modules/evil"),
        ("/packages/web", "../node_modules/evil"),
        ("/web", "/home/ada/src/node_modules/evil"),
    ] {
        assert!(leads(link, target), "{link} -> {target}");
    }
    for (link, target) in [
        ("/current", "releases/2"),
        ("/a/b", "../../../outside"),
        ("/src/editor", "../.vscode"),
        ("/node_modules/a", "../packages/a"),
        ("/node_modules/.bin/x", "../x/cli.js"),
        ("/bin/tool", "/usr/bin/tool"),
    ] {
        assert!(!leads(link, target), "{link} -> {target}");
    }
}

#[test]
fn rules_about_files_of_a_project_are_told_apart_from_those_about_git() {
    let about: Vec<Rule> = Preset::Development
        .rules()
        .into_iter()
        .filter(Preset::is_about_project_files_run)
        .collect();
    let rules = Preset::Development
        .rules()
        .into_iter()
        .filter(|rule| !about.contains(rule))
        .collect();
    let rules = Rules::new(rules).unwrap();
    check(
        &rules,
        Level::Write,
        &[
            "/.husky/pre-commit",
            "/.idea",
            "/.vscode/tasks.json",
            "/.dir-locals.el",
        ],
    );
    check(&rules, Level::Read, &["/.git/config", "/.git/hooks/pre-commit"]);
    check(
        &rules,
        Level::None,
        &["/.env", "/.envrc", "/.ssh/x", "/.husky/.env"],
    );
    let own = Rule::parse("**/.husky/=read").unwrap();
    assert!(
        !Preset::is_about_project_files_run(&own),
        "a rule of the user is the user's"
    );
}

/// Files that `git add`, `commit`, `rebase`, `stash` and `worktree add` write.
const WRITTEN_BY_GIT: &[&str] = &[
    ".git",
    ".git/index",
    ".git/index.lock",
    ".git/HEAD",
    ".git/objects/ab/cdef",
    ".git/objects/pack/x.idx",
    ".git/refs/heads/main",
    ".git/refs/heads/credentials-fix",
    ".git/refs/heads/secrets",
    ".git/logs/HEAD",
    ".git/COMMIT_EDITMSG",
    ".git/rebase-merge/git-rebase-todo",
    ".git/refs/stash",
    ".git/worktrees/w/HEAD",
    ".git/worktrees/w/index",
    ".git/packed-refs.lock",
];

#[test]
fn git_can_write_what_it_needs() {
    for rules in BOTH.map(preset) {
        for name in WRITTEN_BY_GIT {
            check(
                &rules,
                Level::Write,
                &[&format!("/{name}"), &format!("/a/b/{name}")],
            );
        }
        check(&rules, Level::Write, &["/.git/refs/heads/secrets/fix"]);
    }
}

#[test]
fn development_lets_tools_build() {
    check(
        &preset(Preset::Development),
        Level::Write,
        &[
            "/",
            "/src/main.rs",
            "/target/debug/x",
            "/Cargo.lock",
            "/package.json",
            "/node_modules/.bin/x",
            "/a/.npmrc",
            "/.cargo/config.toml",
            "/.pre-commit-config.yaml",
            "/.gitmodules",
            "/.vscode/notes.md",
            "/.github/workflows/ci.yml",
            "/.opencode/notes.md",
            "/.continue/rules/style.md",
        ],
    );
}

#[test]
fn agent_safe_writes_output_and_tmp_only() {
    let rules = preset(Preset::AgentSafe);
    check(&rules, Level::Write, &["/output", "/output/a/b", "/tmp/x"]);
    check(
        &rules,
        Level::Read,
        &["/", "/src/main.rs", "/a/output/x", "/outputs"],
    );
}

#[test]
fn a_repository_made_in_the_task_is_free() {
    for rules in BOTH.map(preset) {
        let fresh: Labels = [Label::fresh_repository()].into_iter().collect();
        let git = rules.child(&at(&rules, "/sub"), b".git", &fresh);
        assert_eq!(
            rules.child(&git, b"config", &Labels::default()).level(),
            Level::Write
        );
    }
}

#[test]
fn the_rules_of_a_preset_say_where_they_come_from_and_read_back() {
    for preset in Preset::ALL {
        for rule in preset.rules() {
            assert_eq!(rule.origin.as_str(), format!("preset {preset}"));
            let again = Rule::parse_stored(&rule.to_string())
                .unwrap()
                .with_origin(rule.origin.clone());
            assert_eq!(again, rule);
        }
    }
    assert!(Rule::parse("label:system:fresh-repository=write").is_err());
}
