//! Kubernetes objects: who they are, and what their metadata says.

pub mod claims;
pub mod hold;
pub mod lists;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use crate::names::{are, count, is_dns_label, is_dns_subdomain, one_line, shortened};

/// Name of a cluster, unique within its provider: for kcp the logical cluster's name.
///
/// Checked when it is made (DNS-1123 subdomain), for it becomes part of URLs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
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

impl TryFrom<String> for ClusterName {
    type Error = InvalidName;

    fn try_from(name: String) -> Result<Self, InvalidName> {
        name.as_str().try_into()
    }
}

/// Identity of an object across all clusters of one provider and one resource, in order by cluster, namespace and name.
/// Cheap to clone: half a dozen indexes hold the key of each object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(ClusterName, String, String)", into = "(ClusterName, String, String)")]
pub struct Key(Arc<KeyParts>);

/// What a [`Key`] is made of.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyParts {
    pub cluster: ClusterName,
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Box<str>,
}

impl Key {
    pub fn new(cluster: ClusterName, namespace: impl Into<Arc<str>>, name: impl Into<Box<str>>) -> Self {
        Self(Arc::new(KeyParts { cluster, namespace: namespace.into(), name: name.into() }))
    }

    /// The object of the same namespace and name in another cluster.
    pub fn in_cluster(&self, cluster: ClusterName) -> Self {
        Self::new(cluster, self.namespace.clone(), &*self.name)
    }

    /// For people, with the path of its workspace in place of the cluster's name.
    pub fn at(&self, place: &str) -> String {
        // It may be of annotations, which anybody can write.
        format!("{}|{}", one_line(place), with_namespace(&one_line(&self.namespace), &one_line(&self.name)))
    }

    /// None of a cluster's keys sorts before it, and no object has it.
    pub fn least_of(cluster: &ClusterName) -> Self {
        Self::new(cluster.clone(), "", "")
    }
}

impl From<(ClusterName, String, String)> for Key {
    fn from((cluster, namespace, name): (ClusterName, String, String)) -> Self {
        Self::new(cluster, namespace, name)
    }
}

impl From<Key> for (ClusterName, String, String) {
    fn from(key: Key) -> Self {
        (key.cluster.clone(), key.namespace.to_string(), key.name.to_string())
    }
}

impl Deref for Key {
    type Target = KeyParts;

    fn deref(&self) -> &KeyParts {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.at(self.cluster.as_str()))
    }
}

/// A text field of an object's metadata; empty where it is not there.
pub fn metadata<'a>(object: &'a Value, field: &str) -> &'a str {
    of_metadata(object, field).and_then(Value::as_str).unwrap_or_default()
}

fn of_metadata<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("metadata").and_then(|metadata| metadata.get(field))
}

/// The items of a list, each with its type: a server leaves that out of the items of its built-in kinds.
pub fn list_items(mut list: Value) -> Vec<Value> {
    let mut field = |name: &str| list.get_mut(name).map(Value::take).unwrap_or_default();
    let (version, kind, items) = (field("apiVersion"), field("kind"), field("items"));
    let Value::Array(mut items) = items else { return Vec::new() };
    if let Some(kind) = kind.as_str().and_then(|kind| kind.strip_suffix("List")) {
        for item in items.iter_mut().filter_map(Value::as_object_mut).filter(|item| !item.contains_key("kind")) {
            item.insert("apiVersion".to_owned(), version.clone());
            item.insert("kind".to_owned(), kind.into());
        }
    }
    items
}

/// `NAMESPACE/NAME`; of cluster-scoped objects, the name alone.
pub fn with_namespace(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Whether an object has a deletionTimestamp.
pub fn is_deleting(object: &Value) -> bool {
    !metadata(object, "deletionTimestamp").is_empty()
}

/// A tree, or a patch of one, as compact JSON, without the formatter through which `to_string` passes each piece.
pub fn json_text(tree: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(tree).expect("the keys of a JSON tree are strings, and a Vec takes what is written")
}

/// Moves a Secret's `stringData`, which no server stores, to its `data`.
pub fn encode_string_data(secret: &mut Value) {
    let Some(Value::Object(plain)) = secret.as_object_mut().and_then(|map| map.remove("stringData")) else {
        return;
    };
    if !secret["data"].is_object() {
        secret["data"] = Value::Object(Map::new());
    }
    for (key, value) in plain {
        let text = value.as_str().unwrap_or_default();
        secret["data"][&key] = data_encoding::BASE64.encode(text.as_bytes()).into();
    }
}

/// A value of a Secret's `data` as text; none where it is no base64 or no UTF-8.
pub fn decoded(value: &str) -> Option<String> {
    String::from_utf8(data_encoding::BASE64.decode(value.as_bytes()).ok()?).ok()
}

/// `metadata.generation`; 0 where the server keeps none.
pub fn generation(object: &Value) -> i64 {
    of_metadata(object, "generation").and_then(Value::as_i64).unwrap_or_default()
}

pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    let finalizers = of_metadata(object, "finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|all| all.iter().any(|one| one == finalizer))
}
