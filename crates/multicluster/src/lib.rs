//! The multi-cluster core: connections, clusters and who describes them, caches, and the queue.
//!
//! Reading order: a [`Connection`](connection::Connection) is what the command line named; an
//! [`Endpoint`] is one address behind it; a [`Watch`](watch::Watch) fills a [`Store`]
//! from an endpoint; the [`Manager`](manager::Manager) says which clusters there are; and the
//! [`WorkQueue`](work_queue::WorkQueue) hands out what is to be reconciled.

pub mod api_path;
pub mod backoff;
pub mod bodies;
pub mod budget;
mod client;
pub mod connection;
mod credential;
pub mod directory;
pub mod endpoint;
pub mod environment;
mod exec_plugin;
mod expiry;
pub mod health;
pub mod identity;
pub mod in_process;
mod kubeconfig;
mod lane;
mod lines;
mod list;
mod list_watch;
mod mailbox;
pub mod manager;
mod own_lists;
mod pages;
pub mod permit;
pub mod provider;
mod proxy;
pub mod queue;
pub mod raw;
pub mod registry;
pub mod request_error;
mod seats;
mod silence;
pub mod store;
mod stores;
mod streams;
pub mod watch;
pub mod work_queue;

pub use api_path::ApiPath;
pub use endpoint::{Body, Endpoint, Reply};
pub use kubeconfig::contexts_of;
pub use lane::{Counters, Latency};
pub use raw::Object;
pub use registry::{Cluster, ClusterSpec, ProviderName, Reason, WatchScope};
pub use request_error::RequestError;
pub use store::{Change, PendingWrite, Store, Subscription};
