//! Files that the host would run are applied only if the user names them.

use agentvfs::apply::{ApplyOptions, Plan, Selection};

use crate::scene::{Scene, options, path};

/// The paths that are left out, with the reasons.
fn guarded(plan: &Plan) -> Vec<String> {
    plan.guarded
        .iter()
        .map(|file| format!("{} {}", file.path, file.reason.as_str()))
        .collect()
}

fn plan_allowing(scene: &Scene, named: &[&str]) -> Plan {
    let allowed = named.iter().map(|named| path(named)).collect();
    scene
        .plan_with(&Selection::default(), &ApplyOptions { allowed, ..options() })
        .unwrap()
}

fn only(paths: &[&str]) -> Selection {
    Selection {
        paths: paths.iter().map(|text| path(text)).collect(),
        ..Selection::default()
    }
}

/// Everything that makes a directory a repository for git, with settings that run a program.
const REPOSITORY: [(&str, &str); 4] = [
    ("HEAD", "ref: refs/heads/main\n"),
    ("objects/.k", ""),
    ("refs/.k", ""),
    (
        "config",
        "[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch RAN; false\n",
    ),
];

/// Whether git on the host treats a directory as a repository of its own.
fn is_repository(scene: &Scene, directory: &str) -> bool {
    let mut git = std::process::Command::new("git");
    let place = scene.project.join(directory);
    git.args(["rev-parse", "--git-dir"])
        .current_dir(&place)
        .env("GIT_CEILING_DIRECTORIES", &scene.project);
    place.is_dir() && git.output().unwrap().status.success()
}

#[test]
fn files_that_the_host_runs_are_left_out_until_they_are_named() {
    let scene = Scene::new(&[
        (".husky/pre-commit", "old"),
        (".vscode/settings.json", "{}"),
        ("a", "x"),
    ]);
    scene.task_writes(".husky/pre-commit", "evil");
    scene.task_removes(".vscode/settings.json");
    scene.task_writes(".envrc", "evil");
    scene.task_writes("web/.idea/workspace.xml", "evil");
    scene.task_writes("a", "y");
    let plan = scene.plan();
    let expected = [
        "/.envrc run-by-host",
        "/.husky/pre-commit run-by-host",
        "/.vscode/settings.json run-by-host",
        "/web/.idea/workspace.xml run-by-host",
    ];
    assert_eq!(guarded(&plan), expected);
    plan.carry_out().unwrap();
    assert_eq!(
        (scene.read(".husky/pre-commit"), scene.read("a")),
        ("old".into(), "y".into())
    );
    assert!(scene.has(".vscode/settings.json") && !scene.has(".envrc") && !scene.has("web/.idea"));

    let plan = plan_allowing(&scene, &[".husky/pre-commit", "web/.idea"]);
    assert_eq!(
        guarded(&plan),
        ["/.envrc run-by-host", "/.vscode/settings.json run-by-host"]
    );
    plan.carry_out().unwrap();
    assert_eq!(scene.read(".husky/pre-commit"), "evil");
    assert_eq!(scene.read("web/.idea/workspace.xml"), "evil");
    assert!(!scene.has(".envrc"));
    // The root is not a name, and an unchanged file is not a change.
    assert_eq!(guarded(&plan_allowing(&scene, &["/"])).len(), 2);
}

#[test]
fn files_of_other_tools_that_the_host_runs_are_left_out() {
    for name in [
        ".hg/requires",
        ".hg/sharedpath",
        ".hg/hgrc-not-shared",
        "a/.hg/store/x",
        ".jj/repo/config.toml",
        ".sl/config",
        ".pijul/config",
        "_darcs/prefs/defaults",
        ".svn/wc.db",
        "CVS/Root",
        "lefthook-local.yml",
        ".lefthook/pre-commit/lint.sh",
        ".huskyrc",
        "crush.json",
        ".clinerules/hooks/PreToolUse",
        ".ghci",
        ".ocamlinit",
        ".iex.exs",
        ".Renviron",
        "mise.local.toml",
        ".mise/config.toml",
        "jupyter_notebook_config.py",
    ] {
        let scene = Scene::new(&[("b", "x")]);
        scene.task_writes(name, "evil");
        scene.task_writes("b", "y");
        let plan = scene.plan();
        assert_eq!(guarded(&plan), [format!("/{name} run-by-host")]);
        plan.carry_out().unwrap();
        assert!(!scene.has(name) && scene.read("b") == "y", "{name}");
    }
}

