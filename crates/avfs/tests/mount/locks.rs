//! Locks between programs that use different doors: they exclude each other.

use std::fs;
use std::path::Path;

use crate::compare::Freedom;
use crate::place::{Run, in_both_through_two_doors};
use crate::shell::sh;

/// Runs `counting` at both doors concurrently: each adds to the number in `counter`, reading and writing it
/// in two steps, so that an addition is lost if both are in the critical section.
#[track_caller]
fn exclude_each_other(run: &Run<'_>, counting: &str) {
    fs::write(run.dir.join("counter"), "0").unwrap();
    fs::write(run.dir.join("lock"), "").unwrap();
    at_both_doors(run, counting);
    assert_eq!(number(&run.dir.join("counter")), 200, "an addition was lost");
    assert_eq!(
        number(&run.door.join("counter")),
        200,
        "the other door shows something else"
    );
}

/// Runs a script twice concurrently, once at each door.
#[track_caller]
fn at_both_doors(run: &Run<'_>, script: &str) {
    let (dir, door) = (run.dir.display(), run.door.display());
    let both = "work \"$1\" & first=$!; work \"$2\" & second=$!; wait $first; wait $second";
    sh(
        run.aside,
        &format!("work() {{ cd \"$1\"\n{script}\n}}\nset -- '{dir}' '{door}'\n{both}"),
    );
}

fn number(path: &Path) -> u64 {
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

#[test]
fn flock_excludes_through_two_doors() {
    in_both_through_two_doors(&Freedom::default(), |run| {
        let counting = "for i in $(seq 100); do
            flock lock bash -c 'n=$(<counter); echo $((n + 1)) >counter'
        done";
        exclude_each_other(run, counting);
        let door = run.door.display();
        sh(
            run.dir,
            &format!(
                "exec 9<lock; flock 9
                 if flock -n '{door}/lock' true; then exit 1; fi
                 flock -u 9; flock -n '{door}/lock' true
                 flock -s 9; flock -n -s '{door}/lock' true
                 if flock -n '{door}/lock' true; then exit 1; fi"
            ),
        );
    });
}

#[test]
fn record_locks_exclude_through_two_doors() {
    in_both_through_two_doors(&Freedom::default(), |run| {
        let program = "import fcntl
with open('lock', 'r+b') as lock:
    for _ in range(100):
        fcntl.lockf(lock, fcntl.LOCK_EX, 10, 5)
        with open('counter') as f: n = int(f.read())
        with open('counter', 'w') as f: f.write(str(n + 1))
        fcntl.lockf(lock, fcntl.LOCK_UN, 10, 5)
";
        fs::write(run.aside.join("count.py"), program).unwrap();
        exclude_each_other(
            run,
            &format!("python3 '{}'", run.aside.join("count.py").display()),
        );
        let program = format!(
            "import fcntl, os, subprocess, sys
def tries(start, length, kind=fcntl.LOCK_EX):
    code = 'import fcntl,sys; f=open(sys.argv[1],\"r+b\"); ' \\
           'fcntl.lockf(f, int(sys.argv[4])|fcntl.LOCK_NB, int(sys.argv[3]), int(sys.argv[2]))'
    arguments = ['{door}/lock', str(start), str(length), str(int(kind))]
    return subprocess.run([sys.executable, '-c', code] + arguments, stderr=subprocess.DEVNULL).returncode == 0
f = open('lock', 'r+b')
fcntl.lockf(f, fcntl.LOCK_EX, 10, 100)
assert not tries(100, 10) and not tries(105, 1) and not tries(0, 0)
assert tries(0, 100) and tries(110, 5)
fcntl.lockf(f, fcntl.LOCK_UN, 5, 100)
assert tries(100, 5) and not tries(105, 5)
fcntl.lockf(f, fcntl.LOCK_SH, 10, 100)
assert tries(100, 10, fcntl.LOCK_SH) and not tries(100, 10)
os.close(os.open('lock', os.O_RDONLY))
assert tries(100, 10), 'closing any descriptor gives up all record locks of the process'
",
            door = run.door.display()
        );
        fs::write(run.aside.join("ranges.py"), program).unwrap();
        sh(run.dir, "python3 ../aside/ranges.py");
    });
}

#[test]
fn sqlite_excludes_through_two_doors() {
    let freedom = Freedom {
        left_out: &["data.db"],
        own_bytes: &[],
    };
    in_both_through_two_doors(&freedom, |run| {
        sh(
            run.dir,
            "sqlite3 data.db 'PRAGMA journal_mode=delete; CREATE TABLE t(n); INSERT INTO t VALUES(0)'",
        );
        let counting = "for i in $(seq 100); do
            echo 'BEGIN IMMEDIATE; UPDATE t SET n = n + 1; COMMIT;'
        done | sqlite3 -cmd '.timeout 60000' -bail data.db";
        at_both_doors(run, counting);
        sh(run.door, "sqlite3 data.db 'PRAGMA integrity_check' | grep -qx ok");
        sh(run.dir, "sqlite3 data.db 'SELECT n FROM t' | grep -qx 200");
    });
}

#[test]
fn a_lock_of_an_open_file_ends_with_it() {
    in_both_through_two_doors(&Freedom::default(), |run| {
        let program = format!(
            "import fcntl, os, struct, time
def take(f): fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0))
def taken(f):
    try: take(f)
    except BlockingIOError: return True
    return False
open('lock', 'w').close()
first, second, third = open('lock', 'r+b'), open('lock', 'r+b'), open('{door}/lock', 'r+b')
take(first)
assert taken(second) and taken(third)
os.close(os.open('lock', os.O_RDWR))
assert taken(second), 'closing another descriptor is nothing to it'
first.close()
end = time.monotonic() + 20
while taken(second): assert time.monotonic() < end, 'the lock survived its file'
assert taken(third)
",
            door = run.door.display()
        );
        fs::write(run.aside.join("open_file.py"), program).unwrap();
        sh(run.dir, "python3 ../aside/open_file.py");
    });
}
