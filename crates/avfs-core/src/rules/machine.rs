//! All patterns of a list of rules as one automaton that reads a path name by name.
//!
//! Each alternative of a pattern is a row of nodes, one before each component and one at its end. A set of
//! nodes records how far a path has come in all patterns.

use std::collections::BTreeSet;

use super::budget::{BudgetSpent, StepBudget};
use super::decide::RuleVerdict;
use super::glob::GlobbedName;
use super::names::{GlobId, GlobTable};
use super::pattern::{PatternAlternative, PatternComponent};
use super::rule::Rule;

pub(super) type NodeId = u32;
/// Index into the list of rules.
pub(super) type RuleId = u32;
/// Ascending and reduced: see [`PatternMachine::reduced`].
pub(super) type NodeSet = Box<[NodeId]>;

#[derive(Debug)]
pub(super) struct PatternMachine {
    globs: GlobTable,
    nodes: Vec<PatternNode>,
    /// The first nodes of the alternatives of each rule.
    starts: Vec<Vec<NodeId>>,
    /// For each possible verdict, a node of an added rule that matches everything; sorted by verdict.
    constants: Vec<(RuleVerdict, NodeId)>,
}

#[derive(Debug)]
struct PatternNode {
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

impl PatternMachine {
    pub(super) fn new(rules: &[Rule]) -> PatternMachine {
        let mut machine = PatternMachine {
            globs: GlobTable::default(),
            nodes: Vec::new(),
            starts: Vec::with_capacity(rules.len()),
            constants: Vec::new(),
        };
        for (index, rule) in rules.iter().enumerate() {
            let alternatives = rule.pattern().map_or(&[][..], |pattern| pattern.alternatives());
            let starts = alternatives
                .iter()
                .map(|alternative| machine.add(index as RuleId, alternative));
            let starts = starts.collect();
            machine.starts.push(starts);
        }
        machine.add_constants(rules);
        machine
    }

    fn add_constants(&mut self, rules: &[Rule]) {
        let verdicts: BTreeSet<RuleVerdict> = rules.iter().map(RuleVerdict::of).collect();
        for (index, verdict) in verdicts.into_iter().enumerate() {
            let row = self.nodes.len() as NodeId;
            // Numbers after those of the rules, so that no constant is taken for one.
            let rule = (rules.len() + index) as RuleId;
            self.nodes.push(PatternNode {
                rule,
                row,
                kind: NodeKind::Rest,
            });
            self.constants.push((verdict, row));
        }
    }

    /// The verdicts of the added rules, in the order of their ids, and their nodes.
    pub(super) fn constants(&self) -> impl Iterator<Item = (RuleVerdict, NodeId)> {
        self.constants.iter().copied()
    }

    pub(super) fn constant(&self, verdict: RuleVerdict) -> NodeId {
        let index = self.constants.binary_search_by(|(known, _)| known.cmp(&verdict));
        self.constants[index.expect("there is one for all that a rule says")].1
    }

    fn add(&mut self, rule: RuleId, alternative: &PatternAlternative) -> NodeId {
        let row = self.nodes.len() as NodeId;
        let count = alternative.components.len();
        for (index, component) in alternative.components.iter().enumerate() {
            let kind = match component {
                PatternComponent::Deep if index + 1 == count => NodeKind::Rest,
                PatternComponent::Deep => NodeKind::Deep,
                PatternComponent::Name(glob)
                    // `*/**` at the end: everything below, but not the place itself. It needs no glob.
                    if glob.is_any() && alternative.components[index + 1..] == [PatternComponent::Deep] =>
                {
                    NodeKind::Below
                }
                PatternComponent::Name(glob) => NodeKind::Name(self.globs.intern(glob)),
            };
            self.nodes.push(PatternNode { rule, row, kind });
        }
        // A pattern that ends in `**` has no end of its own: it matches wherever it arrives.
        if alternative.components.last() != Some(&PatternComponent::Deep) {
            self.nodes.push(PatternNode {
                rule,
                row,
                kind: NodeKind::End,
            });
        }
        row
    }

    pub(super) fn kind(&self, node: NodeId) -> NodeKind {
        self.nodes[node as usize].kind
    }

    pub(super) fn rule(&self, node: NodeId) -> RuleId {
        self.nodes[node as usize].rule
    }

    /// The nodes of the root of a tree in the patterns of these rules.
    pub(super) fn start(&self, rules: impl IntoIterator<Item = RuleId>) -> NodeSet {
        let starts = rules
            .into_iter()
            .flat_map(|rule| &self.starts[rule as usize])
            .copied();
        self.reduced(starts.collect())
    }

