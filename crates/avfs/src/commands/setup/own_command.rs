//! The agents' own commands for servers. Where there is one, it knows best where and how it is written down.

use super::agent::{Agent, NAME, Reach};
use super::parts::{WantedSetup, program_on_path};

/// The words that add or remove the server; `None`: the agent has no command here, or none for this reach.
pub fn words(agent: Agent, wanted: &WantedSetup, program: &str, arguments: &[String]) -> Option<Vec<String>> {
    let scope = match wanted.reach {
        Reach::User => "user",
        Reach::Project => "project",
    };
    let own: Vec<&str> = match (agent, wanted.reach, wanted.remove) {
        (Agent::Claude, _, false) => vec!["claude", "mcp", "add", "-s", scope, NAME, "--"],
        (Agent::Claude, _, true) => vec!["claude", "mcp", "remove", "-s", scope, NAME],
        // Its command knows the user's settings alone.
        (Agent::Codex, Reach::User, false) => vec!["codex", "mcp", "add", NAME, "--"],
        (Agent::Codex, Reach::User, true) => vec!["codex", "mcp", "remove", NAME],
        (Agent::Gemini, _, false) => vec!["gemini", "mcp", "add", "-s", scope, NAME],
        (Agent::Gemini, _, true) => vec!["gemini", "mcp", "remove", "-s", scope, NAME],
        _ => return None,
    };
    program_on_path(own[0])?;
    let mut words: Vec<String> = own.into_iter().map(str::to_owned).collect();
    if !wanted.remove {
        words.push(program.to_owned());
        words.extend_from_slice(arguments);
    }
    Some(words)
}
