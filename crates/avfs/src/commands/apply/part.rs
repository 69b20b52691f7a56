//! An apply that another command does at its end: what came of it is part of that command's object.

use agentvfs::Task;
use agentvfs::apply::{Application, Selection};
use anyhow::Result;
use serde::{Serialize, Serializer};

use super::output::{ApplyBody, Summary};
use super::{MannerArgs, options};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::json::ErrorBody;

pub struct Part {
    pub status: ExitStatus,
    outcome: Result<ApplyBody, Failure>,
}

impl Part {
    /// Applies all of a task or nothing, without a question.
    pub fn of(context: &mut Context<'_>, task: &Task) -> Part {
        match apply(context, task) {
            Ok((status, body)) => Part { status, outcome: Ok(body) },
            Err(error) => {
                let failure = Failure::of(&error);
                Part { status: failure.status, outcome: Err(failure) }
            }
        }
    }
}

fn apply(context: &mut Context<'_>, task: &Task) -> Result<(ExitStatus, ApplyBody)> {
    let (store, options) = (context.task_store()?, options(context, task, &MannerArgs::unasked())?);
    let (base, head, selection) = (task.base()?, task.head()?, Selection::default());
    let plan = Application::plan(&store, base, head, task.root(), &selection, &options);
    let plan = plan.map_err(agentvfs::Error::from)?;
    let summary = Summary::of(task, &plan);
    let applied = plan.carry_out()?;
    Ok((summary.status(), summary.into_body(&applied)))
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.outcome {
            Ok(body) => body.serialize(serializer),
            Err(failure) => ErrorBody::from(failure).serialize(serializer),
        }
    }
}
