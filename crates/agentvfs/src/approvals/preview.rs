//! The changes that a command would make: it is run in a temporary fork without network access.

use std::ffi::OsStr;
use std::path::Path;

use avfs_exec::Network;
use avfs_exec::classify::Class;
use avfs_exec::policy::Policy;
use avfs_store::RefRange;

use super::binding::AskedCommand;
use super::record::{Approval, ApprovalId, keys};
use crate::approvals::asking::Approvals;
use crate::error::{ApprovalError, Error, OwnerError, Result, VaultError};
use crate::exec::{Asking, CheckpointMode, FinishedRun, RunContext, RunSpec};
use crate::name::VaultName;
use crate::record::key;
use crate::vault::Vault;
use avfs_query::patch::{PatchOptions, file_changes, write_patch};

/// Variables with a word in their name that ends like this are not given to a preview.
const SECRETS: [&str; 8] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "CREDENTIAL",
    "KEY",
    "AUTH",
    "COOKIE",
];

/// The prefix of the names of temporary forks.
const PREVIEW: &str = "preview-";

/// A person requested the preview; commands that could reach the host were refused before.
const ALLOW: &str = "[classes]\nread_only = \"allow\"\nmutating = \"allow\"\ndestructive = \"allow\"\nnetworked = \
                     \"allow\"\n";

/// The changes that a command would make to the vault, as far as it gets without network and credentials.
pub struct Preview {
    /// The run in the fork.
    pub run: FinishedRun,
    /// The changes, in git's format.
    pub patch: Vec<u8>,
    /// The variables that it was not given.
    pub withheld: Vec<String>,
}

