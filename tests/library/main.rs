//! What the library promises: its architecture, its properties on random input, and its parts over real HTTP.

mod architecture;
mod multicluster;
mod properties;
mod sandbox;
