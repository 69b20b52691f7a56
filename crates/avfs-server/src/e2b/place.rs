//! Which path of a client is which path of the vault. Clients expect their files in `/home/user`, so that is where programs
//! see the vault, besides `/workspace`.

use crate::service::{ServiceError, ServiceResult};

/// Where clients and programs see the vault.
pub(super) const HOME: &str = "/home/user";
/// Where programs see it in every sandbox.
const WORKSPACE: &str = "/workspace";

/// The path in the vault, with its slash in front. Other paths are begun at the home.
pub(super) fn inner(path: &str) -> ServiceResult<String> {
    let whole = match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{HOME}{rest}"),
        _ if path.starts_with('/') => path.to_owned(),
        _ => format!("{HOME}/{path}"),
    };
    let whole = normal(&whole);
    for place in [HOME, WORKSPACE] {
        match whole.strip_prefix(place) {
            Some("") => return Ok("/".to_owned()),
            Some(rest) if rest.starts_with('/') => return Ok(rest.to_owned()),
            _ => {}
        }
    }
    let path = avfs_core::printable(path.as_bytes());
    Err(ServiceError::invalid(format!(
        "'{path}' is not below {HOME}: other files of a sandbox can only be reached by its commands"
    )))
}

/// A path of the vault, as clients know it.
pub(super) fn outer(path: &str) -> String {
    match path.trim_start_matches('/') {
        "" => HOME.to_owned(),
        rest => format!("{HOME}/{rest}"),
    }
}

/// A path without `.` and `..`. What these leave at a link is decided by the words alone.
pub(super) fn normal(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            // Above the root there is the root, as for a kernel.
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_clients_lead_into_the_vault_or_nowhere() {
        for (path, expected) in [
            ("", "/"),
            (".", "/"),
            ("~", "/"),
            ("a/b", "/a/b"),
            ("~/a", "/a"),
            ("~a", "/~a"),
            ("/home/user", "/"),
            ("/home/user/", "/"),
            ("/home/user/a//b/./c", "/a/b/c"),
            ("/home/user/a/../b", "/b"),
            ("/workspace/a", "/a"),
            ("/tmp/../home/user/a", "/a"),
        ] {
            assert_eq!(inner(path).unwrap(), expected, "{path}");
        }
        for path in [
            "/",
            "/etc/passwd",
            "..",
            "../other",
            "/home/user/../..",
            "/home/username",
            "/workspaces",
        ] {
            assert_eq!(inner(path).unwrap_err().code, "invalid", "{path}");
        }
    }

    #[test]
    fn paths_of_the_vault_are_shown_in_the_home() {
        assert_eq!(outer("/"), HOME);
        assert_eq!(outer("/a/b"), "/home/user/a/b");
    }
}
