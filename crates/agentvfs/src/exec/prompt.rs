//! A shell that a person works in shows in its prompt which task it is in. Its own files are read first, so that its prompt
//! is the user's; nothing in the home is changed.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use avfs_exec::Plan;

use crate::owner::work_directory;
use crate::task::Task;

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
    let Some(given) = Given::for_shell(&plan.command, Path::new(PLACE)) else { return };
    plan.command.extend(given.arguments);
    plan.env.extend(given.variable);
    plan.files.extend(given.files);
}

impl Task {
    /// Has a shell of the user's own, outside of any sandbox, name the task in its prompt: returns what it is started with.
    /// The files that it reads are in the task's place. Where they cannot be, the prompt is as it is.
    pub fn named_in_prompt(&self, shell: OsString) -> (Vec<OsString>, Vec<(OsString, OsString)>) {
        let mut command = vec![shell];
        let mut variables = vec![("AVFS_TASK".into(), self.name().as_str().into())];
        let place =
            self.vault().store().home().map(|home| work_directory(home, self.vault().id()).join("shell"));
        if let Some(given) = place.and_then(|place| Given::for_shell(&command, &place))
            && given.write().is_ok()
        {
            command.extend(given.arguments);
            variables.extend(given.variable);
        }
        (command, variables)
    }
}

/// What a shell is given.
struct Given {
    arguments: Vec<OsString>,
    variable: Option<(OsString, OsString)>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Given {
    /// For a shell without arguments, which finds its files in a directory.
    fn for_shell(command: &[OsString], place: &Path) -> Option<Given> {
        let [shell] = command else { return None };
        let name = Path::new(shell).file_name()?.to_str()?;
        let at = |name: &str| place.join(name);
        let files = |written: &[(&str, &str)]| -> Vec<(PathBuf, Vec<u8>)> {
            written.iter().map(|(name, text)| (at(name), (*text).into())).collect()
        };
        let (arguments, variable, files) = match name {
            "bash" => (vec!["--rcfile".into(), at("bashrc").into()], None, files(&[("bashrc", BASH)])),
            "zsh" => {
                let written = [("zsh/.zshenv", ZSH_ENVIRONMENT), ("zsh/.zshrc", ZSH)];
                (Vec::new(), Some(("ZDOTDIR".into(), at("zsh").into())), files(&written))
            }
            "fish" => (vec!["--init-command".into(), FISH.into()], None, Vec::new()),
            "sh" | "dash" | "ash" | "ksh" | "mksh" => {
                (Vec::new(), Some(("ENV".into(), at("shrc").into())), files(&[("shrc", SH)]))
            }
            _ => return None,
        };
        Some(Given { arguments, variable, files })
    }

    fn write(&self) -> io::Result<()> {
        for (path, text) in &self.files {
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::write(path, text)?;
        }
        Ok(())
    }
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
