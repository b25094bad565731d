//! Kubernetes objects as the engine writes them: what they hold, whether they are ready, and whose they are.

pub mod compare;
pub mod marks;
pub mod readiness;

pub use sync_engine_mapping::hash;
pub use sync_engine_mapping::object::*;
