//! Kubernetes objects as the engine keeps them: who they are, what they hold, and whose they are.

pub mod compare;
pub mod hash;
pub mod marks;
pub mod readiness;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{Deref, RangeInclusive};
use std::sync::{Arc, LazyLock};

use serde::Serialize;
use serde_json::Value;

pub use crate::mapping::names::{is_dns_label, is_dns_subdomain};

/// Name of a cluster, unique within its provider: for kcp the logical cluster's name.
///
/// Checked when it is made (DNS-1123 subdomain), for it becomes part of URLs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterName(Arc<str>);

impl ClusterName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name that must not become part of a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no DNS-1123 subdomain name (lower case letters, digits, `-` and `.`, at most 253)")]
pub struct InvalidName(pub String);

impl TryFrom<&str> for ClusterName {
    type Error = InvalidName;

    fn try_from(name: &str) -> Result<Self, InvalidName> {
        if is_dns_subdomain(name) { Ok(Self(Arc::from(name))) } else { Err(InvalidName(name.to_owned())) }
    }
}

/// Identity of an object across all clusters of one provider and one resource. Cheap to clone: half a dozen indexes hold
/// the key of each object.
///
/// Its order is one for indexes: by [rank](Self::rank), so that a search compares the texts of one key, and not of each
/// that it passes. [`by_name`](Self::by_name) is the order for people.
#[derive(Debug, Clone)]
pub struct Key {
    rank: u64,
    parts: Arc<KeyParts>,
}

/// What a [`Key`] is made of.
#[derive(Debug)]
pub struct KeyParts {
    pub cluster: ClusterName,
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Box<str>,
}

impl Key {
    pub fn new(cluster: ClusterName, namespace: impl Into<Arc<str>>, name: impl Into<Box<str>>) -> Self {
        let (namespace, name) = (namespace.into(), name.into());
        let rank = rank(&cluster, hash_of(&(&namespace, &name)));
        Self { rank, parts: Arc::new(KeyParts { cluster, namespace, name }) }
    }

    /// The object of the same namespace and name in another cluster.
    pub fn in_cluster(&self, cluster: ClusterName) -> Self {
        Self::new(cluster, self.namespace.clone(), self.name.clone())
    }

    /// None of a cluster's keys sorts before it, and no object has it.
    pub fn least_of(cluster: &ClusterName) -> Self {
        static NOTHING: LazyLock<Arc<KeyParts>> = LazyLock::new(|| {
            let cluster = ClusterName(Arc::from(""));
            Arc::new(KeyParts { cluster, namespace: Arc::from(""), name: Box::default() })
        });
        Self { rank: *Self::ranks_of(cluster).start(), parts: NOTHING.clone() }
    }

    /// A number that is the same for equal keys, and mostly another for others. Keys of one cluster are neighbours. Names
    /// can be made up that share it, which costs those who do so the comparison of texts.
    pub fn rank(&self) -> u64 {
        self.rank
    }

    /// The lowest and the highest rank of a cluster's keys.
    pub fn ranks_of(cluster: &ClusterName) -> RangeInclusive<u64> {
        rank(cluster, 0)..=rank(cluster, u32::MAX)
    }

    /// By cluster, namespace and name.
    pub fn by_name(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.parts, &other.parts) {
            return Ordering::Equal;
        }
        text_order(&self.cluster.0, &other.cluster.0)
            .then_with(|| text_order(&self.namespace, &other.namespace))
            .then_with(|| self.name.cmp(&other.name))
    }
}

fn rank(cluster: &ClusterName, rest: u32) -> u64 {
    u64::from(hash_of(cluster)) << 32 | u64::from(rest)
}

fn hash_of(part: &impl Hash) -> u32 {
    let mut hasher = DefaultHasher::new();
    part.hash(&mut hasher);
    (hasher.finish() >> 32) as u32
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.cluster, &self.namespace, &self.name).hash(state);
    }
}

impl Deref for Key {
    type Target = KeyParts;

    fn deref(&self) -> &KeyParts {
        &self.parts
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank).then_with(|| self.by_name(other))
    }
}

/// Keys of one store share the texts of their clusters and namespaces, so mostly nothing is compared.
fn text_order(a: &Arc<str>, b: &Arc<str>) -> Ordering {
    if Arc::ptr_eq(a, b) { Ordering::Equal } else { a.cmp(b) }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}|{}", self.cluster, self.name)
        } else {
            write!(f, "{}|{}/{}", self.cluster, self.namespace, self.name)
        }
    }
}

/// A text field of an object's metadata; empty where it is not there.
pub fn metadata<'a>(object: &'a Value, field: &str) -> &'a str {
    of_metadata(object, field).and_then(Value::as_str).unwrap_or_default()
}

fn of_metadata<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("metadata").and_then(|metadata| metadata.get(field))
}

/// A tree, or a patch of one, as compact JSON, without the formatter through which `to_string` passes each piece.
pub fn json_text(tree: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(tree).expect("the keys of a JSON tree are strings, and a Vec takes what is written")
}

/// `metadata.generation`; 0 where the server keeps none.
pub fn generation(object: &Value) -> i64 {
    of_metadata(object, "generation").and_then(Value::as_i64).unwrap_or_default()
}

pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    let finalizers = of_metadata(object, "finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|all| all.iter().any(|one| one == finalizer))
}
