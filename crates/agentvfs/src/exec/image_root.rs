//! The root directory of the sandboxes of a vault on an image: a fork of the image, mounted for each run.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use avfs_core::{Entry, SnapshotId, TreePath, printable};
use avfs_exec::launch::InnerProgram;
use avfs_exec::plan::{SandboxRoot, SandboxUser, is_for_people};
use avfs_transfer::ImageConfig;
use avfs_tree::{ReadError, TreeReader};

use super::workspace::{AfterRun, MountedVault};
use super::{EXEC, RunSpec};
use crate::error::{Error, Result, VaultError};
use crate::image::ImageRecord;
use crate::image::VaultImage;
use crate::mount::{MountOptions, OneOwner, Report};
use crate::name::VaultName;
use crate::run_directory::{RUNS, RunDirectory};
use crate::user_view::UserView;
use crate::vault::Vault;

/// Where sandboxes show something of their own. A root directory has directories there, so that nothing is made in
/// it while a sandbox is built.
const MOUNT_POINTS: [&str; 5] = ["dev", "proc", "run", "tmp", "workspace"];

/// Where programs are looked for if an image does not say.
const SEARCHED: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The root directory of one run, while it is mounted.
pub(crate) struct ImageRoot {
    workspace: MountedVault,
    config: ImageConfig,
    account: Account,
    has_bash: bool,
    read_only: bool,
}

/// The user of an image, as its own files know it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Account {
    user: SandboxUser,
    home: String,
}

impl VaultImage<'_> {
    /// The vault that holds the root directory of this vault's sandboxes on an image. It is made when it is needed
    /// for the first time, and keeps what was installed in it.
    pub fn root_on(&self, image: &str) -> Result<Vault> {
        let name = self.name_of_root(image)?;
        // Whatever became of the image: it has everything that it needs.
        if let Some(found) = self.root_called(&name)? {
            return Ok(found);
        }
        let image_vault = self.vault.store().images().get(image)?;
        image_vault.image().make_mount_points(image)?;
        let record = image_vault.record()?.0.image;
        let record = record.map(|record| ImageRecord {
            root_of: Some(self.vault.id()),
            ..record
        });
        match image_vault.fork_as(
            &image_vault.revision("@")?,
            std::slice::from_ref(&name),
            None,
            record,
        ) {
            Ok(made) => Ok(made.into_iter().next().expect("one name gives one vault")),
            // Another run was faster.
            Err(Error::Vault(VaultError::Exists { .. })) => match self.root_called(&name)? {
                Some(found) => Ok(found),
                None => Err(Error::Vault(VaultError::Exists {
                    name: name.to_string(),
                })),
            },
            Err(error) => Err(error),
        }
    }

    /// Gives a fork of this vault a root directory with what is installed in the one of this vault, if there is one.
    pub fn fork_root(&self, image: &str, fork: &Vault) -> Result<()> {
        let Some(root) = self.root_called(&self.name_of_root(image)?)? else {
            return Ok(());
        };
        let record = root.record()?.0.image.map(|record| ImageRecord {
            root_of: Some(fork.id()),
            ..record
        });
        root.fork_as(
            &root.revision("@")?,
            &[fork.image().name_of_root(image)?],
            None,
            record,
        )?;
        Ok(())
    }

    fn name_of_root(&self, image: &str) -> Result<VaultName> {
        VaultName::new(&format!("{}.{image}", self.vault.name()?).replace('/', "."))
    }

    fn root_called(&self, name: &VaultName) -> Result<Option<Vault>> {
        if !self.vault.store().has_vault(name.as_str())? {
            return Ok(None);
        }
        let vault = self.vault.store().vault(name.as_str())?;
        let is_root = vault
            .record()?
            .0
            .image
            .is_some_and(|image| image.root_of == Some(self.vault.id()));
        if is_root {
            Ok(Some(vault))
        } else {
            Err(Error::Vault(VaultError::Exists {
                name: name.to_string(),
            }))
        }
    }

    /// Gives an image the directories that every sandbox needs.
    fn make_mount_points(&self, image: &str) -> Result<()> {
        let reader = self.vault.reader()?;
        let missing: Vec<TreePath> = MOUNT_POINTS
            .iter()
            .map(|name| top(name))
            .filter(|path| matches!(reader.find(path), Err(ReadError::NotFound { .. })))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let open = self.vault.begin()?;
        for path in &missing {
            open.make_directory(path, true)?;
        }
        open.commit("image", &format!("mount points of {image}"))?;
        Ok(())
    }

    /// The state of the root directory of a run that has one. It need not be there yet.
    pub(crate) fn root_state(&self, spec: &RunSpec) -> Result<Option<SnapshotId>> {
        let Some(image) = spec.image.as_deref() else {
            return Ok(None);
        };
        match self.root_called(&self.name_of_root(image)?)? {
            Some(root) => root.head().map(Some),
            None => self.vault.store().images().get(image)?.head().map(Some),
        }
    }

    /// Mounts the root directory of a run, if it has one of its own.
    pub(crate) fn mount_root(
        &self,
        spec: &RunSpec,
        write: bool,
        run: &str,
        inside: &InnerProgram,
        report: &Report,
    ) -> Result<Option<ImageRoot>> {
        let Some(image) = spec.image.as_deref() else {
            return Ok(None);
        };
        let root = self.root_on(image)?;
        let reader = root.reader()?;
        check_mount_points(image, &reader)?;
        check_loader(image, &root, &reader, inside)?;
        let config = root
            .record()?
            .0
            .image
            .map(|image| image.config)
            .unwrap_or_default();
        let account = Account::of(&config, &reader).map_err(|reason| unusable(image, reason))?;
        let has_bash = ["bin/bash", "usr/bin/bash"]
            .iter()
            .any(|path| reader.find(&top(path)).is_ok());
        let read_only = !write || spec.read_only_root;
        let directory = RunDirectory::make(self.vault.store(), RUNS, &format!("{run}-root"))?;
        let usual = super::mount_options_for(None, spec.transport);
        let options = MountOptions {
            read_only,
            principal: spec.principal.clone(),
            // All files belong to the user of the sandbox, who is root inside and nobody outside.
            owner: Some(owner()),
            allow_other: usual.allow_other || super::is_shown_by_daemon(spec),
            ..usual
        };
        Ok(Some(ImageRoot {
            workspace: MountedVault::mount(&root, directory, &options, report)?,
            config,
            account,
            has_bash,
            read_only,
        }))
    }
}

