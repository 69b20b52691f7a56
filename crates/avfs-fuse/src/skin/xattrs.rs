//! Extended attributes.

use avfs_tree::FsError;
use rustix::io::Errno;

use super::Skin;
use super::error::SkinError;
use crate::request::Request;

/// Of `setxattr(2)`.
const CREATE: u32 = 1;
const REPLACE: u32 = 2;

/// Access lists would have to be checked, which mode and owner alone are.
const ACCESS_LISTS: &[u8] = b"system.posix_acl_";

impl Skin {
    pub(super) fn get_xattr(&self, request: &Request<'_>, name: &[u8]) -> Result<Vec<u8>, SkinError> {
        check_name(name)?;
        self.tree.xattr(self.ino(request)?, name).map_err(unsupported_if_denied)
    }

    pub(super) fn list_xattrs(&self, request: &Request<'_>) -> Result<Vec<u8>, SkinError> {
        // Each with a NUL byte behind it.
        let names = self.tree.list_xattrs(self.ino(request)?).map_err(unsupported_if_denied)?;
        Ok(names.into_iter().flat_map(|name| name.into_iter().chain([0])).collect())
    }

    pub(super) fn set_xattr(
        &self,
        request: &Request<'_>,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<(), SkinError> {
        check_name(name)?;
        let ino = self.ino(request)?;
        if flags & (CREATE | REPLACE) != 0 {
            let exists = match self.tree.xattr(ino, name) {
                Ok(_) => true,
                Err(FsError::NoXattr) => false,
                Err(error) => return Err(error.into()),
            };
            match exists {
                true if flags & CREATE != 0 => return Err(Errno::EXIST.into()),
                false if flags & REPLACE != 0 => return Err(Errno::NODATA.into()),
                _ => {}
            }
        }
        Ok(self.tree.set_xattr(ino, name, value)?)
    }

    pub(super) fn remove_xattr(&self, request: &Request<'_>, name: &[u8]) -> Result<(), SkinError> {
        check_name(name)?;
        Ok(self.tree.remove_xattr(self.ino(request)?, name)?)
    }
}

/// Whoever lists a directory asks for these too, and takes any other errno for trouble with the file.
fn unsupported_if_denied(error: FsError) -> SkinError {
    match error {
        FsError::Denied { .. } => Errno::OPNOTSUPP.into(),
        error => error.into(),
    }
}

fn check_name(name: &[u8]) -> Result<(), SkinError> {
    match name.starts_with(ACCESS_LISTS) {
        true => Err(Errno::OPNOTSUPP.into()),
        false => Ok(()),
    }
}
