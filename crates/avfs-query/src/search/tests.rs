use std::collections::BTreeMap;
use std::sync::Arc;

use avfs_store::MemoryStore;
use avfs_testkit::CountingStore;
use avfs_tree::Objects;
use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::fixture::{FixtureItem, FixtureTree, Items, memory, path};

struct Place {
    directory: TempDir,
    index: SearchIndex,
    objects: Objects,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let index = SearchIndex::open(directory.path()).unwrap();
    Place {
        directory,
        index,
        objects: memory(),
    }
}

impl Place {
    fn tree(&self, files: &[(&str, &str)]) -> FixtureTree {
        FixtureTree::in_store(&self.objects, files)
    }

    fn results(&self, key: &str, parent: Option<&str>, tree: &FixtureTree, query: &str) -> SearchResults {
        let scope = SearchScope {
            key,
            parent,
            reader: &tree.reader,
        };
        self.index
            .search(scope, &Query::parse(query).unwrap(), SearchOptions::default())
            .unwrap()
    }

    fn paths(&self, key: &str, tree: &FixtureTree, query: &str) -> Vec<String> {
        let mut paths: Vec<_> = self
            .results(key, None, tree, query)
            .hits
            .iter()
            .map(|hit| hit.path.to_string())
            .collect();
        paths.sort();
        paths
    }

    fn documents(&self) -> i64 {
        let connection = Connection::open(self.directory.path().join("search.db")).unwrap();
        connection
            .query_row("SELECT count(*) FROM documents", [], |row| row.get(0))
            .unwrap()
    }
}

const FILES: [(&str, &str); 4] = [
    ("src/parser.rs", "fn parse_config() { read the file }\n"),
    ("src/main.rs", "the main program reads a config file\n"),
    ("notes.md", "apples and oranges\nnothing about code\n"),
    ("config/readme.txt", "how to set things up\n"),
];

#[test]
fn each_part_of_the_language_finds_what_it_says() {
    let place = place();
    let tree = place.tree(&FILES);
    let check =
        |query: &str, expected: &[&str]| assert_eq!(place.paths("v", &tree, query), expected, "{query}");
    check(
        "config",
        &["/config/readme.txt", "/src/main.rs", "/src/parser.rs"],
    );
    check("config file", &["/src/main.rs", "/src/parser.rs"]);
    check("\"config file\"", &["/src/main.rs"]);
    check("parse_config", &["/src/parser.rs"]);
    check("ora*", &["/notes.md"]);
    check("apples OR program", &["/notes.md", "/src/main.rs"]);
    check("config -program", &["/config/readme.txt", "/src/parser.rs"]);
    check(
        "CONFIG",
        &["/config/readme.txt", "/src/main.rs", "/src/parser.rs"],
    );
    check("absent", &[]);
}

#[test]
fn words_of_the_path_count_more_than_those_of_the_text() {
    let place = place();
    let tree = place.tree(&FILES);
    let hits = place.results("v", None, &tree, "config").hits;
    assert_eq!(hits[0].path, path("config/readme.txt"));
    assert_eq!(hits[0].snippet, None, "the word is in the path alone");
    assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
    let snippet = hits
        .iter()
        .find(|hit| hit.path == path("src/main.rs"))
        .unwrap()
        .snippet
        .clone()
        .unwrap();
    assert_eq!(&snippet.text[snippet.matches[0].clone()], "config");
}

#[test]
fn a_fork_shares_the_documents_and_shows_only_its_own() {
    let place = place();
    let parent = place.tree(&FILES);
    assert_eq!(place.paths("parent", &parent, "config").len(), 3);
    let mut files = FILES.to_vec();
    files.push(("secret.txt", "config of the fork"));
    let fork = place.tree(&files);
    let found = place.results("fork", Some("parent"), &fork, "config");
    assert_eq!((found.hits.len(), found.foreign), (4, 0));
    assert_eq!(place.documents(), 5, "four of the parent and one of the fork");
    let found = place.results("parent", None, &parent, "config");
    assert_eq!(
        (found.hits.len(), found.foreign),
        (3, 1),
        "the fork's file is passed over"
    );
}

