//! The privileges that a file gives to whoever executes it (set-user-id and set-group-id), and which changes take them
//! away.
//!
//! With `HANDLE_KILLPRIV_V2` the kernel leaves this to the server. It says with a write or a truncation that the caller
//! lacks `CAP_FSETID`; with `fallocate` and `copy_file_range` it says nothing, so the caller is looked up. It also keeps
//! the mode that it knew, and goes by it when the file is executed: it is told of the new one before its caller is
//! answered.

use avfs_tree::{At, Attr, Ino, Kind, SetAttr};

use super::error::SkinError;
use super::{OneOwner, Skin};
use crate::request::{CallerId, Request};

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;

impl Skin {
    /// Takes the privileges of a file away, whose contents are about to be changed by a caller without `CAP_FSETID`.
    pub(super) fn drop_privileges(&self, request: &Request<'_>, at: At) -> Result<(), SkinError> {
        if let Some(mode) = self.mode_without_privileges(request.caller, at.ino)? {
            self.tree.set_attr(at, SetAttr { mode: Some(mode), ..SetAttr::default() })?;
            self.notices.attributes_now(self.nodes.node(at.ino));
        }
        Ok(())
    }

    /// The same where the kernel does not say whether the caller has `CAP_FSETID`.
    pub(super) fn drop_privileges_of_changed(&self, request: &Request<'_>, at: At) -> Result<(), SkinError> {
        let gives_any = self.tree.attr(at.ino)?.meta.mode & (SET_UID | SET_GID) != 0;
        match gives_any && !Caller::find(request.caller).is_some_and(|caller| caller.may_keep_privileges) {
            true => self.drop_privileges(request, at),
            false => Ok(()),
        }
    }

    /// `None` if there is nothing to be taken away. Set-group-id on a file that its group may not execute gives no
    /// privileges; it is taken away by callers who are not in that group, as the kernel does elsewhere.
    pub(super) fn mode_without_privileges(
        &self,
        caller: CallerId,
        ino: Ino,
    ) -> Result<Option<u32>, SkinError> {
        let attr = self.tree.attr(ino)?;
        let mode = attr.meta.mode;
        if attr.kind == Kind::Directory || mode & (SET_UID | SET_GID) == 0 {
            return Ok(None);
        }
        let keeps_group = mode & SET_GID != 0
            && mode & GROUP_EXECUTE == 0
            && Caller::find(caller).is_some_and(|found| found.is_in(self.shown_group(&attr)));
        let dropped = SET_UID | if keeps_group { 0 } else { SET_GID };
        Ok((mode & dropped != 0).then_some(mode & !dropped))
    }

    fn shown_group(&self, attr: &Attr) -> u32 {
        self.options.owner.map_or(attr.meta.gid, |OneOwner { gid, .. }| gid)
    }
}

/// Whether a caller is in a group. One that is not visible here is in its own alone.
pub(super) fn is_in_group(caller: CallerId, group: u32) -> bool {
    caller.gid == group || Caller::find(caller).is_some_and(|found| found.groups.contains(&group))
}

/// What decides about privileges, of a process that waits for an answer and so cannot change it.
#[derive(Debug, PartialEq, Eq)]
struct Caller {
    /// Has `CAP_FSETID` in the user namespace of the system: the kernel goes by that one.
    may_keep_privileges: bool,
    groups: Vec<u32>,
}

/// What `/proc/PID/ns/user` shows for the user namespace that is there from the start.
const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";
const CAP_FSETID: u64 = 1 << 4;

impl Caller {
    /// `None` for one that is not visible here, which then has no rights.
    fn find(caller: CallerId) -> Option<Caller> {
        let process = std::path::Path::new("/proc").join(caller.pid.to_string());
        let status = std::fs::read_to_string(process.join("status")).ok()?;
        let found = Caller::parse(&status, caller)?;
        let namespace = std::fs::read_link(process.join("ns/user"));
        let is_first = namespace.is_ok_and(|namespace| namespace.as_os_str() == FIRST_USER_NAMESPACE);
        Some(Caller { may_keep_privileges: found.may_keep_privileges && is_first, ..found })
    }

    /// Reads `/proc/PID/status`. `None` if it is that of another process than the caller: one of the same number, in
    /// another namespace of processes.
    fn parse(status: &str, caller: CallerId) -> Option<Caller> {
        let line = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
        let numbers = |key: &str| -> Option<Vec<u32>> {
            line(key)?.split_whitespace().map(|number| number.parse().ok()).collect()
        };
        // The fourth is the one that the kernel goes by in a file system.
        let (uid, gid) = (*numbers("Uid:")?.get(3)?, *numbers("Gid:")?.get(3)?);
        if (uid, gid) != (caller.uid, caller.gid) {
            return None;
        }
        let capabilities = u64::from_str_radix(line("CapEff:")?.trim(), 16).ok()?;
        let mut groups = numbers("Groups:")?;
        groups.push(gid);
        Some(Caller { may_keep_privileges: capabilities & CAP_FSETID != 0, groups })
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
        let found = Caller::parse(STATUS, caller(1000, 50)).unwrap();
        assert_eq!(found, Caller { may_keep_privileges: true, groups: vec![4, 24, 27, 50] });
        let without = STATUS.replace("00000010", "ffffffef");
        let found = Caller::parse(&without, caller(1000, 50)).unwrap();
        assert!(!found.may_keep_privileges && found.is_in(24) && found.is_in(50) && !found.is_in(5));
    }

    #[test]
    fn process_of_another_user_or_without_every_line_is_not_the_caller() {
        assert_eq!(Caller::parse(STATUS, caller(0, 50)), None);
        assert_eq!(Caller::parse(STATUS, caller(1000, 5)), None);
        for line in ["Uid:", "Gid:", "Groups:", "CapEff:"] {
            assert_eq!(Caller::parse(&STATUS.replace(line, "Other:"), caller(1000, 50)), None, "{line}");
        }
    }

    #[test]
    fn caller_that_is_not_visible_has_no_rights() {
        assert_eq!(Caller::find(CallerId { uid: 0, gid: 0, pid: 0 }), None);
    }
}
