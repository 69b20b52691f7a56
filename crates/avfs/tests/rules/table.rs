//! The table of `docs/semantics.md` is true: each action, at each level, by root and by an ordinary user.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::acts::{ACTS, Act, Site};
use crate::cells::{User, lay_out, left_in};
use crate::ground::{Ground, Mount};

const LEVELS: [&str; 5] = ["none", "view", "read", "append", "write"];
const CONTROL: &str = "control";

const ERRNOS: &[(&str, Errno)] = &[
    ("EACCES", Errno::ACCESS),
    ("EEXIST", Errno::EXIST),
    ("EINVAL", Errno::INVAL),
    ("EIO", Errno::IO),
    ("ELOOP", Errno::LOOP),
    ("ENOENT", Errno::NOENT),
    ("ENOTEMPTY", Errno::NOTEMPTY),
    ("EOPNOTSUPP", Errno::OPNOTSUPP),
    ("EPERM", Errno::PERM),
    ("EXDEV", Errno::XDEV),
];

/// As the table writes it.
fn shown(done: Result<(), Errno>) -> String {
    let Err(errno) = done else { return "ok".to_owned() };
    let known = ERRNOS.iter().find(|(_, other)| *other == errno);
    known.map_or_else(|| errno.to_string(), |(name, _)| (*name).to_owned())
}

/// The rows of the table: the result of each action, at each level.
type Table = BTreeMap<String, Vec<String>>;

fn documented() -> Table {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/semantics.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page
        .split("\n## ")
        .find(|section| section.starts_with("Rules\n"))
        .unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| {
        let mut cells = row
            .trim_matches('|')
            .split(" | ")
            .map(|cell| cell.trim().to_owned());
        (cells.next().unwrap(), cells.collect())
    })
    .collect()
}

fn as_rows(table: &Table) -> String {
    let order = |name: &str| ACTS.iter().position(|act| act.name == name);
    let mut rows: Vec<_> = table.iter().collect();
    rows.sort_by_key(|(name, _)| order(name));
    rows.into_iter()
        .map(|(name, cells)| format!("| {name} | {} |\n", cells.join(" | ")))
        .collect()
}

/// A vault with a cell for every act, level and user, and the mounts that they are worked in through.
struct Field {
    ground: Ground,
}

impl Field {
    fn new() -> Field {
        let ground = Ground::with_vault("work");
        // Others have to come to the mounts.
        fs::set_permissions(ground.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        let all = ground.path("first");
        fs::create_dir(&all).unwrap();
        for (number, _) in ACTS.iter().enumerate() {
            for user in User::ALL {
                for level in LEVELS.into_iter().chain([CONTROL]) {
                    lay_out(&all.join(cell(level, user, number)), user);
                }
            }
        }
        ground.avfs(&["import", &all.display().to_string(), "/"]);
        Field { ground }
    }

    /// Everything that is there now, in a directory of the host.
    fn now(&self) -> PathBuf {
        let all = self.ground.path("last");
        self.ground.avfs(&["export", "/", &all.display().to_string()]);
        all
    }

    /// Root uses a mount for root alone, where the kernel sends requests for everything; the other user one
    /// where the kernel checks modes first.
    fn mount(&self, user: User, rules: &[String]) -> Mount {
        let name = format!("{}-{}", user.name(), rules.len());
        let others = if user == User::Root {
            None
        } else {
            Some("--allow-other")
        };
        let flags = rules.iter().flat_map(|rule| ["--rule", rule.as_str()]);
        self.ground
            .mount_with("work", &name, &flags.chain(others).collect::<Vec<_>>())
    }
}

fn cell(level: &str, user: User, number: usize) -> String {
    format!("{level}-{}-{number}", user.name())
}

fn rules() -> Vec<String> {
    let levels = LEVELS.iter().map(|level| format!("/{level}-*/subject*/={level}"));
    ["/**=write".to_owned()].into_iter().chain(levels).collect()
}

/// Does every act in the cells of a level.
fn done_in(mount: &Mount, level: &str, user: User) -> Vec<String> {
    let done = |(number, act): (usize, &Act)| {
        let site = Site {
            dir: mount.path(&cell(level, user, number)),
        };
        shown(user.run(|| (act.run)(&site)))
    };
    ACTS.iter().enumerate().map(done).collect()
}

/// The results: the columns of a user, and those of the control without rules.
struct Happened {
    columns: Vec<Vec<String>>,
    control: Vec<String>,
}

fn happened(field: &Field, user: User) -> Happened {
    let (ruled, free) = (field.mount(user, &rules()), field.mount(user, &[]));
    let happened = Happened {
        columns: LEVELS.iter().map(|level| done_in(&ruled, level, user)).collect(),
        control: done_in(&free, CONTROL, user),
    };
    field.ground.unmount(ruled);
    field.ground.unmount(free);
    happened
}

/// Asserts that refused actions have changed nothing, and that allowed ones have the same effect as without
/// rules.
fn assert_left(all: &Path, user: User, happened: &Happened) {
    let untouched = all.join("untouched");
    lay_out(&untouched, user);
    for (number, act) in ACTS.iter().enumerate() {
        let control = left_in(&all.join(cell(CONTROL, user, number)));
        for (level, column) in LEVELS.iter().zip(&happened.columns) {
            let left = left_in(&all.join(cell(level, user, number)));
            let wanted = if column[number] == "ok" {
                control.clone()
            } else {
                left_in(&untouched)
            };
            assert_eq!(left, wanted, "{} at {level} by {}", act.name, user.name());
        }
    }
    fs::remove_dir_all(untouched).unwrap();
}

/// A cell of the table: one answer for both users, or one for each.
fn cell_of(root: &str, nobody: &str) -> String {
    if root == nobody {
        root.to_owned()
    } else {
        format!("{nobody}, root: {root}")
    }
}

#[test]
fn every_act_at_every_level_ends_as_the_page_says() {
    let field = Field::new();
    let [root, nobody] = User::ALL.map(|user| happened(&field, user));
    let all = field.now();
    for (user, happened) in [(User::Root, &root), (User::Nobody, &nobody)] {
        assert_left(&all, user, happened);
        assert_eq!(
            happened.columns[4], happened.control,
            "rules that allow all change nothing"
        );
    }
    let mut table = Table::new();
    for (number, act) in ACTS.iter().enumerate() {
        let columns = root.columns.iter().zip(&nobody.columns);
        let cells = columns
            .map(|(root, nobody)| cell_of(&root[number], &nobody[number]))
            .collect();
        assert!(
            table.insert(act.name.to_owned(), cells).is_none(),
            "{} is there twice",
            act.name
        );
    }
    let documented = documented();
    assert_eq!(
        as_rows(&documented),
        as_rows(&table),
        "docs/semantics.md and what happens differ; what happens:\n{}",
        as_rows(&table)
    );
}