#[test]
fn changes_deletions_and_renames_are_seen_by_the_next_search() {
    let place = place();
    let first = place.tree(&[("a", "alpha one"), ("b", "beta two"), ("c", "gamma three")]);
    assert_eq!(
        place.paths("v", &first, "alpha OR beta OR gamma"),
        ["/a", "/b", "/c"]
    );
    let second = place.tree(&[("a", "alpha changed"), ("renamed", "gamma three")]);
    assert_eq!(
        place.paths("v", &second, "alpha OR beta OR gamma"),
        ["/a", "/renamed"]
    );
    assert_eq!(place.paths("v", &second, "one"), Vec::<String>::new());
    assert_eq!(place.paths("v", &second, "changed"), ["/a"]);
    assert_eq!(
        place.paths("v", &first, "one"),
        ["/a"],
        "going back is a change like any other"
    );
    assert_eq!(place.documents(), 5);
}

#[test]
fn a_linked_file_is_found_under_all_its_names() {
    let place = place();
    let names: Items = ["a", "dir/b"]
        .map(|name| (path(name), FixtureItem::Linked(7)))
        .into();
    let linked = |text: &str| BTreeMap::from([(7, text.as_bytes().to_vec())]);
    let first = FixtureTree::build(&place.objects, &names, &linked("first words"));
    assert_eq!(place.paths("v", &first, "first"), ["/a", "/dir/b"]);
    let second = FixtureTree::build(&place.objects, &names, &linked("second words"));
    assert_eq!(place.paths("v", &second, "second"), ["/a", "/dir/b"]);
    assert_eq!(place.paths("v", &second, "first"), Vec::<String>::new());
}

#[test]
fn a_search_after_one_change_reads_only_what_changed() {
    let names: Vec<String> = (0..4000).map(|n| format!("d{}/f{n}", n % 50)).collect();
    let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "common text")).collect();
    let store = Arc::new(CountingStore::<MemoryStore>::default());
    let objects = Objects::new(store.clone());
    let (place, before) = (place(), FixtureTree::in_store(&objects, &files));
    place.paths("v", &before, "rare");
    files[1234].1 = "a rare text";
    let after = FixtureTree::in_store(&objects, &files);
    let cold = TreeReader::new(Objects::new(store.clone()), after.reader.root().clone());
    store.take();
    assert_eq!(
        place.paths("v", &FixtureTree { reader: cold }, "rare"),
        [format!("/{}", names[1234])]
    );
    let reads = store.take().objects_read;
    assert!(reads < 20, "{reads} objects were read of 4000 files");
}

#[test]
fn only_text_files_below_the_limit_are_indexed() {
    let place = place();
    let items = [
        ("text", FixtureItem::file("word")),
        ("binary", FixtureItem::file("word \0")),
        ("link", FixtureItem::Symlink(b"word".to_vec())),
        ("big", FixtureItem::file("word ".repeat(300_000))),
        ("empty-word", FixtureItem::file("")),
        ("bad-utf8", FixtureItem::file(b"word \xff\xfe caf\xe9".to_vec())),
    ];
    let tree = FixtureTree::of_items(&place.objects, &items);
    assert_eq!(place.paths("v", &tree, "word"), ["/bad-utf8", "/text"]);
}

#[test]
fn a_damaged_file_does_not_hide_the_others() {
    let place = place();
    let items = [("lost", FixtureItem::Lost), ("sound", FixtureItem::file("word"))];
    let tree = FixtureTree::of_items(&place.objects, &items);
    assert_eq!(place.paths("v", &tree, "word"), ["/sound"]);
}

