//! A shell that a person works in shows in its prompt which task it is in. Its own files are read first, so that its prompt
//! is the user's; nothing in the home is changed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use avfs_exec::Plan;

/// Where the files for shells are inside.
const PLACE: &str = "/run/avfs/shell";

/// Before each prompt, because what the user has may make the prompt again each time.
const BASH: &str = r#"[ -f /etc/bash.bashrc ] && . /etc/bash.bashrc
[ -f ~/.bashrc ] && . ~/.bashrc
__avfs_prompt() { case $PS1 in "($AVFS_TASK) "*) ;; *) PS1="($AVFS_TASK) $PS1" ;; esac; }
PROMPT_COMMAND="${PROMPT_COMMAND:+$PROMPT_COMMAND; }__avfs_prompt"
"#;

const ZSH_ENVIRONMENT: &str = "[ -f ~/.zshenv ] && . ~/.zshenv\n";
/// The place is only for this file: everything else looks for the user's own.
const ZSH: &str = r#"ZDOTDIR=$HOME
[ -f ~/.zshrc ] && . ~/.zshrc
__avfs_prompt() { case $PROMPT in "($AVFS_TASK) "*) ;; *) PROMPT="($AVFS_TASK) $PROMPT" ;; esac }
precmd_functions+=(__avfs_prompt)
"#;

const FISH: &str = r#"functions -c fish_prompt __avfs_prompt
function __avfs_status; return $argv[1]; end
function fish_prompt
    set -l last $status
    echo -n "($AVFS_TASK) "
    __avfs_status $last
    __avfs_prompt
end"#;

const SH: &str = "PS1=\"($AVFS_TASK) ${PS1-\\$ }\"\n";

/// Has the shell of a plan name the task. Nothing else is changed: not a shell with arguments, and no other program.
pub(super) fn name_in_prompt(plan: &mut Plan) {
    let [shell] = &plan.command[..] else { return };
    let name = Path::new(shell).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let given = match name {
        "bash" => Given::arguments(["--rcfile".into(), at("bashrc").into()], [("bashrc", BASH)]),
        "zsh" => Given::variable("ZDOTDIR", "zsh", [("zsh/.zshenv", ZSH_ENVIRONMENT), ("zsh/.zshrc", ZSH)]),
        "fish" => Given::arguments(["--init-command".into(), FISH.into()], []),
        "sh" | "dash" | "ash" | "ksh" | "mksh" => Given::variable("ENV", "shrc", [("shrc", SH)]),
        _ => return,
    };
    plan.command.extend(given.arguments);
    plan.env.extend(given.variable);
    plan.files.extend(given.files);
}

/// What a shell is given.
struct Given {
    arguments: Vec<OsString>,
    variable: Option<(OsString, OsString)>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Given {
    fn arguments<const N: usize>(arguments: [OsString; 2], written: [(&str, &str); N]) -> Given {
        Given { arguments: arguments.into(), variable: None, files: files(written) }
    }

    fn variable<const N: usize>(name: &str, value: &str, written: [(&str, &str); N]) -> Given {
        Given {
            arguments: Vec::new(),
            variable: Some((name.into(), at(value).into())),
            files: files(written),
        }
    }
}

fn files<const N: usize>(written: [(&str, &str); N]) -> Vec<(PathBuf, Vec<u8>)> {
    written.into_iter().map(|(name, text)| (at(name), text.into())).collect()
}

fn at(name: &str) -> PathBuf {
    Path::new(PLACE).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(command: &[&str]) -> Plan {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let mut plan = Plan::new("/mnt", command);
        name_in_prompt(&mut plan);
        plan
    }

    #[test]
    fn only_a_shell_alone_is_given_something() {
        assert_eq!(planned(&["/bin/bash"]).command, ["/bin/bash", "--rcfile", "/run/avfs/shell/bashrc"]);
        assert_eq!(planned(&["zsh"]).files.len(), 2);
        assert_eq!(planned(&["fish"]).command.len(), 3);
        let variable = planned(&["sh"]).env.pop().unwrap();
        assert_eq!(variable, ("ENV".into(), "/run/avfs/shell/shrc".into()));
        for other in [&["bash", "-c", "ls"][..], &["bash", "--norc"], &["claude"], &["/opt/bashful"]] {
            let plan = planned(other);
            assert_eq!((plan.command.len(), plan.files.len()), (other.len(), 0), "{other:?}");
        }
    }
}
