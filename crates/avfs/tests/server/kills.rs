//! `kill -9` while clients work: whatever they were told is so afterwards, and nothing is left of the server that died.
//!
//! `AVFS_SERVER_KILL_ROUNDS` says how many servers die; `scripts/soak --server` sets it.

use std::collections::BTreeMap;
use std::time::Duration;

use avfs_testkit::Dice;
use serde_json::{Value, json};

use crate::client::{Client, Server, eventually, token};
use crate::left_over::{Family, groups_of, mounts};
use crate::sandbox::Sandbox;

const CLIENTS: usize = 6;
/// How many sandboxes a client has at most, before it deletes one.
const SANDBOXES: usize = 3;

/// A value that a client was told, and perhaps one that it asked for last and heard nothing of.
#[derive(Clone, Debug)]
struct Told<T> {
    acknowledged: T,
    asked: Option<T>,
}

impl<T: PartialEq + std::fmt::Debug> Told<T> {
    fn new(value: T) -> Told<T> {
        Told {
            acknowledged: value,
            asked: None,
        }
    }

    /// Asks for a value, and notes whether that was answered.
    fn ask(&mut self, value: T, is_answered: impl FnOnce() -> bool) -> bool {
        self.asked = Some(value);
        let is_answered = is_answered();
        if is_answered {
            self.acknowledged = self.asked.take().unwrap();
        }
        is_answered
    }

    /// What is there now is one of the two, and it stays that.
    #[track_caller]
    fn settle(&mut self, found: T) {
        assert!(
            found == self.acknowledged || Some(&found) == self.asked.as_ref(),
            "{found:?} is not {self:?}"
        );
        *self = Told::new(found);
    }
}

/// What a client knows of one sandbox.
#[derive(Debug)]
struct Known {
    path: String,
    number: u64,
    expires: Told<Option<i64>>,
    files: BTreeMap<u64, Told<Option<String>>>,
    /// Lines that commands have added, and the answers, by the keys of the requests.
    lines: Vec<(String, Option<Value>)>,
    /// Whether it was asked to be deleted.
    is_deleting: bool,
}

/// A client that does one thing after the other, and remembers.
struct Worker {
    name: String,
    dice: Dice,
    count: u64,
    known: Vec<Known>,
    gone: Vec<String>,
    /// The number of a sandbox that was asked for, and not heard of.
    asked: Option<u64>,
}

impl Worker {
    fn new(number: usize, seed: u64) -> Worker {
        Worker {
            name: format!("client-{number}"),
            dice: Dice::new(seed ^ (number as u64) << 32),
            count: 0,
            known: Vec::new(),
            gone: Vec::new(),
            asked: None,
        }
    }

    /// Works until the server does not answer any more.
    fn work(&mut self, client: &Client<'_>) {
        while self.step(client).is_some() {}
    }

    fn step(&mut self, client: &Client<'_>) -> Option<()> {
        self.count += 1;
        if self.known.is_empty() || (self.known.len() < SANDBOXES && self.dice.below(5) == 0) {
            return self.create(client, self.count);
        }
        let at = self.dice.below(self.known.len());
        match self.dice.below(10) {
            0 if self.known.len() == SANDBOXES => self.delete(client, at),
            0..=1 => self.expire(client, at),
            2..=4 => self.run(client, at),
            _ => self.write(client, at),
        }
    }

    fn create(&mut self, client: &Client<'_>, number: u64) -> Option<()> {
        self.asked = Some(number);
        let client = client
            .clone()
            .header("Idempotency-Key", &format!("{}-make-{number}", self.name));
        let body = json!({ "expires_seconds": 100_000, "metadata": { "number": number.to_string() } });
        let made = client.attempt("POST", "/api/v1/sandboxes", body.to_string().as_bytes())?;
        let made = made.is(201).json();
        self.asked = None;
        self.known.push(Known {
            path: format!("/api/v1/sandboxes/{}", made["id"].as_str().unwrap()),
            number,
            expires: Told::new(made["expires_ms"].as_i64()),
            files: BTreeMap::new(),
            lines: Vec::new(),
            is_deleting: false,
        });
        Some(())
    }

    fn delete(&mut self, client: &Client<'_>, at: usize) -> Option<()> {
        self.known[at].is_deleting = true;
        client.attempt("DELETE", &self.known[at].path, b"")?.is(204);
        self.gone.push(self.known.remove(at).path);
        Some(())
    }

    fn expire(&mut self, client: &Client<'_>, at: usize) -> Option<()> {
        let known = &mut self.known[at];
        // When it is asked for is not known exactly: none is.
        let never = json!({ "seconds": null }).to_string();
        let path = format!("{}/expiry", known.path);
        let answer = || client.attempt("PUT", &path, never.as_bytes());
        known
            .expires
            .ask(None, || {
                answer().is_some_and(|answer| answer.is(200).status == 200)
            })
            .then_some(())
    }

    fn run(&mut self, client: &Client<'_>, at: usize) -> Option<()> {
        let key = format!("{}-run-{}", self.name, self.count);
        let known = &mut self.known[at];
        known.lines.push((key.clone(), None));
        let answer = run(client, &known.path, &key)?;
        known.lines.last_mut().unwrap().1 = Some(answer);
        Some(())
    }

