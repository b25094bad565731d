//! What the filters, functions and tests do. Each pays for what it touches before it touches it.

pub(super) mod encoding;
pub(super) mod kubernetes;
pub(super) mod list;
pub(super) mod map;
pub(super) mod number;
pub(super) mod quantity;
pub(super) mod select;
pub(super) mod semver;
pub(super) mod tests;
pub(super) mod text;

use super::value::{Operand, Stop};

/// What a call comes to.
type Answer<'a> = Result<Operand<'a>, Stop>;
