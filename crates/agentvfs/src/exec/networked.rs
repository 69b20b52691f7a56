//! Commands that need a network and have none: what to type to give them one.

use avfs_exec::network::{Group, NetworkChoice};

use super::ExecRequest;
use crate::approvals::AskedCommand;

/// The same command with a network, as one types it.
pub(super) fn with_network(request: &ExecRequest, vault: &str) -> String {
    let net = wanted(request);
    if request.session.is_some() {
        return format!("avfs session start --vault {vault} --net {net}");
    }
    let command = AskedCommand::from(&request.command);
    let shown = command.quoted();
    match command {
        AskedCommand::Argv(_) | AskedCommand::Session => {
            format!("avfs exec --vault {vault} --net {net} -- {shown}")
        }
        AskedCommand::Shell(_) => format!("avfs exec --vault {vault} --net {net} -c {shown}"),
    }
}

/// The hosts that the command names, or those that its tools need.
fn wanted(request: &ExecRequest) -> String {
    let line = AskedCommand::from(&request.command).shown();
    let words = || line.split(|c: char| c.is_whitespace() || "'\"();|&<>".contains(c));
    let mut found: Vec<String> = Vec::new();
    for place in words().filter_map(|word| Some(word.split_once("://")?.1)) {
        let place = place.split(['/', '?', '#']).next().unwrap_or_default();
        let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
        let add = format!("+{host}");
        if !found.contains(&add) && add.parse::<NetworkChoice>().is_ok() {
            found.push(add);
        }
    }
    if found.is_empty() {
        let mut programs = words().map(|word| word.rsplit('/').next().unwrap_or_default());
        found.extend(programs.find_map(Group::for_tool).map(|group| format!("+{}", group.name)));
    }
    match found.is_empty() {
        true => "HOST".to_owned(),
        false => found.join(","),
    }
}

#[cfg(test)]
mod tests {
    use avfs_exec::classify::Command;

    use super::*;

    #[track_caller]
    fn check(command: Command, expected: &str) {
        assert_eq!(with_network(&ExecRequest::new(command), "web"), expected);
    }

    #[test]
    fn a_command_is_given_the_hosts_that_it_names_or_its_tool_needs() {
        let argv = |words: &[&str]| Command::Argv(words.iter().map(|word| word.into()).collect());
        check(argv(&["npm", "ci"]), "avfs exec --vault web --net +npm -- npm ci");
        check(
            argv(&["curl", "-d", "a b", "https://u:p@a.example:8443/x"]),
            "avfs exec --vault web --net +a.example:8443 -- curl -d 'a b' https://u:p@a.example:8443/x",
        );
        check(
            Command::Shell("cd x && /usr/bin/pip install y".to_owned()),
            "avfs exec --vault web --net +pypi -c 'cd x && /usr/bin/pip install y'",
        );
        check(argv(&["ssh", "host"]), "avfs exec --vault web --net HOST -- ssh host");
    }

    #[test]
    fn a_session_has_its_network_from_its_start() {
        let line = Command::Shell("cargo fetch".to_owned());
        let request = ExecRequest { session: Some("s1".to_owned()), ..ExecRequest::new(line) };
        assert_eq!(with_network(&request, "web"), "avfs session start --vault web --net +crates");
    }
}
