//! Commands that need a network and have none: how to give them one.

use avfs_exec::network::{HostGroup, NetworkChoice};

use super::RunSpec;
use crate::approvals::AskedCommand;
use crate::error::{NetworkedCommand, NetworkedRun};

/// The same command with a network.
pub(super) fn with_network(request: &RunSpec, vault: &str) -> NetworkedRun {
    let command = AskedCommand::from(&request.command);
    let shown = command.quoted();
    let command = match command {
        _ if request.session.is_some() => NetworkedCommand::Session,
        AskedCommand::Argv(_) | AskedCommand::Session => NetworkedCommand::Argv(shown),
        AskedCommand::Shell(_) => NetworkedCommand::Shell(shown),
    };
    NetworkedRun {
        vault: vault.to_owned(),
        hosts: wanted(request),
        command,
    }
}

/// The hosts that the command names, or those that its tools need.
fn wanted(request: &RunSpec) -> Vec<String> {
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
        found.extend(
            programs
                .find_map(HostGroup::for_tool)
                .map(|group| format!("+{}", group.name)),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use avfs_exec::classify::Command;

    use super::*;

    #[track_caller]
    fn check(command: Command, hosts: &[&str], expected: NetworkedCommand) {
        let again = with_network(&RunSpec::new(command), "web");
        assert_eq!(again.vault, "web");
        assert_eq!(again.hosts, hosts);
        assert_eq!(again.command, expected);
    }

    #[test]
    fn a_command_is_given_the_hosts_that_it_names_or_its_tool_needs() {
        let argv = |words: &[&str]| Command::Argv(words.iter().map(|word| word.into()).collect());
        let words = |text: &str| NetworkedCommand::Argv(text.to_owned());
        check(argv(&["npm", "ci"]), &["+npm"], words("npm ci"));
        check(
            argv(&["curl", "-d", "a b", "https://u:p@a.example:8443/x"]),
            &["+a.example:8443"],
            words("curl -d 'a b' https://u:p@a.example:8443/x"),
        );
        check(
            Command::Shell("cd x && /usr/bin/pip install y".to_owned()),
            &["+pypi"],
            NetworkedCommand::Shell("'cd x && /usr/bin/pip install y'".to_owned()),
        );
        check(argv(&["ssh", "host"]), &[], words("ssh host"));
    }

    #[test]
    fn a_session_has_its_network_from_its_start() {
        let line = Command::Shell("cargo fetch".to_owned());
        let request = RunSpec {
            session: Some("s1".to_owned()),
            ..RunSpec::new(line)
        };
        let again = with_network(&request, "web");
        assert_eq!(again.hosts, ["+crates"]);
        assert_eq!(again.command, NetworkedCommand::Session);
    }
}
