//! What a command would change: it is run in a throw-away fork that reaches nothing.

use std::ffi::OsStr;
use std::path::Path;

use avfs_exec::Network;
use avfs_exec::classify::Class;
use avfs_exec::policy::Policy;
use avfs_store::RefRange;

use super::binding::AskedCommand;
use super::record::{Approval, ApprovalId, keys};
use crate::error::{Error, Result};
use crate::exec::{Asking, CheckpointMode, Envelope, ExecRequest, Running};
use crate::name::VaultName;
use crate::patch::{PatchOptions, file_changes, write_patch};
use crate::record::key;
use crate::store::Store;
use crate::vault::Vault;

/// Variables with a word in their name that ends like this are not given to a preview.
const SECRETS: [&str; 8] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "KEY", "AUTH", "COOKIE"];

/// How the names of throw-away forks begin.
const PREVIEW: &str = "preview-";

/// It was decided that a person wants to see it; what could reach the host was refused before.
const ALLOW: &str = "[classes]\nread_only = \"allow\"\nmutating = \"allow\"\ndestructive = \"allow\"\nnetworked = \
                     \"allow\"\n";

/// What a command would do to the vault, as far as it gets without network and credentials.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The run in the fork.
    pub envelope: Envelope,
    /// What it changed, as git shows it.
    pub patch: Vec<u8>,
    /// The variables that it was not given.
    pub withheld: Vec<String>,
}

impl Store {
    /// Runs what an approval asks for in a fork of the vault, at the state that it was asked for, without network
    /// and without what looks like a credential. Nothing is left of the fork.
    pub fn preview(&self, approval: &Approval, running: Running<'_>) -> Result<Preview> {
        let no_preview = |reason| Error::NoPreview { id: approval.id.to_string(), reason };
        if approval.binding.command == AskedCommand::Session {
            return Err(no_preview("a session has no command of its own"));
        }
        if approval.classification().classes.contains(Class::HostEscapeRisk) {
            return Err(no_preview("what it does could not be read with certainty, or reaches for the host"));
        }
        let (request, withheld) = self.preview_request(approval)?;
        self.clear_away_previews()?;
        let vault = Vault::new(self.clone(), approval.id.vault);
        // The fork is no task: it has no path of its own.
        let request = request.placed(vault.own_path()?);
        let fork = Throwaway::make(&vault, approval)?;
        let envelope = fork.0.exec(&request, running);
        let patch = patch(&fork.0, approval)?;
        fork.delete()?;
        Ok(Preview { envelope, patch, withheld })
    }

    /// Deletes the forks that killed previews left.
    pub fn clear_away_previews(&self) -> Result<()> {
        let found = self.refs().scan(&RefRange::prefix(key::name(PREVIEW)))?;
        for name in found.iter().filter_map(|(key, _)| key.strip_prefix(key::NAMES)) {
            if let Some(fork) = self.left_preview(name)? {
                match fork.delete(true) {
                    // Somebody else was faster, or looks at it.
                    Ok(()) | Err(Error::UnknownVault { .. } | Error::Busy { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// The fork of a preview whose process is gone, if a vault of this name is one.
    fn left_preview(&self, name: &str) -> Result<Option<Vault>> {
        let Some((approval, process)) = parse_name(name) else { return Ok(None) };
        if Path::new("/proc").join(process.to_string()).exists() {
            return Ok(None);
        }
        let fork = match self.vault(name) {
            Err(Error::UnknownVault { .. }) => return Ok(None),
            fork => fork?,
        };
        let parent = fork.record()?.0.parent.map(|parent| parent.vault);
        Ok((parent == Some(approval.vault)).then_some(fork))
    }

    fn preview_request(&self, approval: &Approval) -> Result<(ExecRequest, Vec<String>)> {
        let asked = approval.binding.request()?;
        let (secret, env): (Vec<_>, Vec<_>) =
            asked.env.iter().cloned().partition(|(name, _)| is_secret(name));
        let passed = approval.binding.passed.iter().map(|(name, _)| name.to_os());
        let withheld = secret.into_iter().map(|(name, _)| name).chain(passed);
        let withheld = withheld.map(|name| avfs_core::printable(name.as_encoded_bytes())).collect();
        let stdin = match &approval.binding.stdin {
            None => None,
            Some(_) => Some(self.kept_input(approval)?),
        };
        let policy = Some(Policy::parse(Path::new("preview"), ALLOW)?);
        let (network, checkpoint, asking) = (Network::None, CheckpointMode::Never, Asking::Never);
        Ok((ExecRequest { env, stdin, policy, network, checkpoint, asking, ..asked }, withheld))
    }

    fn kept_input(&self, approval: &Approval) -> Result<Vec<u8>> {
        let kept = self.refs().read(&keys::input(&approval.id))?;
        let reason = "its standard input is not kept: it was answered before, or the input is too long";
        kept.ok_or_else(|| Error::NoPreview { id: approval.id.to_string(), reason })
    }
}

fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric()).map(|word| word.trim_end_matches('S'));
    words.any(|word| SECRETS.iter().any(|secret| word.ends_with(secret)))
}

/// The name of a throw-away fork: whose preview it is, and which process makes it.
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
        let fork = vault.fork_at(&at, std::slice::from_ref(&name))?.into_iter().next();
        fork.map(Throwaway).ok_or(Error::UnknownVault { name: name.to_string(), similar: None })
    }

    /// As a drop does, and says what goes wrong.
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
    let (before, after) = (fork.snapshot(approval.binding.head)?.root, fork.snapshot(fork.head()?)?.root);
    let changes = file_changes(fork.changed_paths(&before, &after)?);
    let mut patch = Vec::new();
    let written = write_patch(fork.store().objects(), &changes, &PatchOptions::default(), &mut patch);
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
        for other in ["preview-", "preview-a7-5f0c21d8", "preview-a7-5f0c21d8-x", "preview-mine-12", "web"] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }

    #[test]
    fn what_looks_like_a_credential_is_known_by_its_name() {
        for secret in
            ["GH_TOKEN", "AWS_SECRET_ACCESS_KEY", "npm_config__auth", "PGPASSWORD", "CREDENTIALS", "APIKEY"]
        {
            assert!(is_secret(OsStr::new(secret)), "{secret}");
        }
        for plain in ["GIT_AUTHOR_NAME", "CI", "KEYMAP", "TOKENIZERS_PARALLELISM", "RUST_LOG"] {
            assert!(!is_secret(OsStr::new(plain)), "{plain}");
        }
    }
}
