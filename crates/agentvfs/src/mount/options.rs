//! The options of a mount, also in the form that is sent to the owner.

use avfs_core::rules::{Level, Rule};
use avfs_core::{ObjectId, SnapshotId};
pub use avfs_fuse::OneOwner;
pub use avfs_fuse::transport::Transport;

use crate::error::{Error, OwnerError, Result, VaultMountError};

/// How a vault is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Nothing can be changed through it.
    pub read_only: bool,
    /// Users other than the one who mounts may use it.
    pub allow_other: bool,
    /// Show this snapshot, and not the present.
    pub at: Option<SnapshotId>,
    /// How its requests travel.
    pub transport: Transport,
    /// The rules through which the vault is seen; `None`: without rules.
    pub rules: Option<Vec<Rule>>,
    /// The principal of the mount, for lists and logs.
    pub principal: Option<String>,
    /// Whom everything seems to belong to.
    pub owner: Option<OneOwner>,
    /// No other mount shows the present of the vault while this one does, so that the kernel need not ask before it
    /// opens, closes and locks.
    pub exclusive: bool,
}

const READ_ONLY: &str = "read-only";
const ALLOW_OTHER: &str = "allow-other";
const AT: &str = "at=";
const TRANSPORT: &str = "transport=";
const RULE: &str = "rule=";
/// Precedes the rules, so that an empty list differs from no rules.
const RULED: &str = "ruled";
const PRINCIPAL: &str = "principal=";
const OWNER: &str = "owner=";
const ALONE: &str = "alone";

impl MountOptions {
    /// The past cannot be written to.
    pub fn is_read_only(&self) -> bool {
        self.read_only || self.at.is_some()
    }

    /// Whether the kernel sends a request before it opens a file that can be changed. For a read-only mount,
    /// it need not refresh directories either.
    pub(super) fn is_asked_before_open(&self) -> bool {
        !self.exclusive && !self.is_read_only()
    }

    /// Whether two mounts cannot coexist. An earlier state is a tree of its own.
    pub(super) fn excludes(&self, other: &MountOptions) -> bool {
        (self.exclusive || other.exclusive) && self.at.is_none() && other.at.is_none()
    }

    /// Rules between hidden and unrestricted must be checked on every open.
    pub(super) fn check(&self) -> Result<()> {
        let asked = |rule: &&Rule| !matches!(rule.level, Level::None | Level::Write);
        match self.rules.iter().flatten().find(asked) {
            Some(rule) if self.exclusive => Err(Error::Mount(VaultMountError::RuleNeedsOpen {
                rule: rule.to_string(),
            })),
            _ => Ok(()),
        }
    }

    /// The options as words, which other processes read.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.read_only.then(|| READ_ONLY.to_owned()));
        words.extend(self.allow_other.then(|| ALLOW_OTHER.to_owned()));
        words.extend(self.exclusive.then(|| ALONE.to_owned()));
        words.extend(self.at.map(|snapshot| format!("{AT}{snapshot}")));
        if self.transport != Transport::Auto {
            words.push(format!("{TRANSPORT}{}", self.transport.as_str()));
        }
        words.extend(
            self.principal
                .as_ref()
                .map(|principal| format!("{PRINCIPAL}{principal}")),
        );
        words.extend(
            self.owner
                .map(|OneOwner { uid, gid }| format!("{OWNER}{uid}:{gid}")),
        );
        if let Some(rules) = &self.rules {
            words.push(RULED.to_owned());
            words.extend(rules.iter().map(|rule| format!("{RULE}{rule}")));
        }
        words
    }

    /// Reads what [`MountOptions::words`] made.
    pub fn parse(words: &[String]) -> Result<MountOptions> {
        let mut options = MountOptions::default();
        for word in words {
            let bad = || {
                Error::Owner(OwnerError::BadRequest {
                    reason: format!("'{word}' is not an option of a mount"),
                })
            };
            if word == READ_ONLY {
                options.read_only = true;
            } else if word == ALLOW_OTHER {
                options.allow_other = true;
            } else if word == ALONE {
                options.exclusive = true;
            } else if let Some(snapshot) = word.strip_prefix(AT) {
                let id = ObjectId::parse_hex(snapshot).map_err(|_| bad())?;
                options.at = Some(SnapshotId::from_object(id));
            } else if let Some(name) = word.strip_prefix(TRANSPORT) {
                let known = Transport::ALL
                    .into_iter()
                    .find(|transport| transport.as_str() == name);
                options.transport = known.ok_or_else(bad)?;
            } else if word == RULED {
                options.rules.get_or_insert_default();
            } else if let Some(rule) = word.strip_prefix(RULE) {
                options
                    .rules
                    .get_or_insert_default()
                    .push(Rule::parse_stored(rule).map_err(|_| bad())?);
            } else if let Some(principal) = word.strip_prefix(PRINCIPAL) {
                options.principal = Some(principal.to_owned());
            } else if let Some(owner) = word.strip_prefix(OWNER) {
                options.owner = Some(parse_owner(owner).ok_or_else(bad)?);
            } else {
                return Err(bad());
            }
        }
        Ok(options)
    }
}

