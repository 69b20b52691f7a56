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
        assert_eq!(found, level, "{}", rules.explain(&path(text), |_| Labels::default()));
    }
}

const BOTH: [Preset; 2] = [Preset::AgentSafe, Preset::Development];

/// Of the secrets' names, each `*` is filled.
fn secret_names() -> Vec<String> {
    let lists =
        [presets::names::SECRETS, presets::names::SECRETS_WITH_PUBLIC, presets::names::SECRETS_BY_WORD];
    lists.concat().iter().map(|name| name.replace('*', "q")).collect()
}

#[test]
fn the_simple_presets_say_one_thing() {
    for (name, level) in
        [("read-only", Level::Read), ("full-access", Level::Write), ("view-only", Level::View)]
    {
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
                check(&rules, Level::None, &[&format!("{place}/{name}"), &format!("{place}/{name}/x/y")]);
                assert!(
                    !rules.is_passable(&at(&rules, &format!("{place}/{name}"))),
                    "{place}/{name} is seen"
                );
            }
        }
        check(
            &rules,
            Level::None,
            &["/.env/.env.example", "/secrets/node_modules/a.key", "/.ssh/id_rsa.pub"],
        );
    }
}

#[test]
fn what_is_public_is_not_hidden() {
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
    check(&preset(Preset::Development), Level::Write, &[&public[..], &packages].concat());
    check(&preset(Preset::AgentSafe), Level::Read, &[&public[..], &packages].concat());
}

#[test]
fn what_tools_of_the_host_run_is_not_writable() {
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
            ] {
                check(&rules, Level::Read, &[&format!("{place}/{name}")]);
            }
        }
    }
}

/// What `git add`, `commit`, `rebase`, `stash` and `worktree add` write.
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
            check(&rules, Level::Write, &[&format!("/{name}"), &format!("/a/b/{name}")]);
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
        ],
    );
}

#[test]
fn agent_safe_writes_output_and_tmp_only() {
    let rules = preset(Preset::AgentSafe);
    check(&rules, Level::Write, &["/output", "/output/a/b", "/tmp/x"]);
    check(&rules, Level::Read, &["/", "/src/main.rs", "/a/output/x", "/outputs"]);
}

#[test]
fn a_repository_made_in_the_task_is_free() {
    for rules in BOTH.map(preset) {
        let fresh: Labels = [Label::fresh_repository()].into_iter().collect();
        let git = rules.child(&at(&rules, "/sub"), b".git", &fresh);
        assert_eq!(rules.child(&git, b"config", &Labels::default()).level(), Level::Write);
    }
}

#[test]
fn the_rules_of_a_preset_say_where_they_come_from_and_read_back() {
    for preset in Preset::ALL {
        for rule in preset.rules() {
            assert_eq!(rule.origin.as_str(), format!("preset {preset}"));
            let again = Rule::parse_stored(&rule.to_string()).unwrap().with_origin(rule.origin.clone());
            assert_eq!(again, rule);
        }
    }
    assert!(Rule::parse("label:system:fresh-repository=write").is_err());
}
