//! What the filters, functions and tests do. Each pays for what it touches before it touches it.

pub(super) mod encoding;
pub(super) mod kubernetes;
pub(super) mod list;
pub(super) mod map;
pub(super) mod number;
pub(super) mod quantity;
pub(super) mod select;
pub(super) mod semver;
pub(super) mod text;

use serde_json::Value;

use super::Unrendered;
use super::value::Operand;

/// What a call comes to.
pub(super) type Answer<'a> = Result<Operand<'a>, Unrendered>;

pub(super) fn gives<'a>(value: impl Into<Value>) -> Answer<'a> {
    Ok(Operand::owned(value))
}