    /// The nodes of the root in all patterns.
    pub(super) fn start_of_all(&self) -> NodeSet {
        self.start(0..self.starts.len() as RuleId)
    }

    /// One step down, to a name that matches exactly these globs.
    pub(super) fn step(&self, nodes: &[NodeId], matched: &[GlobId]) -> NodeSet {
        let mut next = Vec::with_capacity(nodes.len());
        for node in nodes {
            match self.kind(*node) {
                // They stay and take the name; a `**` in the middle lets the next part begin in `reduced`.
                NodeKind::Deep | NodeKind::Rest => next.push(*node),
                NodeKind::Below => next.push(node + 1),
                NodeKind::Name(glob) if matched.binary_search(&glob).is_ok() => next.push(node + 1),
                NodeKind::Name(_) | NodeKind::End => {}
            }
        }
        self.reduced(next)
    }

    /// The nodes that are relevant strictly below: without the ends, and with nodes that match everything
    /// below as if they matched here.
    pub(super) fn below(&self, nodes: &[NodeId]) -> NodeSet {
        let part = |node: &NodeId| match self.kind(*node) {
            NodeKind::End => None,
            NodeKind::Below => Some(node + 1),
            NodeKind::Name(_) | NodeKind::Deep | NodeKind::Rest => Some(*node),
        };
        self.reduced(nodes.iter().filter_map(part).collect())
    }

    /// Adds the node after each `**`, which may match nothing, and drops nodes that another node makes
    /// redundant: nodes before a `**` of the same alternative (every match from there is also a match from
    /// the `**`), and those of a rule that matches everything from here on.
    pub(super) fn reduced(&self, mut nodes: Vec<NodeId>) -> NodeSet {
        for index in 0..nodes.len() {
            if self.kind(nodes[index]) == NodeKind::Deep {
                // `**` may stand for no name at all. What follows is never another one, so a single pass is
                // enough.
                nodes.push(nodes[index] + 1);
            }
        }
        nodes.sort_unstable();
        nodes.dedup();
        let is_same_rule = |a: &NodeId, b: &NodeId| self.rule(*a) == self.rule(*b);
        let mut kept = Vec::with_capacity(nodes.len());
        for of_rule in nodes.chunk_by(is_same_rule) {
            match of_rule.iter().find(|node| self.kind(**node) == NodeKind::Rest) {
                // From here on the rule matches everything, and its other nodes can add nothing.
                Some(rest) => kept.push(*rest),
                None => self.keep_needed(of_rule, &mut kept),
            }
        }
        kept.into()
    }

    fn keep_needed(&self, of_rule: &[NodeId], kept: &mut Vec<NodeId>) {
        let row = |node: &NodeId| self.nodes[*node as usize].row;
        for of_row in of_rule.chunk_by(|a, b| row(a) == row(b)) {
            // What is before the last `**` in one row would lead to it at best, and that is reached.
            let last_deep = of_row.iter().rposition(|node| self.kind(*node) == NodeKind::Deep);
            kept.extend_from_slice(&of_row[last_deep.unwrap_or(0)..]);
        }
    }

    /// The rules that match here, ascending.
    pub(super) fn matching(&self, nodes: &[NodeId]) -> Vec<RuleId> {
        let ends = nodes
            .iter()
            .filter(|node| matches!(self.kind(**node), NodeKind::End | NodeKind::Rest));
        let mut rules: Vec<RuleId> = ends.map(|node| self.rule(*node)).collect();
        // Nodes are ordered by rule, so those of one rule are neighbours.
        rules.dedup();
        rules
    }

    /// The globs that distinguish names below: those without wildcards and those with, each ascending.
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

    /// Which of these globs a name matches, ascending. A name matches at most one of the literal ones.
    pub(super) fn matched(&self, literal: &[GlobId], wild: &[GlobId], name: &[u8]) -> Vec<GlobId> {
        let name = GlobbedName::new(name);
        let mut matched: Vec<GlobId> = wild
            .iter()
            .copied()
            .filter(|glob| self.globs.get(*glob).matches(&name))
            .collect();
        let exact = self.globs.literal(name.bytes());
        if let Some(exact) = exact.filter(|exact| literal.binary_search(exact).is_ok()) {
            // At most one literal glob matches a name, so that a look-up replaces trying all of them.
            let index = matched.partition_point(|glob| *glob < exact);
            matched.insert(index, exact);
        }
        matched
    }

    /// The sets of globs that a name below can match: one step down for each.
    pub(super) fn letters(
        &self,
        nodes: &[NodeId],
        budget: &mut StepBudget,
    ) -> Result<Vec<Box<[GlobId]>>, BudgetSpent> {
        let (literal, wild) = self.globs(nodes);
        self.globs.matched_together(&literal, &wild, budget)
    }
}
