//! What `sync-engine sandbox` plays on two in-memory servers: a provider with a MongoDB API, consumers, an operator.
//!
//! [`Scene`] is the place, [`Player`] the operator, [`narrate`] turns what is written there into sentences.
//! Nothing here prints.

mod describe;
mod folder;
mod kubeconfig;
pub mod narrate;
mod player;
mod scene;
mod schedule;
pub mod toy_operator;

#[cfg(test)]
mod tests;

pub use folder::Folder;
pub use kubeconfig::{Context, kubeconfig};
pub use narrate::{Actor, Line, Narrator, Side};
pub use player::{Player, Trouble};
pub use scene::{Consumer, Failed, MAPPING, Plot, Scene};
pub use toy_operator::ToyOperator;
