use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A record that is a number and counts itself.
#[derive(Clone, Debug, PartialEq)]
struct Number(u64);

impl MapRecord for Number {
    fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.0);
    }
    fn decode(reader: &mut ByteReader<'_>) -> Result<Number, DecodeError> {
        reader.number().map(Number)
    }
    fn totals(&self) -> Totals {
        Totals {
            inodes: 1,
            bytes: self.0,
            links: 0,
        }
    }
}

type MapModel = BTreeMap<Box<[u8]>, Number>;

fn key(number: u64) -> Box<[u8]> {
    format!("key {number}").into_bytes().into()
}

fn build(table: &mut NodeTable, model: &MapModel) -> Option<NodeId> {
    let edits = model
        .iter()
        .map(|(key, record)| (key.clone(), Some(record.clone())))
        .collect();
    let empty = table.clone();
    apply(&empty, table, None, &edits).unwrap().map(|root| root.id)
}

fn edit(table: &mut NodeTable, root: Option<NodeId>, edits: &Edits<Number>) -> Option<NodeId> {
    let before = table.clone();
    apply(&before, table, root, edits).unwrap().map(|root| root.id)
}

fn numbered(count: u64) -> MapModel {
    (0..count).map(|number| (key(number), Number(number))).collect()
}

fn collect(table: &NodeTable, root: Option<NodeId>, after: Option<&[u8]>) -> Vec<(Box<[u8]>, Number)> {
    let mut walk = walk_after(table, root, after).unwrap();
    let mut found = Vec::new();
    while let Some(pair) = walk.advance().unwrap() {
        found.push(pair);
    }
    found
}

/// Counts the nodes that are loaded.
struct CountedTable<'a>(&'a NodeTable, Cell<usize>);

impl NodeSource<Number> for CountedTable<'_> {
    type Error = DecodeError;
    fn load(&self, id: NodeId) -> Result<Arc<MapNode<Number>>, DecodeError> {
        self.1.set(self.1.get() + 1);
        self.0.load(id)
    }
}

#[test]
fn an_empty_map_has_no_node() {
    let mut table = NodeTable::default();
    assert_eq!(build(&mut table, &MapModel::new()), None);
    let root = build(&mut table, &numbered(5));
    let removals = numbered(5).into_keys().map(|key| (key, None)).collect();
    assert_eq!(edit(&mut table, root, &removals), None);
}

#[test]
fn one_change_in_a_hundred_thousand_records_rewrites_one_node_a_level() {
    let mut table = NodeTable::default();
    let root = build(&mut table, &numbered(100_000));
    let known = table.0.len();
    let edits = Edits::from([(key(54_321), Some(Number(1)))]);
    edit(&mut table, root, &edits);
    let new_nodes = table.0.len() - known;
    assert!((2..=5).contains(&new_nodes), "{new_nodes} nodes");
}

#[test]
fn a_difference_is_found_without_loading_what_is_shared() {
    let mut table = NodeTable::default();
    let root = build(&mut table, &numbered(100_000));
    let changed = edit(
        &mut table,
        root,
        &Edits::from([(key(7), None), (key(99_999), Some(Number(0)))]),
    );
    let counting = CountedTable(&table, Cell::new(0));
    let mut keys = Vec::new();
    diff(&counting, root, changed, |difference: MapDifference<Number>| {
        keys.push(difference.key);
        Ok(())
    })
    .unwrap();
    assert_eq!(keys, [key(7), key(99_999)]);
    assert!(counting.1.get() < 40, "{} nodes loaded", counting.1.get());
}

#[test]
fn totals_of_the_root_are_those_of_all_records() {
    let mut table = NodeTable::default();
    let root = build(&mut table, &numbered(1000)).unwrap();
    let node: Arc<MapNode<Number>> = table.load(root).unwrap();
    assert_eq!(node.records(), 1000);
    assert_eq!(
        node.totals(),
        Totals {
            inodes: 1000,
            bytes: 999 * 1000 / 2,
            links: 0
        }
    );
}

