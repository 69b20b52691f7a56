//! Landlock alone.
pub struct Landlocked;
