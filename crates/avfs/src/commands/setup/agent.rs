//! The agents that setup knows: where their settings are, and in which form.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use super::change::{SetupChange, read};
use super::json_settings::{self, JsonEntry};
use super::parts::{SetupPart, SetupPlace, WantedSetup, own_program, program_on_path, words};
use super::{own_command, skill, toml_settings, yaml_settings};

/// The name of the server in every settings file.
pub const NAME: &str = "agentvfs";

/// An agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    Claude,
    Codex,
    Gemini,
    Cursor,
    Vscode,
    Zed,
    Opencode,
    Copilot,
    Windsurf,
    Kiro,
    Goose,
}

/// Whose settings are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    User,
    Project,
}

/// A file with the servers of an agent.
#[derive(Clone, Copy, Debug)]
struct Servers {
    /// From the home or the project; `~config/` is where the user's settings are.
    file: &'static str,
    form: ServerForm,
}

/// How a server is written down.
#[derive(Clone, Copy, Debug)]
enum ServerForm {
    /// `SECTION.agentvfs = { command, args }`, and what else the agent wants.
    Json {
        section: &'static str,
        entry: ServerEntry,
    },
    Toml,
    Yaml,
}

#[derive(Clone, Copy, Debug)]
enum ServerEntry {
    Plain,
    /// With `"type": "stdio"`.
    Stdio,
    /// With `"source": "custom"`.
    Zed,
    /// One list with the command and its arguments.
    Opencode,
}

impl Agent {
    pub const ALL: [Agent; 11] = [
        Agent::Claude,
        Agent::Codex,
        Agent::Gemini,
        Agent::Cursor,
        Agent::Vscode,
        Agent::Zed,
        Agent::Opencode,
        Agent::Copilot,
        Agent::Windsurf,
        Agent::Kiro,
        Agent::Goose,
    ];

    pub fn named(name: &str) -> Option<Agent> {
        Agent::ALL.into_iter().find(|agent| agent.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Agent::Claude => "claude",
            Agent::Codex => "codex",
            Agent::Gemini => "gemini",
            Agent::Cursor => "cursor",
            Agent::Vscode => "vscode",
            Agent::Zed => "zed",
            Agent::Opencode => "opencode",
            Agent::Copilot => "copilot",
            Agent::Windsurf => "windsurf",
            Agent::Kiro => "kiro",
            Agent::Goose => "goose",
        }
    }

