//! Hashes that are written into clusters: they never change.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::mapping::hash::base32;
pub use crate::mapping::hash::tuple_hash;

/// SHA-256 over a value's JSON text; `bytes` of it, in base 32.
pub fn value_hash(value: &Value, bytes: usize) -> String {
    base32(&Sha256::digest(super::json_text(value))[..bytes.min(32)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_changes() {
        assert_eq!(tuple_hash(["abc123", "default"], 10).len(), 16);
        assert_eq!(tuple_hash(["a"; 3], 16).len(), 26);
        assert_eq!(tuple_hash(["abc123", "default"], 10), "aunofkrtcqx4wydb");
    }

    #[test]
    fn tells_where_one_part_ends() {
        assert_ne!(tuple_hash(["ab", "c"], 16), tuple_hash(["a", "bc"], 16));
        assert_ne!(tuple_hash(["a", ""], 16), tuple_hash(["a"], 16));
    }
}
