//! Which modules of a crate import each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, Uses};

/// The modules that the root of a crate declares, and who imports whom.
pub struct Graph {
    modules: Vec<String>,
    /// How many places make an edge, by where it begins and ends.
    edges: BTreeMap<(usize, usize), usize>,
}

impl Graph {
    pub fn new(sources: &[Source], uses: &Uses) -> Graph {
        let names: BTreeSet<&str> = sources
            .iter()
            .map(Source::module)
            .filter(|name| !name.is_empty())
            .collect();
        let modules: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let index = |name: &str| modules.binary_search_by(|module| module.as_str().cmp(name)).ok();
        let mut edges = BTreeMap::new();
        for source in sources {
            let Some(from) = index(source.module()) else {
                continue;
            };
            let to = source
                .paths
                .iter()
                .filter_map(|path| index(uses.module_of(path, &names)?));
            for to in to.filter(|to| *to != from) {
                *edges.entry((from, to)).or_default() += 1;
            }
        }
        Graph { modules, edges }
    }

    pub fn modules(&self) -> usize {
        self.modules.len()
    }

    /// The sets of two or more modules that all reach each other, the largest first.
    pub fn cycles(&self) -> Vec<Vec<String>> {
        let every = 0..self.modules.len();
        let reach: Vec<BTreeSet<usize>> = every.clone().map(|from| self.reached_from(from)).collect();
        let circle = |from: usize| -> Vec<usize> {
            let both = reach[from].iter().copied();
            both.filter(|to| reach[*to].contains(&from)).collect()
        };
        // Each circle is found by its first module; what leads to itself alone is none.
        let found = every.filter_map(|from| Some(circle(from)).filter(|of| of.len() > 1 && of[0] == from));
        let names = |circle: Vec<usize>| {
            circle
                .into_iter()
                .map(|module| self.modules[module].clone())
                .collect()
        };
        let mut circles: Vec<Vec<String>> = found.map(names).collect();
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    /// The imports between these modules, with how many places make each.
    pub fn edges_within(&self, circle: &[String]) -> Vec<(String, String, usize)> {
        let name = |module: usize| self.modules[module].clone();
        let edges = self
            .edges
            .iter()
            .map(|((from, to), times)| (name(*from), name(*to), *times));
        edges
            .filter(|(from, to, _)| circle.contains(from) && circle.contains(to))
            .collect()
    }

    fn reached_from(&self, from: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            let next = self.edges.range((at, 0)..(at + 1, 0)).map(|((_, to), _)| *to);
            open.extend(next.filter(|to| reached.insert(*to)));
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let read = |(path, text): &(&str, &str)| Source::read(Path::new(path), text).unwrap();
        let sources: Vec<Source> = files.iter().map(read).collect();
        let uses = Uses::of(&sources);
        Graph::new(&sources, &uses)
    }

    #[test]
    fn a_circle_through_a_name_of_the_root_is_found() {
        let graph = graph(&[
            ("lib.rs", "pub use a::A;"),
            ("a.rs", "use crate::b::B;"),
            ("b/inner.rs", "use crate::c::C;"),
            ("c.rs", "fn f(_: crate::A) {}"),
            ("d.rs", "use crate::a::A;"),
        ]);
        assert_eq!(graph.cycles(), [["a", "b", "c"]]);
        assert_eq!(graph.modules(), 4);
    }

    #[test]
    fn modules_in_one_direction_are_in_no_circle() {
        let graph = graph(&[("a.rs", "use crate::b;"), ("b.rs", "use crate::c;"), ("c.rs", "")]);
        assert!(graph.cycles().is_empty());
    }
}
