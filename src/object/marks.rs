//! Ownership labels and annotations: they say which owner a target object belongs to.
//!
//! An *owner* is the engine, the mapping, the source's resource (group and plural), the identity of the source's cluster,
//! and the source's namespace and name. It has no uid and no version.
//!
//! An object is owned if its **self mark** is true: a hash of the owner, the object's id in the mapping, and the object's
//! own group, kind, namespace and name. So a copy of an owned object is not owned, and a stripped label changes nothing.
//! The marks are not secret: whoever can write objects on the target can forge them. Therefore they count only in the
//! namespaces where the mapping places the source (see [`crate::plan::Observed::recognize`]).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::hash::tuple_hash;
use super::{Key, metadata, one_line, with_namespace};
use crate::mapping::{Kind, Resource, Side};

/// Of the engine's own labels and annotations.
const PREFIX: &str = "sync-engine.dev/";

pub const OWNER: &str = "sync-engine.dev/owner";
pub const MAPPING: &str = "sync-engine.dev/mapping";
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub const MANAGER: &str = "sync-engine";
/// Id of the engine: on its state stores, its Lease, and the namespaces that it created.
pub const ENGINE: &str = "sync-engine.dev/engine";
/// Id of the engine: on its records of the deletions that it holds.
pub const HELD: &str = "sync-engine.dev/held";
/// Identity of the source's cluster; in kcp the name of the logical cluster.
pub const CLUSTER: &str = "sync-engine.dev/cluster";
/// Plural and group of the source.
pub const RESOURCE: &str = "sync-engine.dev/resource";
pub const WORKSPACE: &str = "sync-engine.dev/workspace";
pub const NAMESPACE: &str = "sync-engine.dev/namespace";
pub const NAME: &str = "sync-engine.dev/name";
pub const SOURCE_UID: &str = "sync-engine.dev/source-uid";
pub const OBJECT: &str = "sync-engine.dev/object";
pub const SELF: &str = "sync-engine.dev/self";
pub const HASH: &str = "sync-engine.dev/hash";
pub const UNKEPT: &str = "sync-engine.dev/unkept";
/// uid of the earlier source that an object was adopted from, until the object is rendered differently.
pub const ADOPTED_FROM: &str = "sync-engine.dev/adopted-from";
/// When an object was last touched because a delete without an answer might still arrive.
pub const TOUCHED: &str = "sync-engine.dev/touched";
/// Somebody asked for the end of the ownership. No process that knew the object as owned takes it back, unless it was adopted since.
pub const RELEASED: &str = "sync-engine.dev/released";
/// How often the Lease had changed hands when a leader wrote the object: an admission policy can refuse what an earlier leader
/// sends late.
pub const EPOCH: &str = "sync-engine.dev/epoch";
/// JSON pointers of what was rendered, where no field manager tells it: what is rendered no longer is removed.
pub const FIELDS: &str = "sync-engine.dev/fields";
/// The placement's name, where the object's own is another.
pub const PLACEMENT_NAME: &str = "sync-engine.dev/placement-name";

/// Bytes of an owner hash or a self mark: 128 bits.
const MARK_BYTES: usize = 16;

/// Engine and mapping: who writes. Every derived name is made here, once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "(String, String)", into = "(String, String)")]
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

impl From<(String, String)> for Writer {
    fn from((engine, mapping): (String, String)) -> Self {
        Self::new(&engine, &mapping)
    }
}

impl From<Writer> for (String, String) {
    fn from(writer: Writer) -> Self {
        (writer.engine().to_owned(), writer.mapping().to_owned())
    }
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

    /// Value of the `mapping` label, by which a watch on a target tells the objects of mappings apart: at most 61 characters,
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
    pub fn owner(&self, source: &Origin) -> Owner {
        let Origin { resource, cluster, namespace, name } = source;
        Owner(tuple_hash([self.engine(), self.mapping(), resource, cluster, namespace, name], MARK_BYTES))
    }

    /// Owner of the shared objects of one namespace of a target.
    pub fn shared_owner(&self, namespace: &str) -> Owner {
        Owner(tuple_hash([self.engine(), self.mapping(), "shared", namespace], MARK_BYTES))
    }
}

/// A source object as ownership knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// `plural.group`, without the version: another version of a resource is the same resource.
    pub resource: String,
    /// Identity of its cluster.
    pub cluster: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
}

impl Origin {
    pub fn new(resource: &Resource, identity: &str, key: &Key) -> Self {
        Self {
            resource: resource.group_plural(),
            cluster: identity.to_owned(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
        }
    }
}

/// Hash that identifies whose an object is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Owner(pub String);

impl Owner {
    /// The self mark of an object of this owner; `id` is the object's id in the mapping.
    pub fn self_mark(&self, id: &str, reference: &Reference) -> String {
        let Reference { kind, namespace, name } = reference;
        tuple_hash([&*self.0, id, &kind.group, &kind.kind, namespace, name], MARK_BYTES)
    }
}

/// One object on a target.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reference {
    pub kind: Kind,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
}

