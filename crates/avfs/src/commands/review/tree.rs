//! The rows of the tree pane: changed files under their directories.

use avfs_core::{EntryName, TreePath};

/// One row. Files are known by their place in the list of all changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeRow {
    Directory {
        depth: usize,
        /// One name, or several if each directory has nothing but the next one.
        name: String,
        files: Vec<usize>,
    },
    File {
        depth: usize,
        name: String,
        file: usize,
    },
}

impl TreeRow {
    pub fn file(&self) -> Option<usize> {
        match self {
            TreeRow::Directory { .. } => None,
            TreeRow::File { file, .. } => Some(*file),
        }
    }

    /// The files that it stands for.
    pub fn files(&self) -> &[usize] {
        match self {
            TreeRow::Directory { files, .. } => files,
            TreeRow::File { file, .. } => std::slice::from_ref(file),
        }
    }

    /// How far its end is from the left edge, in columns.
    pub fn width(&self) -> usize {
        let (TreeRow::Directory { depth, name, .. } | TreeRow::File { depth, name, .. }) = self;
        depth * 2 + name.chars().count()
    }
}

/// The rows for these files, which must be in the order of a walk.
pub fn tree_rows<'a>(files: impl Iterator<Item = (usize, &'a TreePath)>) -> Vec<TreeRow> {
    let leaves: Vec<Leaf> =
        files.map(|(file, path)| Leaf { file, names: path.components().collect() }).collect();
    let mut rows = Vec::new();
    add(&mut rows, &leaves, 0, 0);
    rows
}

struct Leaf {
    file: usize,
    names: Vec<EntryName>,
}

impl Leaf {
    /// The directory at this level on the way to it.
    fn directory(&self, level: usize) -> Option<&EntryName> {
        self.names.get(level).filter(|_| self.names.len() > level + 1)
    }
}

fn add(rows: &mut Vec<TreeRow>, leaves: &[Leaf], level: usize, depth: usize) {
    for group in
        leaves.chunk_by(|a, b| a.directory(level).is_some() && a.directory(level) == b.directory(level))
    {
        match group[0].directory(level) {
            None => rows.extend(group.iter().map(|leaf| file_row(leaf, level, depth))),
            Some(_) => {
                let end = shared(group, level);
                let names = group[0].names[level..end].iter().map(ToString::to_string);
                let name = names.collect::<Vec<_>>().join("/") + "/";
                let files = group.iter().map(|leaf| leaf.file).collect();
                rows.push(TreeRow::Directory { depth, name, files });
                add(rows, group, end, depth + 1);
            }
        }
    }
}

fn file_row(leaf: &Leaf, level: usize, depth: usize) -> TreeRow {
    let name = leaf.names.get(level).map_or_else(|| "/".to_owned(), ToString::to_string);
    TreeRow::File { depth, name, file: leaf.file }
}

/// Up to which level all of them go the same way.
fn shared(group: &[Leaf], level: usize) -> usize {
    let first = &group[0];
    let is_shared = |level: &usize| {
        first.directory(*level).is_some()
            && group.iter().all(|leaf| leaf.directory(*level) == first.directory(*level))
    };
    level + (level..).take_while(is_shared).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(paths: &[&str], expected: &[&str]) {
        let paths: Vec<TreePath> =
            paths.iter().map(|path| TreePath::parse(path.as_bytes()).unwrap()).collect();
        let rows = tree_rows(paths.iter().enumerate());
        let shown = rows.iter().map(|row| match row {
            TreeRow::Directory { depth, name, files } => {
                format!("{}{name} {}", "  ".repeat(*depth), files.len())
            }
            TreeRow::File { depth, name, .. } => format!("{}{name}", "  ".repeat(*depth)),
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn directories_that_hold_one_directory_share_a_row() {
        check(
            &["a/b/c/one", "a/b/c/two", "a/b/d", "x/y/z", "top"],
            &["a/b/ 3", "  c/ 2", "    one", "    two", "  d", "x/y/ 1", "  z", "top"],
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
}
