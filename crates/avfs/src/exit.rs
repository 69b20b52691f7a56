//! The exit statuses of commands.

use std::process::ExitCode;

/// Every way in which `avfs` ends. The numbers are part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Success,
    No,
    BadInput,
    NotFound,
    Conflict,
    Busy,
    Corrupt,
    NoSpace,
    Refused,
    Denied,
    Internal,
    ApprovalNeeded,
    PolicyDenies,
    CannotIsolate,
    TimedOut,
    BrokenPipe,
    /// The exit status of a command that was run.
    OfCommand(u8),
}

impl ExitStatus {
    pub const ALL: [ExitStatus; 16] = [
        ExitStatus::Success,
        ExitStatus::No,
        ExitStatus::BadInput,
        ExitStatus::NotFound,
        ExitStatus::Conflict,
        ExitStatus::Busy,
        ExitStatus::Corrupt,
        ExitStatus::NoSpace,
        ExitStatus::Refused,
        ExitStatus::Denied,
        ExitStatus::Internal,
        ExitStatus::ApprovalNeeded,
        ExitStatus::PolicyDenies,
        ExitStatus::CannotIsolate,
        ExitStatus::TimedOut,
        ExitStatus::BrokenPipe,
    ];

    pub fn number(self) -> u8 {
        match self {
            ExitStatus::Success => 0,
            ExitStatus::No => 1,
            ExitStatus::BadInput => 2,
            ExitStatus::NotFound => 3,
            ExitStatus::Conflict => 4,
            ExitStatus::Busy => 5,
            ExitStatus::Corrupt => 6,
            ExitStatus::NoSpace => 7,
            ExitStatus::Refused => 8,
            ExitStatus::Denied => 9,
            // EX_SOFTWARE of sysexits.h.
            ExitStatus::Internal => 70,
            ExitStatus::ApprovalNeeded => 121,
            ExitStatus::PolicyDenies => 122,
            ExitStatus::CannotIsolate => 123,
            // The status of timeout(1).
            ExitStatus::TimedOut => 124,
            ExitStatus::OfCommand(code) => code,
            // The status that a shell reports for a program that SIGPIPE has ended: 128 + 13.
            ExitStatus::BrokenPipe => 141,
        }
    }

    pub fn meaning(self) -> &'static str {
        match self {
            ExitStatus::Success => "success",
            ExitStatus::No => {
                "the answer is no: no match, differences or conflicts found, or a question answered with no"
            }
            ExitStatus::BadInput => "bad input: arguments, a name, a pattern, an archive or a setting",
            ExitStatus::NotFound => "a vault, task, checkpoint, snapshot, profile or file does not exist",
            ExitStatus::Conflict => "it already exists, has a newer version, or is still needed",
            ExitStatus::Busy => "another process holds it; try again later",
            ExitStatus::Corrupt => "the store is damaged; run `avfs fsck`",
            ExitStatus::NoSpace => "the disk is full or a quota is used up",
            ExitStatus::Refused => "the system refused: permissions, I/O, or a store of a newer version",
            ExitStatus::Denied => "the rules of the view do not allow it",
            ExitStatus::Internal => "an internal error: a bug in avfs",
            ExitStatus::ApprovalNeeded => {
                "`avfs exec`, `avfs session`: the command, or the network that it asks for, needs an approval"
            }
            ExitStatus::PolicyDenies => "`avfs exec`, `avfs session`: denied by the policy or by a person",
            ExitStatus::CannotIsolate => "`avfs exec`: the command cannot be isolated and was not run",
            ExitStatus::TimedOut => {
                "`avfs exec`, `avfs run`: the command took too long; `avfs task wait`: it is still running"
            }
            ExitStatus::OfCommand(_) => "what the command itself ended with",
            ExitStatus::BrokenPipe => "the reader of the output closed the pipe",
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> ExitCode {
        ExitCode::from(status.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_every_status_and_no_other() {
        let page = include_str!("../../../docs/cli.md");
        let rows = page.lines().filter(|line| {
            line.strip_prefix("| ")
                .is_some_and(|cell| cell.starts_with(|c: char| c.is_ascii_digit()))
        });
        let expected =
            ExitStatus::ALL.map(|status| format!("| {} | {} |", status.number(), status.meaning()));
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }
}
