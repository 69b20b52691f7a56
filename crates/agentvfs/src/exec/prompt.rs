//! A shell that a person works in shows in its prompt which task it is in. Its own files are read first, so that its prompt
//! is the user's; nothing in the home is changed.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use avfs_exec::SandboxPlan;

use super::inner_environment::TASK_VARIABLE;
use crate::exec::program::TaskPrograms;

/// Where the files for shells are inside.
const PLACE: &str = "/run/avfs/shell";

/// Before each prompt, because the user's own settings may set the prompt again each time.
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
pub(super) fn name_in_prompt(plan: &mut SandboxPlan) {
    let Some(given) = ShellStart::for_shell(&plan.command, Path::new(PLACE)) else {
        return;
    };
    plan.command.extend(given.arguments);
    plan.env.extend(given.variable);
    plan.files.extend(given.files);
}

impl TaskPrograms<'_> {
    /// Makes a shell of the user's own, outside of any sandbox, name the task in its prompt: returns how to
    /// start it. The files that it reads are in the task's directory. If they cannot be created, the prompt
    /// is unchanged.
    pub fn named_in_prompt(&self, shell: OsString) -> (Vec<OsString>, Vec<(OsString, OsString)>) {
        let mut command = vec![shell];
        let mut variables = vec![(TASK_VARIABLE.into(), self.task.name().as_str().into())];
        let vault = self.task.vault();
        let place = vault.store().work().of_vault(vault.id()).ok();
        let place = place.map(|place| place.join("shell"));
        if let Some(given) = place.and_then(|place| ShellStart::for_shell(&command, &place))
            && given.write().is_ok()
        {
            command.extend(given.arguments);
            variables.extend(given.variable);
        }
        (command, variables)
    }
}

/// The start-up files and variables of a shell.
struct ShellStart {
    arguments: Vec<OsString>,
    variable: Option<(OsString, OsString)>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl ShellStart {
    /// For a shell without arguments, which finds its files in a directory.
    fn for_shell(command: &[OsString], place: &Path) -> Option<ShellStart> {
        let [shell] = command else { return None };
        let name = Path::new(shell).file_name()?.to_str()?;
        let at = |name: &str| place.join(name);
        let files = |written: &[(&str, &str)]| -> Vec<(PathBuf, Vec<u8>)> {
            written
                .iter()
                .map(|(name, text)| (at(name), (*text).into()))
                .collect()
        };
        let (arguments, variable, files) = match name {
            "bash" => (
                vec!["--rcfile".into(), at("bashrc").into()],
                None,
                files(&[("bashrc", BASH)]),
            ),
            "zsh" => {
                let written = [("zsh/.zshenv", ZSH_ENVIRONMENT), ("zsh/.zshrc", ZSH)];
                (
                    Vec::new(),
                    Some(("ZDOTDIR".into(), at("zsh").into())),
                    files(&written),
                )
            }
            "fish" => (vec!["--init-command".into(), FISH.into()], None, Vec::new()),
            "sh" | "dash" | "ash" | "ksh" | "mksh" => (
                Vec::new(),
                Some(("ENV".into(), at("shrc").into())),
                files(&[("shrc", SH)]),
            ),
            _ => return None,
        };
        Some(ShellStart {
            arguments,
            variable,
            files,
        })
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

    fn planned(command: &[&str]) -> SandboxPlan {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let mut plan = SandboxPlan::new("/mnt", command);
        name_in_prompt(&mut plan);
        plan
    }

    #[test]
    fn only_a_shell_alone_is_given_something() {
        assert_eq!(
            planned(&["/bin/bash"]).command,
            ["/bin/bash", "--rcfile", "/run/avfs/shell/bashrc"]
        );
        assert_eq!(planned(&["zsh"]).files.len(), 2);
        assert_eq!(planned(&["fish"]).command.len(), 3);
        let variable = planned(&["sh"]).env.pop().unwrap();
        assert_eq!(variable, ("ENV".into(), "/run/avfs/shell/shrc".into()));
        for other in [
            &["bash", "-c", "ls"][..],
            &["bash", "--norc"],
            &["claude"],
            &["/opt/bashful"],
        ] {
            let plan = planned(other);
            assert_eq!(
                (plan.command.len(), plan.files.len()),
                (other.len(), 0),
                "{other:?}"
            );
        }
    }
}
