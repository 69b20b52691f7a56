//! The CPUs, and which of our threads serves which of the kernel's queues.
//!
//! The kernel has one queue for each possible CPU, and uses none before all have an entry. It puts a request
//! into the queue of the CPU on which the caller runs. So each CPU on which we may run gets a thread of its
//! own, and the queues of the others are distributed among these threads.

use std::io;

use rustix::thread::CpuSet;

/// A list of ranges, as `0-3,8`.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// A planned thread: its CPU, and the queues that it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuPlace {
    pub cpu: usize,
    pub queues: Vec<u16>,
}

pub(super) fn places() -> io::Result<Vec<CpuPlace>> {
    let possible = std::fs::read_to_string(POSSIBLE)?;
    let possible =
        count(&possible).ok_or_else(|| io::Error::other(format!("{POSSIBLE} is no list of CPUs")))?;
    let ours = rustix::thread::sched_getaffinity(None)?;
    let ours = (0..CpuSet::MAX_CPU).filter(|cpu| ours.is_set(*cpu)).collect();
    Ok(share_out(possible, ours))
}

fn share_out(possible: u16, mut ours: Vec<usize>) -> Vec<CpuPlace> {
    ours.retain(|cpu| *cpu < usize::from(possible));
    if ours.is_empty() {
        ours.push(0);
    }
    let mut places: Vec<CpuPlace> = ours
        .into_iter()
        .map(|cpu| CpuPlace {
            cpu,
            queues: Vec::new(),
        })
        .collect();
    for queue in 0..possible {
        let own = places.iter().position(|place| place.cpu == usize::from(queue));
        let place = own.unwrap_or(usize::from(queue) % places.len());
        places[place].queues.push(queue);
    }
    places
}

fn count(list: &str) -> Option<u16> {
    let ranges = list.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    });
    ranges.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_counted() {
        let lists = [
            ("0\n", Some(1)),
            ("0-1\n", Some(2)),
            ("0-3,8,10-11", Some(7)),
            ("", None),
            ("3-1", None),
        ];
        for (list, expected) in lists {
            assert_eq!(count(list), expected, "{list:?}");
        }
    }

    #[test]
    fn every_queue_has_one_thread() {
        let place = |cpu, queues: &[u16]| CpuPlace {
            cpu,
            queues: queues.to_vec(),
        };
        assert_eq!(share_out(2, vec![0, 1]), [place(0, &[0]), place(1, &[1])]);
        assert_eq!(
            share_out(5, vec![1, 3]),
            [place(1, &[0, 1, 2, 4]), place(3, &[3])]
        );
        assert_eq!(share_out(2, vec![]), [place(0, &[0, 1])]);
        assert_eq!(share_out(1, vec![0, 1]), [place(0, &[0])]);
    }
}
