//! What `sync-engine sandbox` plays on in-memory servers: a provider with an API, consumers, an operator; or a fleet.
//!
//! [`Script`] says what is played, [`Scene`] is the place, [`Player`] the operator, [`narrate`] turns what is written there into sentences.
//! Nothing here prints.

mod describe;
pub mod narrate;
mod player;
mod scene;
mod schedule;
mod script;
mod toy_cluster;
pub mod toy_operator;

#[cfg(test)]
mod tests;

pub use narrate::{Line, Narrator, Side};
pub use player::{Player, Trouble};
pub use scene::{Consumer, Failed, Member, Plot, Scene};
pub use script::{Found, Given, Order, Place, Published, Script};
pub use toy_cluster::ToyCluster;
pub use toy_operator::ToyOperator;
