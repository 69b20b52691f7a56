//! The vaults of a server.

use anyhow::Result;
use serde_json::json;

use super::client::part;
use super::{Session, text};
use crate::exit::ExitStatus;
use crate::failure::Failure;

#[derive(Debug, clap::Subcommand)]
pub enum VaultVerb {
    Create(VaultCreateVerb),
    List(VaultListVerb),
    Fork(VaultForkVerb),
    Delete(VaultDeleteVerb),
}

#[derive(Debug, clap::Args)]
pub struct VaultCreateVerb {
    name: String,
}

#[derive(Debug, clap::Args)]
pub struct VaultListVerb {}

#[derive(Debug, clap::Args)]
pub struct VaultForkVerb {
    vault: String,
    names: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct VaultDeleteVerb {
    name: String,
    #[arg(short, long)]
    yes: bool,
}

pub fn run(session: &mut Session<'_>, verb: &VaultVerb) -> Result<ExitStatus> {
    let place = |name: &str| format!("/vaults/{}", part(name));
    match verb {
        VaultVerb::Create(verb) => {
            let made = session
                .client
                .json("POST", "/vaults", Some(&json!({ "name": verb.name })))?;
            session.done("vault", &made)
        }
        VaultVerb::List(_) => {
            let all = session.client.list("/vaults", "", "vaults")?;
            if session.out.is_json() {
                return session.object("vaults", &json!({ "vaults": all }));
            }
            for one in &all {
                let (files, bytes) = (&one["files"], &one["bytes"]);
                session.out.line(format_args!(
                    "{}  {files} files  {bytes} bytes",
                    text(&one["name"])
                ))?;
            }
            Ok(ExitStatus::Success)
        }
        VaultVerb::Fork(verb) => {
            let body = json!({ "names": verb.names });
            let made = session
                .client
                .json("POST", &format!("{}/forks", place(&verb.vault)), Some(&body))?;
            session.done("vaults", &json!({ "vaults": made["vaults"] }))
        }
        VaultVerb::Delete(verb) => {
            if !verb.yes {
                let text = "deleting a vault of a server needs `--yes`";
                return Err(Failure::new("not-confirmed", ExitStatus::BadInput, text).into());
            }
            session.client.json("DELETE", &place(&verb.name), None)?;
            session.done("vault-delete", &json!({ "name": verb.name }))
        }
    }
}