    /// Programs and directories, one of which is there if the agent is.
    fn traces(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Agent::Claude => (&["claude"], &[".claude.json", ".claude"]),
            Agent::Codex => (&["codex"], &[".codex"]),
            Agent::Gemini => (&["gemini"], &[".gemini"]),
            Agent::Cursor => (&["cursor", "cursor-agent"], &[".cursor"]),
            Agent::Vscode => (&["code"], &["~config/Code"]),
            Agent::Zed => (&["zed", "zeditor"], &["~config/zed"]),
            Agent::Opencode => (&["opencode"], &["~config/opencode"]),
            Agent::Copilot => (&["copilot"], &[".copilot"]),
            Agent::Windsurf => (&["windsurf"], &[".codeium/windsurf"]),
            Agent::Kiro => (&["kiro", "kiro-cli"], &[".kiro"]),
            Agent::Goose => (&["goose"], &["~config/goose"]),
        }
    }

    /// What starts it in a terminal, if it is there.
    pub fn terminal_program(self) -> Option<&'static str> {
        let program = match self {
            Agent::Claude => "claude",
            Agent::Codex => "codex",
            Agent::Gemini => "gemini",
            Agent::Opencode => "opencode",
            Agent::Copilot => "copilot",
            Agent::Goose => "goose",
            Agent::Cursor | Agent::Vscode | Agent::Zed | Agent::Windsurf | Agent::Kiro => return None,
        };
        program_on_path(program).map(|_| program)
    }

    pub fn is_here(self, place: &SetupPlace) -> bool {
        let (programs, files) = self.traces();
        let is_there = |file: &&str| place.file(Reach::User, file).is_some_and(|file| file.exists());
        programs.iter().any(|name| program_on_path(name).is_some()) || files.iter().any(is_there)
    }

    fn servers(self, reach: Reach) -> Option<Servers> {
        let json = |file, section, entry| Servers {
            file,
            form: ServerForm::Json { section, entry },
        };
        let plain = |file| json(file, "mcpServers", ServerEntry::Plain);
        let found = match (self, reach) {
            (Agent::Claude, Reach::User) => json(".claude.json", "mcpServers", ServerEntry::Stdio),
            (Agent::Claude, Reach::Project) => json(".mcp.json", "mcpServers", ServerEntry::Stdio),
            (Agent::Codex, _) => Servers {
                file: ".codex/config.toml",
                form: ServerForm::Toml,
            },
            (Agent::Gemini, _) => plain(".gemini/settings.json"),
            (Agent::Cursor, _) => plain(".cursor/mcp.json"),
            (Agent::Vscode, Reach::User) => json("~config/Code/User/mcp.json", "servers", ServerEntry::Stdio),
            (Agent::Vscode, Reach::Project) => json(".vscode/mcp.json", "servers", ServerEntry::Stdio),
            (Agent::Zed, Reach::User) => {
                json("~config/zed/settings.json", "context_servers", ServerEntry::Zed)
            }
            (Agent::Zed, Reach::Project) => json(".zed/settings.json", "context_servers", ServerEntry::Zed),
            (Agent::Opencode, Reach::User) => {
                json("~config/opencode/opencode.json", "mcp", ServerEntry::Opencode)
            }
            (Agent::Opencode, Reach::Project) => json("opencode.json", "mcp", ServerEntry::Opencode),
            (Agent::Copilot, Reach::User) => plain(".copilot/mcp-config.json"),
            (Agent::Copilot, Reach::Project) => plain(".mcp.json"),
            (Agent::Windsurf, Reach::User) => plain(".codeium/windsurf/mcp_config.json"),
            (Agent::Windsurf, Reach::Project) => return None,
            (Agent::Kiro, _) => plain(".kiro/settings/mcp.json"),
            (Agent::Goose, Reach::User) => Servers {
                file: "~config/goose/config.yaml",
                form: ServerForm::Yaml,
            },
            (Agent::Goose, Reach::Project) => Servers {
                file: ".goose/config.yaml",
                form: ServerForm::Yaml,
            },
        };
        Some(found)
    }

    /// The file of hooks; only for agents whose hooks speak the same as Claude Code's.
    fn hooks(self, reach: Reach) -> Option<&'static str> {
        match (self, reach) {
            (Agent::Claude, _) => Some(".claude/settings.json"),
            (Agent::Codex, _) => Some(".codex/hooks.json"),
            _ => None,
        }
    }

    fn skills(self) -> Option<&'static str> {
        match self {
            Agent::Claude => Some(".claude/skills"),
            Agent::Codex
            | Agent::Gemini
            | Agent::Cursor
            | Agent::Copilot
            | Agent::Opencode
            | Agent::Vscode => Some(".agents/skills"),
            Agent::Zed | Agent::Windsurf | Agent::Kiro | Agent::Goose => None,
        }
    }

    /// The parts that were asked for and that the agent has a place for.
    pub fn parts_of(self, wanted: &WantedSetup) -> Vec<SetupPart> {
        wanted
            .parts
            .iter()
            .copied()
            .filter(|part| self.has_place(*part, wanted.reach))
            .collect()
    }

    pub fn parts_left_out(self, wanted: &WantedSetup) -> Vec<SetupPart> {
        wanted
            .parts
            .iter()
            .copied()
            .filter(|part| !self.has_place(*part, wanted.reach))
            .collect()
    }

    pub fn has_place(self, part: SetupPart, reach: Reach) -> bool {
        match part {
            SetupPart::Mcp => self.servers(reach).is_some(),
            SetupPart::Hooks => self.hooks(reach).is_some(),
            SetupPart::Worktrees => self == Agent::Claude,
            SetupPart::Skill => self.skills().is_some(),
        }
    }

    pub fn file_of(self, part: SetupPart, reach: Reach, place: &SetupPlace) -> Option<PathBuf> {
        match part {
            SetupPart::Mcp => self.servers_file(self.servers(reach)?, reach, place),
            SetupPart::Hooks | SetupPart::Worktrees => place.file(reach, self.hooks(reach)?),
            SetupPart::Skill => Some(place.file(reach, self.skills()?)?.join(NAME).join("SKILL.md")),
        }
    }

    /// Where an agent reads one of several names, the one that is there.
    fn servers_file(self, servers: Servers, reach: Reach, place: &SetupPlace) -> Option<PathBuf> {
        let file = place.file(reach, servers.file)?;
        let others: &[&str] = match self {
            Agent::Opencode => &["opencode.jsonc"],
            Agent::Copilot if reach == Reach::Project => &[".github/mcp.json"],
            _ => &[],
        };
        let beside = |other: &&str| match other.split_once('/') {
            Some(_) => place.file(reach, other),
            None => Some(file.with_file_name(other)),
        };
        let there = others
            .iter()
            .filter_map(beside)
            .find(|other| other.exists() && !file.exists());
        Some(there.unwrap_or(file))
    }

    /// What has to change for the parts that were asked for.
    pub fn changes(self, wanted: &WantedSetup, place: &SetupPlace) -> Result<Vec<SetupChange>> {
        let mut changes = Vec::new();
        let parts = self.parts_of(wanted);
        // Nothing to do otherwise. Asking an agent's own command to add a server twice may fail.
        if parts.contains(&SetupPart::Mcp)
            && self.is_configured(SetupPart::Mcp, wanted, place)? == wanted.remove
        {
            changes.extend(self.server_change(wanted, place)?);
        }
        changes.extend(self.hook_change(&parts, wanted, place)?);
        if parts.contains(&SetupPart::Skill)
            && let Some(file) = self.file_of(SetupPart::Skill, wanted.reach, place)
        {
            let after = (!wanted.remove).then(|| skill::TEXT.to_owned());
            let before = read(&file)?;
            // A skill of the user's own under this name stays.
            if !wanted.remove || before.as_deref() == Some(skill::TEXT) {
                let after = after.or_else(|| place.records.original(&file, before.as_deref()).flatten());
                changes.extend(SetupChange::of_file(file, before, after));
            }
        }
        Ok(changes)
    }

    fn server_change(self, wanted: &WantedSetup, place: &SetupPlace) -> Result<Option<SetupChange>> {
        let Some(servers) = self.servers(wanted.reach) else {
            return Ok(None);
        };
        let (program, words) = (own_program()?, words(wanted, &["mcp"])?);
        if let Some(words) = own_command::words(self, wanted, &program, &words) {
            return Ok(Some(SetupChange::Command {
                agent: self.name(),
                words,
            }));
        }
        let Some(file) = self.servers_file(servers, wanted.reach, place) else {
            return Ok(None);
        };
        let before = read(&file)?;
        let is_ours = place.records.has_made(&file);
        let after = match servers.form {
            ServerForm::Json { section, entry } => {
                let value = (!wanted.remove).then(|| entry.value(&program, &words));
                json_settings::edited(
                    &file,
                    before.as_deref(),
                    is_ours,
                    &[JsonEntry::member(&[section], NAME, value)],
                )?
            }
            ServerForm::Toml => toml_settings::edited(
                &file,
                before.as_deref(),
                is_ours,
                (!wanted.remove).then_some((&program, &words)),
            )?,
            ServerForm::Yaml => yaml_settings::edited(
                &file,
                before.as_deref(),
                is_ours,
                (!wanted.remove).then_some((&program, &words)),
            )?,
        };
        let after = match place.records.original(&file, before.as_deref()) {
            Some(original) if wanted.remove => original,
            _ => after,
        };
        Ok(SetupChange::of_file(file, before, after))
    }

    /// Hooks and worktrees are in one file.
    fn hook_change(
        self,
        parts: &[SetupPart],
        wanted: &WantedSetup,
        place: &SetupPlace,
    ) -> Result<Option<SetupChange>> {
        let Some(file) = self
            .hooks(wanted.reach)
            .and_then(|file| place.file(wanted.reach, file))
        else {
            return Ok(None);
        };
        let program = own_program()?;
        let mut entries = Vec::new();
        // In one edit: each edit starts from the text as it is on disk.
        for (part, event, matcher, hook) in HOOKS {
            if parts.contains(part) {
                let line = line_of(&program, &words(wanted, &["hook", hook])?);
                entries.push(JsonEntry::hook(
                    event,
                    *matcher,
                    hook,
                    (!wanted.remove).then_some(line),
                ));
            }
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let before = read(&file)?;
        let is_ours = place.records.has_made(&file);
        let mut after = json_settings::edited(&file, before.as_deref(), is_ours, &entries)?;
        // What was there before had neither hooks nor worktrees: it is right if both of them go.
        if wanted.remove
            && let Some(original) = place.records.original(&file, before.as_deref())
            && hooks_in(&file, original.as_deref())? == hooks_in(&file, after.as_deref())?
        {
            after = original;
        }
        Ok(SetupChange::of_file(file, before, after))
    }

    /// Whether a part is set up, as this program would set it up.
    pub fn is_configured(self, part: SetupPart, wanted: &WantedSetup, place: &SetupPlace) -> Result<bool> {
        let Some(file) = self.file_of(part, wanted.reach, place) else {
            return Ok(false);
        };
        let Some(text) = read(&file)? else {
            return Ok(false);
        };
        match part {
            SetupPart::Mcp => match self.servers(wanted.reach).map(|servers| servers.form) {
                Some(ServerForm::Json { section, .. }) => {
                    json_settings::has_member(&file, &text, &[section, NAME])
                }
                Some(ServerForm::Toml) => toml_settings::has(&file, &text),
                Some(ServerForm::Yaml) => Ok(yaml_settings::has(&text)),
                None => Ok(false),
            },
            SetupPart::Hooks | SetupPart::Worktrees => {
                let ours = HOOKS.iter().filter(|(of, ..)| *of == part);
                let mut has_all = true;
                for (_, event, _, hook) in ours {
                    has_all &= json_settings::has_hook(&file, &text, event, hook)?;
                }
                Ok(has_all)
            }
            SetupPart::Skill => Ok(text == skill::TEXT),
        }
    }

    /// The parts that were not asked for, and that setup has added at some time, whole or not.
    pub fn traced_parts(self, wanted: &WantedSetup, place: &SetupPlace) -> Vec<SetupPart> {
        let others = SetupPart::ALL
            .into_iter()
            .filter(|part| !wanted.parts.contains(part) && self.has_place(*part, wanted.reach));
        others
            .filter(|part| self.has_trace(*part, wanted.reach, place))
            .collect()
    }

    fn has_trace(self, part: SetupPart, reach: Reach, place: &SetupPlace) -> bool {
        let Some(file) = self.file_of(part, reach, place) else {
            return false;
        };
        let text = read(&file).ok().flatten().unwrap_or_default();
        let added = place.records.added(&file).unwrap_or_default();
        match part {
            SetupPart::Skill => !text.is_empty() || !added.is_empty(),
            SetupPart::Mcp => false,
            SetupPart::Hooks | SetupPart::Worktrees => {
                let mut ours = HOOKS.iter().filter(|(of, ..)| *of == part);
                ours.any(|(.., hook)| {
                    let end = format!(" hook {hook}\"");
                    text.contains(&end) || added.contains(&end)
                })
            }
        }
    }

    /// What the user has to do or know after the change.
    pub fn notes(self, wanted: &WantedSetup) -> Vec<&'static str> {
        let mut notes = Vec::new();
        let parts = self.parts_of(wanted);
        if parts.contains(&SetupPart::Mcp) {
            notes.extend(match (self, wanted.reach) {
                (Agent::Claude, Reach::Project) => {
                    Some("it asks once whether to use the server of this project")
                }
                (Agent::Codex, Reach::Project) => Some("it reads settings only of projects that you trust"),
                (Agent::Gemini, Reach::Project) => Some("it reads settings only of folders that you trust"),
                (Agent::Cursor, _) => Some("enable the server under Settings > MCP"),
                (Agent::Vscode, _) => {
                    Some("start the server with the command 'MCP: List Servers'; it asks whether to trust it")
                }
                (Agent::Windsurf, _) => Some("press refresh in the list of MCP servers"),
                _ => None,
            });
        }
        if parts.contains(&SetupPart::Hooks) && self == Agent::Codex {
            notes.push("it asks once whether to trust the hooks");
        }
        notes
    }
}