impl ImageRoot {
    pub(super) fn shown(&self) -> SandboxRoot {
        SandboxRoot {
            from: self.workspace.mountpoint(),
            read_only: self.read_only,
        }
    }

    /// Where the bundles of containers around it are made: they end with it.
    pub(crate) fn bundles(&self) -> PathBuf {
        self.workspace.bundles()
    }

    /// Another process that serves it: readable when it has ended.
    pub(crate) fn server(&self) -> Option<Arc<OwnedFd>> {
        self.workspace.server()
    }

    pub(super) fn user(&self) -> SandboxUser {
        self.account.user.clone()
    }

    /// The words of a line for a shell: images of small systems have one only.
    pub(super) fn shell(&self) -> &'static str {
        if self.has_bash { "bash" } else { "sh" }
    }

    /// The environment inside: what the image says, and what the caller has given. Of the caller's own variables
    /// only those for people come along: the others are about tools of this machine.
    pub(super) fn environment(&self, given: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let Account { user, home } = &self.account;
        let of_account = [
            ("PATH", SEARCHED),
            ("HOME", home),
            ("USER", &user.name),
            ("LOGNAME", &user.name),
            ("SHELL", "/bin/sh"),
        ];
        let mut env: Vec<(OsString, OsString)> = of_account
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let of_image = self.config.env.iter().filter_map(|pair| pair.split_once('='));
        env.extend(
            of_image
                .filter(|(name, _)| !name.is_empty())
                .map(|(name, value)| (name.into(), value.into())),
        );
        env.extend(given.iter().cloned());
        env
    }

    /// Those of the caller's variables that have a meaning in another system.
    pub(super) fn understood(caller: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        caller
            .iter()
            .filter(|(name, _)| is_for_people(name))
            .cloned()
            .collect()
    }

    /// Unmounts it, and stores what the run has changed in it.
    pub(crate) fn end(self, detail: &str, after: &mut AfterRun) -> Result<SnapshotId> {
        self.workspace.end(EXEC, detail, after)
    }
}

