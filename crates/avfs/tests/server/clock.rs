//! A clock that somebody sets. The server gets its time of day through a small library that is loaded before all others and
//! adds what a file says; the time that passes is the machine's.

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::client::{Server, eventually, token};
use crate::sandbox::Sandbox;

const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    const char *place = getenv("SET_CLOCK");
    FILE *file = result == 0 && id == CLOCK_REALTIME && place ? fopen(place, "r") : NULL;
    long by = 0;
    if (file) {
        if (fscanf(file, "%ld", &by) == 1) now->tv_sec += by;
        fclose(file);
    }
    return result;
}
"#;

const YEAR: i64 = 365 * 24 * 60 * 60;

/// A clock that tests set.
struct Clock {
    shim: PathBuf,
    place: PathBuf,
}

impl Clock {
    fn new(house: &Sandbox) -> Clock {
        let (source, shim) = (house.path("shim.c"), house.path("shim.so"));
        std::fs::write(&source, SHIM).unwrap();
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-o"])
            .args([&shim, &source])
            .arg("-ldl");
        assert!(
            compiler.status().unwrap().success(),
            "the library is built by a C compiler"
        );
        let clock = Clock {
            shim,
            place: house.path("clock"),
        };
        clock.set(0);
        clock
    }

    /// Sets the clock to so many seconds after the machine's.
    fn set(&self, seconds: i64) {
        // In one step: the server may look at any time.
        let draft = self.place.with_extension("new");
        std::fs::write(&draft, seconds.to_string()).unwrap();
        std::fs::rename(draft, &self.place).unwrap();
    }

    fn start(&self, house: &Sandbox) -> Server {
        let (shim, place) = (self.shim.to_str().unwrap(), self.place.to_str().unwrap());
        Server::start_in(house, &[], &[("LD_PRELOAD", shim), ("SET_CLOCK", place)])
    }
}

#[test]
fn a_clock_that_jumps_ends_no_sandbox_and_forgets_no_key() {
    let house = Sandbox::new();
    let clock = Clock::new(&house);
    let server = clock.start(&house);
    let key = token(&house, "--scope run");
    let keyed = |server: &Server| {
        let client = server.with(&key).header("Idempotency-Key", "once");
        client
            .post("/api/v1/sandboxes", &json!({ "expires_seconds": 3000 }))
            .is(201)
    };
    let made = keyed(&server).json();
    let path = format!("/api/v1/sandboxes/{}", made["id"].as_str().unwrap());
    let begin = made["expires_ms"].as_i64().unwrap();
    // It expires after as long as before, whatever that is called now.
    let follows = |server: &Server, jump: i64| {
        eventually(|| {
            let found = server.with(&key).get(&path).is(200).json();
            let moved = found["expires_ms"].as_i64().unwrap() - begin - jump * 1000;
            moved.abs() < 60_000
        });
        assert_eq!(keyed(server).header("idempotent-replayed"), Some("true"));
    };
    for jump in [10 * YEAR, -10 * YEAR, 0, 3600] {
        clock.set(jump);
        follows(&server, jump);
    }
    server.with(&key).line(&path, "echo kept >file");
    server.kill();
    // Between two servers, too.
    clock.set(20 * YEAR);
    let server = clock.start(&house);
    follows(&server, 20 * YEAR);
    assert_eq!(server.with(&key).line(&path, "cat file"), "kept\n");
    // And one whose time has passed ends, although the clock says that there are years to come.
    let short = server.with(&key).sandbox(&json!({ "expires_seconds": 2 }));
    clock.set(-20 * YEAR);
    eventually(|| server.with(&key).get(&short).status == 404);
    server.with(&key).get(&path).is(200);
}
