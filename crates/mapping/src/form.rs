//! Serialised forms that serde has none for: maps whose keys are no texts.

/// A map, shared or not, as a list of pairs.
pub mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub fn deserialize<'d, K, V, M, D>(from: D) -> Result<M, D::Error>
    where
        K: Deserialize<'d> + Ord,
        V: Deserialize<'d>,
        M: From<BTreeMap<K, V>>,
        D: Deserializer<'d>,
    {
        let map: BTreeMap<K, V> = Vec::<(K, V)>::deserialize(from)?.into_iter().collect();
        Ok(M::from(map))
    }
}
