//! Which paths are in a cache, and which lead to one.

use std::collections::HashMap;

/// The relation of a path to the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheWay {
    /// Nothing below it is cached.
    Apart,
    /// A directory that may have caches below it.
    Towards(usize),
    /// In a cache, whose own directory is the first `below` bytes of the path, including the slash after it.
    Within { cache: usize, below: usize },
}

#[derive(Default)]
struct WayFork {
    names: HashMap<Box<[u8]>, usize>,
    cache: Option<usize>,
    /// A cache below has something.
    is_there: bool,
}

/// All paths that lead to caches, as a tree of names.
pub(super) struct CacheWays {
    forks: Vec<WayFork>,
}

impl Default for CacheWays {
    fn default() -> CacheWays {
        CacheWays {
            forks: vec![WayFork::default()],
        }
    }
}

impl CacheWays {
    pub(super) const TOP: CacheWay = CacheWay::Towards(0);

    pub(super) fn add(&mut self, path: &[u8], cache: usize, is_there: bool) {
        let mut at = 0;
        for name in path.split(|byte| *byte == b'/') {
            self.forks[at].is_there |= is_there;
            at = match self.forks[at].names.get(name) {
                Some(next) => *next,
                None => {
                    let next = self.forks.len();
                    self.forks.push(WayFork::default());
                    self.forks[at].names.insert(name.into(), next);
                    next
                }
            };
        }
        self.forks[at].is_there |= is_there;
        self.forks[at].cache = Some(cache);
    }

    /// Follows a path by one name. `path_length` is the length of the path with that name.
    pub(super) fn step(&self, way: CacheWay, name: &[u8], path_length: usize) -> CacheWay {
        let CacheWay::Towards(at) = way else { return way };
        match self.forks[at].names.get(name).copied() {
            None => CacheWay::Apart,
            Some(next) => match self.forks[next].cache {
                Some(cache) => CacheWay::Within {
                    cache,
                    below: path_length + 1,
                },
                None => CacheWay::Towards(next),
            },
        }
    }

    pub(super) fn leads_on(&self, way: CacheWay) -> bool {
        matches!(way, CacheWay::Towards(at) if !self.forks[at].names.is_empty())
    }

    pub(super) fn is_there(&self, way: CacheWay) -> bool {
        matches!(way, CacheWay::Towards(at) if self.forks[at].is_there)
    }

    pub(super) fn names(&self, way: CacheWay) -> Vec<&[u8]> {
        let CacheWay::Towards(at) = way else {
            return Vec::new();
        };
        self.forks[at].names.keys().map(|name| &**name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_a_cache_are_in_one_or_apart() {
        let mut ways = CacheWays::default();
        ways.add(b".cargo/registry", 0, true);
        ways.add(b".cache/pip", 1, false);
        let walk = |path: &str| {
            let mut length = 0;
            path.split('/').fold(CacheWays::TOP, |way, name| {
                length += name.len() + usize::from(length > 0);
                ways.step(way, name.as_bytes(), length)
            })
        };
        assert!(ways.leads_on(walk(".cargo")) && ways.is_there(walk(".cargo")));
        assert!(ways.leads_on(walk(".cache")) && !ways.is_there(walk(".cache")));
        assert_eq!(
            walk(".cargo/registry/src/a"),
            CacheWay::Within { cache: 0, below: 16 }
        );
        assert_eq!(walk(".cargo/credentials.toml"), CacheWay::Apart);
        assert_eq!(walk(".cargo/registry-of-mine"), CacheWay::Apart);
    }
}
