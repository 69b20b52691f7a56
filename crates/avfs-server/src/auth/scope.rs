//! What a caller may do.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Looking at files, states, sandboxes and logs.
    Read,
    /// Sandboxes, commands and files.
    Run,
    /// Answering approvals.
    Approve,
    /// Merging, applying, deleting vaults, and everything else.
    Admin,
}

impl Scope {
    /// All of them, from the smallest.
    pub const ALL: [Scope; 4] = [Scope::Read, Scope::Run, Scope::Approve, Scope::Admin];

    /// The name that tokens have it by.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Run => "run",
            Scope::Approve => "approve",
            Scope::Admin => "admin",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Scope::Read => 1,
            Scope::Run => 2,
            Scope::Approve => 4,
            Scope::Admin => 8,
        }
    }
}

/// The text names no scope.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no scope '{0}': it is read, run, approve or admin")]
pub struct BadScope(String);

impl FromStr for Scope {
    type Err = BadScope;

    fn from_str(text: &str) -> Result<Scope, BadScope> {
        let found = Scope::ALL.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or_else(|| BadScope(avfs_core::printable(text.as_bytes())))
    }
}

/// A set of scopes. Each of them includes `read`, and `admin` includes all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// Everything.
    pub fn all() -> Scopes {
        Scope::ALL.into_iter().collect()
    }

    /// Whether a request of this kind may be made.
    pub fn allow(self, scope: Scope) -> bool {
        let has = |scope: Scope| self.0 & scope.bit() != 0;
        has(Scope::Admin) || has(scope) || (scope == Scope::Read && self.0 != 0)
    }

    fn named(self) -> impl Iterator<Item = Scope> {
        Scope::ALL
            .into_iter()
            .filter(move |scope| self.0 & scope.bit() != 0)
    }

    pub(crate) fn parse(text: &str) -> Result<Scopes, BadScope> {
        text.split(' ')
            .filter(|word| !word.is_empty())
            .map(str::parse::<Scope>)
            .collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Scopes {
        Scopes(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.named().map(Scope::as_str).collect();
        f.pad(&names.join(" "))
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.named().map(Scope::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(scopes: &str, scope: Scope, allowed: bool) {
        assert_eq!(
            Scopes::parse(scopes).unwrap().allow(scope),
            allowed,
            "{scopes}: {scope:?}"
        );
    }

    #[test]
    fn a_scope_includes_reading_and_admin_includes_all() {
        check("", Scope::Read, false);
        check("read", Scope::Read, true);
        check("read", Scope::Run, false);
        check("run", Scope::Read, true);
        check("run", Scope::Approve, false);
        check("approve", Scope::Read, true);
        check("approve", Scope::Run, false);
        check("run approve", Scope::Admin, false);
        check("admin", Scope::Run, true);
        check("admin", Scope::Approve, true);
    }

    #[test]
    fn names_lead_back_to_their_scopes() {
        let all = Scopes::all();
        assert_eq!(all.to_string(), "read run approve admin");
        assert_eq!(Scopes::parse(&all.to_string()), Ok(all));
        assert!(Scopes::parse("root").is_err());
    }
}
