//! Stable, collision-resistant names for tuples of text. The results are written into clusters: they never change.

use data_encoding::BASE32_NOPAD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::object::json_text;

/// SHA-256 over the parts, each preceded by its length in bytes (64 bits, big endian), so that `("ab", "c")` and
/// `("a", "bc")` differ. `bytes` of it, in base 32: 10 bytes give 16 characters, 16 bytes give 26.
pub fn tuple_hash<'a>(parts: impl IntoIterator<Item = &'a str>, bytes: usize) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    base32(&hasher.finalize()[..bytes.min(32)])
}

/// SHA-256 over a value's JSON text; `bytes` of it, in base 32.
pub fn value_hash(value: &Value, bytes: usize) -> String {
    base32(&Sha256::digest(json_text(value))[..bytes.min(32)])
}

/// Lower-case RFC 4648 base 32 without padding: valid in labels, names and namespaces.
fn base32(bytes: &[u8]) -> String {
    BASE32_NOPAD.encode(bytes).to_ascii_lowercase()
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