impl Approvals<'_> {
    /// Runs the command of an approval in a fork of the vault, at the state of the request, without network
    /// and without anything that looks like a credential. Nothing is left of the fork.
    pub fn preview(&self, approval: &Approval, context: RunContext<'_>) -> Result<Preview> {
        let no_preview = |reason| {
            Error::Approval(ApprovalError::NoPreview {
                id: approval.id.to_string(),
                reason,
            })
        };
        if approval.binding.command == AskedCommand::Session {
            return Err(no_preview("a session has no command of its own"));
        }
        if approval.classification().classes.contains(Class::HostEscapeRisk) {
            return Err(no_preview(
                "what it does could not be read with certainty, or reaches for the host",
            ));
        }
        let (request, withheld) = self.preview_request(approval)?;
        self.clear_away_previews()?;
        let vault = Vault::new(self.store.clone(), approval.id.vault);
        // The fork is not a task: it has no path of its own.
        let request = request.placed(vault.own_path()?);
        let fork = Throwaway::make(&vault, approval)?;
        let run = fork.0.exec(&request, context);
        let patch = patch(&fork.0, approval)?;
        fork.delete()?;
        Ok(Preview { run, patch, withheld })
    }

    /// Deletes the forks that killed previews left.
    pub fn clear_away_previews(&self) -> Result<()> {
        let found = self.store.refs().scan(&RefRange::prefix(key::name(PREVIEW)))?;
        for name in found.iter().filter_map(|(key, _)| key.strip_prefix(key::NAMES)) {
            if let Some(fork) = self.left_preview(name)? {
                match fork.delete(true) {
                    // Another process was faster, or is using it.
                    Ok(())
                    | Err(Error::Vault(VaultError::Unknown { .. }) | Error::Owner(OwnerError::Busy { .. })) =>
                        {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// The fork of a preview whose process is gone, if a vault has this name.
    fn left_preview(&self, name: &str) -> Result<Option<Vault>> {
        let Some((approval, process)) = parse_name(name) else {
            return Ok(None);
        };
        if Path::new("/proc").join(process.to_string()).exists() {
            return Ok(None);
        }
        let fork = match self.store.vault(name) {
            Err(Error::Vault(VaultError::Unknown { .. })) => return Ok(None),
            fork => fork?,
        };
        let parent = fork.record()?.0.parent.map(|parent| parent.vault);
        Ok((parent == Some(approval.vault)).then_some(fork))
    }

    fn preview_request(&self, approval: &Approval) -> Result<(RunSpec, Vec<String>)> {
        let asked = approval.binding.request()?;
        let (secret, env): (Vec<_>, Vec<_>) =
            asked.env.iter().cloned().partition(|(name, _)| is_secret(name));
        let passed = approval.binding.passed.iter().map(|(name, _)| name.to_os());
        let withheld = secret.into_iter().map(|(name, _)| name).chain(passed);
        let withheld = withheld
            .map(|name| avfs_core::printable(name.as_encoded_bytes()))
            .collect();
        let stdin = match &approval.binding.stdin {
            None => None,
            Some(_) => Some(self.kept_input(approval)?),
        };
        let policy = Some(Policy::parse(Path::new("preview"), ALLOW)?);
        let (network, checkpoint, asking) = (Network::None, CheckpointMode::Never, Asking::Never);
        Ok((
            RunSpec {
                env,
                stdin,
                policy,
                network,
                checkpoint,
                asking,
                ..asked
            },
            withheld,
        ))
    }

    fn kept_input(&self, approval: &Approval) -> Result<Vec<u8>> {
        let kept = self.store.refs().read(&keys::input(&approval.id))?;
        let reason = "its standard input is not kept: it was answered before, or the input is too long";
        kept.ok_or_else(|| {
            Error::Approval(ApprovalError::NoPreview {
                id: approval.id.to_string(),
                reason,
            })
        })
    }
}

fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    let mut words = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(|word| word.trim_end_matches('S'));
    words.any(|word| SECRETS.iter().any(|secret| word.ends_with(secret)))
}

/// The name of a temporary fork: the approval, and the process that makes it.
fn fork_name(approval: &ApprovalId, process: u32) -> String {
    format!("{PREVIEW}{approval}-{process}")
}

fn parse_name(name: &str) -> Option<(ApprovalId, u32)> {
    let (approval, process) = name.strip_prefix(PREVIEW)?.rsplit_once('-')?;
    Some((ApprovalId::parse(approval).ok()?, process.parse().ok()?))
}

/// A fork that is gone when this is dropped.
struct Throwaway(Vault);

impl Throwaway {
    fn make(vault: &Vault, approval: &Approval) -> Result<Throwaway> {
        let at = vault.revision(&approval.binding.head.to_string())?;
        let name = VaultName::new(&fork_name(&approval.id, std::process::id()))?;
        let fork = vault
            .fork_at(&at, std::slice::from_ref(&name))?
            .into_iter()
            .next();
        fork.map(Throwaway).ok_or(Error::Vault(VaultError::Unknown {
            name: name.to_string(),
            similar: None,
        }))
    }

    /// The same as a drop, but reports errors.
    fn delete(self) -> Result<()> {
        self.0.clone().delete(true)
    }
}

impl Drop for Throwaway {
    fn drop(&mut self) {
        // After a delete there is nothing to do.
        let _ = self.0.clone().delete(true);
    }
}

fn patch(fork: &Vault, approval: &Approval) -> Result<Vec<u8>> {
    let (before, after) = (
        fork.snapshot(approval.binding.head)?.root,
        fork.snapshot(fork.head()?)?.root,
    );
    let changes = file_changes(fork.history().changed_paths_folded(&before, &after)?);
    let mut patch = Vec::new();
    let written = write_patch(
        fork.store().objects(),
        &changes,
        &PatchOptions::default(),
        &mut patch,
    );
    written.map_err(|error| Error::Host {
        action: "comparing",
        place: "the preview".to_owned(),
        source: std::io::Error::other(error),
    })?;
    Ok(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_of_previews_are_known_by_their_names() {
        let id = ApprovalId::parse("a7-5f0c21d8").unwrap();
        assert_eq!(parse_name(&fork_name(&id, 4711)), Some((id, 4711)));
        for other in [
            "preview-",
            "preview-a7-5f0c21d8",
            "preview-a7-5f0c21d8-x",
            "preview-mine-12",
            "web",
        ] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }

    #[test]
    fn credentials_are_recognized_by_name() {
        for secret in [
            "GH_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "npm_config__auth",
            "PGPASSWORD",
            "CREDENTIALS",
            "APIKEY",
        ] {
            assert!(is_secret(OsStr::new(secret)), "{secret}");
        }
        for plain in [
            "GIT_AUTHOR_NAME",
            "CI",
            "KEYMAP",
            "TOKENIZERS_PARALLELISM",
            "RUST_LOG",
        ] {
            assert!(!is_secret(OsStr::new(plain)), "{plain}");
        }
    }
}
