//! `sync-engine` turns a directory of YAML mapping documents into a running multi-cluster controller.
//!
//! One idea is used twice: *desired − observed → actions*, computed by a pure function, carried out by a thin shell.
//!
//! * Once per object: [`plan::plan`] decides from a [`mapping::Mapping`] and what is [observed](plan::Observed) of one
//!   source; the [`engine`]'s worker fills the picture from caches, and its executor, the only writer, carries the actions out.
//! * Once for the engine: the [`catalog`] of mappings and the clusters that [`multicluster`] has engaged are compared
//!   with the controllers that run. A reload, a new workspace, a lost shard: each is another input to that.
//!
//! ```text
//!  mappings/*.yaml                                  consumer workspaces, fleets
//!       │ bytes                                               │
//!    reload ──► yaml ──► mapping::compile              provider ──► Apply / Gone
//!                              │                              │
//!                           catalog ──────► engine ◄──── multicluster::Manager
//!                                              │ start / stop / swap
//!                    watches → stores → queue (fair per cluster) → worker:
//!                              observe → plan (pure) → apply (the only writer)
//! ```
//!
//! # Invariants
//!
//! * The crate `mapping` and the modules `object`, `plan`, `release`, `scaffold`, `rights` and `table` are pure: no async, no I/O, no clock,
//!   no randomness. A test checks it.
//! * Nothing is deleted but on evidence, with the uid that was seen, and never by a failed rendering, a missing API,
//!   an unreachable cluster or a file that cannot be read.
//! * No object is written that is not ours by its self mark, or absent when we looked.
//! * A consumer's object carries our finalizer before the first downstream write, and until an uncached read found
//!   nothing of it.
//! * Consumer data is never evaluated, and enters URLs only through [`multicluster::ApiPath`], which checks it.
//! * What is in sync costs no write, also after a restart.
//!
//! Three parts stand by themselves and are crates: the language (`mapping`, with `yaml` and `catalog`), the multi-cluster core
//! (`multicluster`, with `provider` and `health`), and the in-memory API server (`sandbox`). The compiler holds their direction:
//! the second and the third know the first and nothing else of this workspace. The modules below are in reading order;
//! dependencies point up the list.

pub use sync_engine_mapping::{self as mapping, catalog, yaml};

pub use sync_engine_multicluster::{self as multicluster, health, provider};

pub use sync_engine_apiserver as sandbox;

pub mod object;

pub mod plan;

pub mod release;

pub mod scaffold;

pub mod rights;

pub mod table;

pub mod reload;

pub mod server;

pub mod engine;

pub mod survey;

pub mod telemetry;

pub mod story;

pub mod cli;
