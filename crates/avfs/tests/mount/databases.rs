//! Databases: locks, write-ahead logs, mapped indexes, and much fsync. They judge their own files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compare::Freedom;
use crate::place::in_both;
use crate::shell::{command, good, sh};

#[test]
fn sqlite_takes_two_writers_with_a_log() {
    // The order of the writers is random, and so are the bytes; the result after a checkpoint is not.
    let freedom = Freedom {
        left_out: &[],
        own_bytes: &["/data.db", "data.db"],
    };
    in_both(&freedom, |run| {
        sh(
            run.dir,
            "sqlite3 data.db 'PRAGMA journal_mode=wal; CREATE TABLE t(who, n INTEGER, filler)' >/dev/null
             write() {
                 for n in $(seq 100); do
                     echo \"BEGIN IMMEDIATE; INSERT INTO t VALUES('$1', $n, hex(randomblob(500)));
                           UPDATE t SET filler = '' WHERE n = $n - 20; COMMIT;\"
                 done | sqlite3 -cmd '.timeout 60000' -bail data.db
             }
             write one & first=$!
             write two & second=$!
             wait $first; wait $second
             sqlite3 data.db 'PRAGMA integrity_check' | grep -qx ok
             sqlite3 data.db 'SELECT who, count(*), sum(n) FROM t GROUP BY who ORDER BY who' >result
             sqlite3 data.db 'PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=delete' >/dev/null
             sqlite3 data.db 'VACUUM; PRAGMA integrity_check' | grep -qx ok",
        );
        assert_eq!(
            fs::read_to_string(run.dir.join("result")).unwrap(),
            "one|100|5050\ntwo|100|5050\n"
        );
    });
}

/// The newest server that is installed.
fn postgres_programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("the PostgreSQL server is not installed");
    let newest = versions.map(|version| version.unwrap().path()).max();
    newest
        .expect("the PostgreSQL server is not installed")
        .join("bin")
}

/// PostgreSQL refuses root.
fn as_ordinary_user(program: &Path, dir: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return command(program.to_str().unwrap(), dir);
    }
    let mut setpriv = command("setpriv", dir);
    setpriv
        .args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"])
        .arg(program);
    setpriv
}

#[test]
fn postgresql_runs_and_its_checksums_hold() {
    // The server's files are its own; that it reads every page again and finds it good is the test.
    let freedom = Freedom {
        left_out: &["data"],
        own_bytes: &[],
    };
    in_both(&freedom, |run| {
        let data = run.dir.join("data");
        fs::create_dir(&data).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&data, Some(65534), Some(65534)).unwrap();
        }
        let programs = postgres_programs();
        let pg = |line: &str, last: Option<&str>| {
            let mut words = line.split_whitespace();
            let program = programs.join(words.next().unwrap());
            let mut command = as_ordinary_user(&program, &data);
            command
                .env("PGHOST", &data)
                .env("PGUSER", "owner")
                .env("PGDATA", &data)
                .env("PGDATABASE", "postgres");
            command.args(words).args(last);
            good(command)
        };
        pg("initdb -U owner -A trust -k --locale=C.UTF-8", None);
        let socket = format!(
            "unix_socket_directories = '{}'\nlisten_addresses = ''\n",
            data.display()
        );
        let settings = data.join("postgresql.conf");
        let text = fs::read_to_string(&settings).unwrap() + &socket + "shared_buffers = 16MB\n";
        fs::write(&settings, text).unwrap();

        pg("pg_ctl start -w -t 60 -l log", None);
        let server = Server {
            stop: &|| _ = pg("pg_ctl stop -w -t 60 -m fast", None),
        };
        pg("pgbench -i -q", None);
        let bench = pg("pgbench -T 5 -c 2 -j 2", None);
        assert!(bench.contains("number of failed transactions: 0"), "{bench}");
        drop(server);

        pg("pg_checksums --check", None);
        pg("pg_ctl start -w -t 60 -l log", None);
        let _server = Server {
            stop: &|| _ = pg("pg_ctl stop -w -t 60 -m fast", None),
        };
        assert_eq!(
            pg("psql -XAtc", Some("SELECT count(*) FROM pgbench_accounts")).trim(),
            "100000"
        );
        pg("pg_amcheck --install-missing --heapallindexed", None);
    });
}

/// A server that is stopped whatever happens.
struct Server<'a> {
    stop: &'a dyn Fn(),
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        (self.stop)();
    }
}
