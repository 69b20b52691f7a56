//! Information for programs inside a run in their environment.

/// The vault that the run works in.
pub const VAULT_VARIABLE: &str = "AVFS_VAULT";
/// The task of a project that the run works in.
pub const TASK_VARIABLE: &str = "AVFS_TASK";
/// The socket at which the run requests actions that only the outside can perform.
pub const DOOR_VARIABLE: &str = "AVFS_DOOR";
