//! The names that can be meant.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use agentvfs::approvals::ApprovalState;
use agentvfs::rules::Preset;
use agentvfs::{OpenOptions, Store, StoreOptions};
use anyhow::Result;
use clap::builder::StyledStr;
use clap_complete::engine::CompletionCandidate;

use crate::context::Context;
use crate::escape::printable_line;
use crate::global_args::GlobalArgs;
use crate::here::working_directory;
use crate::printer::{OutputStyle, Printer};
use crate::settings::ColorWhen;

/// How long to wait for a store that another process is writing to.
const PATIENCE: Duration = Duration::from_millis(10);
/// The file of every existing store.
const DATABASE: &str = "store.db";
/// The maximum length of a description.
const ABOUT_MAX: usize = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletedNames {
    Tasks,
    Vaults,
    VaultsAndDirectories,
    Checkpoints,
    /// Checkpoints, and vaults.
    Revisions,
    TasksAndRevisions,
    Profiles,
    Sessions,
    Approvals,
    Presets,
}

impl CompletedNames {
    /// All names of this kind, for a line with these words. Names that cannot be determined are omitted.
    pub fn find(self, words: &[OsString]) -> Vec<CompletionCandidate> {
        self.look(words).unwrap_or_default()
    }

    fn look(self, words: &[OsString]) -> Result<Vec<CompletionCandidate>> {
        match self {
            CompletedNames::Profiles => {
                let profiles = crate::commands::known_profiles()?;
                return Ok(profiles
                    .all()
                    .iter()
                    .map(|profile| candidate(profile.name.to_string(), ""))
                    .collect());
            }
            CompletedNames::Presets => {
                return Ok(Preset::ALL
                    .iter()
                    .map(|preset| candidate(preset.name().to_owned(), ""))
                    .collect());
            }
            _ => {}
        }
        let style = OutputStyle {
            color: ColorWhen::Never,
            json: false,
            quiet: true,
            paged: false,
        };
        let mut out = Printer::to(Box::new(io::sink()), Box::new(io::sink()), style);
        let context = Context::load(&mut out, &global(words), None)?;
        let Some(store) = store(&context)? else {
            return Ok(Vec::new());
        };
        match self {
            CompletedNames::Tasks => tasks(&store),
            CompletedNames::Vaults | CompletedNames::VaultsAndDirectories => vaults(&store),
            CompletedNames::Checkpoints => checkpoints(&context, &store),
            CompletedNames::Revisions => Ok(all([checkpoints(&context, &store)?, vaults(&store)?])),
            CompletedNames::TasksAndRevisions => Ok(all([
                tasks(&store)?,
                checkpoints(&context, &store)?,
                vaults(&store)?,
            ])),
            CompletedNames::Sessions => {
                let sessions = store.sessions().list()?.into_iter();
                Ok(sessions
                    .map(|session| candidate(session.record.id, &session.record.vault))
                    .collect())
            }
            CompletedNames::Approvals => {
                let mut open = store.approvals().list()?;
                open.retain(|approval| approval.state == ApprovalState::Pending);
                let shown = |approval: &agentvfs::approvals::Approval| {
                    candidate(approval.id.to_string(), &approval.binding.command.shown())
                };
                Ok(open.iter().map(shown).collect())
            }
            CompletedNames::Profiles | CompletedNames::Presets => Ok(Vec::new()),
        }
    }
}

fn all<const LISTS: usize>(lists: [Vec<CompletionCandidate>; LISTS]) -> Vec<CompletionCandidate> {
    lists.into_iter().flatten().collect()
}

/// The store, if there is one.
fn store(context: &Context<'_>) -> Result<Option<Store>> {
    let home = context.home()?;
    if !home.join(DATABASE).is_file() {
        return Ok(None);
    }
    let store = OpenOptions {
        busy_timeout: PATIENCE,
        ..OpenOptions::default()
    };
    let options = StoreOptions {
        store,
        patience: PATIENCE,
        ..StoreOptions::default()
    };
    Ok(Some(Store::open_with(home, options)?))
}

fn tasks(store: &Store) -> Result<Vec<CompletionCandidate>> {
    let here = store.projects().here(&working_directory())?;
    let tasks = match here.project() {
        Some(_) => here.tasks()?,
        None => store.tasks().list()?,
    };
    Ok(tasks
        .iter()
        .map(|task| candidate(here.name_of(task), task.command()))
        .collect())
}

fn vaults(store: &Store) -> Result<Vec<CompletionCandidate>> {
    Ok(store
        .vault_names()?
        .iter()
        .map(|name| candidate(name.clone(), ""))
        .collect())
}

/// Those of the vault that the command would work on; newest first.
fn checkpoints(context: &Context<'_>, store: &Store) -> Result<Vec<CompletionCandidate>> {
    let Some(decided) = context.decided_already(store)? else {
        return Ok(Vec::new());
    };
    let mut checkpoints = decided.vault.checkpoints()?;
    checkpoints.reverse();
    let shown = |point: &agentvfs::Checkpoint| {
        candidate(
            point.name.to_string(),
            point.message.as_deref().unwrap_or_default(),
        )
    };
    Ok(checkpoints.iter().map(shown).collect())
}

fn candidate(name: String, about: &str) -> CompletionCandidate {
    let about: String = printable_line(about.as_bytes()).chars().take(ABOUT_MAX).collect();
    let about = (!about.is_empty()).then(|| StyledStr::from(about));
    CompletionCandidate::new(name).help(about)
}

/// The flags that say which store and vault are meant, as far as the line has them already.
fn global(words: &[OsString]) -> GlobalArgs {
    let mut global = GlobalArgs::default();
    for (index, word) in words.iter().enumerate() {
        let Some(word) = word.to_str() else { continue };
        let (flag, joined) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(OsString::from(value))),
            None => (word, None),
        };
        // The last word is being typed: it is nothing yet.
        let next = || words.get(index + 1).filter(|_| index + 2 < words.len()).cloned();
        let value = || joined.clone().filter(|_| index + 1 < words.len()).or_else(next);
        match flag {
            "--home" => global.home = value().map(PathBuf::from),
            "--vault" => global.vault = value().and_then(|value| value.into_string().ok()),
            _ => {}
        }
    }
    global
}