impl Reference {
    pub fn namespace(name: &str) -> Self {
        Self { kind: Kind::new("", "v1", "Namespace"), namespace: String::new(), name: name.to_owned() }
    }

    /// `NAMESPACE/NAME`, or the name alone.
    pub fn place(&self) -> String {
        with_namespace(&self.namespace, &self.name)
    }

    /// The same kind in another version is the same object.
    pub fn is_same_object(&self, other: &Self) -> bool {
        self.order_in_any_version(other).is_eq()
    }

    /// Its order among others, whichever version of their kinds they name. Names tell most of them apart.
    pub fn order_in_any_version(&self, other: &Self) -> Ordering {
        fn key(Reference { kind, namespace, name }: &Reference) -> (&str, &str, &str, &str, Side) {
            (name.as_str(), namespace.as_str(), kind.kind.as_str(), kind.group.as_str(), kind.side)
        }
        key(self).cmp(&key(other))
    }

    /// Whether an object of a file is meant, which may leave its name and namespace out.
    pub fn is(&self, object: &Value) -> bool {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let agrees = |field: &str, expected: &str| [expected, ""].contains(&metadata(object, field));
        text("kind") == self.kind.kind
            && text("apiVersion") == self.kind.api_version()
            && agrees("name", &self.name)
            && agrees("namespace", &self.namespace)
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, namespace, name } = self;
        let name = with_namespace(&one_line(namespace), &one_line(name));
        let beside = if kind.side == Side::Source { " in the consumer's cluster" } else { "" };
        write!(f, "{} {name}{beside}", kind.kind)
    }
}

/// Whether a label or an annotation is the engine's own.
pub fn is_ours_to_write(key: &str) -> bool {
    key.starts_with(PREFIX)
}

/// Whether an object carries a true self mark of this owner.
pub fn is_ours(object: &Value, reference: &Reference, owner: &Owner) -> bool {
    let id = annotation(object, OBJECT).unwrap_or_default();
    annotation(object, SELF) == Some(owner.self_mark(id, reference).as_str())
}

/// The source that an object's annotations name, if its self mark agrees with them.
pub fn origin(writer: &Writer, object: &Value, reference: &Reference) -> Option<Origin> {
    let origin = Origin {
        resource: annotation(object, RESOURCE)?.to_owned(),
        cluster: annotation(object, CLUSTER)?.to_owned(),
        namespace: annotation(object, NAMESPACE).unwrap_or_default().to_owned(),
        name: annotation(object, NAME)?.to_owned(),
    };
    is_ours(object, reference, &writer.owner(&origin)).then_some(origin)
}

/// An owned object as this process saw it last, before somebody took its ownership annotations off or changed them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnershipRecord {
    pub owner: Owner,
    pub uid: String,
    /// The ownership annotations as they were.
    pub annotations: BTreeMap<String, String>,
}

impl OwnershipRecord {
    /// `None`: its self mark is not true.
    pub fn of(writer: &Writer, object: &Value, reference: &Reference) -> Option<Self> {
        let shared =
            || Some(writer.shared_owner(&reference.namespace)).filter(|owner| is_ours(object, reference, owner));
        let owner = origin(writer, object, reference).map(|origin| writer.owner(&origin)).or_else(shared)?;
        let annotations = object.get("metadata")?.get("annotations")?.as_object()?;
        let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        let annotations = annotations.iter().filter(|(key, _)| key.starts_with(PREFIX)).filter_map(text).collect();
        Some(Self { owner, uid: super::metadata(object, "uid").to_owned(), annotations })
    }

    /// Whether an object at the same place is that very object, and was not released since.
    pub fn is(&self, object: &Value) -> bool {
        let is_same = !self.uid.is_empty() && super::metadata(object, "uid") == self.uid;
        is_same && !is_released(object)
    }
}

/// What [`RELEASED`] says of an object that was adopted since. An apply cannot take off what another request has put there; the
/// next one takes off this.
pub(crate) const ADOPTED: &str = "adopted";

/// Whether an object was released, and not adopted since.
pub fn is_released(object: &Value) -> bool {
    annotation(object, RELEASED).is_some_and(|said| said != ADOPTED)
}

/// Whether nobody says that an object is theirs: it has no controller, no label of a manager, no ownership labels of an engine,
/// and is not being deleted.
pub fn is_unowned(object: &Value) -> bool {
    label(object, MANAGED_BY).is_none() && is_unowned_but_for_manager(object)
}

