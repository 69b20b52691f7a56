//! Errors as the user sees them: the message, a stable code, and a remedy if there is one.

use std::error::Error;
use std::fmt;
use std::io;

use agentvfs::exec::sandbox::policy::PolicyError;
use agentvfs::exec::sandbox::profile::ProfileError;
use agentvfs::{ErrorCode, ErrorKind};
use avfs_core::{BadLabel, BadName};

use crate::exit::ExitStatus;
use crate::hint;
use crate::printer::PrintError;
use crate::settings::SettingsError;

/// An error with the details of its report. Created by the command line for its own errors, and from every
/// other error by [`Failure::of`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Stable: programs decide by it. All codes are listed in `docs/json.md`.
    pub code: &'static str,
    pub status: ExitStatus,
    pub message: String,
    pub hint: Option<String>,
}

impl Failure {
    pub fn new(code: &'static str, status: ExitStatus, message: impl fmt::Display) -> Failure {
        Failure {
            code,
            status,
            message: message.to_string(),
            hint: None,
        }
    }

    pub fn hint(self, hint: Option<String>) -> Failure {
        Failure { hint, ..self }
    }

    /// The report of an error. The outermost cause that the table below contains decides code, status and
    /// hint; the message includes the whole chain.
    pub fn of(error: &anyhow::Error) -> Failure {
        let known = error.chain().find_map(classify);
        let unknown = || Failure::new("internal", ExitStatus::Internal, "");
        Failure {
            message: format!("{error:#}"),
            ..known.unwrap_or_else(unknown)
        }
    }

    /// Adds the remedy for an error with this code, in the words of the failing command.
    pub fn hinted(error: anyhow::Error, code: &str, hint: &str) -> anyhow::Error {
        let failure = Failure::of(&error);
        if failure.code == code && failure.hint.is_none() {
            failure.hint(Some(hint.to_owned())).into()
        } else {
            error
        }
    }

