//! `sync-engine` turns a directory of YAML mapping documents into a running multi-cluster controller.

pub mod catalog;
pub mod cli;
pub mod mapping;
pub mod object;
pub mod reload;
pub mod server;
pub mod telemetry;
pub mod yaml;
