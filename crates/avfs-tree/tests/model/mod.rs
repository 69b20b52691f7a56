//! The simplest possible working tree: a table of files and a table of names.

use std::collections::BTreeMap;

/// A path as its names.
pub type Path = Vec<u8>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    File(Vec<u8>),
    Directory,
    Symlink(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapNode {
    pub kind: Kind,
    pub mode: u32,
    pub xattr: Option<Vec<u8>>,
}

/// Names are single bytes, so a path is a byte string; the root is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub names: BTreeMap<Path, usize>,
    pub nodes: Vec<MapNode>,
}

/// A path with its node and the number of names of that node.
pub type Listing = BTreeMap<Path, (MapNode, usize)>;

impl Model {
    pub fn new() -> Model {
        let root = MapNode {
            kind: Kind::Directory,
            mode: 0o755,
            xattr: None,
        };
        Model {
            names: BTreeMap::from([(Path::new(), 0)]),
            nodes: vec![root],
        }
    }

    pub fn node(&self, path: &[u8]) -> Option<&MapNode> {
        self.names.get(path).map(|index| &self.nodes[*index])
    }

    pub fn node_mut(&mut self, path: &[u8]) -> Option<&mut MapNode> {
        self.names.get(path).map(|index| &mut self.nodes[*index])
    }

    pub fn is_directory(&self, path: &[u8]) -> bool {
        self.node(path).is_some_and(|node| node.kind == Kind::Directory)
    }

    pub fn below(&self, path: &[u8]) -> Vec<Path> {
        let below = self
            .names
            .keys()
            .filter(|name| name.len() > path.len() && name.starts_with(path));
        below.cloned().collect()
    }

    /// Whether `path` could be created: its parent is a directory and it does not exist.
    pub fn is_free(&self, path: &[u8]) -> bool {
        !path.is_empty() && !self.names.contains_key(path) && self.is_directory(&path[..path.len() - 1])
    }

    pub fn create(&mut self, path: &[u8], kind: Kind, mode: u32) {
        self.nodes.push(MapNode {
            kind,
            mode,
            xattr: None,
        });
        self.names.insert(path.to_vec(), self.nodes.len() - 1);
    }

    pub fn remove_tree(&mut self, path: &[u8]) {
        for name in self.below(path) {
            self.names.remove(&name);
        }
        self.names.remove(path);
    }

    /// Removes a whole subtree, as pairs of the rest of the name and the node.
    pub fn take(&mut self, path: &[u8]) -> Vec<(Path, usize)> {
        let mut taken = Vec::new();
        for name in self.below(path).into_iter().chain([path.to_vec()]) {
            if let Some(node) = self.names.remove(&name) {
                taken.push((name[path.len()..].to_vec(), node));
            }
        }
        taken
    }

    pub fn put(&mut self, path: &[u8], taken: Vec<(Path, usize)>) {
        for (rest, node) in taken {
            self.names.insert([path, &rest].concat(), node);
        }
    }

    pub fn listing(&self) -> Listing {
        let count = |index: usize| self.names.values().filter(|other| **other == index).count();
        self.names
            .iter()
            .map(|(path, index)| (path.clone(), (self.nodes[*index].clone(), count(*index))))
            .collect()
    }

    pub fn bytes(&self) -> u64 {
        let mut nodes: Vec<usize> = self.names.values().copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        let size = |index: usize| match &self.nodes[index].kind {
            Kind::File(bytes) => bytes.len() as u64,
            Kind::Directory | Kind::Symlink(_) => 0,
        };
        nodes.into_iter().map(size).sum()
    }
}
