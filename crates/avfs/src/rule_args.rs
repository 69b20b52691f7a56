//! The flags that say through which rules a command sees a vault.

use std::path::PathBuf;

use agentvfs::Vault;
use agentvfs::rules::{self, Labels, Level, Rule, RuleFile, Rules};
use anyhow::Result;

use crate::escape::printable_path;
use crate::settings::SettingKey;

#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct RuleArgs {
    /// View the vault through this rule, PATTERN=LEVEL or PATTERN=LEVEL@PRIORITY; can be repeated
    #[arg(long, value_name = "RULE", help_heading = HEADING)]
    rule: Vec<String>,
    /// View the vault through a preset; can be repeated (`avfs rules presets` lists them)
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    preset: Vec<String>,
    /// View the vault through the rules in a file; can be repeated
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    rules: Vec<PathBuf>,
    /// View all of the vault, whatever rules are stored with it
    #[arg(long, help_heading = HEADING, conflicts_with_all = ["rule", "preset", "rules"])]
    no_rules: bool,
    /// Decided by others, and not by flags.
    #[arg(skip)]
    fixed: Option<Option<Vec<Rule>>>,
}

/// Through which rules a vault is to be seen.
#[derive(Clone)]
pub enum Chosen {
    /// Through none.
    Everything,
    These(Rules),
    /// Through those that are stored with it, if there are any.
    Stored,
}

const HEADING: &str = "Rules";

impl RuleArgs {
    /// These rules, or none, whatever is stored with a vault.
    pub fn fixed(rules: Option<Vec<Rule>>) -> RuleArgs {
        RuleArgs {
            fixed: Some(rules),
            ..RuleArgs::default()
        }
    }

    /// The rules that the flags name, one list of all of them.
    pub fn read(&self) -> Result<Chosen> {
        match &self.fixed {
            Some(Some(rules)) => {
                return Ok(Chosen::These(
                    Rules::shared(rules.clone()).map_err(agentvfs::Error::from)?,
                ));
            }
            Some(None) => return Ok(Chosen::Everything),
            None => {}
        }
        if self.no_rules {
            return Ok(Chosen::Everything);
        }
        if *self == RuleArgs::default() {
            return Ok(Chosen::Stored);
        }
        let read = |file: &PathBuf| Ok(RuleFile::read(file, &other_sections())?.rules);
        let files = self.rules.iter().map(read).collect::<Result<Vec<Rules>>>()?;
        if let ([only], [], []) = (&files[..], &self.preset[..], &self.rule[..]) {
            return Ok(Chosen::These(only.clone()));
        }
        let mut list: Vec<Rule> = Vec::new();
        for name in &self.preset {
            list.extend(rules::preset("--preset", name)?.rules());
        }
        list.extend(files.iter().flat_map(Rules::list).cloned());
        for text in &self.rule {
            list.push(rules::line("--rule", text)?);
        }
        Ok(Chosen::These(Rules::shared(list).map_err(agentvfs::Error::from)?))
    }

    /// The same for a task: single rules alone come on top of those that it has without flags.
    pub fn read_on_top_of(&self, usual: &[Rule]) -> Result<Chosen> {
        let is_list = !self.preset.is_empty() || !self.rules.is_empty() || self.fixed.is_some();
        match self.read()? {
            Chosen::These(single) if !is_list => {
                let list = usual.iter().chain(single.list()).cloned().collect();
                Ok(Chosen::These(Rules::shared(list).map_err(agentvfs::Error::from)?))
            }
            chosen => Ok(chosen),
        }
    }

    /// The rules for a vault: those of the flags, or the ones that are stored with it. `None`: all of it is seen.
    pub fn list_for(&self, vault: &Vault) -> Result<Option<Vec<Rule>>> {
        match self.read()? {
            Chosen::Everything => Ok(None),
            Chosen::These(rules) => Ok(Some(rules.list().to_vec())),
            Chosen::Stored => Ok(vault.stored_rules()?),
        }
    }

    /// The same for a program that is run in a vault: in a task it is not shown more than the task was made with.
    pub fn list_for_programs(&self, vault: &Vault) -> Result<Option<Vec<Rule>>> {
        match self.read()? {
            Chosen::Everything => Ok(None),
            Chosen::These(rules) => Ok(Some(rules.list().to_vec())),
            Chosen::Stored => Ok(vault.rules_for_programs()?),
        }
    }

    /// The flags as they were given, for passing them on.
    pub fn words(&self) -> Vec<String> {
        let presets = self.preset.iter().map(|name| ("--preset", name.clone()));
        let files = self.rules.iter().map(|file| ("--rules", printable_path(file)));
        let rules = self.rule.iter().map(|rule| ("--rule", rule.clone()));
        presets
            .chain(files)
            .chain(rules)
            .map(|(flag, value)| format!("{flag} {}", avfs_core::shell_word(&value)))
            .collect()
    }
}

/// Whether rules show nothing at all: a path that no rule allows is hidden.
pub fn hide_everything(rules: &Rules) -> bool {
    let root = rules.root(&Labels::default());
    root.level() < Level::View && !rules.is_passable(&root)
}

/// How to make rules that hide everything hide only the paths that they name.
pub const SHOW_THE_REST: &str = "add `--rule '/**=write'`, or a preset such as `--preset agent-safe`";

/// The other possible sections of an `avfs.toml`.
pub fn other_sections() -> Vec<&'static str> {
    let settings = SettingKey::ALL
        .iter()
        .map(|key| key.name().split('.').next().unwrap_or(key.name()));
    settings.chain(["setup"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_can_be_given_again_as_they_are_told() {
        let args = RuleArgs {
            rule: vec!["/a b/**=read".into(), "/it's=none".into()],
            preset: vec!["read-only".into()],
            rules: vec!["r.toml".into()],
            fixed: None,
            no_rules: false,
        };
        let expected = [
            "--preset read-only",
            "--rules r.toml",
            "--rule '/a b/**=read'",
            "--rule '/it'\\''s=none'",
        ];
        assert_eq!(args.words(), expected);
        assert!(matches!(RuleArgs::default().read().unwrap(), Chosen::Stored));
    }
}
