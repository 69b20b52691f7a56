//! The skill that explains agentvfs to an agent, in the open format.

/// The same file as in `plugins/`.
pub const TEXT: &str = include_str!("skill/SKILL.md");
