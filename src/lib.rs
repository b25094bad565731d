//! `sync-engine` turns a directory of YAML mapping documents into a running multi-cluster controller.

pub mod sandbox;
