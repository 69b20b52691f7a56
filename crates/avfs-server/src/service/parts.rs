//! The parts of a tenant, each with the calls about one side of it.

use std::sync::Arc;

use super::codebases::TenantCodebases;
use super::exchange::TenantExchanges;
use super::pausing::TenantPauses;
use super::preview::TenantPreviews;
use super::run::TenantCommands;
use super::session::TenantSessions;
use super::tenant::Tenant;

impl Tenant {
    /// Commands in sandboxes.
    pub fn commands(self: &Arc<Tenant>) -> TenantCommands<'_> {
        TenantCommands { tenant: self }
    }

    /// Shells that stay.
    pub fn sessions(self: &Arc<Tenant>) -> TenantSessions<'_> {
        TenantSessions { tenant: self }
    }

    /// Vaults that a client names as it likes.
    pub fn codebases(self: &Arc<Tenant>) -> TenantCodebases<'_> {
        TenantCodebases { tenant: self }
    }

    /// Changes between a sandbox and its vault.
    pub fn exchanges(self: &Arc<Tenant>) -> TenantExchanges<'_> {
        TenantExchanges { tenant: self }
    }

    /// Sandboxes that stand still.
    pub fn pauses(self: &Arc<Tenant>) -> TenantPauses<'_> {
        TenantPauses { tenant: self }
    }

    /// What commands would change that wait for an approval.
    pub fn previews(self: &Arc<Tenant>) -> TenantPreviews<'_> {
        TenantPreviews { tenant: self }
    }
}
