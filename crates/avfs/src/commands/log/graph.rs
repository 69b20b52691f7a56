//! `avfs log --graph`: the history of all vaults of a store in one picture.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use agentvfs::{HistoryEntry, SnapshotId, Store, Timestamp, Vault, VaultInfo, VaultName};
use anstyle::Style;
use anyhow::Result;
use serde::Serialize;

use super::drawing::{GraphCell, GraphRow, Node, draw};
use super::shown_names;
use crate::context::Context;
use crate::escape::printable_line;
use crate::exit::ExitStatus;
use crate::printer::{BLUE, CYAN, FAINT, GREEN, MAGENTA, Printer, RED, YELLOW};
use crate::time::Age;
use crate::versions::{EntryNames, HistoryEntryBody, short};

const LANE_COLORS: [Style; 5] = [GREEN, MAGENTA, CYAN, BLUE, RED];
/// How many unchanged forks are named.
const NAMED_FORKS: usize = 5;

pub fn run(context: &mut Context<'_>, limit: usize) -> Result<ExitStatus> {
    let store = context.store()?;
    let mut graph = Graph::read(context, &store)?;
    graph.cut(limit);
    let parents = graph.snapshot_parents(&store)?;
    if context.out.is_json() {
        print_object(context.out, &graph, &parents)?
    } else {
        print_picture(context.out, &graph, &parents, store.now())?
    }
    Ok(ExitStatus::Success)
}

/// Everything that the picture shows.
struct Graph {
    vaults: Vec<Lane>,
    /// Newest first.
    events: Vec<GraphEvent>,
}

/// A vault and where it came from.
struct Lane {
    info: VaultInfo,
    names: EntryNames,
    /// The vault that it was forked from, and the entry of that one's history.
    base: Option<(usize, u64)>,
    /// A fork without work or forks of its own is mentioned at its base and gets no lane.
    unchanged: bool,
    /// Where its history is, as long as the events are in the order in which they were read.
    events: Range<usize>,
}

struct GraphEvent {
    vault: usize,
    entry: HistoryEntry,
    /// Never before its parents, even if clocks disagree.
    order: Timestamp,
}

impl Graph {
    /// Reads the records of all vaults; a parent always has a lower number than its forks.
    fn read(context: &Context<'_>, store: &Store) -> Result<Graph> {
        let mut infos = store.vaults()?.vaults;
        // Ids ascend with creation, so a parent is read before its forks.
        infos.sort_by_key(|info| info.id);
        let parents: HashSet<VaultName> = infos.iter().filter_map(|info| info.parent.clone()).collect();
        let mut graph = Graph {
            vaults: Vec::new(),
            events: Vec::new(),
        };
        for info in infos {
            let is_parent = parents.contains(&info.name);
            let vault = context.seen(store.vault(info.name.as_str())?)?;
            graph.add_vault(&vault, info, is_parent)?;
        }
        graph
            .events
            // Ties are broken by vault and number, so that two calls draw the same picture.
            .sort_by_key(|event| Reverse((event.order, event.vault, event.entry.seq)));
        Ok(graph)
    }

    fn add_vault(&mut self, vault: &Vault, info: VaultInfo, is_parent: bool) -> Result<()> {
        let mut history = Vec::new();
        vault.history().for_each_entry(|entry| {
            history.push(entry);
            Ok(true)
        })?;
        // Read newest first; `order` is computed from the oldest on.
        history.reverse();
        let base = self.base_of(&info);
        let checkpoints = vault.checkpoints()?;
        let unchanged = base.is_some() && history.len() == 1 && !is_parent && checkpoints.is_empty();
        if unchanged {
            history.clear();
        }
        let mut order = base.map_or(Timestamp::default(), |(_, order)| order);
        let number = self.vaults.len();
        let events = self.events.len()..self.events.len() + history.len();
        let (names, base) = (EntryNames::of(&checkpoints), base.map(|(base, _)| base));
        self.vaults.push(Lane {
            info,
            names,
            base,
            unchanged,
            events,
        });
        for entry in history {
            // A clock that was set back must not put an entry below its parent.
            order = order.max(entry.time);
            self.events.push(GraphEvent {
                vault: number,
                entry,
                order,
            });
        }
        Ok(())
    }

