//! How requests come from the kernel and answers go back.

pub mod device;
