//! Counters, in the text form of Prometheus. A tenant sees its own and no others.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentvfs::exec::FinishedRun;

use crate::service::Tenant;

/// What is counted of a tenant.
#[derive(Default)]
pub(crate) struct TenantCounters {
    requests: [AtomicU64; 5],
    request_micros: AtomicU64,
    runs: AtomicU64,
    runs_failed: AtomicU64,
    run_micros: AtomicU64,
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl TenantCounters {
    /// A request that was answered with this status.
    pub fn count_request(&self, status: u16, took: Duration) {
        if let Some(counter) = self.requests.get(usize::from(status / 100).wrapping_sub(1)) {
            add(counter, 1);
        }
        add(&self.request_micros, micros(took));
    }

    pub fn count_run(&self, finished: &FinishedRun) {
        add(&self.runs, 1);
        let process = finished.outcome.process.as_ref();
        if finished.error.is_some() || process.is_none_or(|process| !process.is_success()) {
            add(&self.runs_failed, 1);
        }
        add(
            &self.run_micros,
            process.map_or(0, |process| micros(process.duration)),
        );
    }
}

/// One family of numbers.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    /// The labels besides the tenant, and the number.
    numbers: fn(&Tenant) -> Vec<(String, f64)>,
}

fn of(counter: &AtomicU64) -> f64 {
    counter.load(Ordering::Relaxed) as f64
}

fn one(number: f64) -> Vec<(String, f64)> {
    vec![(String::new(), number)]
}

const FAMILIES: &[Family] = &[
    Family {
        name: "avfs_requests_total",
        kind: "counter",
        help: "Requests that were answered, by the class of their status.",
        numbers: |tenant| {
            let counted = tenant.counters().requests.iter().zip(1..);
            let labelled = counted.map(|(counter, class)| (format!(",status=\"{class}xx\""), of(counter)));
            labelled.collect()
        },
    },
    Family {
        name: "avfs_request_seconds_total",
        kind: "counter",
        help: "Time that requests took until their answer began.",
        numbers: |tenant| one(of(&tenant.counters().request_micros) / 1e6),
    },
    Family {
        name: "avfs_runs_total",
        kind: "counter",
        help: "Commands that have ended.",
        numbers: |tenant| one(of(&tenant.counters().runs)),
    },
    Family {
        name: "avfs_runs_failed_total",
        kind: "counter",
        help: "Those of them that did not exit with 0.",
        numbers: |tenant| one(of(&tenant.counters().runs_failed)),
    },
    Family {
        name: "avfs_run_seconds_total",
        kind: "counter",
        help: "Time that commands took.",
        numbers: |tenant| one(of(&tenant.counters().run_micros) / 1e6),
    },
    Family {
        name: "avfs_sandboxes",
        kind: "gauge",
        help: "Sandboxes that exist.",
        numbers: |tenant| one(tenant.all_sandboxes().len() as f64),
    },
    Family {
        name: "avfs_sandboxes_open",
        kind: "gauge",
        help: "Sandboxes in which a command starts at once.",
        numbers: |tenant| {
            let all = tenant.all_sandboxes();
            one(all.iter().filter(|sandbox| sandbox.is_open()).count() as f64)
        },
    },
    Family {
        name: "avfs_sandboxes_warm",
        kind: "gauge",
        help: "Sandboxes that are ready before anybody asks for them.",
        numbers: |tenant| one(tenant.warm().0 as f64),
    },
    Family {
        name: "avfs_sandboxes_warm_taken_total",
        kind: "counter",
        help: "Sandboxes that were ready when somebody asked for one.",
        numbers: |tenant| one(tenant.warm().1 as f64),
    },
    Family {
        name: "avfs_disk_bytes",
        kind: "gauge",
        help: "What everything of the tenant takes up, as measured last; 0 without a limit.",
        numbers: |tenant| one(tenant.disk_bytes() as f64),
    },
    Family {
        name: "avfs_processes",
        kind: "gauge",
        help: "Commands that run.",
        numbers: |tenant| one(tenant.running() as f64),
    },
];

/// The numbers of these tenants.
pub(crate) fn text(tenants: &[std::sync::Arc<Tenant>]) -> String {
    let mut text = String::new();
    for family in FAMILIES {
        let Family {
            name,
            kind,
            help,
            numbers,
        } = family;
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for tenant in tenants {
            for (labels, number) in numbers(tenant) {
                // The name of a tenant has no character that would have to be escaped.
                let _ = writeln!(text, "{name}{{tenant=\"{}\"{labels}}} {number}", tenant.name);
            }
        }
    }
    text
}
