//! Searching the files of a sandbox or vault.

use axum::Json;
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::api::{About, Api};
use super::input::Words;
use super::subject::Subject;
use crate::auth::Scope;
use crate::problem::Problem;
use crate::service::SearchFor;

/// How many lines an answer has, unless the client says otherwise, and at most.
const LINES: [usize; 2] = [200, 10_000];

pub(super) fn routes(api: &mut Api, base: &str) {
    let about = About::new("searchFiles", "Find lines that match a pattern", Scope::Read);
    let about = about.query::<SearchWords>().gives::<SearchBody>(200);
    api.route(Method::GET, &format!("{base}/search"), about, search);
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchWords {
    /// A regular expression.
    pattern: String,
    /// The pattern is a plain text.
    #[serde(default)]
    fixed: bool,
    /// Capital letters make no difference.
    #[serde(default)]
    ignore_case: bool,
    /// The directory or file to search; all files, if not said.
    path: Option<String>,
    /// The most lines; 200, if not said, and at most 10000.
    limit: Option<usize>,
}

/// A line that matches. A long one is cut.
#[derive(Serialize, JsonSchema)]
struct LineBody {
    path: String,
    line: u64,
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct SearchBody {
    lines: Vec<LineBody>,
    /// There may be more lines than these.
    truncated: bool,
}

async fn search(of: Subject, Words(asked): Words<SearchWords>) -> Result<Json<SearchBody>, Problem> {
    let most = asked.limit.unwrap_or(LINES[0]).clamp(1, LINES[1]);
    let wanted = SearchFor {
        pattern: asked.pattern,
        fixed: asked.fixed,
        ignore_case: asked.ignore_case,
        path: asked.path.unwrap_or_else(|| "/".to_owned()),
        most,
    };
    let found = of.with_files(move |files| files.search(&wanted)).await?;
    let truncated = found.len() == most;
    let lines = found.into_iter().map(|found| LineBody {
        path: found.path,
        line: found.line,
        text: found.text,
    });
    Ok(Json(SearchBody {
        lines: lines.collect(),
        truncated,
    }))
}
