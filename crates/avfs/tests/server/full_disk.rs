//! A disk without room: nothing that was there is harmed, and there is a way out.

use avfs_testkit::{SmallDisk, noise};
use serde_json::json;

use crate::client::{Server, token};
use crate::sandbox::Sandbox;

const DISK: u64 = 64 << 20;
const PIECE: usize = 1 << 20;

#[test]
fn a_full_disk_harms_nothing_and_what_is_deleted_makes_room() {
    SmallDisk::with(
        "full_disk::a_full_disk_harms_nothing_and_what_is_deleted_makes_room",
        DISK,
        |disk| {
            let house = Sandbox::new();
            std::fs::create_dir_all(house.store().parent().unwrap()).unwrap();
            std::fs::create_dir(disk.join("store")).unwrap();
            std::os::unix::fs::symlink(disk.join("store"), house.store()).unwrap();
            let server = Server::start(&house, &[]);
            let key = token(&house, "--scope admin");
            let client = server.with(&key);
            let kept = client.sandbox(&json!({ "metadata": { "a": "b" } }));
            let filled = client.sandbox(&json!({}));
            client.put(&format!("{kept}/files?path=/file"), b"kept").is(200);
            client.line(&kept, "echo more >more");
            let path = |number: usize| format!("{filled}/files?path=/piece-{number}");
            let mut count = 0;
            loop {
                let answer = client.put(&path(count), &noise(count as u64, PIECE));
                if answer.status != 200 {
                    assert_eq!(answer.status, 507, "{answer}");
                    break;
                }
                count += 1;
                assert!(count < DISK as usize / PIECE, "the disk does not get full");
            }
            // Nothing at all fits any more.
            let mut ballast = std::fs::File::create(disk.join("ballast")).unwrap();
            while std::io::Write::write_all(&mut ballast, &[7; 4096]).is_ok() {}
            let refused = client.post("/api/v1/sandboxes", &json!({}));
            assert!(matches!(refused.status, 507 | 503), "{refused}");
            let refused = client.put(&path(count), b"small");
            assert!(matches!(refused.status, 507 | 503), "{refused}");
            client.get("/readyz").is(200);
            for number in 0..count {
                assert_eq!(
                    client.get(&path(number)).is(200).body,
                    noise(number as u64, PIECE)
                );
            }
            assert_eq!(client.get(&kept).is(200).json()["metadata"], json!({ "a": "b" }));
            server.kill();

            // A server starts without room, too, and what it is asked to delete is gone.
            let server = Server::start(&house, &[]);
            let client = server.with(&key);
            assert_eq!(
                client.get(&format!("{kept}/files?path=/more")).is(200).body,
                b"more\n"
            );
            client.delete(&filled).is(204);
            client.get(&filled).problem(404);
            drop(ballast);
            std::fs::remove_file(disk.join("ballast")).unwrap();
            house.good("gc");
            let again = client.sandbox(&json!({}));
            client
                .put(&format!("{again}/files?path=/file"), &noise(9, PIECE))
                .is(200);
            assert_eq!(client.line(&kept, "cat file more"), "keptmore\n");
            drop(server);
            house.good("fsck");
        },
    );
}
