//! The ports of clients that send no credential.

use std::net::{SocketAddr, TcpListener};

use crate::auth::check_tenant;
use crate::listening::{ListeningError, listen};

/// Where clients without a credential are served, on this machine alone: whoever can connect there is the tenant.
pub struct AgentfensePorts {
    pub(crate) tenant: String,
    pub(crate) grpc: TcpListener,
    pub(crate) rest: TcpListener,
}

impl AgentfensePorts {
    /// Takes two addresses of the loopback interface: one for gRPC, one for the gateway. Others are refused.
    pub fn begin(
        tenant: &str,
        grpc: SocketAddr,
        rest: SocketAddr,
    ) -> Result<AgentfensePorts, ListeningError> {
        check_tenant(tenant).map_err(|error| ListeningError::Tenant(error.to_string()))?;
        for address in [grpc, rest] {
            if !address.ip().is_loopback() {
                return Err(ListeningError::NotLoopback(address));
            }
        }
        Ok(AgentfensePorts {
            tenant: tenant.to_owned(),
            grpc: listen(grpc)?,
            rest: listen(rest)?,
        })
    }

    /// The addresses of gRPC and of the gateway, with the ports that were taken.
    pub fn addresses(&self) -> std::io::Result<[SocketAddr; 2]> {
        Ok([self.grpc.local_addr()?, self.rest.local_addr()?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_served_without_a_credential() {
        let begin = |grpc: &str, rest: &str| {
            AgentfensePorts::begin("default", grpc.parse().unwrap(), rest.parse().unwrap())
        };
        for (grpc, rest) in [
            ("0.0.0.0:0", "127.0.0.1:0"),
            ("127.0.0.1:0", "[::]:0"),
            ("10.0.0.1:0", "127.0.0.1:0"),
        ] {
            assert!(matches!(begin(grpc, rest), Err(ListeningError::NotLoopback(_))));
        }
        let addresses = begin("127.0.0.1:0", "127.0.0.2:0").unwrap().addresses().unwrap();
        assert!(addresses.iter().all(|address| address.port() != 0));
    }
}
