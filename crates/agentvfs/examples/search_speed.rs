//! How fast the full-text index is: `cargo run --release --example search_speed -- [DOCUMENTS]`.
#![allow(clippy::print_stdout, reason = "it prints its measurements")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentvfs::query::search::{Query, SearchIndex, SearchOptions, SearchScope};
use avfs_core::map::{self, Edits};
use avfs_core::{Content, Entry, EntryKind, Meta, Root, Slot, Totals};
use avfs_store::MemoryStore;
use avfs_tree::{ObjectWriter, Objects, TreeReader};

/// Words per document: about one kilobyte of text.
const WORDS: u64 = 150;
/// Words in the vocabulary; rare ones are as rare as in ordinary text (Zipf).
const VOCABULARY: f64 = 50_000.0;
const FILES_PER_DIRECTORY: u64 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let documents = std::env::args()
        .nth(1)
        .map_or(Ok(100_000), |text| text.parse::<u64>())?;
    let objects = Objects::new(Arc::new(MemoryStore::new()));
    let mut files: BTreeMap<u64, String> = (0..documents).map(|number| (number, text(number))).collect();
    let reader = tree(&objects, &files)?;
    let directory = tempfile::tempdir()?;
    let index = SearchIndex::open(directory.path())?;
    let scope = SearchScope {
        key: "vault",
        parent: None,
        reader: &reader,
    };

    let started = Instant::now();
    index.update(scope)?;
    let took = started.elapsed();
    let bytes: usize = files.values().map(String::len).sum();
    let stored = std::fs::metadata(directory.path().join("search.db"))?.len();
    println!(
        "index {documents} documents: {took:.2?}, {:.0}/s",
        documents as f64 / took.as_secs_f64()
    );
    println!("texts {} KiB, index {} KiB", bytes >> 10, stored >> 10);

    for rank in [3.0, 30.0, 100.0, 300.0, 1000.0, 10_000.0] {
        let word = word(rank);
        let holding = files
            .values()
            .filter(|text| text.split(' ').any(|other| other == word))
            .count();
        measure(&index, scope, &word, &format!("a word in {holding} documents"))?;
    }
    let (a, b) = (word(300.0), word(500.0));
    measure(&index, scope, &format!("{a} {b}"), "two words")?;
    measure(&index, scope, &format!("\"{a} {b}\""), "a phrase")?;
    measure(
        &index,
        scope,
        &format!("{a} OR {b} -{}", word(800.0)),
        "one of two, without a third",
    )?;
    measure(&index, scope, "w123*", "a prefix")?;

    files.insert(documents / 2, "one changed document".to_owned());
    let changed = tree(&objects, &files)?;
    let started = Instant::now();
    index.update(SearchScope {
        reader: &changed,
        ..scope
    })?;
    println!("one changed file: {:.2?}", started.elapsed());
    let started = Instant::now();
    index.update(SearchScope {
        key: "fork",
        parent: Some("vault"),
        reader: &changed,
    })?;
    println!("a new fork: {:.2?}", started.elapsed());
    Ok(())
}

fn measure(
    index: &SearchIndex,
    scope: SearchScope<'_>,
    query: &str,
    what: &str,
) -> Result<(), Box<dyn Error>> {
    let parsed = Query::parse(query)?;
    let mut times: Vec<Duration> = Vec::new();
    let mut hits = 0;
    for _ in 0..21 {
        let started = Instant::now();
        hits = index.search(scope, &parsed, SearchOptions::default())?.hits.len();
        times.push(started.elapsed());
    }
    times.sort();
    println!(
        "{:9.3} ms median {:9.3} ms worst  {hits:2} hits  {what}",
        ms(times[10]),
        ms(times[20])
    );
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A text that depends on its number alone.
fn text(number: u64) -> String {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..WORDS).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word(VOCABULARY.powf((state >> 11) as f64 / (1u64 << 53) as f64))
    });
    words.collect::<Vec<_>>().join(" ")
}

fn word(rank: f64) -> String {
    format!("w{}", rank as u64)
}

fn tree(objects: &Objects, files: &BTreeMap<u64, String>) -> Result<TreeReader, Box<dyn Error>> {
    let writer = ObjectWriter::new(objects);
    let mut directories: BTreeMap<u64, Edits<Slot>> = BTreeMap::new();
    for (number, text) in files {
        let content = Content::Blob(writer.put_blob(text.clone().into_bytes())?);
        let kind = EntryKind::File {
            size: text.len() as u64,
            content,
        };
        let slot = Slot::Own(Entry {
            meta: Meta::default(),
            kind,
        });
        let name = format!("file{number}.txt").into_bytes().into();
        directories
            .entry(number / FILES_PER_DIRECTORY)
            .or_default()
            .insert(name, Some(slot));
    }
    let mut top: Edits<Slot> = Edits::new();
    for (number, edits) in directories {
        let directory = directory(objects, &writer, &edits)?;
        top.insert(
            format!("d{number}").into_bytes().into(),
            Some(Slot::Own(directory)),
        );
    }
    let directory = directory(objects, &writer, &top)?;
    writer.flush()?;
    let root = Root {
        directory,
        links: None,
        totals: Totals::default(),
    };
    Ok(TreeReader::new(objects.clone(), root))
}

fn directory(objects: &Objects, writer: &ObjectWriter, edits: &Edits<Slot>) -> Result<Entry, Box<dyn Error>> {
    let mut sink = writer;
    let root = map::apply(objects, &mut sink, None, edits)?;
    let below = root.as_ref().map_or(Totals::default(), |root| root.totals);
    let kind = EntryKind::Directory {
        entries: root.map(|root| root.id),
        below,
    };
    Ok(Entry {
        meta: Meta::default(),
        kind,
    })
}
