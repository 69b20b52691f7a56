//! The environment of a command: the effective settings and the output to the user.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use agentvfs::error::VaultError;
use agentvfs::{Actor, OpenOptions, RetentionPolicy, SnapshotRetention, Store, StoreOptions, Vault};
use anyhow::Result;

use crate::args::AtArg;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::here::{Decided, working_directory};
use crate::printer::Printer;
use crate::recovered::tell_recovered;
use crate::rule_args::{Chosen, RuleArgs};
use crate::settings::{Origin, SettingKey, Settings, SettingsError, Sources, UserDirectories};
use crate::view::View;

pub struct Context<'a> {
    pub out: &'a mut Printer,
    pub settings: Settings,
    /// The flags of a command that sees vaults through rules.
    rules: Option<RuleArgs>,
    /// Their values, computed on first use.
    chosen: OnceCell<Chosen>,
    /// No vault but one can be named.
    alone: bool,
    /// The vault that the command works on, determined on first use.
    pub(crate) decided: OnceCell<Decided>,
    /// One for the whole command: objects that no ref names yet are known to the handle alone that has put them.
    opened: OnceCell<Store>,
}

/// The scope of a command.
pub enum CommandScope {
    /// As its own flags say.
    Free,
    /// One vault, through these rules, whatever the command is.
    OwnVault(RuleArgs),
}