#[test]
fn directories_that_came_only_for_what_is_left_out_are_not_made() {
    let scene = Scene::new(&[("a", "x")]);
    scene.task_writes("new/deep/.vscode/tasks.json", "evil");
    scene.task_writes("both/.vscode/tasks.json", "evil");
    scene.task_writes("both/kept", "good");
    let plan = scene.plan();
    assert_eq!(plan.guarded.len(), 2);
    let paths: Vec<String> = plan.files.iter().map(|file| file.path.to_string()).collect();
    assert_eq!(paths, ["/both", "/both/kept"]);
    plan.carry_out().unwrap();
    assert!(!scene.has("new") && !scene.has("both/.vscode"));

    let plan = plan_allowing(&scene, &["new/deep/.vscode/tasks.json"]);
    plan.carry_out().unwrap();
    assert_eq!(scene.read("new/deep/.vscode/tasks.json"), "evil");
}

#[test]
fn selecting_a_path_is_not_agreeing_to_have_it_run() {
    let scene = Scene::new(&[("a", "x")]);
    scene.task_writes(".husky/pre-commit", "evil");
    let plan = scene
        .plan_with(&only(&[".husky/pre-commit"]), &options())
        .unwrap();
    assert_eq!(guarded(&plan), ["/.husky/pre-commit run-by-host"]);
    plan.carry_out().unwrap();
    assert!(!scene.has(".husky"));
}

#[test]
fn links_that_bring_files_to_names_that_the_host_runs_are_left_out() {
    let scene = Scene::new(&[("a", "x"), ("tools/old", "x")]);
    scene.task_writes("tools/tasks.json", "evil");
    scene.task_does(|open| {
        open.symlink(b"tools", &path(".vscode")).unwrap();
        open.symlink(b"tools", &path(".VSCODE")).unwrap();
        open.symlink(b"tools", &path("plain")).unwrap();
    });
    let plan = scene.plan();
    assert_eq!(guarded(&plan), ["/.VSCODE run-by-host", "/.vscode run-by-host"]);
    plan.carry_out().unwrap();
    assert!(scene.has("plain") && scene.has("tools/tasks.json") && !scene.has(".vscode"));
}

#[test]
fn packages_may_have_settings_of_editors() {
    let scene = Scene::new(&[("a", "x")]);
    scene.task_writes("node_modules/iconv-lite/.idea/a.xml", "x");
    let options = ApplyOptions {
        with_ignored: true,
        ..options()
    };
    let plan = scene.plan_with(&Selection::default(), &options).unwrap();
    assert_eq!(guarded(&plan), [] as [String; 0]);
    plan.carry_out().unwrap();
    assert!(scene.has("node_modules/iconv-lite/.idea/a.xml"));
}

#[test]
fn a_directory_that_git_takes_for_a_repository_is_left_out_until_it_is_named() {
    let scene = Scene::new(&[("a", "x")]);
    for (part, text) in REPOSITORY {
        scene.task_writes(&format!("docs/{part}"), text);
    }
    scene.task_writes("docs/hooks/pre-commit", "evil");
    scene.task_writes("docs/readme.md", "about");
    let plan = scene.plan();
    assert_eq!(guarded(&plan), ["/docs new-repository"]);
    plan.carry_out().unwrap();
    assert_eq!(scene.read("docs/readme.md"), "about");
    assert!(!is_repository(&scene, "docs"));
    let plan = plan_allowing(&scene, &["docs"]);
    assert_eq!(guarded(&plan), [] as [String; 0]);
    plan.carry_out().unwrap();
    assert!(
        is_repository(&scene, "docs"),
        "the test knows what a repository is"
    );
}

