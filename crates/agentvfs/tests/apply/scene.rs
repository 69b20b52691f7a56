//! A project directory, a vault made of it, and a fork in which a task works.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agentvfs::apply::{Application, Applied, ApplyOptions, OnConflict, Plan, Selection};
use agentvfs::{Error, OpenVault, Result, SnapshotId, Store, TreePath, Vault, VaultLimits, VaultName};

pub struct Scene {
    place: tempfile::TempDir,
    pub store: Store,
    pub task: Vault,
    pub base: SnapshotId,
    pub project: PathBuf,
}

pub fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

impl Scene {
    /// A project with these files, and a task that has done nothing yet.
    pub fn new(files: &[(&str, &str)]) -> Scene {
        Scene::at(tempfile::tempdir().unwrap(), None, files)
    }

    /// The same, with everything but the project below a directory that is there already.
    pub fn with_store_below(place: &Path, project: &Path, files: &[(&str, &str)]) -> Scene {
        Scene::at(tempfile::tempdir_in(place).unwrap(), Some(project), files)
    }

    /// The same, with the project in a directory that is there already.
    pub fn with_project(project: &Path, files: &[(&str, &str)]) -> Scene {
        Scene::at(tempfile::tempdir().unwrap(), Some(project), files)
    }

    fn at(place: tempfile::TempDir, project: Option<&Path>, files: &[(&str, &str)]) -> Scene {
        let project = project.map_or_else(|| place.path().join("project"), Path::to_owned);
        for (name, text) in files {
            put(&project, name, text.as_bytes());
        }
        std::fs::create_dir_all(&project).unwrap();
        let store = Store::open(&place.path().join("store")).unwrap();
        let name = |text| VaultName::new(text).unwrap();
        let (vault, _) = store
            .create_vault_from(&name("project"), &project, VaultLimits::default(), &())
            .unwrap();
        let base = vault.head().unwrap();
        let task = vault.fork(&[name("task")]).unwrap().remove(0);
        Scene {
            place,
            store,
            task,
            base,
            project,
        }
    }

    pub fn place(&self) -> &Path {
        self.place.path()
    }

    /// The task changes something.
    pub fn task_does(&self, edit: impl FnOnce(&OpenVault)) {
        let open = self.task.begin().unwrap();
        edit(&open);
        open.commit("work", "").unwrap();
    }

    pub fn task_writes(&self, at: &str, text: &str) {
        self.task_does(|open| {
            if let Some((parent, _)) = path(at).split_last() {
                open.make_directory(&parent, true).unwrap();
            }
            open.write_bytes(&path(at), text.as_bytes()).unwrap();
        });
    }

    pub fn task_removes(&self, at: &str) {
        self.task_does(|open| open.remove(&path(at), true).unwrap());
    }

    /// The user changes something.
    pub fn user_writes(&self, at: &str, text: &str) {
        put(&self.project, at, text.as_bytes());
    }

    pub fn plan_with(&self, selection: &Selection, options: &ApplyOptions) -> Result<Plan> {
        let head = self.task.head()?;
        Ok(Application::plan(
            &self.store,
            self.base,
            head,
            &self.project,
            selection,
            options,
        )?)
    }

    pub fn plan(&self) -> Plan {
        self.plan_with(&Selection::default(), &options()).unwrap()
    }

    pub fn apply(&self) -> Result<Applied> {
        self.plan().carry_out()
    }

    pub fn apply_with(&self, conflicts: OnConflict) -> Result<Applied> {
        let options = ApplyOptions {
            conflicts,
            ..options()
        };
        self.plan_with(&Selection::default(), &options)?.carry_out()
    }

    pub fn read(&self, at: &str) -> String {
        std::fs::read_to_string(self.project.join(at)).unwrap()
    }

    pub fn has(&self, at: &str) -> bool {
        self.project.join(at).symlink_metadata().is_ok()
    }
}

/// By the name of the task the numbers of its files are known.
pub fn options() -> ApplyOptions {
    ApplyOptions {
        task: Some(VaultName::new("task").unwrap()),
        ..ApplyOptions::default()
    }
}

pub fn put(top: &Path, at: &str, bytes: &[u8]) {
    let place = top.join(at);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::write(place, bytes).unwrap();
}

/// The conflicts of a plan or of an error, as `path kind`.
pub fn conflicts_of(error: &Error) -> Vec<String> {
    match error {
        Error::Apply(agentvfs::apply::ApplyError::Conflicts { conflicts, .. }) => conflicts
            .iter()
            .map(|conflict| format!("{} {}", conflict.path, conflict.kind.as_str()))
            .collect(),
        other => panic!("no conflict: {other}"),
    }
}

/// One entry with everything that an apply must not change by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub mode: u32,
    pub owner: (u32, u32),
    pub mtime: (i64, i64),
    pub bytes: Vec<u8>,
}

/// Everything below a directory, and the directory itself.
pub fn survey(top: &Path) -> BTreeMap<PathBuf, Kept> {
    let mut found = BTreeMap::new();
    let mut open = vec![top.to_owned()];
    while let Some(place) = open.pop() {
        let stat = place.symlink_metadata().unwrap();
        let bytes = match stat.file_type() {
            kind if kind.is_symlink() => OsString::from(std::fs::read_link(&place).unwrap()).into_vec(),
            kind if kind.is_file() => std::fs::read(&place).unwrap(),
            _ => {
                open.extend(
                    std::fs::read_dir(&place)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
                Vec::new()
            }
        };
        let kept = Kept {
            mode: stat.mode(),
            owner: (stat.uid(), stat.gid()),
            mtime: (stat.mtime(), stat.mtime_nsec()),
            bytes,
        };
        found.insert(place.strip_prefix(top).unwrap().to_owned(), kept);
    }
    found
}

/// The same without the times of directories, which an apply that was rolled back does not restore.
pub fn survey_files(top: &Path) -> BTreeMap<PathBuf, Kept> {
    let mut found = survey(top);
    for kept in found
        .values_mut()
        .filter(|kept| kept.mode & 0o170_000 == 0o040_000)
    {
        kept.mtime = (0, 0);
    }
    found
}

/// The same without the times of files and links: contents that come back have the present one.
pub fn survey_contents(top: &Path) -> BTreeMap<PathBuf, Kept> {
    let mut found = survey(top);
    for kept in found
        .values_mut()
        .filter(|kept| kept.mode & 0o170_000 != 0o040_000)
    {
        kept.mtime = (0, 0);
    }
    found
}
