//! The rows of the tree pane: conflicts first, then changed files under their directories, finally ignored
//! files.

mod folding;

use std::collections::HashMap;

use avfs_core::{EntryName, TreePath};

use self::folding::unfolded;

/// One row. Files are known by their place in the list of all changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeRow {
    Directory {
        depth: usize,
        /// One name, or several if each directory has nothing but the next one.
        name: String,
        files: Vec<usize>,
        fold: Fold,
        is_folded: bool,
    },
    File {
        depth: usize,
        name: String,
        file: usize,
    },
}

/// A foldable row: a directory, or a group of files that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fold {
    Conflicts,
    Ignored,
    Directory(TreePath),
}

/// Which group a file is shown in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Group {
    Conflict,
    #[default]
    Usual,
    Ignored,
}

impl TreeRow {
    pub fn file(&self) -> Option<usize> {
        match self {
            TreeRow::Directory { .. } => None,
            TreeRow::File { file, .. } => Some(*file),
        }
    }

    /// The files that it represents.
    pub fn files(&self) -> &[usize] {
        match self {
            TreeRow::Directory { files, .. } => files,
            TreeRow::File { file, .. } => std::slice::from_ref(file),
        }
    }

    pub fn depth(&self) -> usize {
        let (TreeRow::Directory { depth, .. } | TreeRow::File { depth, .. }) = self;
        *depth
    }

    /// The fold that it would open, if it is closed.
    pub fn folded(&self) -> Option<&Fold> {
        match self {
            TreeRow::Directory {
                fold,
                is_folded: true,
                ..
            } => Some(fold),
            TreeRow::Directory { .. } | TreeRow::File { .. } => None,
        }
    }

    /// The fold that it would close, if it is open.
    pub fn unfolded(&self) -> Option<&Fold> {
        match self {
            TreeRow::Directory {
                fold,
                is_folded: false,
                ..
            } => Some(fold),
            TreeRow::Directory { .. } | TreeRow::File { .. } => None,
        }
    }

    /// The column at which it ends.
    pub fn width(&self) -> usize {
        match self {
            TreeRow::Directory {
                depth,
                name,
                files,
                is_folded: true,
                ..
            } => depth * 2 + name.chars().count() + files.len().to_string().len() + 3,
            TreeRow::Directory { depth, name, .. } | TreeRow::File { depth, name, .. } => {
                depth * 2 + name.chars().count()
            }
        }
    }
}

/// The rows for these files, which must be in the order of a walk. `wanted` contains the rows that the user
/// has opened and closed.
pub fn tree_rows<'a>(
    files: impl Iterator<Item = (usize, &'a TreePath, Group)>,
    wanted: &HashMap<Fold, bool>,
) -> Vec<TreeRow> {
    let mut groups: [Vec<Leaf>; 3] = Default::default();
    for (file, path, group) in files {
        let names = path.components().collect();
        groups[group as usize].push(Leaf {
            file,
            path: path.clone(),
            names,
        });
    }
    let [conflicts, usual, ignored] = groups;
    let mut rows = Vec::new();
    add_group(
        &mut rows,
        &conflicts,
        Fold::Conflicts,
        "conflicts",
        false,
        wanted,
        |rows, leaves| {
            let row = |leaf: &Leaf| TreeRow::File {
                depth: 1,
                name: relative(&leaf.path),
                file: leaf.file,
            };
            rows.extend(leaves.iter().map(row));
        },
    );
    add_tree(&mut rows, &usual, 0, wanted);
    add_group(
        &mut rows,
        &ignored,
        Fold::Ignored,
        "ignored by git",
        true,
        wanted,
        |rows, leaves| {
            add_tree(rows, leaves, 1, wanted);
        },
    );
    rows
}

fn relative(path: &TreePath) -> String {
    path.to_string().trim_start_matches('/').to_owned()
}

