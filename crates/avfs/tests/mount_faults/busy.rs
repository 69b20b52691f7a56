//! Checkpoints and forks of a vault while programs write in its mount.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::ground::{Ground, Mount};
use crate::program::await_that;

/// A call that takes longer hangs. The duration of a call depends on the load of the machine;
/// `avfs-tree/tests/never_waiting.rs` shows without a clock that calls do not wait for snapshots.
const STALL: Duration = Duration::from_secs(60);

const PAIRS: usize = 3;

/// Writes the same number to two files, one after the other, again and again.
#[derive(Default)]
struct Pair {
    /// The contents that both files certainly have.
    written: AtomicU64,
    /// The longest call, in nanoseconds.
    longest: AtomicU64,
}

impl Pair {
    fn write_for_ever(&self, first: &File, second: &File, over: &AtomicBool) {
        for number in 1.. {
            self.timed(|| first.write_all_at(&shown(number), 0).unwrap());
            self.timed(|| second.write_all_at(&shown(number), 0).unwrap());
            self.written.store(number, Ordering::Release);
            if over.load(Ordering::Acquire) {
                return;
            }
        }
    }

    fn timed(&self, call: impl FnOnce()) {
        let start = Instant::now();
        call();
        self.longest
            .fetch_max(start.elapsed().as_nanos() as u64, Ordering::AcqRel);
    }
}

/// Over the border of two pages it could be torn; a state has it whole.
fn shown(number: u64) -> Vec<u8> {
    format!("{number:020}").repeat(300).into_bytes()
}

fn number_in(text: &str) -> u64 {
    let number = text[..20].parse().unwrap();
    assert!(
        text.as_bytes() == shown(number),
        "a torn write is in a checkpoint"
    );
    number
}

/// Calls `take` while writers are active, and `read` for the taken state: a map from the name of a file to
/// its text.
#[track_caller]
fn check_states(rounds: usize, take: impl Fn(&Ground, usize), read: impl Fn(&Ground, usize, &str) -> String) {
    let ground = Ground::with_vault("work");
    let mount = ground.mount("work", "place");
    let files: Vec<[File; 2]> = (0..PAIRS)
        .map(|pair| ["a", "b"].map(|half| new(&mount, half, pair)))
        .collect();
    let pairs: Vec<Pair> = (0..PAIRS).map(|_| Pair::default()).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (pair, files) in pairs.iter().zip(&files) {
            scope.spawn(|| pair.write_for_ever(&files[0], &files[1], &is_over));
        }
        let _over = Over(&is_over);
        for round in 0..rounds {
            fill(&mount, round);
            let before: Vec<u64> = pairs
                .iter()
                .map(|pair| pair.written.load(Ordering::Acquire))
                .collect();
            take(&ground, round);
            for (pair, before) in before.iter().enumerate() {
                let [a, b] =
                    ["a", "b"].map(|half| number_in(&read(&ground, round, &format!("{half}{pair}"))));
                assert!(
                    b <= a && a <= b + 1,
                    "round {round}: the first file has {a}, the second {b}"
                );
                assert!(
                    b >= *before,
                    "round {round}: {before} was written before, {b} is there"
                );
            }
        }
        let now: u64 = pairs[0].written.load(Ordering::Acquire);
        await_that("writing goes on", STALL, || {
            pairs[0].written.load(Ordering::Acquire) > now
        });
    });
    for pair in &pairs {
        let longest = Duration::from_nanos(pair.longest.load(Ordering::Acquire));
        println!(
            "{} numbers, the longest write took {longest:?}",
            pair.written.load(Ordering::Acquire)
        );
        assert!(longest < STALL, "a write took {longest:?}");
    }
    drop(files);
    ground.unmount(mount);
    ground.assert_sound();
}

fn new(mount: &Mount, half: &str, pair: usize) -> File {
    let file = File::create_new(mount.path(&format!("{half}{pair}"))).unwrap();
    file.write_all_at(&shown(0), 0).unwrap();
    file
}

/// Something for the snapshot to do: many files and a large one.
fn fill(mount: &Mount, round: usize) {
    let dir = mount.path(&format!("filling-{round}"));
    fs::create_dir(&dir).unwrap();
    (0..50).for_each(|file| fs::write(dir.join(file.to_string()), format!("{round} {file}")).unwrap());
    fs::write(dir.join("large"), avfs_testkit::noise(round as u64, 8 << 20)).unwrap();
}

#[test]
fn a_checkpoint_of_a_busy_mount_is_one_moment() {
    check_states(
        8,
        |ground, round| drop(ground.avfs(&["checkpoint", "save", &format!("c{round}")])),
        |ground, round, file| ground.avfs(&["cat", file, "--at", &format!("c{round}")]),
    );
}

#[test]
fn a_fork_of_a_busy_mount_is_one_moment() {
    check_states(
        4,
        |ground, round| drop(ground.avfs(&["vault", "fork", "work", &format!("fork-{round}")])),
        |ground, round, file| ground.avfs(&["cat", file, "--vault", &format!("fork-{round}")]),
    );
}

/// Ends the threads of a test also when it fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
