//! The grants of a run, for the answer and for the audit log.

use avfs_core::rules::Rule;
use avfs_exec::Capabilities;
use serde::Serialize;

use super::envelope::NetworkBody;
use super::request::RunSpec;

/// The maximum length of a list of rules in the audit log. A longer one is replaced by its digest.
const RULES_SHOWN: usize = 200;

/// The grants of a run, beside reading its vault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GrantedBody {
    /// Files of the vault could be changed.
    pub write: bool,
    /// The hosts that it reaches.
    pub network: NetworkBody,
    /// Ports inside that could be reached: `ADDRESS:HOSTPORT:PORT`.
    pub published: Vec<String>,
}

impl From<&Capabilities> for GrantedBody {
    fn from(granted: &Capabilities) -> GrantedBody {
        let Capabilities {
            write,
            network,
            published,
        } = granted;
        GrantedBody {
            write: *write,
            network: NetworkBody(network.clone()),
            published: published.iter().map(ToString::to_string).collect(),
        }
    }
}

impl GrantedBody {
    /// For the audit log, with the isolation of the run and the rules through which it saw the vault.
    pub(crate) fn noted(&self, isolation: &str, rules: Option<&[Rule]>) -> String {
        let view = if self.write { "write" } else { "read" };
        let network = self.network.shown();
        let published = if self.published.is_empty() {
            String::new()
        } else {
            format!(", publishes {}", self.published.join(" "))
        };
        format!(
            "{view}, network {network}{published}, {isolation}, {}",
            rules_noted(rules)
        )
    }
}

/// The request of a run that was granted nothing.
pub(super) fn asked_noted(request: &RunSpec) -> String {
    let asked = GrantedBody::from(&request.asked());
    format!(
        "asked for {}",
        asked.noted(request.isolation.as_str(), request.rules.as_deref())
    )
}

fn rules_noted(rules: Option<&[Rule]>) -> String {
    let Some(rules) = rules.filter(|rules| !rules.is_empty()) else {
        return "no rules".to_owned();
    };
    let texts: Vec<String> = rules.iter().map(ToString::to_string).collect();
    let all = texts.join(" ");
    if all.len() <= RULES_SHOWN {
        return format!("rules {}", avfs_core::printable(all.as_bytes()));
    }
    let digest = blake3::hash(texts.join("\n").as_bytes()).to_hex();
    format!("{} rules BLAKE3 {}", rules.len(), &digest[..16])
}
