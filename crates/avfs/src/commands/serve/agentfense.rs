//! What `avfs serve` does for AgentFense's clients.

use std::fs::DirBuilder;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use avfs_server::service::DEFAULT_TENANT;
use avfs_server::{
    AgentfenseConfig, AgentfenseOptions, AgentfensePorts, GivesBack, ListeningError, LogLevel, LogLines,
    LogWriter,
};
use serde_json::Value;

use crate::exit::ExitStatus;
use crate::failure::Failure;

/// Where AgentFense's clients look for its server.
const GRPC: &str = "127.0.0.1:9000";
const REST: &str = "127.0.0.1:8080";

#[derive(Debug, clap::Args)]
pub struct AgentfenseArgs {
    /// Serve AgentFense's clients at ports of this machine, without a credential: all of them are this tenant
    #[arg(
        long,
        value_name = "TENANT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "default",
        group = "addresses"
    )]
    insecure_agentfense: Option<String>,

    /// Where AgentFense's clients find gRPC [default: 127.0.0.1:9000]
    #[arg(long, value_name = "ADDRESS:PORT", requires = "insecure_agentfense")]
    agentfense_grpc: Option<SocketAddr>,

    /// Where programs for AgentFense's gateway find it [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT", requires = "insecure_agentfense")]
    agentfense_rest: Option<SocketAddr>,

    /// Where an AgentFense sandbox and others have changed the same, the sandbox's version wins
    #[arg(long)]
    agentfense_last_writer_wins: bool,

    /// Read AgentFense's configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl AgentfenseArgs {
    /// Reads the configuration file, if there is one.
    pub fn config(&self) -> Result<AgentfenseConfig> {
        let Some(file) = &self.config else {
            return Ok(AgentfenseConfig::default());
        };
        let refused = |text: String| {
            let text = format!("{}: {text}", file.display());
            Failure::new("bad-config", ExitStatus::BadInput, text)
        };
        let text = std::fs::read_to_string(file).map_err(|error| refused(error.to_string()))?;
        let config = AgentfenseConfig::parse(&text).map_err(|error| refused(error.to_string()))?;
        let has_ports = config.grpc.or(config.rest).is_some();
        if has_ports && self.insecure_agentfense.is_none() {
            let text = "server: clients send no credential, so these addresses are served only if you say so";
            let hint = "add `--insecure-agentfense`, or take the addresses out: clients find the Unix socket without them";
            return Err(refused(text.to_owned()).hint(Some(hint.to_owned())).into());
        }
        Ok(config)
    }

    /// What holds for sandboxes.
    pub fn options(&self, config: &AgentfenseConfig) -> AgentfenseOptions {
        AgentfenseOptions {
            gives_back: if self.agentfense_last_writer_wins {
                GivesBack::LastWriterWins
            } else {
                GivesBack::Conflicts
            },
            ..config.options.clone()
        }
    }

    /// The database of a tenant that is not in its store.
    pub fn database(&self, config: &AgentfenseConfig) -> Option<(String, PathBuf)> {
        let tenant = self.insecure_agentfense.as_deref().unwrap_or(DEFAULT_TENANT);
        config.database.clone().map(|file| (tenant.to_owned(), file))
    }

    /// Takes the ports, if that is asked for.
    pub fn ports(&self, config: &AgentfenseConfig) -> Result<Option<AgentfensePorts>, ListeningError> {
        let Some(tenant) = &self.insecure_agentfense else {
            return Ok(None);
        };
        let usual = |address: &str| address.parse::<SocketAddr>().ok();
        let grpc = self.agentfense_grpc.or(config.grpc).or(usual(GRPC));
        let rest = self.agentfense_rest.or(config.rest).or(usual(REST));
        let both = grpc.zip(rest);
        both.map(|(grpc, rest)| AgentfensePorts::begin(tenant, grpc, rest))
            .transpose()
    }
}

