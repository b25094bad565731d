//! `sync-engine` turns a directory of YAML mapping documents into a running multi-cluster controller.

pub mod catalog;
pub mod cli;
pub mod engine;
pub mod mapping;
pub mod multicluster;
pub mod object;
pub mod plan;
pub mod provider;
pub mod reload;
pub mod sandbox;
pub mod server;
pub mod telemetry;
pub mod yaml;
