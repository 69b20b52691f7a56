//! An apply at the end of another command: its result is part of that command's object.

use agentvfs::Task;
use agentvfs::apply::Selection;
use anyhow::Result;
use serde::{Serialize, Serializer};

use super::output::{AppliedBody, Summary};
use super::{MannerArgs, options};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::json::ErrorBody;

pub struct AppliedPart {
    pub status: ExitStatus,
    outcome: Result<AppliedBody, Failure>,
}

impl AppliedPart {
    /// Applies all of a task or nothing, without a question.
    pub fn of(context: &mut Context<'_>, task: &Task) -> AppliedPart {
        match apply(context, task) {
            Ok((status, body)) => AppliedPart {
                status,
                outcome: Ok(body),
            },
            Err(error) => {
                let failure = Failure::of(&error);
                AppliedPart {
                    status: failure.status,
                    outcome: Err(failure),
                }
            }
        }
    }
}

fn apply(context: &mut Context<'_>, task: &Task) -> Result<(ExitStatus, AppliedBody)> {
    context.task_store()?;
    let options = options(context, task, &MannerArgs::unasked())?;
    let plan = task.plan_apply(&Selection::default(), &options)?;
    let summary = Summary::of(task, &plan);
    let applied = plan.carry_out()?;
    Ok((summary.status(), summary.into_body(&applied)))
}

impl Serialize for AppliedPart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.outcome {
            Ok(body) => body.serialize(serializer),
            Err(failure) => ErrorBody::from(failure).serialize(serializer),
        }
    }
}
