//! What a run was given, for the answer and for the audit log.

use avfs_core::rules::Rule;
use avfs_exec::Capabilities;
use serde::Serialize;

use super::envelope::NetworkBody;
use super::request::ExecRequest;

/// How long a list of rules may be in the audit log. A longer one is there by its digest.
const RULES_SHOWN: usize = 200;

/// What a run was given, beside reading its vault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GrantedBody {
    /// Files of the vault could be changed.
    pub write: bool,
    pub network: NetworkBody,
    /// Ports inside that could be reached: `ADDRESS:HOSTPORT:PORT`.
    pub published: Vec<String>,
}

impl From<&Capabilities> for GrantedBody {
    fn from(granted: &Capabilities) -> GrantedBody {
        let Capabilities { write, network, published } = granted;
        GrantedBody {
            write: *write,
            network: NetworkBody(network.clone()),
            published: published.iter().map(ToString::to_string).collect(),
        }
    }
}

impl GrantedBody {
    /// For the audit log, with what stood around the run and through which rules it saw the vault.
    pub(crate) fn noted(&self, isolation: &str, rules: Option<&[Rule]>) -> String {
        let view = if self.write { "write" } else { "read" };
        let network = self.network.shown();
        let published = match self.published.is_empty() {
            true => String::new(),
            false => format!(", publishes {}", self.published.join(" ")),
        };
        format!("{view}, network {network}{published}, {isolation}, {}", rules_noted(rules))
    }
}

/// What a run asked for that was given nothing.
pub(super) fn asked_noted(request: &ExecRequest) -> String {
    let asked = GrantedBody::from(&request.asked());
    format!("asked for {}", asked.noted(request.isolation.as_str(), request.rules.as_deref()))
}

fn rules_noted(rules: Option<&[Rule]>) -> String {
    let Some(rules) = rules.filter(|rules| !rules.is_empty()) else { return "no rules".to_owned() };
    let texts: Vec<String> = rules.iter().map(ToString::to_string).collect();
    let all = texts.join(" ");
    if all.len() <= RULES_SHOWN {
        return format!("rules {}", avfs_core::printable(all.as_bytes()));
    }
    let digest = blake3::hash(texts.join("\n").as_bytes()).to_hex();
    format!("{} rules BLAKE3 {}", rules.len(), &digest[..16])
}
