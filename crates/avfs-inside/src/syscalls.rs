//! The system calls that a command can make.
//!
//! Two filters are installed one after the other. The first allows a list and answers ENOSYS to everything
//! else, as an older kernel would: to numbers of the x32 interface, to calls that are newer than this list,
//! and to `clone3`, whose flags are in memory that filters cannot read; C libraries then use `clone`. The
//! second answers EPERM to known calls that are refused, where programs expect a permission error, and kills
//! a process that makes calls of another architecture (32 bits). Under Landlock alone, a third one answers
//! EOPNOTSUPP to calls that read file attributes which Landlock does not cover.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use crate::spec::{SocketKinds, StageRole};

mod listed;
mod neighbours;
mod table;

/// Why there is no filter.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterError {
    #[error("system calls cannot be filtered on {}", std::env::consts::ARCH)]
    Architecture,
    #[error("the list of system calls does not fit into a filter")]
    List,
    #[error("the filter of system calls is wrong: {0}")]
    Filter(#[from] seccompiler::BackendError),
}

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// The filters for a run, in the order in which they are installed: if both refuse, the later one determines
/// the error.
pub(crate) fn filters(sockets: SocketKinds, standing: StageRole) -> Result<Vec<BpfProgram>, FilterError> {
    let unknown = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    let calls = match standing {
        StageRole::Init => table::ALLOWED.to_vec(),
        StageRole::Keeper => neighbours::without_absent(table::ALLOWED),
    };
    let allowed = listed::program(&calls, libc::SECCOMP_RET_ALLOW, unknown);
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let mut filters = vec![
        allowed.ok_or(FilterError::List)?,
        program(refusals(sockets, standing)?, SeccompAction::Allow, refused)?,
    ];
    match standing {
        StageRole::Init => {}
        StageRole::Keeper => {
            let unsupported = SeccompAction::Errno(libc::EOPNOTSUPP.unsigned_abs());
            filters.push(program(
                neighbours::unsupported(),
                SeccompAction::Allow,
                unsupported,
            )?);
        }
    }
    Ok(filters)
}

fn program(
    rules: Rules,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, FilterError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|_| FilterError::Architecture)?;
    Ok(SeccompFilter::new(rules, otherwise, matched, arch)?.try_into()?)
}

fn refusals(sockets: SocketKinds, standing: StageRole) -> Result<Rules, FilterError> {
    let mut rules: Rules = table::REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_clone, new_namespaces()?);
    rules.insert(libc::SYS_ioctl, terminal_input()?);
    rules.insert(libc::SYS_personality, odd_personalities()?);
    rules.insert(libc::SYS_mknodat, devices(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_mknod, devices(1)?);
    if let Some(families) = families(sockets)? {
        rules.insert(libc::SYS_socket, families);
    }
    if sockets != SocketKinds::All {
        rules.insert(libc::SYS_socketpair, datagram_pairs()?);
    }
    match standing {
        StageRole::Init => {}
        StageRole::Keeper => neighbours::refuse(&mut rules)?,
    }
    Ok(rules)
}

/// A condition on the lower half of an argument: the kernel treats all of these as `int` or `unsigned int`.
fn when(argument: u8, op: SeccompCmpOp, value: u32) -> Result<SeccompCondition, FilterError> {
    Ok(SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        op,
        u64::from(value),
    )?)
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, FilterError> {
    Ok(SeccompRule::new(conditions)?)
}

/// One rule for each value: any of them matches.
fn any(argument: u8, mask: u64, values: &[u32]) -> Result<Vec<SeccompRule>, FilterError> {
    values
        .iter()
        .map(|value| rule(vec![when(argument, SeccompCmpOp::MaskedEq(mask), *value)?]))
        .collect()
}

fn new_namespaces() -> Result<Vec<SeccompRule>, FilterError> {
    let flags = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    flags
        .iter()
        .map(|flag| rule(vec![has_bit(0, flag.cast_unsigned())?]))
        .collect()
}

fn has_bit(argument: u8, bit: u32) -> Result<SeccompCondition, FilterError> {
    when(argument, SeccompCmpOp::MaskedEq(u64::from(bit)), bit)
}

/// Inserting characters into a terminal as if they had been typed there.
fn terminal_input() -> Result<Vec<SeccompRule>, FilterError> {
    const TIOCLINUX: u32 = 0x541C;
    const TIOCSTI: u32 = 0x5412;
    any(1, u64::from(u32::MAX), &[TIOCSTI, TIOCLINUX])
}

/// Everything but the default personality, querying it, and disabled address randomisation.
fn odd_personalities() -> Result<Vec<SeccompRule>, FilterError> {
    const ADDR_NO_RANDOMIZE: u32 = 0x0004_0000;
    let not = |value| when(0, SeccompCmpOp::Ne, value);
    Ok(vec![rule(vec![
        not(0)?,
        not(u32::MAX)?,
        not(ADDR_NO_RANDOMIZE)?,
    ])?])
}

fn devices(mode_argument: u8) -> Result<Vec<SeccompRule>, FilterError> {
    any(
        mode_argument,
        u64::from(libc::S_IFMT),
        &[libc::S_IFCHR, libc::S_IFBLK],
    )
}

/// The families of sockets that are refused. Programs use routing messages to list their interfaces.
fn families(sockets: SocketKinds) -> Result<Option<Vec<SeccompRule>>, FilterError> {
    let families: &[i32] = match sockets {
        SocketKinds::All => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
        SocketKinds::Internet => &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
        SocketKinds::Pairs => return Ok(Some(Vec::new())),
    };
    let not_listed: Result<Vec<_>, _> = families
        .iter()
        .map(|family| when(0, SeccompCmpOp::Ne, family.cast_unsigned()))
        .collect();
    let other_netlink = vec![
        when(0, SeccompCmpOp::Eq, libc::AF_NETLINK.cast_unsigned())?,
        when(2, SeccompCmpOp::Ne, libc::NETLINK_ROUTE.cast_unsigned())?,
    ];
    Ok(Some(vec![rule(not_listed?)?, rule(other_netlink)?]))
}

/// Each half of a datagram pair can send to any local address; stream pairs stay connected to each other.
fn datagram_pairs() -> Result<Vec<SeccompRule>, FilterError> {
    any(
        1,
        0xf,
        &[libc::SOCK_DGRAM.cast_unsigned(), libc::SOCK_RAW.cast_unsigned()],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_sockets_has_filters_that_the_kernel_can_take() {
        const LONGEST_FILTER: usize = 4096;
        for sockets in [SocketKinds::All, SocketKinds::Internet, SocketKinds::Pairs] {
            for program in [StageRole::Init, StageRole::Keeper]
                .map(|one| filters(sockets, one).unwrap())
                .concat()
            {
                assert!(
                    (10..=LONGEST_FILTER).contains(&program.len()),
                    "{} instructions",
                    program.len()
                );
            }
        }
    }

    #[test]
    fn no_call_is_both_allowed_and_refused() {
        let both: Vec<_> = table::REFUSED
            .iter()
            .filter(|call| table::ALLOWED.contains(call))
            .collect();
        assert!(both.is_empty(), "{both:?}");
        assert!(!table::ALLOWED.contains(&libc::SYS_clone3));
    }
}