    /// The entry that a vault was forked from. If it was thinned out, the entry before represents it.
    fn base_of(&self, info: &VaultInfo) -> Option<((usize, u64), Timestamp)> {
        let parent = self
            .vaults
            .iter()
            .position(|lane| Some(&lane.info.name) == info.parent.as_ref())?;
        let of_parent = || self.events[self.vaults[parent].events.clone()].iter().rev();
        let exact = of_parent().find(|event| Some(event.entry.snapshot) == info.fork_base);
        let event = exact.or_else(|| of_parent().find(|event| event.entry.time <= info.created))?;
        Some(((parent, event.entry.seq), event.order))
    }

    fn cut(&mut self, limit: usize) {
        self.events.truncate(limit);
    }

    /// The parents of each shown snapshot.
    fn snapshot_parents(&self, store: &Store) -> Result<Vec<Vec<SnapshotId>>> {
        let parents = |event: &GraphEvent| Ok(store.objects().snapshot(event.entry.snapshot)?.parents);
        self.events.iter().map(parents).collect()
    }

    /// The connections of the picture, and for states that went back the entry that they went back to.
    fn nodes(&self, parents: &[Vec<SnapshotId>]) -> (Vec<Node>, HashMap<usize, u64>) {
        let (mut by_entry, mut oldest) = (HashMap::new(), HashMap::new());
        let mut by_snapshot: HashMap<SnapshotId, Vec<usize>> = HashMap::new();
        for (index, event) in self.events.iter().enumerate() {
            by_entry.insert((event.vault, event.entry.seq), index);
            oldest.insert(event.vault, index);
            by_snapshot.entry(event.entry.snapshot).or_default().push(index);
        }
        let mut returns = HashMap::new();
        let mut nodes = Vec::new();
        for (index, event) in self.events.iter().enumerate() {
            let base = self.vaults[event.vault]
                .base
                .filter(|_| oldest[&event.vault] == index);
            let mut node = Node {
                lane: event.vault,
                ..Node::default()
            };
            node.base = base.and_then(|base| by_entry.get(&base).copied());
            // The first snapshot of a fork is its parent's, with that one's merges.
            let others = parents[index].iter().skip(1).filter(|_| event.entry.seq > 1);
            for other in others {
                let places = by_snapshot.get(other).map_or(&[][..], Vec::as_slice);
                // Events are newest first, so a greater index is an earlier event.
                let older: Vec<usize> = places.iter().copied().filter(|place| *place > index).collect();
                let own = older
                    .iter()
                    .find(|place| self.events[**place].vault == event.vault);
                match (own, older.first()) {
                    (Some(own), _) => _ = returns.insert(index, self.events[*own].entry.seq),
                    (None, Some(merged)) => node.merges.push(*merged),
                    (None, None) => {}
                }
            }
            node.glyph = self.glyph(event, returns.contains_key(&index));
            nodes.push(node);
        }
        (nodes, returns)
    }

    fn glyph(&self, event: &GraphEvent, goes_back: bool) -> char {
        let named = !self.vaults[event.vault].names.at(event.entry.seq).is_empty();
        match (named, goes_back) {
            (true, _) => '◆',
            (false, true) => '◇',
            (false, false) => '●',
        }
    }

    /// Forks of an entry that have no work of their own.
    fn unchanged_forks(&self, event: &GraphEvent) -> Option<String> {
        let of_this = |lane: &&Lane| lane.unchanged && lane.base == Some((event.vault, event.entry.seq));
        let names: Vec<&str> = self
            .vaults
            .iter()
            .filter(of_this)
            .map(|lane| lane.info.name.as_str())
            .collect();
        let shown = names
            .iter()
            .take(NAMED_FORKS)
            .copied()
            .collect::<Vec<_>>()
            .join(", ");
        match names.len() {
            0 => None,
            few if few <= NAMED_FORKS => Some(format!("forked as {shown}")),
            many => Some(format!("forked as {shown} and {} more", many - NAMED_FORKS)),
        }
    }
}