/// Whom the files of the mount belong to: the user that the sandbox has outside.
fn owner() -> OneOwner {
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        let id = avfs_exec::plan::UNPRIVILEGED;
        return OneOwner { uid: id, gid: id };
    }
    OneOwner {
        uid: uid.as_raw(),
        gid: rustix::process::getegid().as_raw(),
    }
}

fn top(path: &str) -> TreePath {
    TreePath::parse(path.as_bytes()).expect("the paths of this file are short and plain")
}

/// A root directory must not lead the one who builds a sandbox elsewhere.
fn check_mount_points(image: &str, reader: &TreeReader) -> Result<()> {
    for name in MOUNT_POINTS {
        if !reader
            .find(&top(name))
            .is_ok_and(|found| found.entry.is_directory())
        {
            return Err(unusable(image, format!("/{name} is not a directory")));
        }
    }
    Ok(())
}

/// Our own program is the first one inside, and may need a loader there.
fn check_loader(image: &str, root: &Vault, reader: &TreeReader, inside: &InnerProgram) -> Result<()> {
    let Some(loader) = inside.loader() else {
        return Ok(());
    };
    let found = match TreePath::parse(loader.as_os_str().as_bytes()) {
        Ok(path) => UserView::new(root, reader, false)?.resolve(&path).is_ok(),
        Err(_) => false,
    };
    if found {
        return Ok(());
    }
    let shown = printable(loader.as_os_str().as_bytes());
    let reason = format!(
        "it does not have {shown}, which the first program of a sandbox needs here; the static binary of a release \
         needs nothing of an image"
    );
    Err(unusable(image, reason))
}

fn unusable(image: &str, reason: String) -> Error {
    Error::Vault(VaultError::UnusableImage {
        name: printable(image.as_bytes()),
        reason,
    })
}

impl Account {
    /// Looks up the user of an image, as container engines do: names in its own files, numbers as they are.
    fn of(config: &ImageConfig, reader: &TreeReader) -> std::result::Result<Account, String> {
        let (user, group) = match config.user.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (&config.user[..], None),
        };
        let (users, groups) = (text(reader, "etc/passwd"), text(reader, "etc/group"));
        let user = if user.is_empty() { "0" } else { user };
        let number = user.parse::<u32>().ok();
        let line = lines(&users).find(|fields| match number {
            Some(number) => fields.get(2).and_then(|field| field.parse().ok()) == Some(number),
            None => fields.first() == Some(&user),
        });
        let field = |index: usize| line.as_ref().and_then(|fields| fields.get(index).copied());
        let of_line = |index: usize| field(index).and_then(|field| field.parse::<u32>().ok());
        let uid = match number.or_else(|| of_line(2)) {
            Some(uid) => uid,
            None => {
                return Err(format!(
                    "its user '{}' is not in its /etc/passwd",
                    printable(user.as_bytes())
                ));
            }
        };
        let gid = match group {
            None => of_line(3).unwrap_or(uid),
            Some(group) => {
                let found = lines(&groups).find(|fields| fields.first() == Some(&group));
                let listed = found.and_then(|fields| fields.get(2)?.parse().ok());
                match group.parse().ok().or(listed) {
                    Some(gid) => gid,
                    None => {
                        let shown = printable(group.as_bytes());
                        return Err(format!("its group '{shown}' is not in its /etc/group"));
                    }
                }
            }
        };
        let usual = if uid == 0 { "root" } else { "user" };
        let home = field(5).filter(|home| Path::new(home).is_absolute());
        Ok(Account {
            user: SandboxUser {
                name: field(0)
                    .filter(|name| !name.is_empty())
                    .unwrap_or(usual)
                    .to_owned(),
                uid,
                gid,
            },
            home: home.unwrap_or("/").to_owned(),
        })
    }
}

/// The most bytes of a list of users that are read.
const MOST_TEXT: u64 = 1 << 20;

/// A small file of the root directory; nothing if it is none.
fn text(reader: &TreeReader, path: &str) -> String {
    let path = top(path);
    let is_small =
        |entry: &Entry| matches!(entry.kind, avfs_core::EntryKind::File { size, .. } if size <= MOST_TEXT);
    let bytes = reader
        .find(&path)
        .ok()
        .filter(|found| is_small(&found.entry))
        .and_then(|_| reader.read(&path).ok());
    bytes.map_or_else(String::new, |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split(':').collect())
}
