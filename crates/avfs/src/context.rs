//! What a command works with: the settings in force and the way to the user.

use std::ffi::OsString;

use agentvfs::{Revision, Store, TreeReader, Vault};

use crate::cli::GlobalArgs;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::{Key, Places, Settings, SettingsError, Sources};

pub struct Context<'a> {
    pub out: &'a mut Printer,
    pub settings: Settings,
}

impl<'a> Context<'a> {
    /// Reads the settings. Commands that must work whatever stands in a settings file do without.
    pub fn load(out: &'a mut Printer, global: &GlobalArgs) -> Result<Context<'a>, SettingsError> {
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
        Ok(Context { out, settings })
    }

    /// The store, made if there is none yet.
    pub fn store(&self) -> anyhow::Result<Store> {
        let no_place = || {
            Failure::new("no-home", ExitStatus::BadInput, "there is no place for a store: HOME is not set")
                .hint(Some("set AVFS_HOME to a directory".to_owned()))
        };
        Ok(Store::open(self.settings.home().ok_or_else(no_place)?)?)
    }

    /// The vault that the command works on: named by a flag, the environment or a file, or chosen before.
    pub fn vault(&self) -> anyhow::Result<Vault> {
        let store = self.store()?;
        let chosen = match self.settings.vault() {
            Some(name) => Some(name.to_owned()),
            None => store.current_vault()?,
        };
        let none = || {
            Failure::new("no-vault", ExitStatus::BadInput, "no vault is chosen")
                .hint(Some("name one with --vault, or choose one with `avfs vault use NAME`".to_owned()))
        };
        Ok(store.vault(&chosen.ok_or_else(none)?)?)
    }

    /// Reads a state of the vault: the one that `at` names, or the present one.
    pub fn reader(&self, at: Option<&str>) -> anyhow::Result<TreeReader> {
        let vault = self.vault()?;
        match at {
            Some(text) => {
                let Revision { vault, snapshot, .. } = vault.revision(text)?;
                Ok(vault.reader_at(snapshot)?)
            }
            None => Ok(vault.reader()?),
        }
    }
}

fn flags(global: &GlobalArgs) -> Vec<(Key, OsString)> {
    let home = global.home.as_ref().map(|path| (Key::Home, path.clone().into_os_string()));
    let vault = global.vault.as_ref().map(|name| (Key::Vault, name.into()));
    let color = global.color.map(|when| (Key::Color, when.as_str().into()));
    [home, vault, color].into_iter().flatten().collect()
}
