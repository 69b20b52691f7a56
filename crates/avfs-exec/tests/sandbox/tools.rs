//! Ordinary tools work in a sandbox.

use std::path::Path;

use avfs_exec::plan::{OwnPaths, environment, toolchains};
use avfs_exec::{RunLimits, SandboxPlan};

use crate::kit::{Workspace, prints_of};

#[test]
fn git_makes_repositories() {
    let script = "git init -q . && git config user.email a@b && git config user.name n && echo x > f && git add . && \
                  git commit -qm 'first' && git log --oneline | wc -l && git status --porcelain";
    assert_eq!(prints_of(&Workspace::new().shell(script)).trim(), "1");
}

#[test]
fn python_runs_threads_and_processes() {
    let program = "
import concurrent.futures, multiprocessing, sqlite3, subprocess, tempfile
def double(x): return 2 * x
with concurrent.futures.ThreadPoolExecutor() as pool: print(sum(pool.map(double, range(10))))
with multiprocessing.Pool(2) as pool: print(sum(pool.map(double, range(10))))
db = sqlite3.connect('data.db'); db.execute('create table t(x)'); db.commit(); print(db.execute('select count(*) from t').fetchone()[0])
print(subprocess.run(['sh', '-c', 'echo child'], capture_output=True, text=True).stdout, end='')
";
    let workspace = Workspace::new();
    let plan = workspace.plan(&["/usr/bin/python3", "-c", program]);
    assert_eq!(prints_of(&plan), "90\n90\n0\nchild\n");
}

#[test]
fn node_starts_workers_and_children() {
    let program = "
const { Worker } = require('worker_threads'), { execFileSync } = require('child_process'), fs = require('fs');
fs.writeFileSync('made', 'x');
new Worker('require(\"worker_threads\").parentPort.postMessage(6 * 7)', { eval: true }).on('message', answer => {
  console.log(answer, execFileSync('sh', ['-c', 'echo child']).toString().trim());
});";
    let workspace = Workspace::new();
    let plan = workspace.plan(&["node", "-e", program]);
    assert_eq!(prints_of(&plan), "42 child\n");
}

#[test]
fn shells_build_programs() {
    let script = "printf 'int main(void){return 0;}' > a.c && gcc -o a a.c && ./a && echo built";
    assert_eq!(prints_of(&Workspace::new().shell(script)), "built\n");
}

#[test]
fn a_database_server_runs() {
    let script = "bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1); $bin/initdb -D /tmp/db -A trust >/dev/null && \
        $bin/pg_ctl -D /tmp/db -o '-k /tmp -h \"\"' -l /tmp/log -w start >/dev/null && \
        psql -h /tmp postgres -Atc 'select 6*7' && $bin/pg_ctl -D /tmp/db -m fast stop >/dev/null";
    assert_eq!(prints_of(&Workspace::new().shell(script)), "42\n");
}

#[test]
fn toolchains_of_the_home_are_there_and_cannot_be_changed() {
    let home = std::env::var_os("HOME").unwrap();
    let found = toolchains(Path::new(&home), &[], None);
    assert!(
        found.iter().any(|one| one.at.ends_with(".cargo/bin")),
        "Rust is not installed by rustup: {found:?}"
    );
    let workspace = Workspace::new();
    let plan = |script: &str| SandboxPlan {
        env: environment(&[], &found, OwnPaths::default(), &[]),
        toolchains: found.clone(),
        limits: RunLimits::default(),
        ..workspace.shell(script)
    };
    let script = "cargo init -q --vcs none --name hello . && cargo run -q --offline";
    let said = prints_of(&plan(&format!("cargo --version | cut -d' ' -f1; {script}")));
    assert_eq!(said, "cargo\nHello, world!\n");
    let refused = prints_of(&plan("touch $(dirname $(command -v cargo))/x 2>&1 || true"));
    assert!(refused.contains("Read-only file system"), "{refused}");
}
