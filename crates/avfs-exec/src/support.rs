//! What this system offers.
