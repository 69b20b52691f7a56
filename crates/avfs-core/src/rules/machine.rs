//! All patterns of a list of rules as one automaton that reads a path name by name.
//!
//! Each alternative of a pattern is a row of nodes, one before each component and one at its end. A set of nodes
//! says how far a path has come in all patterns at once.

use std::collections::BTreeSet;

use super::budget::{Budget, Spent};
use super::decide::Verdict;
use super::glob::Name;
use super::names::{GlobId, Globs};
use super::pattern::{Alternative, Component};
use super::rule::Rule;

pub(super) type NodeId = u32;
/// Index into the list of rules.
pub(super) type RuleId = u32;
/// Ascending and settled: see [`Machine::settled`].
pub(super) type Nodes = Box<[NodeId]>;

#[derive(Debug)]
pub(super) struct Machine {
    globs: Globs,
    nodes: Vec<Node>,
    /// The first nodes of the alternatives of each rule.
    starts: Vec<Vec<NodeId>>,
    /// For each thing that a rule can say, a node of a rule of its own that matches everything; by what it says.
    constants: Vec<(Verdict, NodeId)>,
}

#[derive(Debug)]
struct Node {
    rule: RuleId,
    /// The first node of the same alternative.
    row: NodeId,
    kind: NodeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    Name(GlobId),
    /// Before a `**` that is followed by more.
    Deep,
    /// Matches here and at everything below.
    Rest,
    /// Matches at everything below, and not here.
    Below,
    /// Matches here.
    End,
}

impl Machine {
    pub(super) fn new(rules: &[Rule]) -> Machine {
        let mut machine = Machine {
            globs: Globs::default(),
            nodes: Vec::new(),
            starts: Vec::with_capacity(rules.len()),
            constants: Vec::new(),
        };
        for (index, rule) in rules.iter().enumerate() {
            let alternatives = rule.pattern().map_or(&[][..], |pattern| pattern.alternatives());
            let starts = alternatives.iter().map(|alternative| machine.add(index as RuleId, alternative));
            let starts = starts.collect();
            machine.starts.push(starts);
        }
        machine.add_constants(rules);
        machine
    }

    fn add_constants(&mut self, rules: &[Rule]) {
        let verdicts: BTreeSet<Verdict> = rules.iter().map(Verdict::of).collect();
        for (index, verdict) in verdicts.into_iter().enumerate() {
            let row = self.nodes.len() as NodeId;
            let rule = (rules.len() + index) as RuleId;
            self.nodes.push(Node { rule, row, kind: NodeKind::Rest });
            self.constants.push((verdict, row));
        }
    }

    /// What the rules say that were added, in the order of their ids, and their nodes.
    pub(super) fn constants(&self) -> impl Iterator<Item = (Verdict, NodeId)> {
        self.constants.iter().copied()
    }

    pub(super) fn constant(&self, verdict: Verdict) -> NodeId {
        let index = self.constants.binary_search_by(|(known, _)| known.cmp(&verdict));
        self.constants[index.expect("there is one for all that a rule says")].1
    }

    fn add(&mut self, rule: RuleId, alternative: &Alternative) -> NodeId {
        let row = self.nodes.len() as NodeId;
        let last = alternative.components.len() - 1;
        for (index, component) in alternative.components.iter().enumerate() {
            let kind = match component {
                Component::Deep if index == last => NodeKind::Rest,
                Component::Deep => NodeKind::Deep,
                Component::Name(glob)
                    if glob.is_any() && alternative.components[index + 1..] == [Component::Deep] =>
                {
                    NodeKind::Below
                }
                Component::Name(glob) => NodeKind::Name(self.globs.intern(glob)),
            };
            self.nodes.push(Node { rule, row, kind });
        }
        if alternative.components[last] != Component::Deep {
            self.nodes.push(Node { rule, row, kind: NodeKind::End });
        }
        row
    }

    pub(super) fn kind(&self, node: NodeId) -> NodeKind {
        self.nodes[node as usize].kind
    }

    pub(super) fn rule(&self, node: NodeId) -> RuleId {
        self.nodes[node as usize].rule
    }

    /// Where the root of a tree stands in the patterns of these rules.
    pub(super) fn start(&self, rules: impl IntoIterator<Item = RuleId>) -> Nodes {
        let starts = rules.into_iter().flat_map(|rule| &self.starts[rule as usize]).copied();
        self.settled(starts.collect())
    }

    /// Where the root stands in all patterns.
    pub(super) fn start_of_all(&self) -> Nodes {
        self.start(0..self.starts.len() as RuleId)
    }

