//! How sandboxes come and go. Each step is written down before it is done, so that a server that starts can finish what
//! another one has begun.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentvfs::exec::AfterRun;
use agentvfs::rules::Rule;
use agentvfs::{ErrorKind, Revision, Vault, VaultLimits, VaultName};

use super::error::{ServiceError, ServiceResult};
use super::exchange::{SandboxEnd, give_back};
use super::pool::{self, Kind, Warm};
use super::sandbox::{Sandbox, SandboxSpec, check_builder, isolation, network};
use super::session::Session;
use super::tenant::Tenant;
use super::threads::on_a_thread;
use crate::clock::Moment;
use crate::random;
use crate::state::{SandboxRecord, SandboxState};

/// The most sandboxes of one request.
const AT_ONCE: usize = 100;

/// The most bytes of what is kept of each sandbox as long as it exists.
const SPEC_MAX: usize = 64 << 10;

/// Where the files of a new sandbox come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SandboxSource {
    /// There are none.
    #[default]
    Empty,
    /// A fork of a vault at a state; by default the present one.
    Vault {
        /// The name of the vault.
        name: String,
        /// The state: `@`, a checkpoint, or the id of a snapshot.
        revision: Option<String>,
    },
}

/// A sandbox to make.
#[derive(Clone, Debug, Default)]
pub struct NewSandbox {
    /// Its files.
    pub source: SandboxSource,
    /// What it is asked to be.
    pub spec: SandboxSpec,
    /// The rules through which its programs see its files; nothing means those of its source.
    pub rules: Option<Vec<Rule>>,
    /// Seconds until it is deleted.
    pub expires_seconds: Option<u64>,
    /// A request that is repeated with the same words here finds the sandbox that it made.
    pub key: Option<String>,
    /// How its id begins; nothing, if any will do.
    pub prefix: Option<&'static str>,
}

/// Some sandboxes, and where the next ones begin.
pub struct SandboxPage {
    /// In the order in which they were made.
    pub sandboxes: Vec<Arc<Sandbox>>,
    /// What to ask for next; nothing at the end.
    pub next: Option<String>,
}

/// Places of sandboxes that are not in the table yet.
struct Room<'a> {
    making: &'a AtomicUsize,
    places: usize,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.making.fetch_sub(self.places, Ordering::AcqRel);
    }
}

impl Tenant {
    /// Makes a sandbox. Nothing of it runs until the first command.
    pub async fn create_sandbox(self: &Arc<Tenant>, new: NewSandbox) -> ServiceResult<Arc<Sandbox>> {
        let tenant = Arc::clone(self);
        on_a_thread(move || {
            let made = tenant.create(&new);
            pool::fill(&tenant);
            made
        })
        .await
    }

    /// The sandbox with this id.
    pub fn sandbox(&self, id: &str) -> ServiceResult<Arc<Sandbox>> {
        let found = self.table().get(id).cloned();
        let found = found.filter(|sandbox| !sandbox.has_expired());
        found.ok_or_else(|| ServiceError::unknown_sandbox(id))
    }

    /// All of them, in the order in which they were made.
    pub fn all_sandboxes(&self) -> Vec<Arc<Sandbox>> {
        let mut all: Vec<_> = self.table().values().cloned().collect();
        all.retain(|sandbox| !sandbox.has_expired());
        all.sort_by(|a, b| place_of(a).cmp(&place_of(b)));
        all
    }