    /// An error in the arguments. Its text is extracted from clap's rendering, because clap offers no other
    /// way to get the sentence without the usage lines.
    pub fn of_usage(error: &clap::Error) -> Failure {
        if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            let hint = Some("run it with --help".to_owned());
            return Failure::new(
                "usage",
                ExitStatus::BadInput,
                "a command or an argument is missing",
            )
            .hint(hint);
        }
        let text = error.render().to_string();
        let message = text
            .lines()
            .take_while(|line| !line.is_empty())
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(" ");
        let message = message.strip_prefix("error: ").unwrap_or(&message);
        let tip = text
            .lines()
            .find_map(|line| line.trim_start().strip_prefix("tip: "));
        let code = error
            .source()
            .and_then(classify)
            .map_or("usage", |known| known.code);
        Failure::new(code, ExitStatus::BadInput, message).hint(tip.map(str::to_owned))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {}

/// The one table from errors to codes and exit statuses.
fn classify(cause: &(dyn Error + 'static)) -> Option<Failure> {
    if let Some(failure) = cause.downcast_ref::<Failure>() {
        return Some(failure.clone());
    }
    if let Some(error) = cause.downcast_ref::<SettingsError>() {
        return Some(Failure::new(error.code(), ExitStatus::BadInput, "").hint(error.hint()));
    }
    if let Some(error) = cause.downcast_ref::<ProfileError>() {
        return Some(Failure::new(error.code(), ExitStatus::BadInput, "").hint(error.hint()));
    }
    if let Some(error) = cause.downcast_ref::<PolicyError>() {
        return Some(Failure::new(error.code(), ExitStatus::BadInput, "").hint(error.hint()));
    }
    if let Some(error) = cause.downcast_ref::<agentvfs::Error>() {
        // Where the host refused, the reason is the source.
        let code = error.code();
        let hint = error.hint().as_ref().map(hint::words);
        let failure = Failure::new(code.as_str(), of_library(code), "").hint(hint);
        return Some(failure).filter(|_| code != ErrorCode::HostIo || !has_host_reason(error));
    }
    if let Some(error) = cause.downcast_ref::<PrintError>() {
        return Some(of_output(error));
    }
    if cause.is::<BadName>() || cause.is::<BadLabel>() {
        return Some(Failure::new("bad-name", ExitStatus::BadInput, ""));
    }
    cause.downcast_ref::<io::Error>().map(of_io)
}

fn has_host_reason(error: &agentvfs::Error) -> bool {
    let mut cause = error.source();
    while let Some(current) = cause {
        if current.is::<io::Error>() {
            return true;
        }
        cause = current.source();
    }
    false
}

pub fn of_library(code: ErrorCode) -> ExitStatus {
    match code.kind() {
        // Files that both sides changed are an answer, as those of a merge are, and no failure.
        _ if code == ErrorCode::ApplyConflicts => ExitStatus::No,
        ErrorKind::BadInput => ExitStatus::BadInput,
        ErrorKind::NotFound => ExitStatus::NotFound,
        ErrorKind::Conflict => ExitStatus::Conflict,
        ErrorKind::Busy => ExitStatus::Busy,
        ErrorKind::Corrupt => ExitStatus::Corrupt,
        ErrorKind::Denied => ExitStatus::Denied,
        ErrorKind::Full => ExitStatus::NoSpace,
        ErrorKind::Internal => ExitStatus::Refused,
    }
}

fn of_output(error: &PrintError) -> Failure {
    match error {
        PrintError::Closed => Failure::new("broken-pipe", ExitStatus::BrokenPipe, ""),
        PrintError::Failed(source) => of_io(source),
    }
}

/// Errors of the host: a file outside of any vault, the terminal, the network.
fn of_io(error: &io::Error) -> Failure {
    let (code, status) = match error.kind() {
        io::ErrorKind::BrokenPipe => ("broken-pipe", ExitStatus::BrokenPipe),
        io::ErrorKind::NotADirectory => ("host-not-a-directory", ExitStatus::BadInput),
        io::ErrorKind::NotFound => ("host-not-found", ExitStatus::NotFound),
        io::ErrorKind::AlreadyExists => ("host-exists", ExitStatus::Conflict),
        io::ErrorKind::StorageFull => ("no-space", ExitStatus::NoSpace),
        io::ErrorKind::QuotaExceeded => ("no-space", ExitStatus::NoSpace),
        io::ErrorKind::PermissionDenied => ("host-denied", ExitStatus::Refused),
        _ => ("io", ExitStatus::Refused),
    };
    Failure::new(code, status, "")
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[track_caller]
    fn check(error: anyhow::Error, code: &str, status: ExitStatus, message: &str) {
        let failure = Failure::of(&error);
        assert_eq!(
            (failure.code, failure.status, failure.message.as_str()),
            (code, status, message)
        );
    }

    #[test]
    fn the_known_cause_decides_and_the_message_tells_the_chain() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = anyhow::Error::from(denied).context("reading notes.txt");
        check(
            error,
            "host-denied",
            ExitStatus::Refused,
            "reading notes.txt: permission denied",
        );
        let bad = Err::<(), _>(BadName::Nul).context("creating a file").unwrap_err();
        check(
            bad,
            "bad-name",
            ExitStatus::BadInput,
            "creating a file: a name cannot contain a NUL byte",
        );
        check(
            anyhow::anyhow!("surprise"),
            "internal",
            ExitStatus::Internal,
            "surprise",
        );
    }

    #[test]
    fn an_own_failure_keeps_its_hint_under_a_context() {
        let own = Failure::new("unknown-vault", ExitStatus::NotFound, "no vault 'wbe'")
            .hint(Some("did you mean 'web'?".to_owned()));
        let failure = Failure::of(&anyhow::Error::from(own).context("forking"));
        assert_eq!(failure.message, "forking: no vault 'wbe'");
        assert_eq!(failure.hint.as_deref(), Some("did you mean 'web'?"));
    }

    #[test]
    fn the_documentation_lists_every_code_with_its_status() {
        let codes = ErrorCode::ALL.iter();
        let of_library: Vec<Failure> = codes
            .map(|code| Failure::new(code.as_str(), of_library(*code), ""))
            .collect();
        let page = include_str!("../../../docs/json.md");
        let kinds = [
            io::ErrorKind::NotFound,
            io::ErrorKind::NotADirectory,
            io::ErrorKind::AlreadyExists,
            io::ErrorKind::StorageFull,
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::TimedOut,
        ];
        let of_host = kinds.map(|kind| of_io(&io::Error::from(kind)));
        let bad_name = Failure::of(&BadName::Nul.into());
        for failure in of_host.iter().chain([&bad_name]).chain(&of_library) {
            let row = format!("| `{}` | {} |", failure.code, failure.status.number());
            assert!(page.contains(&row), "{row}");
        }
    }

    #[test]
    fn a_host_that_refuses_the_library_says_why() {
        let source = io::Error::from(io::ErrorKind::NotFound);
        let error = agentvfs::Error::Host {
            action: "reading",
            place: "x".into(),
            source,
        };
        check(
            error.into(),
            "host-not-found",
            ExitStatus::NotFound,
            "reading x: entity not found",
        );
    }
}
