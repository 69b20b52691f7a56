//! Rules as clients write them.

use agentvfs::rules::{self, Rule, Rules};

use super::error::ServiceResult;

/// The rules of a preset and those of single lines, one list of all of them; nothing, if neither is given.
pub fn rule_list(preset: Option<&str>, lines: Option<&[String]>) -> ServiceResult<Option<Vec<Rule>>> {
    let mut list: Vec<Rule> = Vec::new();
    if let Some(name) = preset {
        list.extend(rules::preset("preset", name)?.rules());
    }
    for line in lines.unwrap_or_default() {
        list.push(rules::line("rules", line)?);
    }
    if preset.is_none() && lines.is_none() {
        return Ok(None);
    }
    // What does not fit together is refused before anything is made.
    Rules::shared(list.clone()).map_err(agentvfs::Error::from)?;
    Ok(Some(list))
}
