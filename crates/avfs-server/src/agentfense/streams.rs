//! Answers that come piece by piece.

use std::pin::Pin;

use futures_util::Stream;
use futures_util::stream::unfold;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use super::proto::exec_output::OutputType;
use super::proto::{ExecOutput, ExecResult};
use crate::service::{Heard, OutputListener, OutputPiece};

/// The trailer with the exit status of a command whose output was streamed.
const EXIT_CODE: &str = "exit-code";

/// A stream of messages to a client.
pub(super) type Sent<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A command was ended by its limit.
pub(super) fn timed_out() -> Status {
    Status::deadline_exceeded("command timed out")
}

/// The output of a command, and then how it ended: its exit status is in a trailer. A client that goes away drops `end`,
/// and with it the command.
pub(super) fn output<F>(listener: OutputListener, end: F) -> Sent<ExecOutput>
where
    F: Future<Output = Result<ExecResult, Status>> + Send + 'static,
{
    Box::pin(unfold(Some((listener, Box::pin(end))), |at| async {
        let (mut listener, end) = at?;
        match listener.next().await {
            Some(Heard::Piece(_, piece)) => Some((Ok(shown(&piece)), Some((listener, end)))),
            Some(Heard::Skipped(_)) => {
                let text = "the client takes the output in too slowly, and some of it is not kept any more";
                Some((Err(Status::data_loss(text)), None))
            }
            None => Some((Err(ended(end.await)), None)),
        }
    }))
}

/// The end of a stream: also a good one is told by a status, since only those have trailers.
fn ended(end: Result<ExecResult, Status>) -> Status {
    match end {
        Ok(result) => {
            let mut trailers = MetadataMap::new();
            trailers.insert(EXIT_CODE, MetadataValue::from(result.exit_code));
            Status::with_metadata(Code::Ok, "", trailers)
        }
        Err(error) => error,
    }
}

fn shown(piece: &OutputPiece) -> ExecOutput {
    let kind = match piece {
        OutputPiece::Stdout(_) => OutputType::Stdout,
        OutputPiece::Stderr(_) => OutputType::Stderr,
    };
    ExecOutput {
        r#type: kind.into(),
        data: piece.bytes().to_vec(),
    }
}
