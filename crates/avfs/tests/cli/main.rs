//! The binary as a user meets it.

mod config;
mod house;
mod output;
mod sandbox;