#[test]
fn a_node_with_unsorted_or_doubled_keys_is_refused() {
    let good = MapNode::Leaf(vec![(key(1), Number(1)), (key(2), Number(2))]);
    assert_eq!(MapNode::decode(&good.encode()), Ok(good));
    for keys in [[2, 1], [1, 1]] {
        let bad = MapNode::Leaf(keys.map(|number| (key(number), Number(0))).to_vec());
        let expected = Err(DecodeError::Invalid("keys are not in order"));
        assert_eq!(MapNode::<Number>::decode(&bad.encode()), expected);
    }
}

fn edits_strategy() -> impl Strategy<Value = Vec<Vec<(u64, Option<u64>)>>> {
    let one = (0u64..3000, proptest::option::weighted(0.6, 0u64..5));
    proptest::collection::vec(proptest::collection::vec(one, 1..400), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_map_depends_on_its_records_and_not_on_its_history(rounds in edits_strategy()) {
        let mut table = NodeTable::default();
        let mut model = MapModel::new();
        let mut root = None;
        for round in rounds {
            let before = (root, model.clone());
            let mut edits = Edits::new();
            for (number, value) in round {
                edits.insert(key(number), value.map(Number));
                match value {
                    Some(value) => model.insert(key(number), Number(value)),
                    None => model.remove(&key(number)),
                };
            }
            root = edit(&mut table, root, &edits);
            prop_assert_eq!(root, build(&mut table, &model), "built in one step, it has the same id");
            let all: Vec<_> = model.clone().into_iter().collect();
            prop_assert_eq!(&collect(&table, root, None), &all);
            let middle = key(1500);
            let behind: Vec<_> = model.range(middle.clone()..).skip_while(|(k, _)| **k == middle)
                .map(|(k, v)| (k.clone(), v.clone())).collect();
            prop_assert_eq!(collect(&table, root, Some(&middle)), behind);
            for number in [0, 7, 1500, 2999] {
                prop_assert_eq!(get(&table, root, &key(number)).unwrap(), model.get(&key(number)).cloned());
            }
            check_difference(&table, before, (root, model.clone()))?;
        }
    }

    #[test]
    fn a_map_made_from_sorted_records_is_the_one_that_edits_make(
        numbers in proptest::collection::btree_set(0u64..20_000, 0..3000),
    ) {
        let model: MapModel = numbers.into_iter().map(|number| (key(number), Number(number))).collect();
        let mut edited = NodeTable::default();
        let mut sorted = NodeTable::default();
        let expected = build(&mut edited, &model);
        let empty = NodeTable::default();
        let child = from_sorted(&empty, &mut sorted, model).unwrap();
        prop_assert_eq!(child.map(|child| child.id), expected);
        prop_assert_eq!(sorted.0, edited.0);
    }

    #[test]
    fn a_decoder_never_panics_and_accepts_only_the_canonical_form(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(node) = MapNode::<Number>::decode(&bytes) {
            prop_assert_eq!(node.encode(), bytes);
        }
    }
}

fn check_difference(
    table: &NodeTable,
    before: (Option<NodeId>, MapModel),
    after: (Option<NodeId>, MapModel),
) -> Result<(), TestCaseError> {
    let mut found = Vec::new();
    diff(table, before.0, after.0, |difference| {
        found.push(difference);
        Ok(())
    })
    .unwrap();
    let mut keys: Vec<_> = before.1.keys().chain(after.1.keys()).cloned().collect();
    keys.sort();
    keys.dedup();
    let expected: Vec<_> = keys
        .into_iter()
        .map(|key| MapDifference {
            before: before.1.get(&key).cloned(),
            after: after.1.get(&key).cloned(),
            key,
        })
        .filter(|difference| difference.before != difference.after)
        .collect();
    prop_assert_eq!(found, expected);
    Ok(())
}