    /// One step down, to a name that matches exactly these globs.
    pub(super) fn step(&self, nodes: &[NodeId], matched: &[GlobId]) -> Nodes {
        let mut next = Vec::with_capacity(nodes.len());
        for node in nodes {
            match self.kind(*node) {
                NodeKind::Deep | NodeKind::Rest => next.push(*node),
                NodeKind::Below => next.push(node + 1),
                NodeKind::Name(glob) if matched.binary_search(&glob).is_ok() => next.push(node + 1),
                NodeKind::Name(_) | NodeKind::End => {}
            }
        }
        self.settled(next)
    }

    /// What matters strictly below: without the ends, and what matches everything there as if it did so here.
    pub(super) fn below(&self, nodes: &[NodeId]) -> Nodes {
        let part = |node: &NodeId| match self.kind(*node) {
            NodeKind::End => None,
            NodeKind::Below => Some(node + 1),
            NodeKind::Name(_) | NodeKind::Deep | NodeKind::Rest => Some(*node),
        };
        self.settled(nodes.iter().filter_map(part).collect())
    }

    /// Adds the node behind each `**`, which may stand for nothing, and drops what another node makes needless:
    /// nodes before a `**` of the same alternative (what leads to a match from there does so from the `**`), and
    /// those of a rule that matches everything from here on.
    pub(super) fn settled(&self, mut nodes: Vec<NodeId>) -> Nodes {
        for index in 0..nodes.len() {
            if self.kind(nodes[index]) == NodeKind::Deep {
                nodes.push(nodes[index] + 1);
            }
        }
        nodes.sort_unstable();
        nodes.dedup();
        let is_same_rule = |a: &NodeId, b: &NodeId| self.rule(*a) == self.rule(*b);
        let mut kept = Vec::with_capacity(nodes.len());
        for of_rule in nodes.chunk_by(is_same_rule) {
            match of_rule.iter().find(|node| self.kind(**node) == NodeKind::Rest) {
                Some(rest) => kept.push(*rest),
                None => self.keep_needed(of_rule, &mut kept),
            }
        }
        kept.into()
    }

    fn keep_needed(&self, of_rule: &[NodeId], kept: &mut Vec<NodeId>) {
        let row = |node: &NodeId| self.nodes[*node as usize].row;
        for of_row in of_rule.chunk_by(|a, b| row(a) == row(b)) {
            let last_deep = of_row.iter().rposition(|node| self.kind(*node) == NodeKind::Deep);
            kept.extend_from_slice(&of_row[last_deep.unwrap_or(0)..]);
        }
    }

    /// The rules that match here, ascending.
    pub(super) fn matching(&self, nodes: &[NodeId]) -> Vec<RuleId> {
        let ends = nodes.iter().filter(|node| matches!(self.kind(**node), NodeKind::End | NodeKind::Rest));
        let mut rules: Vec<RuleId> = ends.map(|node| self.rule(*node)).collect();
        rules.dedup();
        rules
    }

    /// The globs that tell names below apart: those without wildcards and those with, each ascending.
    pub(super) fn globs(&self, nodes: &[NodeId]) -> (Vec<GlobId>, Vec<GlobId>) {
        let is_literal = |glob: &GlobId| self.globs.get(*glob).literal().is_some();
        self.all_globs(nodes).into_iter().partition(is_literal)
    }

    fn all_globs(&self, nodes: &[NodeId]) -> Vec<GlobId> {
        let name = |node: &NodeId| match self.kind(*node) {
            NodeKind::Name(glob) => Some(glob),
            NodeKind::Deep | NodeKind::Rest | NodeKind::Below | NodeKind::End => None,
        };
        let mut globs: Vec<GlobId> = nodes.iter().filter_map(name).collect();
        globs.sort_unstable();
        globs.dedup();
        globs
    }

    /// Which of these globs a name matches, ascending. A name is at most one of the literal ones.
    pub(super) fn matched(&self, literal: &[GlobId], wild: &[GlobId], name: &[u8]) -> Vec<GlobId> {
        let name = Name::new(name);
        let mut matched: Vec<GlobId> =
            wild.iter().copied().filter(|glob| self.globs.get(*glob).matches(&name)).collect();
        let exact = self.globs.literal(name.bytes());
        if let Some(exact) = exact.filter(|exact| literal.binary_search(exact).is_ok()) {
            let index = matched.partition_point(|glob| *glob < exact);
            matched.insert(index, exact);
        }
        matched
    }

    /// The sets of globs that a name below can match: one step down for each.
    pub(super) fn letters(&self, nodes: &[NodeId], budget: &mut Budget) -> Result<Vec<Box<[GlobId]>>, Spent> {
        let (literal, wild) = self.globs(nodes);
        self.globs.matched_together(&literal, &wild, budget)
    }
}