/// Lets runs and sessions have their mounts below another directory than the store's.
pub fn mount_below(home: &Path, mounts: &Path) -> Result<()> {
    let failed = |action: &str, place: &Path, error: io::Error| {
        let text = format!("storage.mount_path: {action} {}: {error}", place.display());
        Failure::new("bad-config", ExitStatus::BadInput, text)
    };
    for kind in ["runs", "sessions"] {
        let (own, other) = (home.join(kind), mounts.join(kind));
        let mut private = DirBuilder::new();
        private.recursive(true).mode(0o700);
        for place in [home, &other] {
            private
                .create(place)
                .map_err(|error| failed("making", place, error))?;
        }
        let other = other
            .canonicalize()
            .map_err(|error| failed("finding", &other, error))?;
        if own.canonicalize().is_ok_and(|known| known == other) {
            continue;
        }
        // It is empty while nothing runs. A link of another time is replaced.
        let removed = std::fs::remove_dir(&own).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            io::ErrorKind::NotADirectory => std::fs::remove_file(&own),
            _ => Err(error),
        });
        removed.map_err(|error| failed("replacing", &own, error))?;
        std::os::unix::fs::symlink(&other, &own).map_err(|error| failed("linking", &own, error))?;
    }
    Ok(())
}

/// Writes those lines of the log that are wanted.
pub fn log(config: &AgentfenseConfig, log: LogWriter) -> LogLines {
    let (level, as_text) = (config.log_level, config.log_as_text);
    Arc::new(move |line| {
        // The usual case needs no second look at the line.
        if level <= LogLevel::Info && !as_text {
            return log.line(line);
        }
        if let Some(shown) = shown(line, level, as_text) {
            log.line(&shown);
        }
    })
}

/// A line as it is wanted; nothing, if it is not.
fn shown(line: &str, level: LogLevel, as_text: bool) -> Option<String> {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(line) else {
        return Some(line.to_owned());
    };
    let of_line = match fields.get("status").and_then(Value::as_u64) {
        Some(500..) => LogLevel::Error,
        Some(400..) => LogLevel::Warn,
        Some(_) => LogLevel::Info,
        None if fields.contains_key("error") => LogLevel::Error,
        None => LogLevel::Warn,
    };
    if of_line < level {
        return None;
    }
    if !as_text {
        return Some(line.to_owned());
    }
    let word = |(name, value): (&String, &Value)| match value {
        Value::String(text) if !text.contains([' ', '"', '=']) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    };
    Some(fields.iter().map(word).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_the_lines_of_its_level() {
        let answered = |status: u16| format!(r#"{{"path":"/v1/sandboxes","status":{status},"ms":1}}"#);
        // In the order of names, which a map has whether or not it keeps the order of insertion.
        let failed = r#"{"action":"expiring","error":"the disk is full","sandbox":"sb_1"}"#;
        let has = |line: &str, level| shown(line, level, false).is_some();
        assert!(has(&answered(200), LogLevel::Info) && !has(&answered(200), LogLevel::Warn));
        assert!(has(&answered(404), LogLevel::Warn) && !has(&answered(404), LogLevel::Error));
        assert!(has(&answered(500), LogLevel::Error) && has(failed, LogLevel::Error));
        assert_eq!(
            shown(failed, LogLevel::Debug, true).unwrap(),
            r#"action=expiring error="the disk is full" sandbox=sb_1"#
        );
    }

    #[test]
    fn mounts_are_where_they_are_asked_to_be() {
        let place = tempfile::tempdir().unwrap();
        let (home, mounts) = (place.path().join("home"), place.path().join("mounts"));
        mount_below(&home, &mounts).unwrap();
        std::fs::create_dir(home.join("runs/r1")).unwrap();
        assert!(mounts.join("runs/r1").is_dir());
        // Again, and at another place once nothing runs.
        mount_below(&home, &mounts).unwrap();
        mount_below(&home, &place.path().join("other")).unwrap();
        assert!(place.path().join("other/sessions").is_dir() && !home.join("runs/r1").exists());
    }
}