#[test]
fn a_repository_does_not_arrive_in_parts() {
    for last in 0..REPOSITORY.len() {
        let scene = Scene::new(&[("a", "x")]);
        let mut parts = REPOSITORY.to_vec();
        parts.rotate_left(last);
        for (part, text) in parts {
            scene.task_writes(&format!("docs/{part}"), text);
            scene
                .plan_with(&only(&["docs"]), &options())
                .unwrap()
                .carry_out()
                .unwrap();
            let one = scene.plan_with(&only(&[&format!("docs/{part}")]), &options());
            if let Ok(plan) = one {
                plan.carry_out().unwrap();
            }
            assert!(!is_repository(&scene, "docs"), "{part} came {last}");
        }
    }
}

#[test]
fn existing_directory_does_not_become_a_repository() {
    let parts = [
        ("docs/HEAD", "ref: refs/heads/main\n"),
        ("docs/refs/.k", ""),
        ("docs/objects/.k", ""),
    ];
    for missing in 0..parts.len() {
        let here: Vec<(&str, &str)> = parts
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != missing)
            .map(|(_, part)| *part)
            .collect();
        let scene = Scene::new(&here);
        scene.task_writes(parts[missing].0, parts[missing].1);
        scene.task_writes("docs/config", REPOSITORY[3].1);
        scene.apply().unwrap();
        assert!(!is_repository(&scene, "docs"), "{} came last", parts[missing].0);
    }
}

#[test]
fn a_repository_is_not_made_by_renaming_or_by_a_place_for_the_rest() {
    let scene = Scene::new(&[
        ("a", "x"),
        ("old/refs/.k", ""),
        ("old/objects/.k", ""),
        ("old/h", "ref: refs/heads/m\n"),
    ]);
    scene.task_does(|open| {
        open.rename(&path("old/h"), &path("old/HEAD")).unwrap();
        open.rename(&path("old"), &path("new")).unwrap();
    });
    scene.apply().unwrap();
    assert!(!is_repository(&scene, "new"));

    let scene = Scene::new(&[("a", "x"), ("far/refs/.k", ""), ("far/objects/.k", "")]);
    scene.task_writes("far/config", REPOSITORY[3].1);
    scene.task_writes("near/HEAD", "ref: refs/heads/main\n");
    scene.task_writes("near/commondir", "../far\n");
    assert_eq!(guarded(&scene.plan()), ["/near new-repository"]);
    scene.apply().unwrap();
    assert!(!is_repository(&scene, "near"));
}

#[test]
fn settings_and_hooks_of_a_bare_repository_are_left_out() {
    let here = [
        ("HEAD", "ref: refs/heads/main\n"),
        ("refs/.k", ""),
        ("objects/.k", ""),
        ("config", "[core]\n"),
    ];
    let scene = Scene::new(&here);
    scene.task_writes("config", "[core]\n\tfsmonitor = evil\n");
    scene.task_writes("hooks/post-receive", "evil");
    scene.task_writes("refs/heads/main", "1234");
    let plan = scene.plan();
    assert_eq!(
        guarded(&plan),
        ["/config in-repository", "/hooks/post-receive in-repository"]
    );
    plan.carry_out().unwrap();
    assert_eq!(scene.read("config"), "[core]\n");
    assert_eq!(scene.read("refs/heads/main"), "1234");
    plan_allowing(&scene, &["config"]).carry_out().unwrap();
    assert_eq!(scene.read("config"), "[core]\n\tfsmonitor = evil\n");
    assert!(!scene.has("hooks"));
}

