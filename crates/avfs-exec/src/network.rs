//! The network of a run: none, the host's, or a list of hosts behind a proxy; and the ports of a run that this machine
//! reaches.
//!
//! A run that does not have the host's network always has a proxy. Without a list it reaches nothing, and its
//! attempts can be reported.

mod address;
mod block;
mod body;
mod choice;
mod forward;
mod gateway;
mod groups;
mod listening;
mod proxy;
mod publish;
mod reach;
mod refusals;
mod request;
mod rule;
mod this_machine;
mod upstream;

pub use choice::{BadChoice, NetworkChoice};
pub use gateway::{HostsNotChanged, PortConnection};
pub use groups::{HostGroup, group_of, groups};
pub use publish::{BadPublish, PortPublication, PublishedPort};
pub use refusals::{Refusal, RefusedBecause};
pub use rule::{BadHostRule, HostRule};
pub use upstream::{UnusedProxy, Upstream};

pub(crate) use gateway::{Gateway, InnerPorts, NetworkSetting};
pub(crate) use listening::ListeningAddresses;
pub(crate) use refusals::Refusals;

use std::ffi::OsString;
use std::sync::Arc;

use crate::plan::SandboxPlan;
use reach::ListedHosts;

/// Hosts for which programs should bypass the proxy: their own machine, which is the sandbox.
const DIRECT: &str = "localhost,127.0.0.1,::1,sandbox";

/// Variables that direct programs to the proxy. Most programs read the lower-case names, some only the
/// upper-case ones.
pub(crate) fn proxy_variables(listening: &ListeningAddresses) -> Vec<(OsString, OsString)> {
    let proxy = format!("http://{}", listening.proxy);
    let names = [
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ];
    let direct = ["no_proxy", "NO_PROXY"].map(|name| (name.into(), DIRECT.into()));
    // Node uses proxies only on request.
    let node = [("NODE_USE_ENV_PROXY".into(), "1".into())];
    names
        .iter()
        .map(|name| ((*name).into(), proxy.clone().into()))
        .chain(direct)
        .chain(node)
        .collect()
}

impl NetworkSetting {
    pub(crate) fn of(plan: &SandboxPlan, listening: ListeningAddresses, refusals: Arc<Refusals>) -> Self {
        let reach = ListedHosts::new(plan.network.hosts().to_vec(), plan.upstream.clone());
        Self {
            reach,
            listening,
            published: plan.published.clone(),
            refusals,
        }
    }
}
