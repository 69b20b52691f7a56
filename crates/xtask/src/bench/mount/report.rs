//! The tables for people, and the same as JSON. Times are medians over the rounds. A ratio compares a target
//! with the host directory in the same round; the smallest and the largest follow the median.

use serde::Serialize;
use serde_json::{Value, json};

use super::floor::Floor;
use super::requests::{Requests, Serving};
use super::small_files::{ONE_CLIENT, TWO_CLIENTS};
use super::{Results, Step, Taken};

pub struct Table {
    rows: Vec<Row>,
    targets: Vec<Summary>,
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
    /// The best round, for a machine with other load.
    least_ms: f64,
    /// Median, smallest, largest.
    ratio: [f64; 3],
    us_per_operation: Option<f64>,
    requests: Option<Requests>,
    us_per_request: Option<f64>,
    /// The time of the same requests over the same transport without serving.
    floor_ms: Option<f64>,
    serving_us: Option<Quantiles>,
}

/// The results of a target over all steps.
#[derive(Serialize)]
struct Summary {
    target: String,
    floor_us: Option<Floor>,
    serving_us: Option<Quantiles>,
    /// The throughput of two clients over that of one.
    two_clients_over_one: Option<f64>,
}

/// How long serving a request took: upper ends of the buckets that hold the median and the 99th percentile.
#[derive(Clone, Copy, Serialize)]
struct Quantiles {
    median: f64,
    p99: f64,
}

impl Table {
    pub fn new(labels: &[&str], steps: &[Step], results: &Results) -> Table {
        let row = |step: &Step| {
            let cell = |label: &&str| Cell::new(step, label, labels[0], results);
            Row {
                step: step.name,
                cells: labels.iter().map(cell).collect(),
            }
        };
        let rows: Vec<Row> = steps.iter().map(row).collect();
        let summary = |(index, label): (usize, &&str)| {
            let taken = steps.iter().flat_map(|step| results.of(step.name, label));
            Summary {
                target: (*label).to_owned(),
                floor_us: results.floor(label),
                serving_us: Quantiles::of(taken),
                two_clients_over_one: gain(&rows, index),
            }
        };
        let targets = labels.iter().enumerate().map(summary).collect();
        Table { rows, targets }
    }

    pub fn print(&self) {
        self.print_host();
        (1..self.targets.len()).for_each(|index| self.print_target(index));
        for summary in &self.targets {
            if let Some(gain) = summary.two_clients_over_one {
                println!(
                    "two clients do {gain:.2} times the work of one: {}",
                    summary.target
                );
            }
        }
    }

    fn print_host(&self) {
        println!(
            "{:<31}{:>10} {:>9} {:>8}",
            self.targets[0].target, "ms", "best", "µs/op"
        );
        for Row { step, cells } in &self.rows {
            let Cell {
                median_ms,
                least_ms,
                us_per_operation,
                ..
            } = &cells[0];
            println!(
                "{step:<31}{median_ms:>10.1} {least_ms:>9.1} {:>8}",
                number(*us_per_operation)
            );
        }
    }

    fn print_target(&self, index: usize) {
        let Summary {
            target,
            floor_us,
            serving_us,
            ..
        } = &self.targets[index];
        println!("\n{target:<31}{HEADING}");
        for row in &self.rows {
            if row.cells[index].median_ms.is_finite() {
                println!("{:<31}{}", row.step, row.cells[index].show());
            }
        }
        if let Some(floor) = floor_us {
            println!(
                "floor: {:.1} µs a request; a MiB written {:.0} µs, read {:.0} µs, read again {:.0} µs",
                floor.request, floor.written_mib, floor.read_mib, floor.warm_mib
            );
        }
        if let Some(Quantiles { median, p99 }) = serving_us {
            println!(
                "serving a request, over all steps: median below {median:.1} µs, 99 % below {p99:.1} µs"
            );
        }
    }

    pub fn json(&self) -> Value {
        json!({ "steps": self.rows, "targets": self.targets })
    }
}

/// The throughput of two clients over that of one in a target.
fn gain(rows: &[Row], index: usize) -> Option<f64> {
    let per_operation = |name| {
        let row = rows.iter().find(|row| row.step == name)?;
        row.cells[index].us_per_operation
    };
    Some(per_operation(ONE_CLIENT)? / per_operation(TWO_CLIENTS)?)
}

const HEADING: &str = concat!(
    "        ms      best    µs/op      ratio (min–max)  requests  µs/req",
    "     floor  ×floor  served 50 %    99 % µs"
);

impl Cell {
    fn new(step: &Step, label: &str, host: &str, results: &Results) -> Cell {
        let seconds = |taken: &[Taken]| {
            taken
                .iter()
                .map(|one| one.time.as_secs_f64())
                .collect::<Vec<f64>>()
        };
        let taken = results.of(step.name, label);
        let (own, host) = (seconds(taken), seconds(results.of(step.name, host)));
        let ratios = sorted(own.iter().zip(&host).map(|(own, host)| own / host));
        let (least_s, median_s) = (edge(sorted(own.iter().copied()).first()), median(own));
        let micros_per = |count: u64| (count > 0).then(|| median_s * 1e6 / count as f64);
        let last = taken.last();
        let requests = last.and_then(|last| last.requests.clone());
        let floor = requests.as_ref().zip(results.floor(label));
        Cell {
            target: label.to_owned(),
            median_ms: median_s * 1e3,
            least_ms: least_s * 1e3,
            ratio: [middle(&ratios), edge(ratios.first()), edge(ratios.last())],
            us_per_operation: last.and_then(|last| last.operations).and_then(micros_per),
            us_per_request: requests.as_ref().and_then(|requests| micros_per(requests.total)),
            floor_ms: floor.map(|(requests, floor)| floor.micros(requests.total, step.bulk) / 1e3),
            serving_us: Quantiles::of(taken),
            requests,
        }
    }

    fn show(&self) -> String {
        let [ratio, least, most] = self.ratio;
        let ratio = format!("{ratio:.2} ({least:.2}–{most:.2})");
        let requests = self
            .requests
            .as_ref()
            .map_or("-".to_owned(), |requests| requests.total.to_string());
        let above = self
            .floor_ms
            .filter(|floor| *floor > 0.0)
            .map(|floor| self.median_ms / floor);
        format!(
            "{:>10.1} {:>9.1} {:>8} {ratio:>20} {requests:>9} {:>7} {:>9} {:>7} {:>12} {:>10}",
            self.median_ms,
            self.least_ms,
            number(self.us_per_operation),
            number(self.us_per_request),
            number(self.floor_ms),
            number(above),
            number(self.serving_us.map(|serving| serving.median)),
            number(self.serving_us.map(|serving| serving.p99)),
        )
    }
}

impl Quantiles {
    fn of<'a>(taken: impl IntoIterator<Item = &'a Taken>) -> Option<Quantiles> {
        let mut all = Serving::default();
        let requests = taken.into_iter().filter_map(|one| one.requests.as_ref());
        requests.for_each(|requests| all.add(&requests.serving));
        Some(Quantiles {
            median: all.quantile_us(0.5)?,
            p99: all.quantile_us(0.99)?,
        })
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.1}"))
}

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    middle(&sorted(values))
}

fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

fn middle(values: &[f64]) -> f64 {
    edge(values.get(values.len() / 2))
}

fn edge(value: Option<&f64>) -> f64 {
    value.copied().unwrap_or(f64::NAN)
}