/// The same, whatever the label of a manager says.
pub fn is_unowned_but_for_manager(object: &Value) -> bool {
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let is_marked = [OWNER, MAPPING].into_iter().any(|key| label(object, key).is_some());
    !is_marked && !super::is_deleting(object) && owners.all(|owner| owner["controller"] != json!(true))
}

/// Whose an object is, as its labels and annotations say, for people. `None`: they say nothing.
pub fn holder(object: &Value) -> Option<String> {
    let mapping = label(object, MAPPING);
    if let (Some(label), Some(name)) = (mapping, annotation(object, NAME)) {
        let text = |key| annotation(object, key).unwrap_or_default();
        let (cluster, namespace) = (text(CLUSTER), text(NAMESPACE));
        return Some(format!("source {cluster}|{namespace}/{name} of {label} (engine.mapping)"));
    }
    let manager = label(object, MANAGED_BY)?;
    Some(format!("{manager} ({})", MANAGED_BY))
}

/// Labels and annotations that tell whose an object is.
const OF_WHOM: [&str; 10] = [OWNER, MAPPING, MANAGED_BY, RESOURCE, CLUSTER, NAMESPACE, NAME, OBJECT, SELF, RELEASED];

/// Bytes of one of them; those of an engine are shorter.
const LONGEST: usize = 1 << 10;

/// Which object it is, and what tells whose it is: a few kilobytes, whatever somebody wrote into it.
pub fn head(object: &Value) -> Value {
    let given = |field: &str| object.get("metadata").and_then(|metadata| metadata.get(field));
    let fields = ["name", "namespace", "uid", "resourceVersion", "deletionTimestamp"];
    let mut metadata: Map<String, Value> =
        fields.iter().filter_map(|field| Some(((*field).to_owned(), given(field)?.clone()))).collect();
    for field in ["labels", "annotations"] {
        let all = given(field).and_then(Value::as_object).into_iter().flatten();
        let is_short = |value: &Value| value.as_str().is_some_and(|value| value.len() <= LONGEST);
        let told = all.filter(|(key, value)| OF_WHOM.contains(&key.as_str()) && is_short(value));
        metadata.insert(field.to_owned(), told.map(|(key, value)| (key.clone(), value.clone())).collect());
    }
    let mut owners = given("ownerReferences").and_then(Value::as_array).into_iter().flatten();
    if owners.any(|owner| owner["controller"] == json!(true)) {
        metadata.insert("ownerReferences".to_owned(), json!([{"controller": true}]));
    }
    json!({"apiVersion": object.get("apiVersion"), "kind": object.get("kind"), "metadata": metadata})
}

/// Whether two texts of one object, as servers write them, say the same of whom it belongs to. `false` where that cannot be
/// told at a glance.
pub fn says_the_same(before: &str, after: &str) -> bool {
    [SELF, OBJECT, SOURCE_UID].iter().all(|key| entry(before, key).is_some_and(|entry| after.contains(entry)))
}

/// `"key":"value"`
fn entry<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let start = text.find(&format!("\"{key}\":\""))?;
    let value = start + key.len() + "\"\":\"".len();
    let end = text.get(value..)?.find('"')?;
    let entry = text.get(start..=value + end)?;
    // An escaped quote does not end the value.
    (!entry.ends_with("\\\"")).then_some(entry)
}

/// The annotations that name the source, for people and for [`origin`].
pub fn origin_annotations(origin: &Origin) -> impl Iterator<Item = (&'static str, String)> {
    let namespace = (!origin.namespace.is_empty()).then(|| (NAMESPACE, origin.namespace.clone()));
    [(RESOURCE, origin.resource.clone()), (CLUSTER, origin.cluster.clone()), (NAME, origin.name.clone())]
        .into_iter()
        .chain(namespace)
}

pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// The labels of an owner's object.
pub fn labels<'o>(writer: &'o Writer, owner: &'o Owner) -> [(&'static str, &'o str); 3] {
    [(OWNER, &*owner.0), (MAPPING, writer.label()), (MANAGED_BY, MANAGER)]
}

