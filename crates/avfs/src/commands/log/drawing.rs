//! Lanes, forks and merges as characters. Knows nothing of vaults.

/// A point on a lane. Nodes are given newest first, so the parents of a node are further down.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub lane: usize,
    /// For the oldest node of a fork: the node that it was forked from.
    pub base: Option<usize>,
    /// Nodes of other lanes that were merged into this one.
    pub merges: Vec<usize>,
    pub glyph: char,
}

/// One line of the drawing: a node, or only connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphRow {
    pub node: Option<usize>,
    pub cells: Vec<GraphCell>,
}

/// One column of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphCell {
    pub glyph: char,
    /// The separator between this column and the next.
    pub gap: char,
    /// The lane in this column, for its colour.
    pub lane: Option<usize>,
}

/// Draws the nodes. `parents` holds for each lane the one that it was forked from; that one is always drawn
/// further left.
pub fn draw(nodes: &[Node], parents: &[Option<usize>]) -> Vec<GraphRow> {
    let mut nodes_left = vec![0; parents.len()];
    nodes.iter().for_each(|node| nodes_left[node.lane] += 1);
    let places = vec![None; parents.len()];
    let mut drawing = GraphDrawing {
        nodes,
        parents,
        nodes_left,
        places,
        columns: Vec::new(),
        waiting: Vec::new(),
        rows: vec![],
    };
    for index in 0..nodes.len() {
        drawing.node(index);
    }
    drawing.rows
}

struct GraphDrawing<'a> {
    nodes: &'a [Node],
    parents: &'a [Option<usize>],
    /// The number of remaining nodes of each lane.
    nodes_left: Vec<usize>,
    /// The column of each lane.
    places: Vec<Option<usize>>,
    columns: Vec<Column>,
    /// Lanes whose nodes are drawn and that continue to the node from which they were forked.
    waiting: Vec<(usize, usize)>,
    rows: Vec<GraphRow>,
}

#[derive(Clone, Copy, Default)]
struct Column {
    lane: Option<usize>,
    /// Whether its line is being drawn, or the column is only reserved for it.
    open: bool,
}

impl GraphDrawing<'_> {
    fn node(&mut self, index: usize) {
        let lane = self.nodes[index].lane;
        let column = self.place(lane);
        self.join_forks(index, column);
        self.columns[column].open = true;
        self.node_row(index, column);
        self.nodes_left[lane] -= 1;
        // The oldest node of a lane: below it the lane leads to its base, or ends.
        let ends = self.nodes_left[lane] == 0;
        match self.nodes[index].base {
            Some(base) if ends => self.waiting.push((lane, base)),
            _ => {}
        }
        let closes = ends && self.nodes[index].base.is_none();
        self.branch_merges(index, column, closes);
        if closes {
            self.free(lane);
        }
    }

    /// The column of a lane; the first time, the leftmost free one that is right of its parent's.
    fn place(&mut self, lane: usize) -> usize {
        if let Some(column) = self.places[lane] {
            return column;
        }
        // A parent without nodes left has no line to stay right of.
        let parent = self.parents[lane].filter(|parent| self.nodes_left[*parent] > 0);
        let first = parent.map_or(0, |parent| self.place(parent) + 1);
        let free = (first..self.columns.len()).find(|column| self.columns[*column].lane.is_none());
        let column = free.unwrap_or(self.columns.len().max(first));
        self.columns
            .resize(self.columns.len().max(column + 1), Column::default());
        self.columns[column] = Column {
            lane: Some(lane),
            open: false,
        };
        self.places[lane] = Some(column);
        column
    }

    fn free(&mut self, lane: usize) {
        if let Some(column) = self.places[lane].take() {
            self.columns[column] = Column::default();
        }
    }

    /// Ends the lanes that were forked from this node.
    fn join_forks(&mut self, index: usize, column: usize) {
        let (ending, waiting) = self.waiting.iter().partition(|(_, base)| *base == index);
        self.waiting = waiting;
        let ending: Vec<(usize, usize)> = ending;
        let joined: Vec<usize> = ending.iter().filter_map(|(lane, _)| self.places[*lane]).collect();
        if joined.is_empty() {
            return;
        }
        let mut after = self.columns.clone();
        joined.iter().for_each(|end| after[*end].open = false);
        // The connections lead into the column of the node, which is drawn next.
        after[column].open = true;
        self.connection_row(column, &joined, &after);
        ending.iter().for_each(|(lane, _)| self.free(*lane));
    }

    /// Begins the lines that lead to the nodes merged into this one.
    fn branch_merges(&mut self, index: usize, column: usize, closes: bool) {
        let lanes: Vec<usize> = self.nodes[index]
            .merges
            .iter()
            .map(|merged| self.nodes[*merged].lane)
            .collect();
        let targets: Vec<usize> = lanes.into_iter().map(|lane| self.place(lane)).collect();
        if targets.is_empty() {
            return;
        }
        let mut after = self.columns.clone();
        targets.iter().for_each(|target| after[*target].open = true);
        after[column].open = !closes;
        self.connection_row(column, &targets, &after);
    }

    fn node_row(&mut self, index: usize, column: usize) {
        let cells = self.columns.iter().enumerate().map(|(at, state)| {
            let line = if state.open { '│' } else { ' ' };
            let glyph = if at == column {
                self.nodes[index].glyph
            } else {
                line
            };
            GraphCell {
                glyph,
                gap: ' ',
                lane: state.lane,
            }
        });
        let cells = trimmed(cells.collect());
        self.rows.push(GraphRow {
            node: Some(index),
            cells,
        });
    }

    /// A line that connects a column with others, between the columns that are open now and those that are
    /// open `after`.
    fn connection_row(&mut self, column: usize, others: &[usize], after: &[Column]) {
        let left = others.iter().copied().fold(column, usize::min);
        let right = others.iter().copied().fold(column, usize::max);
        let cells = self
            .columns
            .iter()
            .zip(after)
            .enumerate()
            .map(|(at, (before, after))| {
                let spans = |from: usize, to: usize| from <= at && at <= to;
                let to_left = spans(left + 1, right);
                let to_right = at < right && spans(left, right);
                let glyph = corner(before.open, after.open, to_left, to_right);
                GraphCell {
                    glyph,
                    gap: if to_right { '─' } else { ' ' },
                    lane: before.lane,
                }
            });
        let cells = trimmed(cells.collect());
        self.rows.push(GraphRow { node: None, cells });
        self.columns.copy_from_slice(after);
    }
}