impl<'a> Context<'a> {
    /// Reads the settings. Commands that must work with any settings file do not call this.
    pub fn load(
        out: &'a mut Printer,
        global: &GlobalArgs,
        rules: Option<&RuleArgs>,
    ) -> Result<Context<'a>, SettingsError> {
        let environment = |name: &str| std::env::var_os(name);
        // A working directory that was deleted has no project.
        let working_directory = std::env::current_dir().ok();
        let settings = Settings::load(&Sources {
            places: &UserDirectories::from_environment(&environment),
            working_directory: working_directory.as_deref(),
            environment: &environment,
            flags: &flags(global),
        })?;
        out.set_color(settings.color());
        Ok(Context {
            out,
            settings,
            rules: rules.cloned(),
            chosen: OnceCell::new(),
            alone: false,
            decided: OnceCell::new(),
            opened: OnceCell::new(),
        })
    }

    /// The same, for a command that must not reach further than this.
    pub fn within(self, scope: &CommandScope) -> Context<'a> {
        match scope {
            CommandScope::Free => self,
            CommandScope::OwnVault(rules) => Context {
                rules: Some(rules.clone()),
                chosen: OnceCell::new(),
                alone: true,
                ..self
            },
        }
    }

    /// The store, created if it does not exist.
    pub fn store(&self) -> Result<Store> {
        if let Some(store) = self.opened.get() {
            return Ok(store.clone());
        }
        let store = Store::open_with(self.home()?, self.store_options())?;
        // Leftover mounts of runs that could not end properly are removed before anything else.
        store.maintenance().clear_away_runs();
        Ok(self.opened.get_or_init(|| store).clone())
    }

    /// The options for opening a store, from the settings.
    pub fn store_options(&self) -> StoreOptions {
        let store = OpenOptions {
            busy_timeout: self.settings.wait(),
            ..OpenOptions::default()
        };
        let retention = self.retention();
        let patience = self.settings.wait();
        StoreOptions {
            store,
            actor: actor(),
            retention,
            patience,
            ..StoreOptions::default()
        }
    }

    /// The store, for commands about tasks and their directories: an apply that was killed halfway is
    /// finished or rolled back first.
    pub fn task_store(&mut self) -> Result<Store> {
        let store = self.store()?;
        tell_recovered(self.out, &store.applies().recover()?);
        Ok(store)
    }

    /// The directory of the store.
    pub fn home(&self) -> Result<&Path> {
        let no_place = || {
            Failure::new(
                "no-home",
                ExitStatus::BadInput,
                "there is no place for a store: HOME is not set",
            )
            .hint(Some("set AVFS_HOME to a directory".to_owned()))
        };
        Ok(self.settings.home().ok_or_else(no_place)?)
    }

    /// The directory of the store, if a flag names it.
    pub fn home_flag(&self) -> Option<PathBuf> {
        match self.settings.get(SettingKey::Home).origin {
            Origin::Flag => self.settings.home().map(Path::to_owned),
            _ => None,
        }
    }

    /// What automatic snapshots may cost, as the settings say.
    pub fn retention(&self) -> RetentionPolicy {
        let set = self.settings.retention();
        let [all, hourly, daily] = [set.all, set.hourly, set.daily].map(|span| span.as_secs());
        RetentionPolicy {
            times: SnapshotRetention { all, hourly, daily },
            disk_share: set.disk_share,
        }
    }

    /// The vault that the command works on, as the command sees it: through the rules of its flags, or else those
    /// that are stored with the vault.
    pub fn vault(&self) -> Result<Vault> {
        // Errors in them are reported before anything else.
        self.chosen()?;
        self.seen(self.whole_vault()?)
    }

    /// Whether only one vault can be named.
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// The flags that count: those of a command, unless others have decided for it.
    pub fn rule_args<'b>(&'b self, own: &'b RuleArgs) -> &'b RuleArgs {
        self.rules.as_ref().filter(|_| self.alone).unwrap_or(own)
    }

    /// A vault as the command sees it.
    pub fn seen(&self, vault: Vault) -> Result<Vault> {
        match self.chosen()? {
            Chosen::Everything => Ok(vault),
            Chosen::These(rules) => Ok(vault.through(rules)),
            Chosen::Stored => Ok(vault.through_stored()?),
        }
    }

    fn chosen(&self) -> Result<Chosen> {
        if let Some(chosen) = self.chosen.get() {
            return Ok(chosen.clone());
        }
        let chosen = self
            .rules
            .as_ref()
            .map_or(Ok(Chosen::Everything), RuleArgs::read)?;
        Ok(self.chosen.get_or_init(|| chosen).clone())
    }

    /// The vault that commands work on, if one is decided on. A store that does not exist is not made.
    pub fn vault_if_chosen(&self) -> Result<Option<Vault>> {
        // Questions such as completion must not create a store where there is none.
        if !self.settings.home().is_some_and(Path::exists) {
            return Ok(None);
        }
        let decided = self.decided_already(&self.store()?)?;
        decided
            .map(|decided| without_dead_mounts(decided.vault))
            .transpose()
    }

    /// The vault that the command works on, all of it.
    pub fn whole_vault(&self) -> Result<Vault> {
        let vault = without_dead_mounts(self.decided()?.vault)?;
        Ok(if self.alone { vault.alone() } else { vault })
    }

    /// A vault by its name.
    pub fn vault_named(&self, name: &str) -> Result<Vault> {
        if self.alone {
            let text = format!("vault '{name}' cannot be reached from here");
            return Err(Failure::new("inside-run", ExitStatus::Denied, text).into());
        }
        without_dead_mounts(self.store()?.projects().here(&working_directory())?.vault(name)?)
    }

    /// The name of the vault that commands work on, if one is decided on.
    pub fn chosen_vault(&self, store: &Store) -> Result<Option<String>> {
        let decided = match self.decided_already(store) {
            // A list of vaults is also for users who need to find out which ones exist.
            Err(error)
                if matches!(
                    error.downcast_ref(),
                    Some(agentvfs::Error::Vault(VaultError::Unknown { .. }))
                ) =>
            {
                None
            }
            decided => decided?,
        };
        Ok(decided
            .map(|decided| decided.vault.name())
            .transpose()?
            .map(|name| name.to_string()))
    }

    /// Looks at a state of the vault: the one that `at` names, or the present one.
    pub fn view(&self, at: &AtArg) -> Result<View> {
        let revision = at.at.as_ref().map_or_else(|| "@".to_owned(), ToString::to_string);
        Ok(View::of(self.vault()?.revision(&revision)?)?)
    }
}

/// A vault, without the mounts that a process left which died.
fn without_dead_mounts(vault: Vault) -> Result<Vault> {
    if !vault.mounts().list()?.is_empty() {
        // Every access to a dead mount fails, and so would commands that work in the directory.
        vault.store().mounts().clean_up(&mut agentvfs::mount::take_away)?;
    }
    Ok(vault)
}

/// The actor: the user under the first of these names that is set.
fn actor() -> Actor {
    let user = Actor::of_process();
    let names = ["AVFS_ACTOR", "USER", "LOGNAME"].into_iter();
    let mut given = names
        .filter_map(|name| std::env::var(name).ok())
        // An empty variable counts as unset, as usual in shells.
        .filter(|name| !name.is_empty());
    match given.next() {
        Some(name) => user.named(name),
        None => user,
    }
}

fn flags(global: &GlobalArgs) -> Vec<(SettingKey, OsString)> {
    let home = global
        .home
        .as_ref()
        .map(|path| (SettingKey::Home, path.clone().into_os_string()));
    let vault = global.vault.as_ref().map(|name| (SettingKey::Vault, name.into()));
    let color = global.color.map(|when| (SettingKey::Color, when.as_str().into()));
    [home, vault, color].into_iter().flatten().collect()
}
