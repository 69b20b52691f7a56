//! A filter that allows a list of calls and nothing else, by ranges of their numbers.
//!
//! The kernel runs a new filter once for every system call number, and loads it for every run. Comparing with
//! hundreds of numbers one after the other costs each run about half a millisecond; the same list has few
//! ranges.

use std::ops::RangeInclusive;

use libc::c_long;
use seccompiler::{BpfProgram, sock_filter};

/// Answers with `listed` to the calls of the list and with `otherwise` to all others. It does not check the
/// architecture, which another filter must do. `None` if the list has too many ranges.
pub(super) fn program(calls: &[c_long], listed: u32, otherwise: u32) -> Option<BpfProgram> {
    let ranges = ranges(calls)?;
    let mut program = vec![load_number()];
    for (at, range) in ranges.iter().enumerate() {
        // Both answers come after the two instructions of each following range.
        let to_listed = u8::try_from(2 * (ranges.len() - at - 1) + 1).ok()?;
        // Above the range, the next one is checked; below it, no remaining range can contain the number.
        program.push(if_at_least(range.end().checked_add(1)?, 1, 0));
        program.push(if_at_least(*range.start(), to_listed, to_listed - 1));
    }
    program.extend([answer(otherwise), answer(listed)]);
    Some(program)
}

/// The list as ranges, from the lowest to the highest.
fn ranges(calls: &[c_long]) -> Option<Vec<RangeInclusive<u32>>> {
    let mut numbers: Vec<u32> = calls
        .iter()
        .map(|call| u32::try_from(*call).ok())
        .collect::<Option<_>>()?;
    numbers.sort_unstable();
    numbers.dedup();
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    Some(
        runs.filter_map(|run| Some(*run.first()?..=*run.last()?))
            .collect(),
    )
}

/// The number is the first field of a filter's input.
fn load_number() -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)
}

fn if_at_least(number: u32, then: u8, otherwise: u8) -> sock_filter {
    instruction(
        libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
        then,
        otherwise,
        number,
    )
}

fn answer(action: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, action)
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::table;

    const LISTED: u32 = 1;
    const OTHERWISE: u32 = 2;

    /// The answer of a program of these instructions to a number.
    fn run(program: &[sock_filter], number: u32) -> u32 {
        let mut at = 0;
        loop {
            let step = &program[at];
            at += 1;
            match u32::from(step.code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => assert_eq!(step.k, 0),
                code if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => {
                    at += usize::from(if number >= step.k { step.jt } else { step.jf });
                }
                code if code == libc::BPF_RET | libc::BPF_K => return step.k,
                code => panic!("instruction {code:#x}"),
            }
        }
    }

    #[track_caller]
    fn check(calls: &[c_long]) {
        let program = program(calls, LISTED, OTHERWISE).unwrap();
        const X32: u32 = 0x4000_0000;
        let edges = [X32 - 1, X32, X32 + 1, X32 + 59, u32::MAX - 1, u32::MAX];
        for number in (0..2000).chain(X32..X32 + 600).chain(edges) {
            let expected = if calls.contains(&c_long::from(number)) {
                LISTED
            } else {
                OTHERWISE
            };
            assert_eq!(run(&program, number), expected, "{number} of {calls:?}");
        }
    }

    #[test]
    fn exactly_the_list_is_allowed() {
        check(table::ALLOWED);
        check(&[]);
        check(&[0]);
        check(&[7, 5, 6, 6, 9]);
        check(&[0, 2, 4, 1999]);
    }

    #[test]
    fn a_list_that_does_not_fit_has_no_filter() {
        let scattered: Vec<c_long> = (0..200).map(|number| 2 * number).collect();
        assert!(program(&scattered, LISTED, OTHERWISE).is_none());
        assert!(program(&[-1], LISTED, OTHERWISE).is_none());
    }

    #[test]
    fn the_filter_is_short() {
        let steps = program(table::ALLOWED, LISTED, OTHERWISE).unwrap().len();
        assert!(steps < 200, "{steps} instructions");
    }
}