fn trimmed(mut cells: Vec<GraphCell>) -> Vec<GraphCell> {
    let end = cells
        .iter()
        .rposition(|cell| cell.glyph != ' ')
        .map_or(0, |last| last + 1);
    cells.truncate(end);
    cells
}

/// The character with lines in these directions.
fn corner(up: bool, down: bool, left: bool, right: bool) -> char {
    match (up, down, left, right) {
        (true, true, true, true) => '┼',
        (true, true, true, false) => '┤',
        (true, true, false, true) => '├',
        (true, true, false, false) => '│',
        (true, false, true, true) => '┴',
        (true, false, true, false) => '╯',
        (true, false, false, true) => '╰',
        (false, true, true, true) => '┬',
        (false, true, true, false) => '╮',
        (false, true, false, true) => '╭',
        (false, false, true, _) | (false, false, _, true) => '─',
        (true, false, false, false) | (false, true, false, false) => '│',
        (false, false, false, false) => ' ',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(lane: usize) -> Node {
        Node {
            lane,
            glyph: '●',
            ..Node::default()
        }
    }

    fn from(lane: usize, base: usize) -> Node {
        Node {
            base: Some(base),
            ..node(lane)
        }
    }

    fn merging(lane: usize, merged: usize) -> Node {
        Node {
            merges: vec![merged],
            ..node(lane)
        }
    }

    #[track_caller]
    fn check(nodes: &[Node], parents: &[Option<usize>], expected: &[&str]) {
        let rows = draw(nodes, parents);
        let lines: Vec<String> = rows
            .iter()
            .map(|row| {
                row.cells
                    .iter()
                    .flat_map(|cell| [cell.glyph, cell.gap])
                    .collect::<String>()
            })
            .map(|line| line.trim_end().to_owned())
            .collect();
        assert_eq!(lines, expected, "\n{}\n", lines.join("\n"));
    }

    #[test]
    fn one_lane_is_a_line() {
        check(&[node(0), node(0)], &[None], &["●", "●"]);
    }

    #[test]
    fn a_fork_ends_where_it_began() {
        let nodes = [node(0), node(1), from(1, 3), node(0)];
        check(&nodes, &[None, Some(0)], &["●", "│ ●", "│ ●", "├─╯", "●"]);
    }

    #[test]
    fn a_fork_that_is_newer_than_its_parent_leaves_room_for_it() {
        check(&[from(1, 1), node(0)], &[None, Some(0)], &["  ●", "╭─╯", "●"]);
    }

    #[test]
    fn several_forks_of_one_node_end_together() {
        let nodes = [node(0), from(2, 3), from(1, 3), node(0)];
        check(
            &nodes,
            &[None, Some(0), Some(0)],
            &["●", "│ ●", "│ │ ●", "├─┴─╯", "●"],
        );
    }

    #[test]
    fn a_line_crosses_the_lanes_between() {
        // The fork 2 began before the fork 1 did.
        let nodes = [node(0), node(1), from(2, 4), from(1, 5), node(0), node(0)];
        let expected = ["●", "│ ●", "│ │ ●", "│ ● │", "├─┼─╯", "● │", "├─╯", "●"];
        check(&nodes, &[None, Some(0), Some(0)], &expected);
    }

    #[test]
    fn a_merge_leads_to_what_was_merged() {
        let nodes = [merging(0, 1), node(1), from(1, 3), node(0)];
        check(&nodes, &[None, Some(0)], &["●", "├─╮", "│ ●", "│ ●", "├─╯", "●"]);
    }

    #[test]
    fn a_merge_with_a_lane_that_went_on_meets_its_line() {
        let nodes = [node(1), merging(0, 2), from(1, 3), node(0)];
        check(
            &nodes,
            &[None, Some(0)],
            &["  ●", "● │", "├─┤", "│ ●", "├─╯", "●"],
        );
    }

    #[test]
    fn a_free_column_is_used_again() {
        let nodes = [node(0), from(1, 2), node(0), from(2, 4), node(0)];
        let expected = ["●", "│ ●", "├─╯", "●", "│ ●", "├─╯", "●"];
        check(&nodes, &[None, Some(0), Some(0)], &expected);
    }
}
