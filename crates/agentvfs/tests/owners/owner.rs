//! The owner's process, and a store with one.

use std::io::BufRead;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use agentvfs::error::OwnerError;
use agentvfs::{
    Error, Host, MountRecord, OpenVault, Result, Rhythm, ServedVault, Store, StoreOptions, Unmounted, Vault,
    mount::MountState, mount::UnmountMode, rules::Rule,
};
use avfs_testkit::{TestChild, acknowledge, child_task};

use super::support::{name, path};

/// A store with a vault `main` that a child serves.
pub struct Scene {
    pub home: PathBuf,
    pub vault: Vault,
    pub owner: TestChild,
    _place: tempfile::TempDir,
}

/// The vault as someone without patience sees it.
pub fn hasty_vault(home: &Path) -> Vault {
    let options = StoreOptions {
        patience: Duration::from_millis(50),
        ..StoreOptions::default()
    };
    Store::open_with(home, options).unwrap().vault("main").unwrap()
}

pub fn open_store(home: &Path) -> Store {
    let options = StoreOptions {
        patience: Duration::from_secs(60),
        ..StoreOptions::default()
    };
    Store::open_with(home, options).unwrap()
}

impl Scene {
    pub fn new() -> Scene {
        Scene::below("home")
    }

    /// With a home at a path of one's own.
    pub fn below(home: &str) -> Scene {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().join(home);
        std::fs::create_dir_all(&home).unwrap();
        let vault = open_store(&home).create_vault(&name("main")).unwrap();
        let owner = start_owner(&home);
        Scene {
            home,
            vault,
            owner,
            _place: place,
        }
    }

    pub fn work_directory(&self) -> PathBuf {
        self.home.join("work").join(self.vault.id().to_string())
    }

    /// The contents of the owner's tree at a path.
    pub fn owner_reads(&mut self, at: &str) -> String {
        self.owner.ask(&format!("read {at}"))
    }

    pub fn owner_writes(&mut self, at: &str, text: &str) {
        assert_eq!(self.owner.ask(&format!("write {at} {text}")), "done");
    }
}

pub fn start_owner(home: &Path) -> TestChild {
    let mut owner = TestChild::start("owner::the_owner", home, "serve");
    assert_eq!(owner.acknowledged().as_deref(), Some("serving"));
    owner
}

/// Not a test itself: the code that the child runs.
#[test]
fn the_owner() {
    let Some((home, _)) = child_task() else { return };
    let open = Arc::new(open_store(&home).vault("main").unwrap().open().unwrap());
    // Snapshots are taken on request, so that tests know when.
    let never = Duration::from_secs(1 << 30);
    let rhythm = Rhythm {
        quiet: never,
        busy: never,
        ..Rhythm::default()
    };
    let host = Arc::new(FakeHost::default());
    let served = ServedVault::start(
        Arc::clone(&open),
        host.clone(),
        rhythm,
        Arc::new(|error: &Error| panic!("{error}")),
    )
    .unwrap();
    acknowledge("serving");
    let churning = Arc::new(AtomicBool::new(true));
    let mut threads = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        match line.splitn(3, ' ').collect::<Vec<_>>()[..] {
            ["churn", thread] => {
                let (open, churning, thread) = (Arc::clone(&open), Arc::clone(&churning), thread.to_owned());
                threads.push(std::thread::spawn(move || churn(&open, &churning, &thread)));
                acknowledge("churning");
            }
            ["await-stop"] => {
                served.await_stop();
                acknowledge("stopping");
                break;
            }
            ["descriptor"] => acknowledge(host.told.lock().unwrap().take().unwrap_or_default()),
            ref words => acknowledge(obey(&open, words).unwrap_or_else(|error| error.code().to_string())),
        }
    }
    churning.store(false, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    served.close().unwrap();
}

