//! The multi-cluster core over real HTTP: against the sandbox, and against small servers for what it does not do.

mod connections;
mod consumer_schemas;
mod fleets;
mod pool;
mod providers;
mod proxies;
mod removed_kinds;
mod requests;
mod scene;
mod streams;
mod watches;
