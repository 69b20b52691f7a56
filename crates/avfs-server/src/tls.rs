//! TLS: the certificate of the server, and the connections that begin with it.
//!
//! Certificates are renewed while a server runs: the files are looked at whenever a client connects. A pair that does not
//! fit together yet changes nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::options::LogLines;

/// How long a client may take until the connection is encrypted.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why there is no TLS with these files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not what it should be.
    #[error("{}", .path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: PemProblem,
    },
    /// The files do not belong together, or their kind is not known.
    #[error("the certificate {} with the key {}", .certificate.display(), .key.display())]
    Pair {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What is wrong with them.
        #[source]
        source: rustls::Error,
    },
}

/// What is wrong with a file that should be PEM.
#[derive(Debug, thiserror::Error)]
pub enum PemProblem {
    /// The machine.
    #[error(transparent)]
    Host(io::Error),
    /// There is nothing of this kind in it.
    #[error("there is no {0} in it (PEM)")]
    Nothing(&'static str),
    /// It cannot be read as PEM.
    #[error("it is not PEM")]
    Broken,
}

/// The certificate with which the server proves who it is.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    used: Mutex<Used>,
}

struct Used {
    config: Arc<ServerConfig>,
    stamp: Stamp,
}

/// When each of the files was changed.
type Stamp = [Option<SystemTime>; 2];

impl Tls {
    /// Reads a chain of certificates, the own one first, and its private key, both PEM.
    pub fn load(certificate: &Path, key: &Path) -> Result<Tls, TlsError> {
        // Before they are read: what changes meanwhile is read again.
        let stamp = stamp(certificate, key);
        Ok(Tls {
            used: Mutex::new(Used {
                config: read(certificate, key)?,
                stamp,
            }),
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        })
    }

    /// Begins an encrypted connection.
    pub(crate) async fn accept<S>(&self, stream: S, log: &LogLines) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(self.config(log));
        tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await?
    }

    /// With the present files, if they can be used, and with those before otherwise.
    fn config(&self, log: &LogLines) -> Arc<ServerConfig> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = stamp(&self.certificate, &self.key);
        if stamp != used.stamp {
            used.stamp = stamp;
            match read(&self.certificate, &self.key) {
                Ok(config) => used.config = config,
                Err(error) => {
                    let error = avfs_core::with_causes(&error);
                    log(
                        &serde_json::json!({ "action": "reading the certificate", "error": error })
                            .to_string(),
                    );
                }
            }
        }
        Arc::clone(&used.config)
    }
}

fn stamp(certificate: &Path, key: &Path) -> Stamp {
    [certificate, key].map(|path| fs::metadata(path).and_then(|found| found.modified()).ok())
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let of_file = |path: &Path, what: &'static str| {
        let path = path.to_owned();
        move |error| TlsError::File {
            path,
            source: problem(error, what),
        }
    };
    let broken = of_file(certificate, "certificate");
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = |chain: Vec<_>| {
        Some(chain)
            .filter(|chain| !chain.is_empty())
            .ok_or(pem::Error::NoItemsFound)
    };
    let chain = chain.and_then(found).map_err(broken)?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(of_file(key, "private key"))?;
    let of_pair = |source| TlsError::Pair {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        source,
    };
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(of_pair)?;
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(of_pair)?;
    // Clients of gRPC speak HTTP/2 only, and ask for it here.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn problem(error: pem::Error, what: &'static str) -> PemProblem {
    match error {
        pem::Error::Io(error) => PemProblem::Host(error),
        pem::Error::NoItemsFound => PemProblem::Nothing(what),
        _ => PemProblem::Broken,
    }
}