    /// Some of them, from a cursor on. What is made or deleted meanwhile shifts nothing.
    pub fn sandboxes(
        &self,
        cursor: Option<&str>,
        limit: usize,
        admit: impl Fn(&Sandbox) -> bool,
    ) -> ServiceResult<SandboxPage> {
        let after = cursor.map(parse_cursor).transpose()?;
        let is_later = |sandbox: &Arc<Sandbox>| {
            let after = after.as_ref().map(|(created, id)| (*created, id.as_str()));
            after.is_none_or(|after| place_of(sandbox) > after)
        };
        let mut later = self.all_sandboxes().into_iter();
        let mut sandboxes: Vec<_> = later
            .by_ref()
            .filter(|sandbox| is_later(sandbox) && admit(sandbox))
            .take(limit + 1)
            .collect();
        let has_more = sandboxes.len() > limit;
        sandboxes.truncate(limit);
        let last = sandboxes.last().filter(|_| has_more);
        let next = last.map(|last| format!("{}.{}", last.created, last.id));
        Ok(SandboxPage { sandboxes, next })
    }

    /// Makes sandboxes that start with the present files of another one. Their cost does not depend on those.
    pub async fn fork_sandbox(
        self: &Arc<Tenant>,
        sandbox: &Arc<Sandbox>,
        count: usize,
        expires_seconds: Option<u64>,
        principal: String,
    ) -> ServiceResult<Vec<Arc<Sandbox>>> {
        let (tenant, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        on_a_thread(move || {
            if !(1..=AT_ONCE).contains(&count) {
                return Err(ServiceError::invalid(format!("`count` is from 1 to {AT_ONCE}")));
            }
            sandbox.touch();
            let at = sandbox.vault().revision("@")?;
            let spec = SandboxSpec {
                principal,
                ..sandbox.present_spec()
            };
            let ids = fresh_ids(None, count)?;
            tenant.make(&ids, Some((&at, &sandbox.id)), None, &spec, expires_seconds)
        })
        .await
    }

    /// Changes when a sandbox expires: so many seconds from now, or never.
    pub async fn expire_sandbox(
        self: &Arc<Tenant>,
        sandbox: &Arc<Sandbox>,
        seconds: Option<u64>,
    ) -> ServiceResult<()> {
        let (tenant, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        on_a_thread(move || tenant.set_expires(&sandbox, seconds)).await
    }

    /// The same, at once.
    pub(super) fn set_expires(&self, sandbox: &Sandbox, seconds: Option<u64>) -> ServiceResult<()> {
        let now = self.now()?;
        let expires = seconds.map(|seconds| now.day.after_seconds(seconds).0);
        if !self.state().set_expiry(&sandbox.id, expires)? {
            return Err(ServiceError::unknown_sandbox(&sandbox.id));
        }
        sandbox.set_expires(expires, now);
        Ok(())
    }

    /// Gives a sandbox another network, for the processes that run as well. Hosts that the policy does not grant are refused.
    pub async fn set_network(
        self: &Arc<Tenant>,
        sandbox: &Arc<Sandbox>,
        hosts: Vec<String>,
    ) -> ServiceResult<()> {
        let (tenant, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        on_a_thread(move || {
            sandbox.set_network(hosts, |spec| {
                if tenant.state().set_spec(&sandbox.id, &spec_text(spec)?)? {
                    return Ok(());
                }
                Err(ServiceError::unknown_sandbox(&sandbox.id))
            })
        })
        .await
    }

    /// Deletes a sandbox with its files. Its processes are killed first, and its changes go back if it was asked for that.
    pub async fn delete_sandbox(self: &Arc<Tenant>, sandbox: &Arc<Sandbox>) -> ServiceResult<SandboxEnd> {
        let (tenant, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        on_a_thread(move || tenant.delete(&sandbox)).await
    }

    /// Opens a sandbox, so that the next command in it starts at once.
    pub async fn open_sandbox(self: &Arc<Tenant>, sandbox: &Arc<Sandbox>) -> ServiceResult<()> {
        let _attended = sandbox.attend();
        // One who opens many sandboxes waits for a place, as for a command.
        let turn = self.queue().turn().await?;
        let (tenant, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        on_a_thread(move || {
            let opened = sandbox.opened(&tenant).map(drop);
            drop(turn);
            opened
        })
        .await
    }

    /// Ends everything that runs in a sandbox. Its files stay, and the next command opens it again.
    pub async fn close_sandbox(self: &Arc<Tenant>, sandbox: &Arc<Sandbox>) -> ServiceResult<()> {
        let sandbox = Arc::clone(sandbox);
        on_a_thread(move || sandbox.close().map(serve_on)).await
    }

    fn create(&self, new: &NewSandbox) -> ServiceResult<Arc<Sandbox>> {
        if let Some(key) = &new.key
            && let Some(known) = self.made_with(key)?
        {
            return Ok(known);
        }
        let at = self.begins_at(new)?;
        let from = at.as_ref().map(|(at, name)| (at, name.as_str()));
        if self.pool().is_on()
            && let Some(warm) = pool::take(self, &Kind::of(self, new, from)?)
        {
            return self.hand_out(warm, new, from.map(|(_, name)| name));
        }
        let id = match &new.key {
            Some(key) => id_of(key.as_bytes()),
            None => fresh_id(new.prefix)?,
        };
        let made = self.make(&[id], from, new.rules.as_deref(), &new.spec, new.expires_seconds)?;
        made.into_iter().next().ok_or_else(ServiceError::ending)
    }

    /// The sandbox that another request with the same words has made.
    fn made_with(&self, key: &str) -> ServiceResult<Option<Arc<Sandbox>>> {
        let own = self.table().get(&id_of(key.as_bytes())).cloned();
        if own.is_some() {
            return Ok(own);
        }
        let taken = self.state().sandbox_of_key(key)?;
        Ok(taken.and_then(|id| self.table().get(&id).cloned()))
    }

    /// The state that a sandbox begins with, and the name of its vault; nothing, if it begins empty.
    fn begins_at(&self, new: &NewSandbox) -> ServiceResult<Option<(Revision, String)>> {
        let SandboxSource::Vault { name, revision } = &new.source else {
            return Ok(None);
        };
        let vault = self.store().vault(name)?;
        if new.rules.is_some() && vault.rules_for_programs()?.is_some() {
            let text = format!("vault '{name}' has rules of its own, which hold in sandboxes on it");
            return Err(ServiceError::new("rules-of-vault", ErrorKind::Denied, text));
        }
        let at = vault.alone().revision(revision.as_deref().unwrap_or("@"))?;
        Ok(Some((at, name.clone())))
    }

    /// Has a sandbox that was ready be the one that is asked for.
    fn hand_out(&self, warm: Warm, new: &NewSandbox, parent: Option<&str>) -> ServiceResult<Arc<Sandbox>> {
        let Warm { id, vault, open } = warm;
        let written = self.write_handed_out(&id, &vault, new, parent);
        let (record, now) = match written {
            Ok(written) => written,
            Err(error) => {
                drop(open);
                self.clear_later(id);
                return Err(error);
            }
        };
        let sandbox = Arc::new(sandbox_of(&record, new.spec.clone(), vault, now));
        sandbox.begin_open(open);
        self.table().insert(id, Arc::clone(&sandbox));
        Ok(sandbox)
    }

    fn write_handed_out(
        &self,
        id: &str,
        vault: &Vault,
        new: &NewSandbox,
        parent: Option<&str>,
    ) -> ServiceResult<(SandboxRecord, Moment)> {
        self.check_open()?;
        self.check_disk()?;
        let _room = self.room(1)?;
        let now = self.now()?;
        let record = SandboxRecord {
            id: id.to_owned(),
            vault: Some(vault.id().0),
            parent: parent.map(str::to_owned),
            state: SandboxState::Ready,
            created: now.day.0,
            expires: new
                .expires_seconds
                .map(|seconds| now.day.after_seconds(seconds).0),
            spec: spec_text(&new.spec)?,
        };
        if let Some(key) = &new.key {
            // Before it is there: whoever repeats the request finds it, or makes another.
            self.state().note_key(id, key)?;
        }
        self.state().put_sandboxes(std::slice::from_ref(&record))?;
        Ok((record, now))
    }

    /// Makes the vault of a sandbox that nobody is told of yet. Its record says so.
    pub(super) fn begin_making(
        &self,
        id: &str,
        from: Option<(&Revision, &str)>,
        rules: Option<&[Rule]>,
        spec: &SandboxSpec,
    ) -> ServiceResult<(SandboxRecord, Vault)> {
        let record = SandboxRecord {
            id: id.to_owned(),
            vault: None,
            parent: from.map(|(_, parent)| parent.to_owned()),
            state: SandboxState::Making,
            created: self.now()?.day.0,
            expires: None,
            spec: spec_text(spec)?,
        };
        self.state().note_sandboxes(std::slice::from_ref(&record))?;
        let ids = std::slice::from_ref(&record.id);
        let made = self.make_vaults(ids, from.map(|(at, _)| at), rules);
        let made = made.and_then(|vaults| fork_roots(from, spec, &vaults).map(|()| vaults));
        match made.map(|vaults| vaults.into_iter().next()) {
            Ok(Some(vault)) => Ok((record, vault)),
            Ok(None) => Err(ServiceError::ending()),
            Err(error) => {
                self.clear_later(record.id);
                Err(error)
            }
        }
    }

    /// Has what is left of a sandbox that is gone be removed.
    pub(super) fn clear_later(&self, id: String) {
        if self.clear_away(&id).is_err() {
            self.uncleared().push(id);
        }
    }

    /// Makes sandboxes with these ids, all or none.
    fn make(
        &self,
        ids: &[String],
        from: Option<(&Revision, &str)>,
        rules: Option<&[Rule]>,
        spec: &SandboxSpec,
        expires_seconds: Option<u64>,
    ) -> ServiceResult<Vec<Arc<Sandbox>>> {
        self.check_open()?;
        self.check_disk()?;
        network(&spec.network)?;
        check_builder(isolation(spec)?, self.options())?;
        if let Some(image) = &spec.image {
            self.store().images().get(image)?;
        }
        let room = self.room(ids.len())?;
        let now = self.now()?;
        let text = spec_text(spec)?;
        let record = |id: &String| SandboxRecord {
            id: id.clone(),
            vault: None,
            parent: from.map(|(_, parent)| parent.to_owned()),
            state: SandboxState::Making,
            created: now.day.0,
            expires: expires_seconds.map(|seconds| now.day.after_seconds(seconds).0),
            spec: text.clone(),
        };
        let mut records: Vec<SandboxRecord> = ids.iter().map(record).collect();
        self.state().note_sandboxes(&records)?;
        let made = self.make_vaults(ids, from.map(|(at, _)| at), rules);
        let made = made.and_then(|vaults| fork_roots(from, spec, &vaults).map(|()| vaults));
        let vaults = match made {
            Ok(vaults) => vaults,
            Err(error) => {
                for id in ids {
                    self.clear_away(id)?;
                }
                return Err(error);
            }
        };
        for (record, vault) in records.iter_mut().zip(&vaults) {
            record.vault = Some(vault.id().0);
            record.state = SandboxState::Ready;
        }
        self.state().put_sandboxes(&records)?;
        let made = records.iter().zip(vaults);
        let made: Vec<Arc<Sandbox>> = made
            .map(|(record, vault)| Arc::new(sandbox_of(record, spec.clone(), vault, now)))
            .collect();
        let mut table = self.table();
        drop(room);
        for sandbox in &made {
            table.insert(sandbox.id.clone(), Arc::clone(sandbox));
        }
        Ok(made)
    }

    fn make_vaults(
        &self,
        ids: &[String],
        from: Option<&Revision>,
        rules: Option<&[Rule]>,
    ) -> ServiceResult<Vec<Vault>> {
        let names: Vec<VaultName> = ids
            .iter()
            .map(|id| VaultName::new(&vault_name(id)))
            .collect::<agentvfs::Result<_>>()?;
        let vaults: Vec<Vault> = match from {
            Some(at) => at.vault.fork_at(at, &names)?,
            None => {
                let limits = VaultLimits {
                    bytes: self.limits().disk,
                    files: None,
                };
                let empty = names
                    .iter()
                    .map(|name| self.store().create_limited_vault(name, limits));
                empty.collect::<agentvfs::Result<_>>()?
            }
        };
        if self.limits().disk.is_some() {
            for vault in &vaults {
                vault.set_quota(self.limits().disk, None)?;
            }
        }
        if rules.is_some() {
            for vault in &vaults {
                vault.store_rules(rules)?;
            }
        }
        Ok(vaults)
    }

    /// Takes up places among the sandboxes while they are made.
    fn room(&self, more: usize) -> ServiceResult<Room<'_>> {
        let most = self.limits().sandboxes;
        // Held, so that of two requests only one gets the last place.
        let table = self.table();
        let making = self.making().load(Ordering::Acquire);
        if table.len() + making + more > most {
            let text = format!("there are {most} sandboxes, which is the limit; delete some");
            return Err(ServiceError::new("too-many-sandboxes", ErrorKind::Full, text));
        }
        self.making().fetch_add(more, Ordering::AcqRel);
        Ok(Room {
            making: self.making(),
            places: more,
        })
    }

    /// Deletes a sandbox, also on a disk without room.
    pub(super) fn delete(&self, sandbox: &Sandbox) -> ServiceResult<SandboxEnd> {
        match self.delete_with_room(sandbox) {
            Err(error) if error.kind == ErrorKind::Full && self.spare().give_up() => {
                let deleted = self.delete_with_room(sandbox);
                self.spare().keep();
                deleted
            }
            done => done,
        }
    }

    fn delete_with_room(&self, sandbox: &Sandbox) -> ServiceResult<SandboxEnd> {
        let record = self.state().sandbox(&sandbox.id)?;
        let record = record.ok_or_else(|| ServiceError::unknown_sandbox(&sandbox.id))?;
        self.state().note_sandboxes(&[SandboxRecord {
            state: SandboxState::Deleting,
            ..record
        }])?;
        // From here on it is gone for everybody, whatever becomes of this server.
        sandbox.mark_gone();
        self.table().remove(&sandbox.id);
        let cleared = sandbox
            .close()
            .map(serve_on)
            .and_then(|()| self.clear_away(&sandbox.id));
        if cleared.is_err() {
            self.uncleared().push(sandbox.id.clone());
        }
        cleared
    }

    /// Removes the vault of a sandbox that is gone, and then what is written of it. Its changes go back first, if it was
    /// asked for that.
    fn clear_away(&self, id: &str) -> ServiceResult<SandboxEnd> {
        let name = vault_name(id);
        let mut end = SandboxEnd::default();
        if self.store().has_vault(&name)? {
            let vault = self.store().vault(&name)?;
            let record = self.state().sandbox(id)?;
            if let Some(record) = record.filter(|record| record.state == SandboxState::Deleting) {
                let spec = serde_json::from_str(&record.spec).unwrap_or_default();
                end = give_back(self, &spec, record.parent.as_deref(), &vault)?;
            }
            vault.delete(true)?;
        }
        self.state().sessions().remove_of_sandbox(id)?;
        self.state().remove_sandbox(id)?;
        Ok(end)
    }

    /// Finishes what another server has begun, and knows the sandboxes that it had. Times of day that are written down count
    /// as so many milliseconds later.
    pub(super) fn recover(&self, now: Moment, moved: i64) -> ServiceResult<()> {
        for record in self.state().sandboxes()? {
            let name = vault_name(&record.id);
            let is_there = record.state == SandboxState::Ready && self.store().has_vault(&name)?;
            if !is_there {
                // It was being made or deleted, or somebody has deleted its vault by other means.
                self.uncleared().push(record.id);
                continue;
            }
            // One that cannot be opened at this moment keeps its files.
            match self.store().vault(&name) {
                Ok(vault) => {
                    let spec = serde_json::from_str(&record.spec).unwrap_or_default();
                    let expires = record.expires.map(|expires| expires.saturating_add(moved));
                    let id = record.id.clone();
                    let record = SandboxRecord { expires, ..record };
                    let sandbox = Arc::new(sandbox_of(&record, spec, vault, now));
                    let sessions = self.state().sessions().of_sandbox(&id)?.into_iter();
                    sandbox
                        .session_table()
                        .extend(sessions.map(|session| Arc::new(Session::ended(session))));
                    self.table().insert(id, sandbox);
                }
                Err(error) => self.complain("opening", Some(&record.id), Err(error.into())),
            }
        }
        self.clear_all();
        Ok(())
    }

    /// Removes what is left of sandboxes that are gone. Where that fails, it is tried again later.
    pub(super) fn clear_all(&self) {
        let waiting = std::mem::take(&mut *self.uncleared());
        for id in waiting {
            match self.clear_away(&id) {
                Ok(end) => self.tell_end(&id, &end),
                Err(error) => {
                    self.complain("clearing away", Some(&id), Err(error));
                    self.uncleared().push(id);
                }
            }
        }
    }
}

/// What was installed in the system of a sandbox is in that of its forks too.
fn fork_roots(from: Option<(&Revision, &str)>, spec: &SandboxSpec, forks: &[Vault]) -> ServiceResult<()> {
    let (Some((at, _)), Some(image)) = (from, &spec.image) else {
        return Ok(());
    };
    Ok(forks
        .iter()
        .try_for_each(|fork| at.vault.image().fork_root(image, fork))?)
}

/// Others may still need this process for a vault. Nobody waits for them here.
pub(super) fn serve_on(after: AfterRun) {
    let thread = std::thread::Builder::new().name("serving".into());
    // Without a thread, what others have open fails for them when the server ends, and nothing is lost.
    drop(thread.spawn(move || after.wait()));
}

pub(super) fn sandbox_of(record: &SandboxRecord, spec: SandboxSpec, vault: Vault, now: Moment) -> Sandbox {
    let made = (record.id.clone(), record.created);
    Sandbox::new(made, record.parent.clone(), spec, vault, record.expires, now)
}

fn spec_text(spec: &SandboxSpec) -> ServiceResult<String> {
    let text = serde_json::to_string(spec).map_err(|error| ServiceError::invalid(error.to_string()))?;
    if text.len() > SPEC_MAX {
        let text = format!("what a sandbox is asked to be has at most {SPEC_MAX} bytes");
        return Err(ServiceError::invalid(text));
    }
    Ok(text)
}

fn place_of(sandbox: &Sandbox) -> (i64, &str) {
    (sandbox.created, &sandbox.id)
}

pub(super) fn parse_cursor(cursor: &str) -> ServiceResult<(i64, String)> {
    let bad = || ServiceError::invalid("`cursor` is not one that this server has given");
    let (created, id) = cursor.split_once('.').ok_or_else(bad)?;
    Ok((created.parse().map_err(|_| bad())?, id.to_owned()))
}

/// The vault of a sandbox.
fn vault_name(id: &str) -> String {
    format!("sandbox-{id}")
}

/// Letters and digits only: clients make host names of it.
fn id_of(bytes: &[u8]) -> String {
    let hash = blake3::hash(bytes);
    format!("sb{}", random::hex(&hash.as_bytes()[..10]))
}

pub(super) fn fresh_id(prefix: Option<&str>) -> ServiceResult<String> {
    let bytes = random::bytes::<32>();
    let bytes = bytes.map_err(|error| ServiceError::host("asking for random bytes", &error))?;
    Ok(match prefix {
        Some(prefix) => format!("{prefix}{}", random::hex(&bytes[..8])),
        None => id_of(&bytes),
    })
}

fn fresh_ids(prefix: Option<&str>, count: usize) -> ServiceResult<Vec<String>> {
    (0..count).map(|_| fresh_id(prefix)).collect()
}
