//! The flags for the network of a run and its published ports.

use std::io;

use agentvfs::exec::PublishedBody;
use agentvfs::exec::sandbox::Network;
use agentvfs::exec::sandbox::network::{NetworkChoice, PortPublication, PublishedPort, Upstream};
use anyhow::Result;

use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct NetworkArgs {
    /// The network that it may reach: none, host (everything), or a list of hosts; a leading + adds to what it may
    /// reach anyway: `+npm`, `+host.example`. Can be repeated; `avfs profiles groups` lists the host groups
    #[arg(long, value_name = "none|host|[+]HOST,…", help_heading = HEADING)]
    net: Vec<NetworkChoice>,
    /// Make a port inside reachable from this machine, at 127.0.0.1 unless an address is given; can be repeated
    #[arg(long, value_name = "[[ADDRESS:]HOSTPORT:]PORT", help_heading = HEADING)]
    publish: Vec<PortPublication>,
}

const HEADING: &str = "Network";

impl NetworkArgs {
    /// The result of the flags, for a run that has `usual` without them.
    pub fn network(&self, usual: Network) -> Network {
        NetworkChoice::all(&self.net, usual)
    }

    /// The same flags again, as one types them.
    pub fn typed(&self) -> Vec<String> {
        let net = self
            .net
            .iter()
            .flat_map(|choice| ["--net".to_owned(), choice.text().to_owned()]);
        let publish = self
            .publish
            .iter()
            .flat_map(|one| ["--publish".to_owned(), one.to_string()]);
        net.chain(publish).collect()
    }

    /// Takes the ports of this machine. Nothing has begun then that would have to be undone.
    pub fn publish(&self, network: &Network) -> Result<Vec<PublishedPort>> {
        if let (Network::Host, Some(one)) = (network, self.publish.first()) {
            let port = one.port();
            let text = format!(
                "port {port} cannot be published: with `--net host`, it is a port of this machine anyway"
            );
            let hint = "leave `--publish` or `--net host` away".to_owned();
            return Err(Failure::new("bad_plan", ExitStatus::BadInput, text)
                .hint(Some(hint))
                .into());
        }
        self.publish
            .iter()
            .map(|one| Ok(one.open().map_err(|error| not_open(one, &error))?))
            .collect()
    }
}

impl NetworkArgs {
    /// The ports, for a question alone: none of them is taken.
    pub fn published_unopened(&self) -> Vec<PublishedPort> {
        self.publish.iter().map(PortPublication::unopened).collect()
    }
}

fn not_open(publish: &PortPublication, error: &io::Error) -> Failure {
    let (at, port) = (publish.at(), publish.port());
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            let text = format!("port {} of {} is taken by another program", at.port(), at.ip());
            let hint = format!(
                "choose another one, such as `--publish {}:{port}`",
                at.port().wrapping_add(1).max(1024)
            );
            Failure::new("port-taken", ExitStatus::Busy, text).hint(Some(hint))
        }
        io::ErrorKind::PermissionDenied => {
            let text = format!("port {} of {} takes privileges", at.port(), at.ip());
            let hint = format!(
                "choose another one, such as `--publish {}:{port}`",
                8000 + at.port() % 1000
            );
            Failure::new("port-denied", ExitStatus::Denied, text).hint(Some(hint))
        }
        _ => {
            let text = format!("this machine cannot listen at {at}: {error}");
            Failure::new("port-denied", ExitStatus::Denied, text)
        }
    }
}

/// Says where ports inside are to be found.
pub fn announce(out: &mut Printer, published: &[PublishedBody]) {
    for PublishedBody { at, port } in published {
        out.talk(format_args!("published: http://{at} is port {port} inside"));
    }
}

/// Says which of the user's proxies are of no use, to a run that would go through them.
pub fn warn_of_proxies(out: &mut Printer, network: &Network) {
    if !matches!(network, Network::Hosts(_)) {
        return;
    }
    let env: Vec<_> = std::env::vars_os().collect();
    for unused in Upstream::from_environment(&env).1 {
        let name = unused.variable;
        out.warn(format_args!(
            "the proxy of {name} is not used: it has to be one of the kind http://HOST:PORT"
        ));
    }
}
