//! What is wrong with a document, and where.

pub use crate::yaml::Finding;
