//! The privileges that a file gives to a process that executes it (set-user-id and set-group-id), and the
//! changes that remove them.
//!
//! With `HANDLE_KILLPRIV_V2` the kernel leaves this to the server. With a write or a truncation it reports
//! that the caller lacks `CAP_FSETID`; with `fallocate` and `copy_file_range` it does not, so the caller is
//! looked up. It also caches the old mode, and uses it when the file is executed: it is notified of the new
//! mode before its caller is answered.

use super::modes::ModeChecks;
use avfs_tree::{Attr, Ino, InodeKind, KnownInode, SetAttr};

use super::OneOwner;
use super::error::SkinError;
use crate::request::{CallerId, FuseRequest};

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;

impl ModeChecks<'_> {
    /// Removes the privileges of a file whose contents are about to be changed by a caller without
    /// `CAP_FSETID`.
    pub(super) fn drop_privileges(&self, request: &FuseRequest<'_>, at: KnownInode) -> Result<(), SkinError> {
        if let Some(mode) = self.mode_without_privileges(request.caller, at.ino)? {
            self.skin.tree.set_attr(
                at,
                SetAttr {
                    mode: Some(mode),
                    ..SetAttr::default()
                },
            )?;
            self.skin.notices.attributes_now(self.skin.nodes.node(at.ino));
        }
        Ok(())
    }

    /// The same if the kernel does not report whether the caller has `CAP_FSETID`.
    pub(super) fn drop_privileges_of_changed(
        &self,
        request: &FuseRequest<'_>,
        at: KnownInode,
    ) -> Result<(), SkinError> {
        let gives_any = self.skin.tree.attr(at.ino)?.meta.mode & (SET_UID | SET_GID) != 0;
        if gives_any
            && !CallerPrivileges::find(request.caller).is_some_and(|caller| caller.may_keep_privileges)
        {
            self.drop_privileges(request, at)
        } else {
            Ok(())
        }
    }

    /// `None` if there is nothing to remove. Set-group-id on a file that its group may not execute gives no
    /// privileges; it is removed for callers who are not in that group, as the kernel does elsewhere.
    pub(super) fn mode_without_privileges(
        &self,
        caller: CallerId,
        ino: Ino,
    ) -> Result<Option<u32>, SkinError> {
        let attr = self.skin.tree.attr(ino)?;
        let mode = attr.meta.mode;
        if attr.kind == InodeKind::Directory || mode & (SET_UID | SET_GID) == 0 {
            return Ok(None);
        }
        let keeps_group = mode & SET_GID != 0
            && mode & GROUP_EXECUTE == 0
            && CallerPrivileges::find(caller).is_some_and(|found| found.is_in(self.shown_group(&attr)));
        let dropped = SET_UID | if keeps_group { 0 } else { SET_GID };
        Ok((mode & dropped != 0).then_some(mode & !dropped))
    }

    fn shown_group(&self, attr: &Attr) -> u32 {
        self.skin
            .options
            .owner
            .map_or(attr.meta.gid, |OneOwner { gid, .. }| gid)
    }
}

/// Whether a caller is in a group. A caller that is not visible here counts only with its own group.
pub(super) fn is_in_group(caller: CallerId, group: u32) -> bool {
    caller.gid == group || CallerPrivileges::find(caller).is_some_and(|found| found.groups.contains(&group))
}

/// The credentials of a process that waits for an answer and so cannot change them.
#[derive(Debug, PartialEq, Eq)]
struct CallerPrivileges {
    /// Has `CAP_FSETID` in the initial user namespace, which the kernel checks.
    may_keep_privileges: bool,
    groups: Vec<u32>,
}

/// The value of `/proc/PID/ns/user` for the initial user namespace.
const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";
const CAP_FSETID: u64 = 1 << 4;

impl CallerPrivileges {
    /// `None` if the process is not visible here; it then has no rights.
    fn find(caller: CallerId) -> Option<CallerPrivileges> {
        let process = std::path::Path::new("/proc").join(caller.pid.to_string());
        let status = std::fs::read_to_string(process.join("status")).ok()?;
        let found = CallerPrivileges::parse(&status, caller)?;
        let namespace = std::fs::read_link(process.join("ns/user"));
        let is_first = namespace.is_ok_and(|namespace| namespace.as_os_str() == FIRST_USER_NAMESPACE);
        Some(CallerPrivileges {
            may_keep_privileges: found.may_keep_privileges && is_first,
            ..found
        })
    }

    /// Parses `/proc/PID/status`. `None` if it is a different process than the caller: one with the same
    /// number, in another PID namespace.
    fn parse(status: &str, caller: CallerId) -> Option<CallerPrivileges> {
        let line = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
        let numbers = |key: &str| -> Option<Vec<u32>> {
            line(key)?
                .split_whitespace()
                .map(|number| number.parse().ok())
                .collect()
        };
        // The fourth is the one that the kernel uses in a file system.
        let uid = *numbers("Uid:")?.get(3)?;
        let gid = *numbers("Gid:")?.get(3)?;
        if (uid, gid) != (caller.uid, caller.gid) {
            return None;
        }
        let capabilities = u64::from_str_radix(line("CapEff:")?.trim(), 16).ok()?;
        let mut groups = numbers("Groups:")?;
        groups.push(gid);
        Some(CallerPrivileges {
            may_keep_privileges: capabilities & CAP_FSETID != 0,
            groups,
        })
    }

    fn is_in(&self, group: u32) -> bool {
        self.may_keep_privileges || self.groups.contains(&group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tcat\nUid:\t0\t0\t0\t1000\nGid:\t5\t5\t5\t50\nGroups:\t4 24 27 \n\
                          CapPrm:\t000001ffffffffff\nCapEff:\t0000000000000010\n";

    fn caller(uid: u32, gid: u32) -> CallerId {
        CallerId { uid, gid, pid: 1 }
    }

    #[test]
    fn caller_is_known_by_groups_and_capability() {
        let found = CallerPrivileges::parse(STATUS, caller(1000, 50)).unwrap();
        assert_eq!(
            found,
            CallerPrivileges {
                may_keep_privileges: true,
                groups: vec![4, 24, 27, 50]
            }
        );
        let without = STATUS.replace("00000010", "ffffffef");
        let found = CallerPrivileges::parse(&without, caller(1000, 50)).unwrap();
        assert!(!found.may_keep_privileges && found.is_in(24) && found.is_in(50) && !found.is_in(5));
    }

    #[test]
    fn process_of_another_user_or_without_every_line_is_not_the_caller() {
        assert_eq!(CallerPrivileges::parse(STATUS, caller(0, 50)), None);
        assert_eq!(CallerPrivileges::parse(STATUS, caller(1000, 5)), None);
        for line in ["Uid:", "Gid:", "Groups:", "CapEff:"] {
            assert_eq!(
                CallerPrivileges::parse(&STATUS.replace(line, "Other:"), caller(1000, 50)),
                None,
                "{line}"
            );
        }
    }

    #[test]
    fn caller_that_is_not_visible_has_no_rights() {
        assert_eq!(
            CallerPrivileges::find(CallerId {
                uid: 0,
                gid: 0,
                pid: 0
            }),
            None
        );
    }
}
