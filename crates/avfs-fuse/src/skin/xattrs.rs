//! Extended attributes.

use super::attributes::AttributeRequests;
use avfs_tree::FsError;
use rustix::io::Errno;

use super::error::SkinError;
use crate::request::FuseRequest;

/// Of `setxattr(2)`.
const CREATE: u32 = 1;
const REPLACE: u32 = 2;

/// Access control lists would have to be enforced, and only mode and owner are.
const ACCESS_LISTS: &[u8] = b"system.posix_acl_";

impl AttributeRequests<'_> {
    pub(super) fn get_xattr(&self, request: &FuseRequest<'_>, name: &[u8]) -> Result<Vec<u8>, SkinError> {
        check_name(name)?;
        self.skin
            .tree
            .xattr(self.skin.ino(request)?, name)
            .map_err(unsupported_if_denied)
    }

    pub(super) fn list_xattrs(&self, request: &FuseRequest<'_>) -> Result<Vec<u8>, SkinError> {
        // The kernel takes the names in one buffer, each with a NUL byte behind it.
        let names = self
            .skin
            .tree
            .list_xattrs(self.skin.ino(request)?)
            .map_err(unsupported_if_denied)?;
        Ok(names
            .into_iter()
            .flat_map(|name| name.into_iter().chain([0]))
            .collect())
    }

    pub(super) fn set_xattr(
        &self,
        request: &FuseRequest<'_>,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<(), SkinError> {
        check_name(name)?;
        let ino = self.skin.ino(request)?;
        if flags & (CREATE | REPLACE) != 0 {
            let exists = match self.skin.tree.xattr(ino, name) {
                Ok(_) => true,
                Err(FsError::NoXattr) => false,
                Err(error) => return Err(error.into()),
            };
            if exists && flags & CREATE != 0 {
                return Err(Errno::EXIST.into());
            }
            if !exists && flags & REPLACE != 0 {
                return Err(Errno::NODATA.into());
            }
        }
        Ok(self.skin.tree.set_xattr(ino, name, value)?)
    }

    pub(super) fn remove_xattr(&self, request: &FuseRequest<'_>, name: &[u8]) -> Result<(), SkinError> {
        check_name(name)?;
        Ok(self.skin.tree.remove_xattr(self.skin.ino(request)?, name)?)
    }
}

/// Programs that list a directory request these too, and treat any other errno as a problem of the file.
fn unsupported_if_denied(error: FsError) -> SkinError {
    match error {
        FsError::Denied { .. } => Errno::OPNOTSUPP.into(),
        error => error.into(),
    }
}

fn check_name(name: &[u8]) -> Result<(), SkinError> {
    if name.starts_with(ACCESS_LISTS) {
        Err(Errno::OPNOTSUPP.into())
    } else {
        Ok(())
    }
}