fn parse_owner(text: &str) -> Option<OneOwner> {
    let (uid, gid) = text.split_once(':')?;
    Some(OneOwner {
        uid: uid.parse().ok()?,
        gid: gid.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_travel_as_words() {
        let at = Some(SnapshotId::of(b"a snapshot"));
        for transport in Transport::ALL {
            for (read_only, allow_other, at) in [(false, false, None), (true, false, at), (false, true, at)] {
                let options = MountOptions {
                    read_only,
                    allow_other,
                    at,
                    transport,
                    ..MountOptions::default()
                };
                assert_eq!(MountOptions::parse(&options.words()).unwrap(), options);
            }
        }
        let rules = [
            Rule::parse("/a b/**=read@3").unwrap(),
            Rule::parse("label:private=none").unwrap(),
        ];
        for rules in [Vec::new(), rules.to_vec()] {
            let principal = Some("agent one".to_owned());
            let owner = Some(OneOwner { uid: 7, gid: 8 });
            let options = MountOptions {
                rules: Some(rules),
                principal,
                owner,
                ..MountOptions::default()
            };
            assert_eq!(MountOptions::parse(&options.words()).unwrap(), options);
        }
        let alone = MountOptions {
            exclusive: true,
            ..MountOptions::default()
        };
        assert_eq!(MountOptions::parse(&alone.words()).unwrap(), alone);
        for bad in ["sideways", "rule=/a", "rule=[=read", "owner=1", "owner=a:b"] {
            assert!(MountOptions::parse(&[bad.into()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn alone_is_without_others_and_without_rules_that_are_asked_at_open() {
        let (shared, alone) = (
            MountOptions::default(),
            MountOptions {
                exclusive: true,
                ..MountOptions::default()
            },
        );
        let past = MountOptions {
            at: Some(SnapshotId::of(b"a snapshot")),
            ..MountOptions::default()
        };
        assert!(!shared.excludes(&shared) && shared.excludes(&alone) && alone.excludes(&shared));
        assert!(alone.excludes(&alone) && !alone.excludes(&past) && !past.excludes(&alone));
        let checked = |alone, rules: &[&str]| {
            let rules = rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
            let options = MountOptions {
                exclusive: alone,
                rules: Some(rules),
                ..MountOptions::default()
            };
            options.check().map_err(|error| error.to_string())
        };
        assert!(checked(true, &["/**=write", "**/.env=none"]).is_ok());
        assert!(checked(false, &["/**=write", "/docs/**=read"]).is_ok());
        for level in ["view", "read", "append"] {
            let error = checked(true, &["/**=write", &format!("/docs/**={level}")]).unwrap_err();
            assert!(error.contains(&format!("/docs/**={level}")), "{error}");
        }
    }
}