#[test]
fn a_directory_called_hooks_or_config_is_ordinary_without_a_repository() {
    let scene = Scene::new(&[("src/hooks/use.ts", "x"), ("config/app.toml", "x")]);
    scene.task_writes("src/hooks/use.ts", "y");
    scene.task_writes("config/app.toml", "y");
    scene.task_writes("src/index", "y");
    let plan = scene.plan();
    assert_eq!(guarded(&plan), [] as [String; 0]);
    plan.carry_out().unwrap();
    assert_eq!(
        (scene.read("src/hooks/use.ts"), scene.read("config/app.toml")),
        ("y".into(), "y".into())
    );
}

/// Runs a script in the user's directory.
fn user_does(scene: &Scene, script: &str) {
    let mut shell = std::process::Command::new("bash");
    shell
        .args(["-euc", script])
        .current_dir(&scene.project)
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    assert!(shell.status().unwrap().success(), "{script}");
}

#[test]
fn files_that_the_users_links_lead_to_are_left_out() {
    let scene = Scene::new(&[
        ("a", "x"),
        ("tools/vscode/tasks.json", "{}"),
        ("tools/husky/pre-commit", "x"),
        ("conf/mcp.json", "{}"),
        ("rc", "x"),
        ("hooks-src/pre-commit", "x"),
        ("packages/web/tools/settings.json", "{}"),
        ("shared/launch.json", "{}"),
    ]);
    user_does(
        &scene,
        "ln -s tools/vscode .vscode; ln -s middle .husky; ln -s ./tools/../tools/husky middle
         ln -s conf/mcp.json .mcp.json; ln -s $PWD/rc .bashrc; ln -s . .claude
         ln -s tools packages/web/.vscode; mkdir -p deep/down; ln -s ../../shared deep/down/.vscode
         git init -q --template= .; mkdir .git/hooks; ln -s ../../hooks-src/pre-commit .git/hooks/pre-commit; git add deep",
    );
    for file in [
        "tools/vscode/tasks.json",
        "tools/husky/pre-commit",
        "conf/mcp.json",
        "rc",
        "hooks-src/pre-commit",
        "packages/web/tools/settings.json",
        "shared/launch.json",
        "settings.json",
        "tools/vscode/notes",
        "conf/other",
        "a",
    ] {
        scene.task_writes(file, "changed");
    }
    let plan = scene.plan();
    let expected = [
        "/conf/mcp.json led-to",
        "/hooks-src/pre-commit named-by-git",
        "/packages/web/tools/settings.json led-to",
        "/rc led-to",
        "/settings.json led-to",
        "/shared/launch.json led-to",
        "/tools/husky/pre-commit led-to",
        "/tools/vscode/tasks.json led-to",
    ];
    assert_eq!(guarded(&plan), expected);
    let reasons: Vec<String> = plan.guarded.iter().map(|file| file.reason.to_string()).collect();
    assert!(reasons[0].contains("/.mcp.json"), "{reasons:?}");
    assert!(reasons[1].contains("hooks/pre-commit"), "{reasons:?}");
    plan.carry_out().unwrap();
    assert_eq!(
        (scene.read("a"), scene.read("rc")),
        ("changed".into(), "x".into())
    );
    plan_allowing(&scene, &["rc"]).carry_out().unwrap();
    assert_eq!(scene.read("rc"), "changed");
}

#[test]
fn the_way_that_a_link_of_the_user_leads_is_left_as_it_is() {
    let scene = Scene::new(&[("tools/vscode/notes", "x"), ("other/vscode/tasks.json", "evil")]);
    user_does(&scene, "ln -s tools/vscode .vscode");
    scene.task_does(|open| {
        open.remove(&path("tools"), true).unwrap();
        open.symlink(b"other", &path("tools")).unwrap();
    });
    let plan = scene.plan();
    assert_eq!(guarded(&plan), ["/tools led-to"]);
}

