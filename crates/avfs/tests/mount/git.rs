//! git: many small files, renames as commits, locks by exclusive creation, mapped packs.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::compare::Freedom;
use crate::place::in_both;
use crate::shell::{command, good, sh};
use crate::source::text;

/// The index holds inode numbers and change times.
const FREEDOM: Freedom = Freedom {
    left_out: &[],
    own_bytes: &["/index"],
};

/// A repository with two branches, 300 commits and 400 files, made once for both runs.
fn origin(path: &Path) {
    if path.exists() {
        return;
    }
    let mut init = command("git", path.parent().unwrap());
    init.args(["init", "-q", "--bare", "-b", "main"]).arg(path);
    good(init);
    let stream = path.with_extension("stream");
    fs::write(&stream, history()).unwrap();
    let mut import = command("bash", path);
    import
        .args(["-c", "git fast-import --quiet <\"$1\"", "import"])
        .arg(&stream)
        .stdin(Stdio::null());
    good(import);
}

fn history() -> String {
    let mut stream = String::new();
    for commit in 0..300 {
        let branch = if commit % 10 == 9 { "side" } else { "main" };
        let message = format!("change {commit}\n");
        _ = writeln!(stream, "commit refs/heads/{branch}\nmark :{}", commit + 1);
        _ = writeln!(
            stream,
            "committer Someone <someone@example.org> {} +0000",
            1_600_000_000 + commit
        );
        _ = writeln!(stream, "data {}\n{message}", message.len());
        if commit == 9 {
            _ = writeln!(stream, "from :9");
        }
        for file in [commit, commit * 7 % 100, 300 + commit / 3] {
            let (body, kind) = match file % 50 {
                49 => ("../README".to_owned(), "120000"),
                7 => (text(file + commit), "100755"),
                _ => (text(file + commit), "100644"),
            };
            let path = format!("{branch}/d{}/e{}/file{file}", file % 9, file % 4);
            _ = writeln!(stream, "M {kind} inline {path}\ndata {}\n{body}", body.len());
        }
    }
    stream
}

#[test]
fn git_clones_commits_rebases_collects_and_finds_nothing_wrong() {
    in_both(&FREEDOM, |run| {
        origin(&run.aside.join("origin"));
        sh(
            run.dir,
            "export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=pack.threads GIT_CONFIG_VALUE_0=1
             export GIT_CONFIG_KEY_1=gc.auto GIT_CONFIG_VALUE_1=0
             git clone -q --no-local ../aside/origin clone
             cd clone
             git checkout -q -b work origin/side
             for i in $(seq 20); do echo $i >new$i; git add new$i; git commit -qm \"new $i\"; done
             git rebase -q main
             git mv new1 moved; git rm -q new2; echo changed >>new3; git commit -qam moves
             echo kept >>new4; git stash -q; git stash pop -q; git checkout -q -- new4
             git worktree add -q ../tree main
             git tag -m tag v1; git merge -q --no-edit origin/side
             git status --porcelain >../status; test ! -s ../status
             git gc -q --prune=now
             git fsck --full --strict
             git status --porcelain >../status; test ! -s ../status
             git log --oneline --all | wc -l >../count",
        );
        assert_eq!(fs::read_to_string(run.dir.join("count")).unwrap().trim(), "352");
    });
}

#[test]
fn git_init_takes_a_tree_and_gives_it_back() {
    in_both(&FREEDOM, |run| {
        for index in 0..400 {
            let directory = run.dir.join(format!("fresh/d{}", index % 20));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join(format!("f{index}")), text(index)).unwrap();
        }
        sh(
            run.dir,
            "git init -q -b main fresh; cd fresh
             git add -A; git commit -qm all; git status --porcelain >../status
             test ! -s ../status
             rm -r d1 d2; git status --porcelain | wc -l >../missing
             git checkout -q -- .; git clean -qfdx; git diff --exit-code
             git clone -q --shared . ../shared; git clone -q . ../linked
             git archive --format=tar -o ../fresh.tar HEAD",
        );
        assert_eq!(fs::read_to_string(run.dir.join("missing")).unwrap().trim(), "40");
    });
}