fn print_picture(
    out: &mut Printer,
    graph: &Graph,
    parents: &[Vec<SnapshotId>],
    now: Timestamp,
) -> Result<()> {
    let (nodes, returns) = graph.nodes(parents);
    let lane_parents: Vec<Option<usize>> = graph
        .vaults
        .iter()
        .map(|lane| lane.base.map(|(vault, _)| vault))
        .collect();
    let rows = draw(&nodes, &lane_parents);
    let width = rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
    let name_width = graph
        .events
        .iter()
        .map(|event| name_of(graph, event).chars().count())
        .max()
        .unwrap_or(0);
    for GraphRow { node, cells } in rows {
        let picture = paint_cells(out, &cells, width);
        let Some(index) = node else {
            // A row without a node only connects lanes.
            out.line(picture.trim_end())?;
            continue;
        };
        let event = &graph.events[index];
        let name = format!("{:<name_width$}", name_of(graph, event));
        let name = out.paint(lane_color(event.vault), name);
        let id = out.paint(YELLOW, short(event.entry.snapshot));
        let age = Age {
            then: event.entry.time,
            now,
        }
        .to_string();
        let action = printable_line(event.entry.action.as_bytes());
        let checkpoints = shown_names(out, graph.vaults[event.vault].names.at(event.entry.seq));
        let back = returns
            .get(&index)
            .map(|seq| format!("  (as in {seq})"))
            .unwrap_or_default();
        let forks = graph
            .unchanged_forks(event)
            .map(|text| format!("  ({text})"))
            .unwrap_or_default();
        let notes = out.paint(FAINT, back + &forks);
        let seq = event.entry.seq;
        out.line(format_args!(
            "{picture} {name}  {seq:>3}  {id}  {age:<14}  {action}{checkpoints}{notes}"
        ))?;
    }
    Ok(())
}

fn name_of<'a>(graph: &'a Graph, event: &GraphEvent) -> &'a str {
    graph.vaults[event.vault].info.name.as_str()
}

fn lane_color(lane: usize) -> Style {
    LANE_COLORS[lane % LANE_COLORS.len()]
}

fn paint_cells(out: &Printer, cells: &[GraphCell], width: usize) -> String {
    let mut text = String::new();
    for cell in cells {
        let style = cell.lane.map_or(Style::new(), lane_color);
        text.push_str(&out.paint(style, cell.glyph).to_string());
        text.push(cell.gap);
    }
    text.push_str(&"  ".repeat(width - cells.len()));
    text
}

#[derive(Serialize)]
struct GraphBody<'a> {
    vaults: Vec<LaneBody<'a>>,
    entries: Vec<GraphEventBody<'a>>,
}

#[derive(Serialize)]
struct LaneBody<'a> {
    name: &'a str,
    parent: Option<&'a str>,
    fork_base: Option<String>,
    head: String,
}

#[derive(Serialize)]
struct GraphEventBody<'a> {
    vault: &'a str,
    #[serde(flatten)]
    entry: HistoryEntryBody,
    parents: Vec<String>,
}

fn print_object(out: &mut Printer, graph: &Graph, parents: &[Vec<SnapshotId>]) -> Result<()> {
    let vaults = graph.vaults.iter().map(|lane| LaneBody {
        name: lane.info.name.as_str(),
        parent: lane.info.parent.as_ref().map(|name| name.as_str()),
        fork_base: lane.info.fork_base.map(|id| id.to_string()),
        head: lane.info.head.to_string(),
    });
    let entries = graph
        .events
        .iter()
        .zip(parents)
        .map(|(event, parents)| GraphEventBody {
            vault: name_of(graph, event),
            entry: HistoryEntryBody::new(&event.entry, &graph.vaults[event.vault].names),
            parents: parents.iter().map(ToString::to_string).collect(),
        });
    let body = GraphBody {
        vaults: vaults.collect(),
        entries: entries.collect(),
    };
    Ok(out.object("graph", &body)?)
}
