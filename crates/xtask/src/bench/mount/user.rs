//! Works as another user, in this process: to the kernel, credentials belong to a thread.

use anyhow::{Result, anyhow};
use rustix::fs::{Gid, Uid};

/// An ordinary user, for whom `fusermount3` mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User(pub u32);

/// Runs an action as a user, or as the current one. Its child processes run as that user as well.
pub fn as_user<T: Send>(user: Option<User>, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let Some(user) = user else { return act() };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            user.become_it()?;
            act()
        });
        thread
            .join()
            .map_err(|_| anyhow!("what was done as user {} has panicked", user.0))?
    })
}

impl User {
    fn become_it(self) -> Result<()> {
        let (uid, gid) = (Uid::from_raw(self.0), Gid::from_raw(self.0));
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        Ok(rustix::thread::set_thread_res_uid(uid, uid, uid)?)
    }
}