fn obey(open: &OpenVault, words: &[&str]) -> Result<String> {
    match words {
        ["write", at, text] => open.write_bytes(&path(at), text.as_bytes())?,
        ["remove", at] => open.remove(&path(at), true)?,
        ["mkdir", at] => open.make_directory(&path(at), true)?,
        ["mv", from, to] => drop(open.rename(&path(from), &path(to))?),
        ["sync"] => open.sync()?,
        ["read", at] => return Ok(String::from_utf8(open.read(&path(at))?.to_vec()).unwrap()),
        ["dirty"] => return Ok(open.tree().is_dirty().to_string()),
        _ => panic!("unknown words {words:?}"),
    }
    Ok("done".into())
}

/// Counts in two files, the first of which is never behind.
fn churn(open: &OpenVault, churning: &AtomicBool, thread: &str) {
    open.make_directory(&path(&format!("/{thread}")), true).unwrap();
    let mut number = 0u64;
    while churning.load(Ordering::Relaxed) {
        number += 1;
        open.write_bytes(&path(&format!("/{thread}/first")), number.to_string().as_bytes())
            .unwrap();
        open.write_bytes(&path(&format!("/{thread}/second")), number.to_string().as_bytes())
            .unwrap();
    }
}

/// Mounts nothing and remembers everything.
#[derive(Default)]
struct FakeHost {
    mounts: Mutex<Vec<MountRecord>>,
    told: Mutex<Option<String>>,
    /// How many of the processes that end only together are about to.
    leaving: Mutex<usize>,
    left: Condvar,
}

impl FakeHost {
    /// Waits for another mount that is ended at the same time.
    fn leave_together(&self) -> Result<()> {
        let mut leaving = self.leaving.lock().unwrap();
        *leaving += 1;
        self.left.notify_all();
        let patience = Duration::from_secs(20);
        let (leaving, _) = self
            .left
            .wait_timeout_while(leaving, patience, |leaving| *leaving < 2)
            .unwrap();
        match *leaving {
            2 => Ok(()),
            _ => Err(Error::Owner(OwnerError::BadRequest {
                reason: "it would have to end alone".into(),
            })),
        }
    }
}

impl Host for FakeHost {
    fn mount(&self, dir: &Path, options: &[String], connection: Option<OwnedFd>) -> Result<()> {
        if options.iter().any(|option| option == "impossible") {
            let source = std::io::ErrorKind::PermissionDenied.into();
            return Err(Error::Host {
                action: "mounting",
                place: dir.display().to_string(),
                source,
            });
        }
        let mut text = String::new();
        if let Some(connection) = connection {
            std::io::Read::read_to_string(&mut std::fs::File::from(connection), &mut text).unwrap();
        }
        *self.told.lock().unwrap() = Some(text);
        self.mounts.lock().unwrap().push(MountRecord::ours(dir, options));
        Ok(())
    }

    fn unmount(&self, dir: &Path, _how: UnmountMode) -> Result<Unmounted> {
        let found = self
            .mounts
            .lock()
            .unwrap()
            .iter()
            .find(|mount| mount.dir == dir)
            .cloned();
        if found.is_some_and(|mount| mount.options.iter().any(|option| option == "together")) {
            self.leave_together()?;
        }
        self.mounts.lock().unwrap().retain(|mount| mount.dir != dir);
        Ok(Unmounted::Wholly)
    }

    fn set_rules(&self, dir: &Path, rules: Vec<Rule>) -> Result<()> {
        let mut mounts = self.mounts.lock().unwrap();
        let mount = mounts.iter_mut().find(|mount| mount.dir == dir);
        let mount = mount.ok_or_else(|| {
            Error::Owner(OwnerError::BadRequest {
                reason: "it is not mounted".into(),
            })
        })?;
        mount.options.extend(rules.iter().map(ToString::to_string));
        Ok(())
    }

    fn mounts(&self) -> Vec<MountState> {
        let state = |record: &MountRecord| MountState {
            record: record.clone(),
            transport: "none".into(),
            requests: 0,
            by_opcode: Default::default(),
            serve_ns: Vec::new(),
            deferred: 0,
            memory_bytes: 0,
        };
        self.mounts.lock().unwrap().iter().map(state).collect()
    }
}