/// Writes labels or annotations into `metadata`, beside what the template put there.
pub fn stamp<K: Into<String>, V: Into<String>>(
    object: &mut Map<String, Value>,
    field: &str,
    entries: impl IntoIterator<Item = (K, V)>,
) {
    let metadata = child(object, "metadata");
    let target = child(metadata, field);
    target.extend(entries.into_iter().map(|(key, value)| (key.into(), Value::String(value.into()))));
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
    use super::super::ClusterName;
    use super::*;
    use serde_json::json;

    fn writer() -> Writer {
        Writer::new("main", "mongodb")
    }

    fn source(cluster: &str) -> Origin {
        let resource = Resource { group: "example.dev".into(), version: "v1".into(), plural: "databases".into() };
        let key = Key::new(ClusterName::try_from("edge").unwrap(), "default", "my-database");
        Origin::new(&resource, cluster, &key)
    }

    fn reference(name: &str) -> Reference {
        let kind = Kind::new("example.dev", "v1", "Database");
        Reference { kind, namespace: "tenant".into(), name: name.into() }
    }

    fn marked(origin: &Origin, reference: &Reference) -> Value {
        let mut object = json!({"metadata": {"annotations": {
            OBJECT: "db", SELF: writer().owner(origin).self_mark("db", reference),
        }}});
        for (key, value) in origin_annotations(origin) {
            object["metadata"]["annotations"][key] = json!(value);
        }
        object
    }

    #[test]
    fn derived_names_fit_their_limits() {
        let longest = Writer::new(&"e".repeat(20), &"m".repeat(40));
        assert!(longest.label().len() <= 63);
        assert!(longest.field_manager().len() <= 128);
    }

    #[test]
    fn a_true_mark_names_its_source_and_one_that_was_copied_or_edited_names_none() {
        let object = marked(&source("abc"), &reference("db"));
        let named = |object: &Value, name: &str| origin(&writer(), object, &reference(name));
        assert_eq!(named(&object, "db"), Some(source("abc")));
        assert_eq!(named(&object, "copy"), None);
        for (annotation, value) in [(CLUSTER, "def"), (RESOURCE, "caches.example.dev"), (OBJECT, "other")] {
            let mut edited = object.clone();
            edited["metadata"]["annotations"][annotation] = json!(value);
            assert_eq!(named(&edited, "db"), None, "{annotation}");
        }
    }

    #[test]
    fn what_an_object_said_is_known_while_it_was_true() {
        let mut object = marked(&source("abc"), &reference("db"));
        object["metadata"]["uid"] = json!("u1");
        let known = OwnershipRecord::of(&writer(), &object, &reference("db")).expect("its self mark is true");
        assert_eq!(known.owner, writer().owner(&source("abc")));
        assert!(known.is(&json!({"metadata": {"uid": "u1"}})) && !known.is(&json!({"metadata": {"uid": "u2"}})));
        assert_eq!(OwnershipRecord::of(&writer(), &object, &reference("copy")), None);
    }

    /// A source that is not in sync may name a thousand objects of somebody else, and what decides is remembered of each.
    #[test]
    fn a_head_tells_whose_an_object_is_and_is_small() {
        let junk = "x".repeat(1 << 16);
        for (labels, owners) in [
            (json!({MAPPING: "main.other", &*junk: "a"}), json!([{"name": junk, "controller": true}])),
            (json!({"a": "b"}), json!([{"name": junk, "controller": true}])),
            (json!({"a": "b"}), json!([{"name": junk}])),
        ] {
            let annotations =
                json!({NAME: "db", CLUSTER: "c", RELEASED: "true", UNKEPT: junk, "sync-engine.dev/more": junk});
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": junk}, "metadata": {
                "name": "a", "uid": "u", "labels": labels, "annotations": annotations, "ownerReferences": owners,
                "finalizers": [junk],
            }});
            let which = |object: &Value| ["name", "uid"].map(|field| metadata(object, field).to_owned());
            let told = |object: &Value| (holder(object), is_unowned(object), is_released(object), which(object));
            let head = head(&object);
            assert!(head.to_string().len() < LONGEST, "{}", head.to_string().len());
            assert_eq!(told(&head), told(&object));
        }
        let mut marked = marked(&source("abc"), &reference("db"));
        for (labels, told) in
            [(json!({MANAGED_BY: "Helm"}), Some("Helm (app.kubernetes.io/managed-by)")), (json!({OWNER: "o"}), None)]
        {
            marked["metadata"]["labels"] = labels;
            let head = head(&marked);
            assert_eq!(origin(&writer(), &head, &reference("db")), Some(source("abc")));
            assert!(holder(&head).as_deref() == told && !is_unowned(&head), "{head}");
        }
    }

    #[test]
    fn a_changed_mark_is_seen_in_the_text() {
        let object = |mark: &str, id: &str| {
            json!({"metadata": {"annotations": {SELF: mark, OBJECT: id, SOURCE_UID: "s"}, "labels": {"a": mark}}})
                .to_string()
        };
        let before = object("m1", "db");
        assert!(says_the_same(&before, &object("m1", "db")));
        assert!(!says_the_same(&before, &object("m2", "db")) && !says_the_same(&before, &object("m1", "db2")));
        let quoted = object("m1", "db[a\"b]");
        assert!(!says_the_same(&quoted, &quoted), "it cannot be told at a glance");
    }
}
