//! A question that is answered where it comes up: on the terminal of the command that needs the approval.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use agentvfs::Store;
use agentvfs::approvals::{Allowance, Approval, ApprovalId, ApprovalState, AskedNetwork, SavePlace};
use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, tcflush};

use super::show::{RulesShown, show};
use super::wrapped;
use crate::printer::{OutputStyle, Printer};
use crate::settings::ColorWhen;

/// The interval for checking for an answer given elsewhere, and for the end of the command.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// A command that is longer than this is repeated above the question.
const COMMAND_REPEATED: usize = 60;
/// No answer is longer.
const ANSWER_MAX: usize = 4096;

/// Whether a user at the terminal can be asked.
pub fn is_possible(out: &Printer) -> bool {
    out.talks() && io::stdin().is_terminal() && io::stderr().is_terminal()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ApprovalAnswer {
    Once,
    Session,
    Always,
    Deny,
    Later,
    Explain,
}

fn explanation(id: &ApprovalId) -> String {
    format!(
        "  o  once: exactly this command, once, on this state of the vault
  s  session: the same command by the same principal, for 8 hours
  a  always: saves the rule shown above with the vault; `avfs approvals rules --forget N` removes it
  d  deny: the command does not run, and is refused when it is asked for again
  q  quit: leaves the question open; `avfs approvals allow {id}` or `avfs approvals deny {id}` answers it later"
    )
}

/// Shows the request and waits for an answer: typed here, given elsewhere, or none because the command must
/// end.
pub fn ask(store: &Store, id: &ApprovalId, is_cancelled: &dyn Fn(Duration) -> bool) -> Result<()> {
    let approval = store.approval(id)?;
    let manner = OutputStyle {
        color: ColorWhen::Never,
        json: false,
        quiet: false,
        paged: false,
    };
    let mut out = Printer::to(Box::new(io::stderr()), Box::new(io::stderr()), manner);
    out.line("this command needs your approval")?;
    show(&mut out, store, &approval, RulesShown::Counted)?;
    out.flush()?;
    // A long command has pushed the rest off the screen: the important part is repeated directly above the
    // question.
    out.line(summary(&approval))?;
    out.flush()?;
    let is_fixed = approval.binding.once_only().is_none();
    let can_save = is_fixed && !approval.rules_to_save().is_empty();
    // Keys that were pressed before the question appeared do not answer it.
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    loop {
        let session = if is_fixed { ", for the [s]ession" } else { "" };
        let always = if can_save { ", [a]lways" } else { "" };
        write!(
            io::stderr(),
            "allow it [o]nce{session}{always}; [d]eny, [q]uit, [?] help: "
        )?;
        let Some(line) = typed(store, id, is_cancelled)? else {
            writeln!(io::stderr())?;
            return Ok(());
        };
        let told = match read_answer(&line, is_fixed, can_save) {
            Some(ApprovalAnswer::Once) => allow(store, &approval, &Allowance::Once),
            Some(ApprovalAnswer::Session) => allow(store, &approval, &Allowance::Session),
            Some(ApprovalAnswer::Always) => {
                let (edits, place) = (Vec::new(), SavePlace::Vault);
                allow(store, &approval, &Allowance::Always { edits, place })
            }
            Some(ApprovalAnswer::Deny) => store.deny(id, None).map(drop).map_err(anyhow::Error::from),
            Some(ApprovalAnswer::Later) => return Ok(()),
            Some(ApprovalAnswer::Explain) => {
                writeln!(io::stderr(), "{}", explanation(id))?;
                continue;
            }
            None => {
                writeln!(io::stderr(), "that is none of these letters")?;
                continue;
            }
        };
        return match (told, store.approval(id)?.state) {
            // It was answered elsewhere first: that answer counts.
            (Err(_), state) if state != ApprovalState::Pending => Ok(()),
            (told, _) => told,
        };
    }
}

fn summary(approval: &Approval) -> String {
    let binding = &approval.binding;
    let command = wrapped::visible(&binding.command.shown());
    let is_short = command.chars().count() <= COMMAND_REPEATED && !command.contains("\\n");
    let command = if is_short {
        command
    } else {
        format!("command of {}", wrapped::length(&binding.command.shown()))
    };
    let network = match &binding.network {
        AskedNetwork::None => "no network".to_owned(),
        AskedNetwork::Host => "everything that this machine reaches".to_owned(),
        AskedNetwork::Hosts(hosts) => format!("network {}", wrapped::visible(&hosts.join(", "))),
    };
    let published = if binding.published.is_empty() {
        String::new()
    } else {
        format!(", published {}", binding.published.join(", "))
    };
    format!("{}: {command}, {network}{published}", approval.id)
}

fn allow(store: &Store, approval: &Approval, allowance: &Allowance) -> Result<()> {
    let (_, saved) = store.allow(&approval.id, allowance)?;
    saved
        .iter()
        .try_for_each(|rule| say(format_args!("saved: {}", rule.name())))
}

fn say(text: impl Display) -> Result<()> {
    Ok(writeln!(io::stderr(), "{text}")?)
}

fn read_answer(line: &str, is_fixed: bool, can_save: bool) -> Option<ApprovalAnswer> {
    match line.trim().to_ascii_lowercase().as_str() {
        "o" | "once" => Some(ApprovalAnswer::Once),
        "s" | "session" if is_fixed => Some(ApprovalAnswer::Session),
        "a" | "always" if can_save => Some(ApprovalAnswer::Always),
        "d" | "deny" | "n" | "no" => Some(ApprovalAnswer::Deny),
        "q" | "quit" => Some(ApprovalAnswer::Later),
        "?" | "h" | "help" => Some(ApprovalAnswer::Explain),
        _ => None,
    }
}

/// A line from the terminal; `None` if there is none: the request was answered elsewhere, the terminal is
/// gone, or the command must end.
fn typed(store: &Store, id: &ApprovalId, is_cancelled: &dyn Fn(Duration) -> bool) -> Result<Option<String>> {
    let stdin = io::stdin();
    loop {
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        // Not for longer: the request may be answered elsewhere meanwhile, and then the question goes.
        match poll(&mut fds, Some(&LOOK_EVERY)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => break,
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
        if is_cancelled(Duration::ZERO) || store.approval(id)?.state != ApprovalState::Pending {
            return Ok(None);
        }
    }
    // Past any buffer: a line that is not for us stays where it is.
    let mut line = [0; ANSWER_MAX];
    match rustix::io::retry_on_intr(|| rustix::io::read(&stdin, &mut line)) {
        Ok(0) | Err(_) => Ok(None),
        Ok(count) => Ok(Some(String::from_utf8_lossy(&line[..count]).into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_letter_or_a_word_and_nothing_else_is_one() {
        let check = |line, expected| assert_eq!(read_answer(line, true, true), expected, "{line:?}");
        check("o\n", Some(ApprovalAnswer::Once));
        check(" ONCE ", Some(ApprovalAnswer::Once));
        check("session\n", Some(ApprovalAnswer::Session));
        check("a\n", Some(ApprovalAnswer::Always));
        for word in ["d\n", "n\n", "No\n"] {
            check(word, Some(ApprovalAnswer::Deny));
        }
        check("?\n", Some(ApprovalAnswer::Explain));
        for none in ["", "\n", "y\n", "yes\n", "oo\n", "o d\n"] {
            check(none, None);
        }
        assert_eq!(read_answer("a\n", true, false), None, "there is nothing to save");
        assert_eq!(
            read_answer("s\n", false, false),
            None,
            "what it means is not fixed"
        );
    }
}
