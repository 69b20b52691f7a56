//! Owners and clients that never rest.

use agentvfs::error::FileError;
use agentvfs::{CheckpointName, Error, Vault};

use super::owner::{Scene, open_store};
use super::support::{name, path, read, write};

/// The two files of a churning thread, of which the first is never behind.
fn check_pair(vault: &Vault, reader: &agentvfs::TreeReader, thread: &str) {
    let number = |file: &str| match reader.read(&path(&format!("/{thread}/{file}"))) {
        Ok(bytes) => std::str::from_utf8(&bytes).unwrap().parse::<u64>().unwrap_or(0),
        Err(_) => 0,
    };
    let (first, second) = (number("first"), number("second"));
    assert!(
        first == second || first == second + 1,
        "{first} and {second} in {}",
        vault.name().unwrap()
    );
}

#[test]
fn checkpoints_and_forks_of_a_busy_owner_are_moments() {
    let mut scene = Scene::new();
    let threads = ["one", "two", "three"];
    threads
        .iter()
        .for_each(|thread| drop(scene.owner.ask(&format!("churn {thread}"))));
    for round in 0..15 {
        let checkpoint = format!("c{round}");
        scene
            .vault
            .save_checkpoint(&CheckpointName::new(&checkpoint).unwrap(), None)
            .unwrap();
        let reader = scene.vault.revision(&checkpoint).unwrap().reader().unwrap();
        threads
            .iter()
            .for_each(|thread| check_pair(&scene.vault, &reader, thread));
        let fork = scene.vault.fork(&[name(&format!("f{round}"))]).unwrap().remove(0);
        let reader = fork.reader().unwrap();
        threads
            .iter()
            .for_each(|thread| check_pair(&fork, &reader, thread));
    }
}

#[test]
fn a_busy_owner_takes_changes_and_restores() {
    let mut scene = Scene::new();
    write(&scene.vault, "/a", "good");
    scene
        .vault
        .save_checkpoint(&CheckpointName::new("good").unwrap(), None)
        .unwrap();
    scene.owner.ask("churn one");
    for round in 0..10 {
        write(&scene.vault, "/a", format!("round {round}"));
        assert_eq!(read(&scene.vault, "/a").unwrap(), format!("round {round}"));
    }
    scene
        .vault
        .restore_paths(
            &scene.vault.revision("good").unwrap(),
            &[path("/a")],
            "checkout",
            "",
        )
        .unwrap();
    assert_eq!(scene.owner_reads("/a"), "good");
    let reader = scene.vault.reader().unwrap();
    check_pair(&scene.vault, &reader, "one");
}

#[test]
fn every_count_of_two_clients_and_their_owner_counts() {
    let mut scene = Scene::new();
    scene.owner_writes("/count", "0");
    scene.owner.ask("churn one");
    let home = &scene.home;
    let counting = || {
        let vault = open_store(home).vault("main").unwrap();
        let mut counted = 0;
        while counted < 15 {
            let count = vault.change("count", "", |open| {
                let count: u64 = std::str::from_utf8(&open.read(&path("/count"))?)
                    .unwrap()
                    .parse()
                    .unwrap();
                open.write_bytes(&path("/count"), (count + 1).to_string().as_bytes())
            });
            match count {
                Ok(_) => counted += 1,
                Err(Error::File(FileError::Overtaken { .. })) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    std::thread::scope(|scope| {
        let clients = [scope.spawn(counting), scope.spawn(counting)];
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    assert_eq!(scene.owner_reads("/count"), "30");
    assert_eq!(read(&scene.vault, "/count").unwrap(), "30");
}

#[test]
fn upkeep_while_an_owner_works_loses_nothing() {
    let mut scene = Scene::new();
    scene.owner_writes("/kept", "unsaved");
    let store = open_store(&scene.home);
    for round in 0..5 {
        write(&scene.vault, "/a", format!("round {round}"));
        scene.owner_writes("/b", &format!("unsaved-{round}"));
        store.prune(store.retention(), false).unwrap();
        store.collect_garbage(&mut |_| true).unwrap();
        assert_eq!(scene.owner_reads("/a"), format!("round {round}"));
        assert_eq!(scene.owner_reads("/b"), format!("unsaved-{round}"));
        assert_eq!(scene.owner_reads("/kept"), "unsaved");
    }
    scene.owner.finish();
    let report = open_store(&scene.home).integrity().check(&mut |_, _| ()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}
