//! What the user of `avfs exec` sees: the command's own output, one object, or an object for each piece.

use std::io::Write;

use agentvfs::approvals::ApprovalId;
use agentvfs::exec::boundary::Event;
use agentvfs::exec::{CheckpointBody, Envelope, PublishedBody};
use anyhow::Result;
use serde::Serialize;

use crate::commands::apply::Part;
use crate::json;
use crate::network_args::announce;
use crate::printer::{PrintError, Printer};
use crate::unreached;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// The command's output as it comes, and a word about the rest.
    Through,
    /// One object at the end.
    Envelope,
    /// An object for each piece of output, and the envelope at the end.
    Events,
}

/// A piece of output, in JSON.
#[derive(Serialize)]
struct EventBody {
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
    apply: Option<&'a Part>,
}

json::byte_field!(DataField, data, data_bytes_hex);

pub struct Telling<'a> {
    out: &'a mut Printer,
    manner: Manner,
    /// What undoes the run.
    undo: String,
    /// The first piece that could not be told.
    failed: Option<PrintError>,
}

impl<'a> Telling<'a> {
    pub fn new(out: &'a mut Printer, manner: Manner, undo: String) -> Telling<'a> {
        Telling { out, manner, undo, failed: None }
    }

    pub fn event(&mut self, event: Event<'_>) {
        let told = match (self.manner, event) {
            (Manner::Envelope, _) | (_, Event::Started | Event::Stopping(_)) => Ok(()),
            (Manner::Through, Event::Stdout(bytes)) => self.out.pass_on(bytes),
            (Manner::Through, Event::Stderr(bytes)) => {
                std::io::stderr().write_all(bytes).map_err(PrintError::Failed)
            }
            (Manner::Through, Event::Refused(refusal)) => {
                self.out.talk(unreached::frequent(refusal));
                Ok(())
            }
            (Manner::Events, Event::Refused(_)) => Ok(()),
            (Manner::Events, Event::Stdout(bytes)) => self.piece("stdout", bytes),
            (Manner::Events, Event::Stderr(bytes)) => self.piece("stderr", bytes),
        };
        if let Err(error) = told {
            self.failed.get_or_insert(error);
        }
    }

    /// Whether nobody reads what is told.
    pub fn is_cut_off(&self) -> bool {
        self.out.is_cut_off() || matches!(self.failed, Some(PrintError::Closed))
    }

    /// The ports of a run that has begun.
    pub fn announce(&mut self, published: &[PublishedBody]) {
        announce(self.out, published);
    }

    /// A run waits for somebody.
    pub fn waiting(&mut self, id: &ApprovalId) {
        let told = match self.manner {
            Manner::Envelope => Ok(()),
            Manner::Through => {
                self.out.talk(format_args!("waiting for an answer to {id}: `avfs approvals show {id}`"));
                Ok(())
            }
            Manner::Events => {
                let body = WaitingBody { event: "waiting", approval: id.to_string() };
                self.out.object("exec-event", &body).and_then(|()| self.out.flush())
            }
        };
        if let Err(error) = told {
            self.failed.get_or_insert(error);
        }
    }

    fn piece(&mut self, event: &'static str, bytes: &[u8]) -> Result<(), PrintError> {
        self.out.object("exec-event", &EventBody { event, data: DataField::new(bytes) })?;
        self.out.flush()
    }

    /// Whether everything could be told so far.
    pub fn told(self) -> Result<()> {
        self.failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// The end of a command, and of an apply that was part of it.
    pub fn end(&mut self, envelope: &Envelope, apply: Option<&Part>) -> Result<()> {
        match self.manner {
            Manner::Through => {
                self.sum_up(envelope);
                Ok(self.out.flush()?)
            }
            Manner::Envelope | Manner::Events => {
                let body = EndBody { envelope, apply };
                let line = json::to_line(&body).map_err(|error| PrintError::Failed(error.into()))?;
                self.out.line(line)?;
                Ok(self.out.flush()?)
            }
        }
    }

    /// The end of a command whose envelope another process has written; `talk` is what people are told of it.
    pub fn end_of_other(&mut self, line: &str, talk: &[String]) -> Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        match self.manner {
            Manner::Through => {
                talk.iter().for_each(|text| self.out.talk(text));
                Ok(())
            }
            Manner::Envelope | Manner::Events => Ok(self.out.line(json::safe_line(line))?),
        }
    }

    /// What is not in the command's own output.
    fn sum_up(&mut self, envelope: &Envelope) {
        if let Some(error) = &envelope.error {
            // What a policy or a person decides is no failure of ours.
            if let "approval_required" | "approval_denied" | "denied_by_policy" = error.code.as_str() {
                self.out.warn(&error.message);
                if let Some(hint) = &error.hint {
                    self.out.talk(format_args!("hint: {hint}"));
                }
            } else {
                self.out.error(&error.message, error.hint.as_deref());
            }
            return;
        }
        let Some(result) = &envelope.result else { return };
        if envelope.request.dry_run {
            if let Some(decision) = &result.decision {
                let (action, class) = (decision.action.as_str(), decision.class.as_str());
                self.out.talk(format_args!("{action}: {class}, by {}", decision.rule));
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
            self.out.warn("some of its processes could not be started because --pids allows no more");
        }
        match result.changed_files.len() {
            0 => {}
            1 => self.out.talk(format_args!("1 file changed; `{}` takes it back", self.undo)),
            count => self.out.talk(format_args!("{count} files changed; `{}` takes it back", self.undo)),
        }
        if let CheckpointBody::Taken { name, .. } = &result.checkpoint {
            self.out.talk(format_args!("checkpoint {name}"));
        }
    }
}