    fn write(&mut self, client: &Client<'_>, at: usize) -> Option<()> {
        let number = self.dice.below(4) as u64;
        let text = format!("{} {} ", self.name, self.count).repeat(1 + self.dice.below(2000));
        let known = &mut self.known[at];
        let path = format!("{}/files?path=/f{number}", known.path);
        let told = known.files.entry(number).or_insert(Told::new(None));
        let answer = || client.attempt("PUT", &path, text.as_bytes());
        let is_answered = || answer().is_some_and(|answer| answer.is(200).status == 200);
        told.ask(Some(text.clone()), is_answered).then_some(())
    }

    /// Compares what is there with what it knows.
    fn check(&mut self, client: &Client<'_>) {
        for path in &self.gone {
            assert_eq!(
                client.get(path).problem(404),
                "unknown-sandbox",
                "{path} was deleted"
            );
        }
        self.known.retain_mut(|known| check_one(client, known));
        if let Some(number) = self.asked {
            // Asked for again in the same words, there is one.
            self.create(client, number).unwrap();
        }
    }
}

fn run(client: &Client<'_>, path: &str, key: &str) -> Option<Value> {
    let client = client.clone().header("Idempotency-Key", key);
    let body = json!({ "command": format!("echo {key} >>lines") }).to_string();
    let answer = client.attempt("POST", &format!("{path}/exec"), body.as_bytes())?;
    let answer = answer.is(200).json();
    assert_eq!(answer["exit_code"], 0, "{answer}");
    Some(answer)
}

/// Whether it is still there, which it has to be if nobody has asked for its end.
fn check_one(client: &Client<'_>, known: &mut Known) -> bool {
    let found = client.get(&known.path);
    if known.is_deleting && found.status == 404 {
        return false;
    }
    known.is_deleting = false;
    let found = found.is(200).json();
    assert_eq!(found["metadata"]["number"], known.number.to_string());
    known.expires.settle(found["expires_ms"].as_i64());
    for (number, told) in &mut known.files {
        let read = client.get(&format!("{}/files?path=/f{number}", known.path));
        let text = (read.status != 404).then(|| String::from_utf8(read.is(200).body).unwrap());
        told.settle(text);
    }
    let lines = client.get(&format!("{}/files?path=/lines", known.path));
    let lines = String::from_utf8_lossy(&lines.body).into_owned();
    for (key, answer) in &mut known.lines {
        let count = lines.lines().filter(|line| line == key).count();
        match answer {
            Some(answer) => {
                assert_eq!(count, 1, "{key} was carried out once: {lines}");
                assert_eq!(
                    run(client, &known.path, key).as_ref(),
                    Some(&*answer),
                    "{key} is answered again"
                );
            }
            None => assert!(count <= 1, "{key}: {lines}"),
        }
    }
    // Nobody knows any more which of those that were not answered have run; the last of the others are enough.
    known.lines.retain(|(_, answer)| answer.is_some());
    let old = known.lines.len().saturating_sub(5);
    known.lines.drain(..old);
    true
}

#[test]
fn whatever_was_acknowledged_survives_kills_under_load() {
    let rounds = std::env::var("AVFS_SERVER_KILL_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap());
    let seed = Dice::fresh_seed();
    println!("AVFS_FUZZ_SEED={seed}");
    let mut dice = Dice::new(seed);
    let house = Sandbox::new();
    let mut workers: Vec<Worker> = (0..CLIENTS).map(|number| Worker::new(number, seed)).collect();
    // Keys of requests belong to a token.
    let key = token(&house, "--scope run");
    let mut done = 0;
    for round in 0..rounds {
        // Every other one dies with sandboxes that nobody has asked for yet.
        let words: &[&str] = if round % 2 == 0 { &["--warm", "2"] } else { &[] };
        let server = Server::start(&house, words);
        assert_eq!(
            mounts(&house),
            Vec::<String>::new(),
            "before anybody has asked for anything"
        );
        let client = server.with(&key);
        let before: u64 = workers.iter().map(|worker| worker.count).sum();
        let family = std::thread::scope(|scope| {
            let working: Vec<_> = workers
                .iter_mut()
                .map(|worker| {
                    let client = &client;
                    scope.spawn(move || worker.work(client))
                })
                .collect();
            // The moment of the kill is the only thing here that goes by time.
            std::thread::sleep(Duration::from_millis(700 + dice.below(1500) as u64));
            let family = Family::of(server.worker());
            server.kill_worker();
            for worker in working {
                worker.join().unwrap();
            }
            family
        });
        let worker = server.worker();
        done += workers.iter().map(|worker| worker.count).sum::<u64>() - before;
        drop(server);
        let server = Server::start(&house, &[]);
        let client = server.with(&key);
        for worker in &mut workers {
            worker.check(&client);
        }
        let sandbox = client.sandbox(&json!({}));
        client.line(&sandbox, "true");
        client.delete(&sandbox).is(204);
        // What a kill has left is gone when the next server has run something, at the latest.
        eventually(|| family.is_gone() && groups_of(worker).is_empty());
        assert_eq!(server.end(), 0);
        assert_eq!(mounts(&house), Vec::<String>::new());
    }
    println!("{done} requests in {rounds} rounds");
    assert!(done > rounds, "the clients have done next to nothing");
    house.good("fsck");
}
