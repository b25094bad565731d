//! What `sync-engine sandbox` plays on two in-memory servers: a provider with an API, consumers, an operator.
//!
//! [`Script`] says what is played, [`Scene`] is the place, [`Player`] the operator, [`narrate`] turns what is written there into sentences.
//! Nothing here prints.

mod describe;
pub mod narrate;
mod player;
mod scene;
mod schedule;
mod script;
pub mod toy_operator;

#[cfg(test)]
mod tests;

pub use narrate::{Line, Narrator, Side};
pub use player::{Player, Trouble};
pub use scene::{Consumer, Failed, Plot, Scene};
pub use script::{Found, Order, Published, Script};
pub use toy_operator::ToyOperator;
