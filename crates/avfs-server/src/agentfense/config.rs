//! AgentFense's configuration file. Each key does here what it says, or is refused.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::AgentfenseOptions;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is no YAML, a key is unknown, or a value is of another kind.
    #[error("{0}")]
    Unreadable(String),
    /// A value means nothing, or something that there is not.
    #[error("{key}: {reason}")]
    Value {
        /// The key, with those above it.
        key: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// How much a log has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Every request.
    #[default]
    Info,
    /// What was refused or failed.
    Warn,
    /// What failed.
    Error,
}

/// A configuration that was read.
#[derive(Clone, Debug, Default)]
pub struct AgentfenseConfig {
    /// Where gRPC is served.
    pub grpc: Option<SocketAddr>,
    /// Where the gateway is served.
    pub rest: Option<SocketAddr>,
    /// The directory of the store.
    pub codebases: Option<PathBuf>,
    /// The directory below which sandboxes are mounted.
    pub mounts: Option<PathBuf>,
    /// The server's database.
    pub database: Option<PathBuf>,
    /// The program that makes sandboxes.
    pub bubblewrap: Option<PathBuf>,
    /// How often expired sandboxes are removed.
    pub cleanup: Option<Duration>,
    /// How much is logged.
    pub log_level: LogLevel,
    /// The log is for people, not one JSON object per line.
    pub log_as_text: bool,
    /// What holds for sandboxes.
    pub options: AgentfenseOptions,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    server: Server,
    storage: Storage,
    runtime: Runtime,
    sandbox: Sandbox,
    logging: Logging,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Server {
    grpc_addr: String,
    http_addr: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Storage {
    codebase_path: String,
    mount_path: String,
    db_path: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Runtime {
    r#type: String,
    bwrap_path: String,
    default_timeout: String,
    max_timeout: String,
    docker: Docker,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Docker {
    host: String,
    default_image: String,
    network_mode: String,
    enable_networking: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Sandbox {
    default_expiration: String,
    max_per_user: usize,
    cleanup_interval: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Logging {
    level: String,
    format: String,
}

impl AgentfenseConfig {
    /// Reads a file. A key that it does not have is as if there were no file.
    pub fn parse(text: &str) -> Result<AgentfenseConfig, ConfigError> {
        let file: File =
            serde_saphyr::from_str(text).map_err(|error| ConfigError::Unreadable(error.to_string()))?;
        let Docker {
            host,
            default_image,
            network_mode,
            enable_networking,
        } = file.runtime.docker;
        if !host.is_empty() {
            let reason = "there is no Docker daemon here; images come from `avfs image import`";
            return Err(value("runtime.docker.host", reason));
        }
        let is_docker = match file.runtime.r#type.as_str() {
            "" | "bwrap" => false,
            "docker" => true,
            other => {
                let reason = format!("there are `bwrap` and `docker`, and no `{other}`");
                return Err(value("runtime.type", reason));
            }
        };
        let network = network(&network_mode, enable_networking)?;
        Ok(AgentfenseConfig {
            grpc: address("server.grpc_addr", &file.server.grpc_addr)?,
            rest: address("server.http_addr", &file.server.http_addr)?,
            codebases: path(&file.storage.codebase_path),
            mounts: path(&file.storage.mount_path),
            database: path(&file.storage.db_path),
            bubblewrap: path(&file.runtime.bwrap_path),
            cleanup: span("sandbox.cleanup_interval", &file.sandbox.cleanup_interval)?,
            log_level: level(&file.logging.level)?,
            log_as_text: match file.logging.format.as_str() {
                "" | "json" => false,
                "text" => true,
                other => {
                    let reason = format!("there are `json` and `text`, and no `{other}`");
                    return Err(value("logging.format", reason));
                }
            },
            options: AgentfenseOptions {
                usual_timeout: span("runtime.default_timeout", &file.runtime.default_timeout)?,
                most_timeout: span("runtime.max_timeout", &file.runtime.max_timeout)?,
                expiration: span("sandbox.default_expiration", &file.sandbox.default_expiration)?,
                most_per_owner: Some(file.sandbox.max_per_user).filter(|most| *most > 0),
                image: Some(default_image).filter(|image| !image.is_empty()),
                always_on_image: is_docker,
                network,
                ..AgentfenseOptions::default()
            },
        })
    }
}

fn value(key: &'static str, reason: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        key,
        reason: reason.into(),
    }
}

fn path(text: &str) -> Option<PathBuf> {
    Some(text).filter(|text| !text.is_empty()).map(PathBuf::from)
}

/// An address; one without a host is on the loopback interface, since that is where clients without a credential are
/// served.
fn address(key: &'static str, text: &str) -> Result<Option<SocketAddr>, ConfigError> {
    if text.is_empty() {
        return Ok(None);
    }
    let read = match text.strip_prefix(':').or(text.strip_prefix("localhost:")) {
        Some(port) => port
            .parse()
            .ok()
            .map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        None => text.parse().ok(),
    };
    match read {
        Some(address) => Ok(Some(address)),
        None => Err(value(key, format!("'{text}' is not ADDRESS:PORT or :PORT"))),
    }
}

/// Hosts that sandboxes reach: all that this machine does, or none.
fn network(mode: &str, is_enabled: bool) -> Result<Vec<String>, ConfigError> {
    match (mode, is_enabled) {
        ("" | "none" | "bridge" | "host", false) => Ok(Vec::new()),
        ("bridge" | "host", true) => Ok(vec!["host".to_owned()]),
        ("" | "none", true) => {
            let reason = "`true` with network_mode `none`; name `bridge` or `host`";
            Err(value("runtime.docker.enable_networking", reason))
        }
        (other, _) => {
            let reason = format!("there are `none`, `bridge` and `host`, and no `{other}`");
            Err(value("runtime.docker.network_mode", reason))
        }
    }
}

fn level(text: &str) -> Result<LogLevel, ConfigError> {
    match text {
        "" | "info" => Ok(LogLevel::Info),
        "debug" => Ok(LogLevel::Debug),
        "warn" => Ok(LogLevel::Warn),
        "error" => Ok(LogLevel::Error),
        other => {
            let reason = format!("there are `debug`, `info`, `warn` and `error`, and no `{other}`");
            Err(value("logging.level", reason))
        }
    }
}

/// A time as Go writes it: `1h30m`, `1.5s`, `300ms`. 0 is as if it were not there.
fn span(key: &'static str, text: &str) -> Result<Option<Duration>, ConfigError> {
    if text.is_empty() || text == "0" {
        return Ok(None);
    }
    let bad = || value(key, format!("'{text}' is not a time like 30s, 10m or 1h30m"));
    let (mut left, mut seconds) = (text, 0.0_f64);
    while !left.is_empty() {
        let digits = left
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .ok_or_else(bad)?;
        let (number, rest) = left.split_at(digits);
        let letters = rest
            .find(|letter: char| letter.is_ascii_digit() || letter == '.')
            .unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(letters);
        let unit = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return Err(bad()),
        };
        seconds += number.parse::<f64>().map_err(|_| bad())? * unit;
        left = rest;
    }
    let span = Duration::try_from_secs_f64(seconds).map_err(|_| bad())?;
    Ok(Some(span).filter(|span| !span.is_zero()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every key that the file can have.
    const WHOLE: &str = r#"
server:
  grpc_addr: ":9000"
  http_addr: "127.0.0.1:8080"   # of the gateway
storage:
  codebase_path: "/srv/codebases"
  mount_path: "/srv/mounts"
  db_path: "/srv/metadata.db"
runtime:
  type: "docker"
  bwrap_path: "/usr/bin/bwrap"
  default_timeout: "30s"
  max_timeout: 10m
  docker:
    host: ""
    default_image: "ubuntu:22.04"
    network_mode: "bridge"
    enable_networking: true
sandbox:
  default_expiration: "1h30m"
  max_per_user: 10
  cleanup_interval: "5m"
logging:
  level: "warn"
  format: "text"
"#;

    #[test]
    fn every_key_is_read() {
        let config = AgentfenseConfig::parse(WHOLE).unwrap();
        assert_eq!(config.grpc, Some("127.0.0.1:9000".parse().unwrap()));
        assert_eq!(config.rest, Some("127.0.0.1:8080".parse().unwrap()));
        let places = [
            config.codebases,
            config.mounts,
            config.database,
            config.bubblewrap,
        ];
        let expected = [
            "/srv/codebases",
            "/srv/mounts",
            "/srv/metadata.db",
            "/usr/bin/bwrap",
        ];
        assert_eq!(places.map(Option::unwrap), expected.map(PathBuf::from));
        assert_eq!(config.cleanup, Some(Duration::from_secs(300)));
        assert_eq!((config.log_level, config.log_as_text), (LogLevel::Warn, true));
        let options = config.options;
        assert_eq!(options.usual_timeout, Some(Duration::from_secs(30)));
        assert_eq!(options.most_timeout, Some(Duration::from_secs(600)));
        assert_eq!(options.expiration, Some(Duration::from_secs(5400)));
        assert_eq!(options.most_per_owner, Some(10));
        assert_eq!(options.image.as_deref(), Some("ubuntu:22.04"));
        assert_eq!(
            (options.always_on_image, options.network),
            (true, vec!["host".to_owned()])
        );
    }

    #[test]
    fn keys_and_values_that_mean_nothing_are_refused_with_their_names() {
        for (text, told) in [
            ("server:\n  grpc: 1\n", "grpc"),
            ("sandbox:\n  auto_cleanup_stopped: true\n", "auto_cleanup_stopped"),
            ("runtime:\n  type: mock\n", "runtime.type"),
            ("runtime:\n  default_timeout: soon\n", "runtime.default_timeout"),
            ("runtime:\n  max_timeout: 5\n", "runtime.max_timeout"),
            (
                "runtime:\n  docker:\n    host: unix:///x\n",
                "runtime.docker.host",
            ),
            (
                "runtime:\n  docker:\n    enable_networking: true\n",
                "runtime.docker.enable_networking",
            ),
            ("server:\n  grpc_addr: nine\n", "server.grpc_addr"),
            ("sandbox:\n  max_per_user: many\n", "max_per_user"),
            ("logging:\n  level: loud\n", "logging.level"),
        ] {
            let error = AgentfenseConfig::parse(text).unwrap_err().to_string();
            assert!(error.contains(told), "{text:?} {error}");
        }
    }

    #[test]
    fn omitted_settings_have_the_values_that_they_have_without_a_file() {
        for text in [
            "",
            "server:\n  grpc_addr: \"\"\n",
            "sandbox:\n  default_expiration: 0\n",
        ] {
            let config = AgentfenseConfig::parse(text).unwrap();
            assert_eq!((config.grpc, config.options.expiration), (None, None), "{text:?}");
        }
    }
}
