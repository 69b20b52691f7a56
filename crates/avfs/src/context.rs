//! What a command works with: the settings in force and the way to the user.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::Path;

use agentvfs::{OpenOptions, Retention, RetentionPolicy, Store, StoreOptions, Vault};
use anyhow::Result;

use crate::args::AtArg;
use crate::cli::GlobalArgs;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::here::{Decided, working_directory};
use crate::printer::Printer;
use crate::recovered::tell_recovered;
use crate::rule_args::{Chosen, RuleArgs};
use crate::settings::{Key, Places, Settings, SettingsError, Sources};
use crate::view::View;

pub struct Context<'a> {
    pub out: &'a mut Printer,
    pub settings: Settings,
    /// The flags of a command that sees vaults through rules.
    rules: Option<RuleArgs>,
    /// What they say, once somebody asked.
    chosen: OnceCell<Chosen>,
    /// No vault but one can be named.
    alone: bool,
    /// The vault that the command works on, once that was asked.
    pub(crate) decided: OnceCell<Decided>,
    /// One for the whole command: objects that no ref names yet are known to the handle alone that has put them.
    opened: OnceCell<Store>,
}

/// How far a command reaches.
pub enum Scope {
    /// As its own flags say.
    Free,
    /// One vault, through these rules, whatever the command is.
    OwnVault(RuleArgs),
}

impl<'a> Context<'a> {
    /// Reads the settings. Commands that must work whatever stands in a settings file do without.
    pub fn load(
        out: &'a mut Printer,
        global: &GlobalArgs,
        rules: Option<&RuleArgs>,
    ) -> Result<Context<'a>, SettingsError> {
        let environment = |name: &str| std::env::var_os(name);
        // A working directory that was deleted has no project.
        let working_directory = std::env::current_dir().ok();
        let settings = Settings::load(&Sources {
            places: &Places::from_environment(&environment),
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
    pub fn within(self, scope: &Scope) -> Context<'a> {
        match scope {
            Scope::Free => self,
            Scope::OwnVault(rules) => {
                Context { rules: Some(rules.clone()), chosen: OnceCell::new(), alone: true, ..self }
            }
        }
    }

    /// The store, made if there is none yet.
    pub fn store(&self) -> Result<Store> {
        if let Some(store) = self.opened.get() {
            return Ok(store.clone());
        }
        let store = Store::open_with(self.home()?, self.store_options())?;
        // Whatever a run left mounted that could not end as it should is gone before anybody looks.
        store.clear_away_runs();
        Ok(self.opened.get_or_init(|| store).clone())
    }

    /// How a store is opened, as the settings say.
    pub fn store_options(&self) -> StoreOptions {
        let store = OpenOptions { busy_timeout: self.settings.wait(), ..OpenOptions::default() };
        let (retention, patience) = (self.retention(), self.settings.wait());
        StoreOptions { store, retention, patience, ..StoreOptions::default() }
    }

    /// The store, for commands about tasks and their directories: what a killed apply left half done is finished or
    /// taken back before anybody looks.
    pub fn task_store(&mut self) -> Result<Store> {
        let store = self.store()?;
        tell_recovered(self.out, &store.recover_applies()?);
        Ok(store)
    }

    /// The directory of the store.
    pub fn home(&self) -> Result<&Path> {
        let no_place = || {
            Failure::new("no-home", ExitStatus::BadInput, "there is no place for a store: HOME is not set")
                .hint(Some("set AVFS_HOME to a directory".to_owned()))
        };
        Ok(self.settings.home().ok_or_else(no_place)?)
    }

    /// What automatic snapshots may cost, as the settings say.
    pub fn retention(&self) -> RetentionPolicy {
        let set = self.settings.retention();
        let [all, hourly, daily] = [set.all, set.hourly, set.daily].map(|span| span.as_secs());
        RetentionPolicy { times: Retention { all, hourly, daily }, disk_share: set.disk_share }
    }

    /// The vault that the command works on, as the command sees it: through the rules of its flags, or else those
    /// that are stored with the vault.
    pub fn vault(&self) -> Result<Vault> {
        // A mistake in them is told before anything else.
        self.chosen()?;
        self.seen(self.whole_vault()?)
    }

    /// Whether no vault but one can be named.
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
        let chosen = self.rules.as_ref().map_or(Ok(Chosen::Everything), RuleArgs::read)?;
        Ok(self.chosen.get_or_init(|| chosen).clone())
    }

    /// The vault that commands work on, if one is decided on. A store that does not exist is not made.
    pub fn vault_if_chosen(&self) -> Result<Option<Vault>> {
        if !self.settings.home().is_some_and(Path::exists) {
            return Ok(None);
        }
        let decided = self.decided_already(&self.store()?)?;
        decided.map(|decided| without_dead_mounts(decided.vault)).transpose()
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
        without_dead_mounts(self.store()?.here(&working_directory())?.vault(name)?)
    }

    /// The name of the vault that commands work on, if one is decided on.
    pub fn chosen_vault(&self, store: &Store) -> Result<Option<String>> {
        let decided = match self.decided_already(store) {
            // A list of vaults is also for those who have to find out what there is.
            Err(error) if matches!(error.downcast_ref(), Some(agentvfs::Error::UnknownVault { .. })) => None,
            decided => decided?,
        };
        Ok(decided.map(|decided| decided.vault.name()).transpose()?.map(|name| name.to_string()))
    }

    /// Looks at a state of the vault: the one that `at` names, or the present one.
    pub fn view(&self, at: &AtArg) -> Result<View> {
        let revision = at.at.as_ref().map_or_else(|| "@".to_owned(), ToString::to_string);
        Ok(View::of(self.vault()?.revision(&revision)?)?)
    }
}

/// A vault, without the mounts that a process left which died.
fn without_dead_mounts(vault: Vault) -> Result<Vault> {
    if !vault.mount_records()?.is_empty() {
        vault.store().clean_up_mounts(&mut agentvfs::mount::take_away)?;
    }
    Ok(vault)
}

fn flags(global: &GlobalArgs) -> Vec<(Key, OsString)> {
    let home = global.home.as_ref().map(|path| (Key::Home, path.clone().into_os_string()));
    let vault = global.vault.as_ref().map(|name| (Key::Vault, name.into()));
    let color = global.color.map(|when| (Key::Color, when.as_str().into()));
    [home, vault, color].into_iter().flatten().collect()
}