#[test]
fn hits_can_be_limited_and_hidden() {
    let place = place();
    let tree = place.tree(&FILES);
    let scope = SearchScope {
        key: "v",
        parent: None,
        reader: &tree.reader,
    };
    let query = Query::parse("config").unwrap();
    let search = |options| place.index.search(scope, &query, options).unwrap();
    assert_eq!(
        search(SearchOptions {
            limit: 1,
            ..Default::default()
        })
        .hits
        .len(),
        1
    );
    let below = path("src");
    assert_eq!(
        search(SearchOptions {
            below: Some(&below),
            ..Default::default()
        })
        .hits
        .len(),
        2
    );
    let visible = |path: &TreePath| !path.as_bytes().starts_with(b"src/main");
    let hidden = search(SearchOptions {
        visible: Some(&visible),
        ..Default::default()
    });
    assert_eq!((hidden.hits.len(), hidden.foreign), (2, 0));
}

#[test]
fn pruning_removes_what_no_tree_has() {
    let place = place();
    let old = place.tree(&[("a", "alpha"), ("b", "beta")]);
    let new = place.tree(&[("b", "beta"), ("c", "gamma")]);
    place.paths("old", &old, "alpha");
    place.paths("new", &new, "alpha");
    place.index.forget("old").unwrap();
    let pruned = place.index.prune(std::slice::from_ref(&new.reader)).unwrap();
    assert_eq!(pruned, PrunedDocuments { removed: 1, kept: 2 });
    assert_eq!(place.paths("new", &new, "alpha OR beta OR gamma"), ["/b", "/c"]);
    assert_eq!(place.results("new", None, &new, "alpha").foreign, 0);
    assert_eq!(
        place.paths("old", &old, "alpha"),
        ["/a"],
        "it is indexed again when it is asked again"
    );
}

#[test]
fn a_base_that_was_collected_is_no_obstacle() {
    let place = place();
    let gone = FixtureTree::of(&[("x", "from another store")]);
    let connection = Connection::open(place.directory.path().join("search.db")).unwrap();
    database::remember_root(&connection, "v", gone.reader.root()).unwrap();
    let tree = place.tree(&FILES);
    assert_eq!(place.paths("v", &tree, "apples"), ["/notes.md"]);
}

#[test]
fn index_of_garbage_or_of_another_version_is_rebuilt() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("search.db");
    let objects = memory();
    let tree = FixtureTree::in_store(&objects, &FILES);
    let finds = || {
        let index = SearchIndex::open(directory.path()).unwrap();
        let scope = SearchScope {
            key: "v",
            parent: None,
            reader: &tree.reader,
        };
        let query = Query::parse("apples").unwrap();
        index
            .search(scope, &query, SearchOptions::default())
            .unwrap()
            .hits
            .len()
    };
    std::fs::write(&file, vec![b'?'; 20_000]).unwrap();
    assert_eq!(finds(), 1);
    Connection::open(&file)
        .unwrap()
        .execute_batch("PRAGMA user_version = 99")
        .unwrap();
    assert_eq!(finds(), 1);
    Connection::open(&file)
        .unwrap()
        .execute_batch("DROP TABLE documents")
        .unwrap();
    assert_eq!(finds(), 1);
    std::fs::write(&file, b"").unwrap();
    assert_eq!(finds(), 1);
}

#[test]
fn damage_anywhere_in_the_index_is_repaired_or_harmless() {
    let files: Vec<(String, String)> = (0..300)
        .map(|n| (format!("f{n}"), format!("common word{n}")))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let tree = FixtureTree::of(&files);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("search.db");
    let scope = SearchScope {
        key: "v",
        parent: None,
        reader: &tree.reader,
    };
    SearchIndex::open(directory.path())
        .unwrap()
        .update(scope)
        .unwrap();
    let sound = std::fs::read(&file).unwrap();
    assert!(sound.len() > 8 * 4096);
    for page in 0..sound.len() / 4096 {
        let mut damaged = sound.clone();
        damaged[page * 4096 + 16..page * 4096 + 3000].fill(0xa5);
        std::fs::write(&file, damaged).unwrap();
        let index = SearchIndex::open(directory.path()).unwrap();
        for query in ["common", "word7", "f7"] {
            let query = Query::parse(query).unwrap();
            let found = index.search(scope, &query, SearchOptions::default());
            found.unwrap_or_else(|error| panic!("page {page}: {error:?}"));
        }
    }
}

