//! Owner marks: the labels and annotations that say whose object a downstream object is.
//!
//! An object is ours when its **self mark** is true: a hash over the owner and the object's own group, kind, namespace
//! and name. A copy of one of our objects carries the mark of another name, hence is not ours; a stripped label
//! changes nothing. Marks are not secret: who may write objects downstream can forge them, which is why an
//! object's source is also looked for at the place where the mapping puts it.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::hash::tuple_hash;
use super::{ClusterName, Key};
use crate::mapping::Kind;

pub const OWNER: &str = "sync-engine.dev/owner";
pub const MAPPING: &str = "sync-engine.dev/mapping";
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub const MANAGER: &str = "sync-engine";
pub const CLUSTER: &str = "sync-engine.dev/cluster";
pub const WORKSPACE: &str = "sync-engine.dev/workspace";
pub const NAMESPACE: &str = "sync-engine.dev/namespace";
pub const NAME: &str = "sync-engine.dev/name";
pub const SOURCE_UID: &str = "sync-engine.dev/source-uid";
pub const OBJECT: &str = "sync-engine.dev/object";
pub const SELF: &str = "sync-engine.dev/self";
pub const HASH: &str = "sync-engine.dev/hash";
pub const UNKEPT: &str = "sync-engine.dev/unkept";
/// The placement's name, where the object's own is another.
pub const PLACEMENT_NAME: &str = "sync-engine.dev/placement-name";

/// Bytes of an owner hash or a self mark: 128 bits.
const MARK_BYTES: usize = 16;

/// Engine and mapping: who writes. Every derived name is made here, once.
#[derive(Debug, Clone)]
pub struct Writer(Arc<Names>);

#[derive(Debug)]
struct Names {
    engine: String,
    mapping: String,
    label: String,
    finalizer: String,
    target_annotation: String,
    field_manager: String,
}

impl Writer {
    pub fn new(engine: &str, mapping: &str) -> Self {
        let label = format!("{engine}.{mapping}");
        Self(Arc::new(Names {
            engine: engine.to_owned(),
            mapping: mapping.to_owned(),
            finalizer: format!("sync-engine.dev/{label}"),
            target_annotation: format!("target.sync-engine.dev/{label}"),
            field_manager: format!("sync-engine/{engine}/{mapping}"),
            label,
        }))
    }

    pub fn engine(&self) -> &str {
        &self.0.engine
    }

    pub fn mapping(&self) -> &str {
        &self.0.mapping
    }

    /// Value of the `mapping` label, by which watches on a target are filtered: at most 61 characters,
    /// for an engine id has at most 20 and a mapping's name at most 40.
    pub fn label(&self) -> &str {
        &self.0.label
    }

    pub fn finalizer(&self) -> &str {
        &self.0.finalizer
    }

    /// Annotation on the source that pins the target's identity.
    pub fn target_annotation(&self) -> &str {
        &self.0.target_annotation
    }

    pub fn field_manager(&self) -> &str {
        &self.0.field_manager
    }

    /// Owner of the objects of one source.
    pub fn owner(&self, key: &Key) -> Owner {
        let parts = [self.engine(), self.mapping(), key.cluster.as_str(), &key.namespace, &key.name];
        Owner(tuple_hash(parts, MARK_BYTES))
    }

    /// Owner of the shared objects of one namespace of a target.
    pub fn shared_owner(&self, namespace: &str) -> Owner {
        Owner(tuple_hash([self.engine(), self.mapping(), "shared", namespace], MARK_BYTES))
    }
}

/// Hash that identifies whose an object is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(pub String);

impl Owner {
    /// The self mark of an object of this owner.
    pub fn self_mark(&self, reference: &Reference) -> String {
        let Reference { kind, namespace, name } = reference;
        tuple_hash([&*self.0, &kind.group, &kind.kind, namespace, name], MARK_BYTES)
    }
}

/// One object on a target.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    pub kind: Kind,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, namespace, name } = self;
        if namespace.is_empty() {
            write!(f, "{} {name}", kind.kind)
        } else {
            write!(f, "{} {namespace}/{name}", kind.kind)
        }
    }
}

/// Whether an object carries a true self mark of this owner.
pub fn is_ours(object: &Value, reference: &Reference, owner: &Owner) -> bool {
    annotation(object, SELF) == Some(owner.self_mark(reference).as_str())
}

/// The source that an object's annotations name, if its owner and self marks agree with them.
pub fn origin(writer: &Writer, object: &Value, reference: &Reference) -> Option<Key> {
    let cluster = ClusterName::try_from(annotation(object, CLUSTER)?).ok()?;
    let key = Key::new(cluster, annotation(object, NAMESPACE).unwrap_or_default(), annotation(object, NAME)?);
    is_ours(object, reference, &writer.owner(&key)).then_some(key)
}

pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// Writes labels or annotations into `metadata`, beside what the template put there.
pub fn stamp(object: &mut Map<String, Value>, field: &str, entries: impl IntoIterator<Item = (String, String)>) {
    let metadata = child(object, "metadata");
    let target = child(metadata, field);
    target.extend(entries.into_iter().map(|(key, value)| (key, Value::String(value))));
}

/// The map under a key, made where there is none (or where something else stands).
fn child<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let slot = parent.entry(key).or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(map) => map,
        _ => unreachable!("made an object just above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn writer() -> Writer {
        Writer::new("main", "mongodb")
    }

    fn key(cluster: &str) -> Key {
        Key::new(ClusterName::try_from(cluster).unwrap(), "default", "my-database")
    }

    fn reference(name: &str) -> Reference {
        let kind = Kind::new("example.dev", "v1", "Database");
        Reference { kind, namespace: "tenant".into(), name: name.into() }
    }

    fn marked(key: &Key, reference: &Reference) -> Value {
        let owner = writer().owner(key);
        json!({"metadata": {"annotations": {
            CLUSTER: key.cluster.as_str(), NAMESPACE: &*key.namespace, NAME: &*key.name,
            SELF: owner.self_mark(reference),
        }}})
    }

    #[test]
    fn derived_names_fit_their_limits() {
        let longest = Writer::new(&"e".repeat(20), &"m".repeat(40));
        assert!(longest.label().len() <= 63);
        assert!(longest.field_manager().len() <= 128);
    }

    #[test]
    fn a_true_mark_names_its_source() {
        let object = marked(&key("abc"), &reference("db"));
        assert_eq!(origin(&writer(), &object, &reference("db")), Some(key("abc")));
    }

    #[test]
    fn a_copy_under_another_name_is_not_ours() {
        let object = marked(&key("abc"), &reference("db"));
        assert_eq!(origin(&writer(), &object, &reference("copy")), None);
    }

    #[test]
    fn marks_edited_onto_another_tenant_are_not_ours() {
        let mut object = marked(&key("abc"), &reference("db"));
        object["metadata"]["annotations"][CLUSTER] = json!("def");
        assert_eq!(origin(&writer(), &object, &reference("db")), None);
    }
}