/// The hooks: their part, event, matcher, and the word after `avfs hook`.
const HOOKS: &[(SetupPart, &str, Option<&str>, &str)] = &[
    (
        SetupPart::Hooks,
        "PreToolUse",
        Some("Bash|Edit|MultiEdit|Write|NotebookEdit|apply_patch"),
        "pre-tool-use",
    ),
    (SetupPart::Hooks, "SessionStart", None, "session-start"),
    (SetupPart::Hooks, "Stop", None, "stop"),
    (SetupPart::Worktrees, "WorktreeCreate", None, "worktree-create"),
    (SetupPart::Worktrees, "WorktreeRemove", None, "worktree-remove"),
];

/// Which of our hooks are in a file.
fn hooks_in(file: &Path, text: Option<&str>) -> Result<Vec<bool>> {
    let has = |(_, event, _, hook): &(_, &str, _, &str)| match text {
        Some(text) => json_settings::has_hook(file, text, event, hook),
        None => Ok(false),
    };
    HOOKS.iter().map(has).collect()
}

/// A command as a shell reads it.
fn line_of(program: &str, words: &[String]) -> String {
    let words = std::iter::once(program).chain(words.iter().map(String::as_str));
    words.map(avfs_core::shell_word).collect::<Vec<_>>().join(" ")
}

impl ServerEntry {
    fn value(self, program: &str, words: &[String]) -> Value {
        match self {
            ServerEntry::Plain => json!({ "command": program, "args": words }),
            ServerEntry::Stdio => json!({ "type": "stdio", "command": program, "args": words }),
            ServerEntry::Zed => json!({ "source": "custom", "command": program, "args": words, "env": {} }),
            ServerEntry::Opencode => {
                let command: Vec<&str> = std::iter::once(program)
                    .chain(words.iter().map(String::as_str))
                    .collect();
                json!({ "type": "local", "command": command, "enabled": true })
            }
        }
    }
}
