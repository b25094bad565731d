//! What the library promises: its architecture, its properties on random input, and its parts over real HTTP.

mod architecture;
/// The example of a program with a provider of its own.
#[path = "../../examples/custom_provider.rs"]
#[expect(dead_code, reason = "its `main` is not run")]
mod custom_provider;
mod multicluster;
mod properties;
mod sandbox;
