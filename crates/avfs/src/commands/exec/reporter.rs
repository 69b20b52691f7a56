//! The output of `avfs exec`: the command's own output, one object, or an object for each piece.

use std::io::Write;

use agentvfs::approvals::ApprovalId;
use agentvfs::exec::sandbox::RunEvent;
use agentvfs::exec::{CheckpointBody, Envelope, PublishedBody};
use anyhow::Result;
use serde::Serialize;

use crate::commands::apply::AppliedPart;
use crate::hint;
use crate::json;
use crate::network_args::announce;
use crate::printer::{PrintError, Printer};
use crate::unreached;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPrinter {
    /// The command's output as it comes, and a word about the rest.
    Through,
    /// One object at the end.
    Envelope,
    /// An object for each piece of output, and the envelope at the end.
    Events,
}

/// A piece of output, in JSON.
#[derive(Serialize)]
struct ReporterEventBody {
    event: &'static str,
    #[serde(flatten)]
    data: DataField,
}

/// A run that waits for an approval, in JSON.
#[derive(Serialize)]
struct WaitingBody {
    event: &'static str,
    approval: String,
}

#[derive(Serialize)]
struct EndBody<'a> {
    #[serde(flatten)]
    envelope: &'a Envelope,
    #[serde(skip_serializing_if = "Option::is_none")]
    apply: Option<&'a AppliedPart>,
}

json::byte_field!(DataField, data, data_bytes_hex);

pub struct RunReporter<'a> {
    out: &'a mut Printer,
    output: RunPrinter,
    /// The command that undoes the run.
    undo: String,
    /// The first error while reporting.
    failed: Option<PrintError>,
}

impl<'a> RunReporter<'a> {
    pub fn new(out: &'a mut Printer, output: RunPrinter, undo: String) -> RunReporter<'a> {
        RunReporter {
            out,
            output,
            undo,
            failed: None,
        }
    }

    pub fn event(&mut self, event: RunEvent<'_>) {
        let told = match (self.output, event) {
            (RunPrinter::Envelope, _) | (_, RunEvent::Started | RunEvent::Stopping(_)) => Ok(()),
            (RunPrinter::Through, RunEvent::Stdout(bytes)) => self.out.pass_on(bytes),
            (RunPrinter::Through, RunEvent::Stderr(bytes)) => {
                std::io::stderr().write_all(bytes).map_err(PrintError::Failed)
            }
            (RunPrinter::Through, RunEvent::Refused(refusal)) => {
                self.out.talk(unreached::frequent(refusal));
                Ok(())
            }
            (RunPrinter::Events, RunEvent::Refused(_)) => Ok(()),
            (RunPrinter::Events, RunEvent::Stdout(bytes)) => self.piece("stdout", bytes),
            (RunPrinter::Events, RunEvent::Stderr(bytes)) => self.piece("stderr", bytes),
        };
        if let Err(error) = told {
            self.failed.get_or_insert(error);
        }
    }

    /// Whether the reader of the output is gone.
    pub fn is_cut_off(&self) -> bool {
        self.out.is_cut_off() || matches!(self.failed, Some(PrintError::Closed))
    }

    /// The ports of a run that has begun.
    pub fn announce(&mut self, published: &[PublishedBody]) {
        announce(self.out, published);
    }

    /// A run waits for an answer.
    pub fn waiting(&mut self, id: &ApprovalId) {
        let told = match self.output {
            RunPrinter::Envelope => Ok(()),
            RunPrinter::Through => {
                self.out.talk(format_args!(
                    "waiting for an answer to {id}: `avfs approvals show {id}`"
                ));
                Ok(())
            }
            RunPrinter::Events => {
                let body = WaitingBody {
                    event: "waiting",
                    approval: id.to_string(),
                };
                self.out
                    .object("exec-event", &body)
                    .and_then(|()| self.out.flush())
            }
        };
        if let Err(error) = told {
            self.failed.get_or_insert(error);
        }
    }

    fn piece(&mut self, event: &'static str, bytes: &[u8]) -> Result<(), PrintError> {
        self.out.object(
            "exec-event",
            &ReporterEventBody {
                event,
                data: DataField::new(bytes),
            },
        )?;
        self.out.flush()
    }

    /// Returns the first error while reporting, if any.
    pub fn told(self) -> Result<()> {
        self.failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// The end of a command, and of an apply that was part of it.
    pub fn end(&mut self, envelope: &Envelope, apply: Option<&AppliedPart>) -> Result<()> {
        match self.output {
            RunPrinter::Through => {
                self.sum_up(envelope);
                Ok(self.out.flush()?)
            }
            RunPrinter::Envelope | RunPrinter::Events => {
                let body = EndBody {
                    envelope: &hint::spelled(envelope),
                    apply,
                };
                let line = json::to_line(&body).map_err(|error| PrintError::Failed(error.into()))?;
                self.out.line(line)?;
                Ok(self.out.flush()?)
            }
        }
    }

    /// The end of a command whose envelope was written by another process; `talk` is its messages for people.
    pub fn end_of_other(&mut self, line: &str, talk: &[String]) -> Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        match self.output {
            RunPrinter::Through => {
                talk.iter().for_each(|text| self.out.talk(text));
                Ok(())
            }
            RunPrinter::Envelope | RunPrinter::Events => {
                Ok(self.out.line(json::safe_line(&hint::spelled_line(line)))?)
            }
        }
    }

    /// Reports everything that is not in the command's own output.
    fn sum_up(&mut self, envelope: &Envelope) {
        if let Some(error) = &envelope.error {
            // A decision of a policy or a person is not an error of ours.
            if let "approval_required" | "approval_denied" | "denied_by_policy" = error.code.as_str() {
                self.out.warn(&error.message);
                if let Some(hint) = &error.hint {
                    self.out.talk(format_args!("hint: {}", hint::words(hint)));
                }
            } else {
                let hint = error.hint.as_ref().map(hint::words);
                self.out.error(&error.message, hint.as_deref());
            }
            return;
        }
        let Some(result) = &envelope.result else { return };
        if envelope.request.dry_run {
            if let Some(decision) = &result.decision {
                let (action, class) = (decision.action.as_str(), decision.class.as_str());
                self.out
                    .talk(format_args!("{action}: {class}, by {}", decision.rule));
            }
            return;
        }
        if result.timed_out {
            self.out.warn("it took too long and was ended");
        }
        if result.limits_hit.contains(&"memory") {
            self.out.warn(
                "it, or some of its processes, were killed: they used more memory than --memory allows",
            );
        }
        if result.limits_hit.contains(&"pids") {
            self.out
                .warn("some of its processes could not be started because --pids allows no more");
        }
        match result.changed_files.len() {
            0 => {}
            1 => self
                .out
                .talk(format_args!("1 file changed; `{}` undoes it", self.undo)),
            count => self
                .out
                .talk(format_args!("{count} files changed; `{}` undoes it", self.undo)),
        }
        if let CheckpointBody::Taken { name, .. } = &result.checkpoint {
            self.out.talk(format_args!("checkpoint {name}"));
        }
    }
}