#[test]
fn a_search_while_another_writes_answers_and_says_so() {
    let mut place = place();
    let limits = IndexLimits {
        patience: std::time::Duration::from_millis(20),
        ..Default::default()
    };
    place.index = SearchIndex::open_with(place.directory.path(), limits).unwrap();
    let tree = place.tree(&FILES);
    place.paths("v", &tree, "apples");
    let other = Connection::open(place.directory.path().join("search.db")).unwrap();
    other
        .execute_batch("BEGIN IMMEDIATE; DELETE FROM roots;")
        .unwrap();
    let changed = place.tree(&[
        ("notes.md", "apples and oranges\nnothing about code\n"),
        ("new", "apples"),
    ]);
    let found = place.results("v", None, &changed, "apples");
    assert_eq!((found.hits.len(), found.freshness), (1, IndexFreshness::Behind));
    other.execute_batch("ROLLBACK").unwrap();
    let found = place.results("v", None, &changed, "apples");
    assert_eq!((found.hits.len(), found.freshness), (2, IndexFreshness::Current));
}

#[test]
fn several_indexers_at_once_agree() {
    let directory = tempfile::tempdir().unwrap();
    let files: Vec<(String, String)> = (0..2000)
        .map(|n| (format!("d{}/f{n}", n % 9), format!("shared word{n}")))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let tree = FixtureTree::of(&files);
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let (directory, tree) = (&directory, &tree);
            threads.spawn(move || {
                let index = SearchIndex::open(directory.path()).unwrap();
                let key = format!("v{}", thread % 2);
                let scope = SearchScope {
                    key: &key,
                    parent: None,
                    reader: &tree.reader,
                };
                let query = Query::parse("word1234").unwrap();
                let found = index.search(scope, &query, SearchOptions::default()).unwrap();
                assert_eq!((found.hits.len(), found.freshness), (1, IndexFreshness::Current));
            });
        }
    });
    let connection = Connection::open(directory.path().join("search.db")).unwrap();
    let count: i64 = connection
        .query_row("SELECT count(*) FROM documents", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 2000);
    connection
        .execute_batch("INSERT INTO texts(texts) VALUES ('integrity-check')")
        .unwrap();
}

#[test]
fn no_query_is_an_error_of_the_database() {
    let place = place();
    let tree = place.tree(&FILES);
    let scope = SearchScope {
        key: "v",
        parent: None,
        reader: &tree.reader,
    };
    let signs = "([-a-z\"*():^{}+',.;\\\\ ]|OR|AND|NOT|NEAR|body:|\u{0}|\\PC){0,40}";
    proptest!(ProptestConfig::with_cases(2000), |(text in signs)| {
        if let Ok(query) = Query::parse(&text) {
            place.index.search(scope, &query, SearchOptions::default()).unwrap();
        }
    });
    let widest = ["a"; 64].join(" OR ");
    for text in [
        widest.as_str(),
        &"a ".repeat(64),
        &("a ".to_owned() + &"-b ".repeat(63)),
        &"\"".repeat(99_999),
    ] {
        if let Ok(query) = Query::parse(text) {
            place
                .index
                .search(scope, &query, SearchOptions::default())
                .unwrap();
        }
    }
}

#[test]
fn the_deepest_tree_can_be_searched() {
    let deep = ["d"; 2000].join("/") + "/f";
    let build = move || FixtureTree::of(&[(deep.as_str(), "treasure")]);
    let tree = std::thread::Builder::new()
        .stack_size(64 << 20)
        .spawn(build)
        .unwrap()
        .join()
        .unwrap();
    let place = place();
    assert_eq!(place.paths("v", &tree, "treasure").len(), 1);
}