#[test]
fn files_that_settings_of_git_name_are_left_out() {
    for (setting, file) in [
        ("core.hooksPath hooks", "hooks/pre-commit"),
        ("core.hooksPath ./missing", "missing/pre-commit"),
        ("include.path ../tools/gitconfig", "tools/gitconfig"),
        ("includeIf.onbranch:x.path ../tools/gitconfig", "tools/gitconfig"),
        ("core.attributesFile tools/attributes", "tools/attributes"),
        ("filter.x.clean 'sh tools/clean.sh %f'", "tools/clean.sh"),
        ("filter.x.process clean.sh", "clean.sh"),
        ("diff.x.textconv ./tools/show", "tools/show"),
        ("merge.x.driver 'tools/merge %O %A %B'", "tools/merge"),
        ("core.fsmonitor .tools/watch", ".tools/watch"),
        ("core.sshCommand 'ssh -F tools/ssh'", "tools/ssh"),
        ("core.editor tools/edit", "tools/edit"),
        (
            "alias.go '!f() { \"$GIT_WORK_TREE/tools/go.sh\"; }; f'",
            "tools/go.sh",
        ),
        (
            "alias.go '!$(git rev-parse --show-toplevel)/tools/go.sh'",
            "tools/go.sh",
        ),
        ("alias.go '!$(git rev-parse --show-toplevel)/new'", "new"),
        ("alias.go '!\"$(git rev-parse --show-toplevel)\"/new'", "new"),
        ("alias.go '!$TOP/new'", "new"),
        ("alias.go '!`git rev-parse --show-toplevel`/new'", "new"),
        ("alias.go '!cd tools && ./new'", "tools/new"),
        (
            "alias.go '!cd \"$(git rev-parse --show-toplevel)/tools\" && sh new.sh'",
            "tools/new.sh",
        ),
        ("alias.go '!cd docs; cd clean && ./new'", "docs/clean/new"),
        ("alias.go '!make -C tools -f go.mk'", "tools/go.mk"),
        (
            "credential.https://example.org.helper \"!$PWD/tools/helper\"",
            "tools/helper",
        ),
        ("gpg.ssh.program tools/sign", "tools/sign"),
    ] {
        let scene = Scene::new(&[("a", "x"), ("tools/go.sh", "x"), ("docs/clean/b", "x")]);
        user_does(
            &scene,
            &format!("git init -q --template= .; git config {setting}"),
        );
        scene.task_writes(file, "evil");
        scene.task_writes("docs/clean/b", "y");
        let plan = scene.plan();
        assert_eq!(guarded(&plan), [format!("/{file} named-by-git")], "{setting}");
        let key = setting.split(' ').next().unwrap().to_lowercase();
        let reason = plan.guarded[0].reason.to_string();
        assert!(reason.to_lowercase().contains(&key), "{reason}");
    }
}

#[test]
fn settings_in_a_file_of_the_project_that_git_includes_count_too() {
    let scene = Scene::new(&[("tools/gitconfig", "[core]\n\thooksPath = hooks\n"), ("a", "x")]);
    user_does(
        &scene,
        "git init -q --template= .; git config include.path ../tools/gitconfig",
    );
    scene.task_writes("hooks/pre-commit", "evil");
    assert_eq!(guarded(&scene.plan()), ["/hooks/pre-commit named-by-git"]);
}

#[test]
fn settings_that_run_nothing_guard_nothing() {
    let scene = Scene::new(&[("status", "x"), ("clean/a", "x"), ("templates/message", "x")]);
    user_does(
        &scene,
        "git init -q --template= .; git config alias.st status; git config filter.lfs.clean 'git-lfs clean -- %f'
         git config commit.template templates/message; git config core.worktree $PWD; git config remote.o.url ../clean",
    );
    for file in ["status", "clean/a", "templates/message", "new"] {
        scene.task_writes(file, "y");
    }
    assert_eq!(guarded(&scene.plan()), [] as [String; 0]);
}