fn add_group(
    rows: &mut Vec<TreeRow>,
    leaves: &[Leaf],
    fold: Fold,
    name: &str,
    is_folded: bool,
    wanted: &HashMap<Fold, bool>,
    add: impl FnOnce(&mut Vec<TreeRow>, &[Leaf]),
) {
    if leaves.is_empty() {
        return;
    }
    let is_folded = wanted.get(&fold).map_or(is_folded, |is_open| !is_open);
    let files = leaves.iter().map(|leaf| leaf.file).collect();
    rows.push(TreeRow::Directory {
        depth: 0,
        name: name.to_owned(),
        files,
        fold,
        is_folded,
    });
    if !is_folded {
        add(rows, leaves);
    }
}

fn add_tree(rows: &mut Vec<TreeRow>, leaves: &[Leaf], depth: usize, wanted: &HashMap<Fold, bool>) {
    let mut all = Vec::new();
    add(&mut all, leaves, depth);
    unfolded(all, wanted, rows);
}

struct Leaf {
    file: usize,
    path: TreePath,
    names: Vec<EntryName>,
}

impl Leaf {
    /// The directory at this level on the way to it.
    fn directory(&self, level: usize) -> Option<&EntryName> {
        self.names.get(level).filter(|_| self.names.len() > level + 1)
    }

    fn above(&self, end: usize) -> TreePath {
        let mut path = TreePath::root();
        self.names[..end].iter().for_each(|name| path.push(name));
        path
    }
}

/// Trees can be deeper than any stack: the remaining work is in a list, with the next item at its end.
fn add(rows: &mut Vec<TreeRow>, leaves: &[Leaf], depth: usize) {
    let mut waiting = branches(leaves, 0, depth);
    while let Some(Branch { leaves, level, depth }) = waiting.pop() {
        match leaves[0].directory(level) {
            None => rows.extend(leaves.iter().map(|leaf| file_row(leaf, level, depth))),
            Some(_) => {
                let end = shared(leaves, level);
                let names = leaves[0].names[level..end].iter().map(ToString::to_string);
                let name = names.collect::<Vec<_>>().join("/") + "/";
                let files = leaves.iter().map(|leaf| leaf.file).collect();
                let fold = Fold::Directory(leaves[0].above(end));
                rows.push(TreeRow::Directory {
                    depth,
                    name,
                    files,
                    fold,
                    is_folded: false,
                });
                waiting.extend(branches(leaves, end, depth + 1));
            }
        }
    }
}

/// Leaves that go the same way from a level on.
struct Branch<'a> {
    leaves: &'a [Leaf],
    level: usize,
    depth: usize,
}

/// The branches of these leaves, the first at the end.
fn branches(leaves: &[Leaf], level: usize, depth: usize) -> Vec<Branch<'_>> {
    let is_one =
        |a: &Leaf, b: &Leaf| a.directory(level).is_some() && a.directory(level) == b.directory(level);
    let mut branches: Vec<_> = leaves
        .chunk_by(is_one)
        .map(|leaves| Branch { leaves, level, depth })
        .collect();
    branches.reverse();
    branches
}

fn file_row(leaf: &Leaf, level: usize, depth: usize) -> TreeRow {
    let name = leaf
        .names
        .get(level)
        .map_or_else(|| "/".to_owned(), ToString::to_string);
    TreeRow::File {
        depth,
        name,
        file: leaf.file,
    }
}

