//! The table for people, and the same as JSON. Times are medians over the rounds. A ratio compares a target with
//! the host directory in the same round; beside the median stand the smallest and the largest.

use serde::Serialize;
use serde_json::{Value, json};

use super::requests::Requests;
use super::small_files::{ONE_CLIENT, TWO_CLIENTS};
use super::{Results, Step, Taken};

pub struct Table {
    rows: Vec<Row>,
    labels: Vec<String>,
}

#[derive(Serialize)]
struct Row {
    step: &'static str,
    cells: Vec<Cell>,
}

/// One step in one target.
#[derive(Serialize)]
struct Cell {
    target: String,
    median_ms: f64,
    /// Median, smallest, largest.
    ratio: [f64; 3],
    us_per_operation: Option<f64>,
    requests: Option<Requests>,
    us_per_request: Option<f64>,
}

impl Table {
    pub fn new(labels: &[&str], steps: &[Step], results: &Results) -> Table {
        let row = |step: &Step| {
            let host = results.of(step.name, labels[0]);
            let cell = |label: &&str| Cell::new(label, results.of(step.name, label), host);
            Row { step: step.name, cells: labels.iter().map(cell).collect() }
        };
        Table {
            rows: steps.iter().map(row).collect(),
            labels: labels.iter().map(|&l| l.to_owned()).collect(),
        }
    }

    pub fn print(&self) {
        let labels = self.labels.iter().enumerate();
        println!("{:<31}{}", "", labels.map(|(index, label)| pad(index, label)).collect::<String>());
        let headings = (0..self.labels.len()).map(heading);
        println!("{:<31}{}", "step", headings.collect::<String>());
        for row in &self.rows {
            let cells = row.cells.iter().enumerate().map(|(index, cell)| cell.show(index == 0));
            println!("{:<31}{}", row.step, cells.collect::<String>());
        }
        for (label, gain) in self.gains() {
            println!("two clients do {gain:.2} times the work of one: {label}");
        }
    }

    pub fn json(&self) -> Value {
        let gains: Vec<Value> = self
            .gains()
            .iter()
            .map(|(label, gain)| json!({ "target": label, "two_over_one": gain }))
            .collect();
        json!({ "steps": self.rows, "clients": gains })
    }

    /// How much more two clients get done than one, for each target.
    fn gains(&self) -> Vec<(&str, f64)> {
        let cells = |name| self.rows.iter().find(|row| row.step == name).map(|row| &row.cells);
        let (Some(one), Some(two)) = (cells(ONE_CLIENT), cells(TWO_CLIENTS)) else { return Vec::new() };
        let gain = |(one, two): (&Cell, &Cell)| Some(one.us_per_operation? / two.us_per_operation?);
        let labelled = self.labels.iter().zip(one.iter().zip(two));
        labelled.filter_map(|(label, pair)| Some((label.as_str(), gain(pair)?))).collect()
    }
}

impl Cell {
    fn new(label: &str, taken: &[Taken], host: &[Taken]) -> Cell {
        let seconds = |taken: &[Taken]| taken.iter().map(|one| one.time.as_secs_f64()).collect::<Vec<f64>>();
        let (own, host) = (sorted(seconds(taken)), seconds(host));
        let ratios = sorted(seconds(taken).iter().zip(&host).map(|(own, host)| own / host).collect());
        let median_s = middle(&own);
        let micros_per = |count: u64| (count > 0).then(|| median_s * 1e6 / count as f64);
        let last = taken.last();
        let requests = last.and_then(|last| last.requests.clone());
        Cell {
            target: label.to_owned(),
            median_ms: median_s * 1e3,
            ratio: [middle(&ratios), first(&ratios), middle(&ratios[ratios.len().saturating_sub(1)..])],
            us_per_operation: last.and_then(|last| last.operations).and_then(micros_per),
            us_per_request: requests.as_ref().and_then(|requests| micros_per(requests.total)),
            requests,
        }
    }

    /// The host is compared with nothing.
    fn show(&self, is_host: bool) -> String {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        let own = format!("{:>10.1} {:>8}", self.median_ms, number(self.us_per_operation));
        if is_host {
            return own;
        }
        let [ratio, least, most] = self.ratio;
        let ratio = format!("{ratio:.2} ({least:.2}–{most:.2})");
        let requests = self.requests.as_ref().map_or("-".to_owned(), |requests| requests.total.to_string());
        format!("{own} {ratio:>20} {requests:>9} {:>7}", number(self.us_per_request))
    }
}

fn heading(index: usize) -> String {
    let own = format!("{:>10} {:>8}", "ms", "µs/op");
    match index {
        0 => own,
        _ => format!("{own} {:>20} {:>9} {:>7}", "ratio (min–max)", "requests", "µs/req"),
    }
}

/// A label over its columns.
fn pad(index: usize, label: &str) -> String {
    format!("{label:>width$}", width = heading(index).chars().count())
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn first(values: &[f64]) -> f64 {
    values.first().copied().unwrap_or(f64::NAN)
}

fn middle(values: &[f64]) -> f64 {
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
