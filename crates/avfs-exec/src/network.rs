//! The network of a run: none, the host's, or a list of hosts behind a proxy.

mod address;
mod forward;
mod proxy;
mod request;
mod rule;

pub use proxy::{Refusal, RefusedBecause};
pub use rule::{BadHostRule, HostRule};

pub(crate) use proxy::Proxy;

use std::ffi::OsString;

use crate::inside::PROXY_PORT;

/// Variables that send programs to the proxy. Most know the small letters, some only the capitals.
pub(crate) fn proxy_variables() -> Vec<(OsString, OsString)> {
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    let names = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
    let local = ["no_proxy", "NO_PROXY"].map(|name| (name.into(), "localhost,127.0.0.1,::1".into()));
    // Node asks for proxies only when told to.
    let node = [("NODE_USE_ENV_PROXY".into(), "1".into())];
    names.iter().map(|name| ((*name).into(), proxy.clone().into())).chain(local).chain(node).collect()
}