/// Up to which level all of them go the same way.
fn shared(group: &[Leaf], level: usize) -> usize {
    let first = &group[0];
    let is_shared = |level: &usize| {
        first.directory(*level).is_some()
            && group
                .iter()
                .all(|leaf| leaf.directory(*level) == first.directory(*level))
    };
    level + (level..).take_while(is_shared).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(paths: &[TreePath], groups: &[(usize, Group)], wanted: &HashMap<Fold, bool>) -> Vec<String> {
        let group = |file| {
            groups
                .iter()
                .find(|(of, _)| *of == file)
                .map_or(Group::Usual, |(_, group)| *group)
        };
        let files = paths
            .iter()
            .enumerate()
            .map(|(file, path)| (file, path, group(file)));
        let rows = tree_rows(files, wanted);
        rows.iter()
            .map(|row| match row {
                TreeRow::Directory {
                    depth,
                    name,
                    files,
                    is_folded,
                    ..
                } => {
                    let sign = if *is_folded { "+" } else { "" };
                    format!("{}{name} {}{sign}", "  ".repeat(*depth), files.len())
                }
                TreeRow::File { depth, name, .. } => format!("{}{name}", "  ".repeat(*depth)),
            })
            .collect()
    }

    fn parsed(paths: &[&str]) -> Vec<TreePath> {
        paths
            .iter()
            .map(|path| TreePath::parse(path.as_bytes()).unwrap())
            .collect()
    }

    #[track_caller]
    fn check(paths: &[&str], expected: &[&str]) {
        assert_eq!(shown(&parsed(paths), &[], &HashMap::new()), expected);
    }

    #[test]
    fn directories_that_hold_one_directory_share_a_row() {
        check(
            &["a/b/c/one", "a/b/c/two", "a/b/d", "x/y/z", "top"],
            &[
                "a/b/ 3", "  c/ 2", "    one", "    two", "  d", "x/y/ 1", "  z", "top",
            ],
        );
    }

    #[test]
    fn a_file_that_became_a_directory_has_two_rows() {
        check(&["a", "a/b"], &["a", "a/ 1", "  b"]);
        check(&[], &[]);
        check(&["/"], &["/"]);
    }

    #[test]
    fn names_are_safe_to_show() {
        check(&["\u{1b}[31m/x"], &["\\u{1b}[31m/ 1", "  x"]);
    }

    #[test]
    fn conflicts_come_first_and_what_git_ignores_is_one_line_at_the_end() {
        let paths = parsed(&["a/one", "a/two", "b", "target/x", "target/y"]);
        let groups = [(1, Group::Conflict), (3, Group::Ignored), (4, Group::Ignored)];
        let expected = [
            "conflicts 1",
            "  a/two",
            "a/ 1",
            "  one",
            "b",
            "ignored by git 2+",
        ];
        assert_eq!(shown(&paths, &groups, &HashMap::new()), expected);
        let open = HashMap::from([(Fold::Ignored, true), (Fold::Conflicts, false)]);
        let expected = [
            "conflicts 1+",
            "a/ 1",
            "  one",
            "b",
            "ignored by git 2",
            "  target/ 2",
            "    x",
            "    y",
        ];
        assert_eq!(shown(&paths, &groups, &open), expected);
    }

    #[test]
    fn a_directory_with_many_files_is_one_line() {
        let mut paths: Vec<String> = (0..3_000).map(|n| format!("gen/d{:02}/{n:04}", n % 50)).collect();
        paths.extend(["src/a", "src/deep/b", "top"].map(String::from));
        paths.sort();
        let paths = parsed(&paths.iter().map(String::as_str).collect::<Vec<_>>());
        let rows = shown(&paths, &[], &HashMap::new());
        assert_eq!(rows.len(), 56, "the directories of gen fit, their files do not");
        assert_eq!(rows[..2], ["gen/ 3000", "  d00/ 60+"]);
        assert_eq!(rows[51..], ["src/ 2", "  a", "  deep/ 1", "    b", "top"]);
        let gen_closed = HashMap::from([(Fold::Directory(TreePath::parse(b"gen").unwrap()), false)]);
        assert_eq!(shown(&paths, &[], &gen_closed)[..2], ["gen/ 3000+", "src/ 2"]);
        let d00_open = HashMap::from([(Fold::Directory(TreePath::parse(b"gen/d00").unwrap()), true)]);
        assert_eq!(shown(&paths, &[], &d00_open).len(), 116);
    }
}
