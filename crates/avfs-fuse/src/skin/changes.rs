//! Changes through other doors to the tree, on their way to the kernel.

use std::sync::{Arc, Weak};

use avfs_tree::{Seen, Watcher};

use super::Skin;
use crate::notify::{Later, Notice, Notifier};

/// Hears of changes while the tree stands still, so it only queues them; which nodes the kernel knows is
/// found out by the thread that tells it.
struct Changes {
    skin: Weak<Skin>,
    notifier: Notifier,
}

impl Skin {
    /// From now on the kernel is told what is changed through other doors.
    pub fn tell_changes(self: &Arc<Skin>, notifier: Notifier) {
        let changes = Changes { skin: Arc::downgrade(self), notifier };
        self.tree.watch(Arc::new(changes));
    }

    fn notices(&self, seen: Seen) -> Vec<Notice> {
        match seen {
            // The pages of a directory are its listing.
            Seen::Name { parent, name } => self.nodes.known(parent).map_or(Vec::new(), |parent| {
                let name = name.as_bytes().into();
                let entry = Notice::Entry { parent, name, expire_only: true };
                vec![entry, Notice::Inode { node: parent, offset: 0, len: 0 }]
            }),
            // A negative offset means the attributes alone.
            Seen::Attributes(ino) => self.inode_notice(ino, -1, 0),
            Seen::Contents { ino, offset, len } => self.inode_notice(ino, offset as i64, len as i64),
            // The kernel finds the file stale and looks its name up again, which gives it a new node.
            Seen::Replaced(ino) => self.inode_notice(ino, 0, 0),
        }
    }

    fn inode_notice(&self, ino: avfs_tree::Ino, offset: i64, len: i64) -> Vec<Notice> {
        self.nodes.known(ino).map(|node| Notice::Inode { node, offset, len }).into_iter().collect()
    }
}

impl Watcher for Changes {
    fn seen(&self, seen: Seen) {
        let skin = self.skin.clone();
        let find_out = move || skin.upgrade().map_or(Vec::new(), |skin| skin.notices(seen));
        self.notifier.push(Notice::Later(Later(Box::new(find_out))));
    }
}
