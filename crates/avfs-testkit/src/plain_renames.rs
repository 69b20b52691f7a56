//! File systems that only support plain renames.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// From now on this process can neither exchange names nor rename without replacing: both are refused as by a
/// file system that supports neither.
pub fn only_plain_renames() {
    let with_flags = SeccompCondition::new(4, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0).unwrap();
    let rules = BTreeMap::from([(
        libc::SYS_renameat2,
        vec![SeccompRule::new(vec![with_flags]).unwrap()],
    )]);
    let refused = SeccompAction::Errno(libc::EINVAL.unsigned_abs());
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter_all_threads(&program).unwrap();
}
