//! A source, a target, and the servers' rules as far as the plan relies on them: every action can be carried out here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use json_patch::jsonptr::Pointer;
use json_patch::{Patch, PatchOperation, ReplaceOperation};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::mapping::{Kind, Mapping};
use crate::object::marks::{self, Owner, Reference, Writer};
use crate::object::{ClusterName, Key, metadata};
use crate::plan::{
    Action, Evidence, Intent, Observed, Outcome, Phase, Plan, Rest, Shared, Source, Standing, Target, plan,
};

#[derive(Debug, Clone)]
pub struct World {
    pub source: Option<Value>,
    pub objects: BTreeMap<Reference, Value>,
    pub namespaces: BTreeSet<String>,
    pub phase: Phase,
    pub identity: String,
    pub unseen_kinds: BTreeMap<Kind, String>,
    pub target_unknown: Option<String>,
    pub evidence: Evidence,
    /// Whether other sources need the shared objects.
    pub shared_in_use: Option<bool>,
    /// Whether the shared objects are known to stand as they should.
    pub shared_settled: bool,
    pub settled: bool,
    /// JSON pointers that the target drops from what is applied.
    pub drops: Vec<String>,
    /// What the servers were asked to do, in their order.
    pub log: Vec<String>,
    /// What we applied last, which an apply gives up where it says less.
    applied: BTreeMap<Reference, Value>,
    version: u64,
}

impl World {
    pub fn new(source: Value) -> Self {
        Self {
            source: Some(source),
            objects: BTreeMap::new(),
            namespaces: BTreeSet::new(),
            phase: Phase::Active,
            identity: "target-1".into(),
            unseen_kinds: BTreeMap::new(),
            target_unknown: None,
            evidence: Evidence::Gone,
            shared_in_use: Some(false),
            shared_settled: false,
            settled: false,
            drops: Vec::new(),
            log: Vec::new(),
            applied: BTreeMap::new(),
            version: 100,
        }
    }

    pub fn writer() -> Writer {
        Writer::new("main", "databases")
    }

    pub fn key() -> Key {
        let cluster = ClusterName::try_from("abc").expect("a valid name");
        Key::new(cluster, "default", "db")
    }

    /// What an engine with caches in sync would see.
    pub fn observe(&self, mapping: &Mapping) -> Observed {
        let owner = Self::writer().owner(&Self::key());
        let kinds = mapping.objects.iter().map(|rule| {
            let unseen = self.unseen_kinds.get(&rule.kind);
            (rule.kind.clone(), unseen.map_or(Ok(()), |why| Err(why.clone())))
        });
        let target = match &self.target_unknown {
            Some(why) => Target::Unknown(why.clone()),
            None => Target::Known { identity: self.identity.clone(), kinds: Arc::new(kinds.collect()) },
        };
        let source = self.source.clone().map_or(Source::Missing, |source| Source::Present(Arc::new(source)));
        let now = Timestamp::from_second(1_800_000_000).expect("a time in range");
        Observed {
            phase: self.phase,
            workspace_path: Some("root:acme".into()),
            owned: self.standing(|reference, object| marks::is_ours(object, reference, &owner)),
            shared: Shared::of(self.standing(|reference, object| {
                marks::is_ours(object, reference, &Self::writer().shared_owner(&reference.namespace))
            })),
            shared_settled: self.shared_settled,
            settled: self.settled,
            shared_in_use: self.in_use(),
            namespaces: self.namespaces.clone(),
            ..Observed::new(Self::writer(), Self::key(), source, target, now)
        }
    }

    fn in_use(&self) -> BTreeMap<String, bool> {
        let namespaces = self.objects.keys().map(|reference| reference.namespace.clone());
        self.shared_in_use.map(|in_use| namespaces.map(|one| (one, in_use)).collect()).unwrap_or_default()
    }

    /// Objects that a watch filtered by our label shows, and that pass.
    fn standing(&self, passes: impl Fn(&Reference, &Value) -> bool) -> Vec<Standing> {
        let labelled = |object: &Value| marks::label(object, marks::MAPPING) == Some(Self::writer().label());
        let shown = self.objects.iter().filter(|(reference, object)| labelled(object) && passes(reference, object));
        shown.map(|(reference, object)| Standing::new(reference.clone(), Arc::new(object.clone()))).collect()
    }

    /// Plans and acts until the plan rests; stops after `writes` writes, as a crash would.
    pub fn settle_within(&mut self, mapping: &Mapping, writes: usize) -> Option<Rest> {
        let mut left = writes;
        let mut observed = self.observe(mapping);
        for _ in 0..40 {
            let (actions, last) = match plan(mapping, &observed) {
                Plan::Act(actions) => (actions, None),
                Plan::Last(action, then) => (vec![*action], Some(then)),
                Plan::Rest(rest) => return Some(rest),
            };
            assert!(!actions.is_empty(), "a plan to act says how");
            for action in actions {
                if action.is_write() {
                    left = left.checked_sub(1)?;
                }
                let outcome = self.execute(&action);
                observed.absorb(&action, outcome);
            }
            if let Some(then) = last {
                assert_eq!(plan(mapping, &observed), Plan::Rest(then.clone()), "the last plan tells how it rests");
                return Some(then);
            }
        }
        panic!("the plan does not come to rest: {:?}", self.log);
    }

    pub fn settle(&mut self, mapping: &Mapping) -> Rest {
        self.settle_within(mapping, usize::MAX).expect("no limit of writes")
    }

    /// The log since the last call.
    pub fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    pub fn execute(&mut self, action: &Action) -> Outcome {
        self.log.push(action.to_string());
        match action {
            Action::PatchSource { patch, .. } | Action::PatchStatus { patch } => self.patch_source(patch),
            Action::LookForSource => Outcome::Evidence(self.evidence.clone()),
            Action::Look { reference } => self.look(reference),
            Action::Sweep { owners, places, .. } => self.sweep(owners, places),
            Action::CreateNamespace { name, .. } => {
                self.namespaces.insert(name.clone());
                Outcome::Absent
            }
            Action::Apply { reference, body, intent } => self.apply(reference, body, intent),
            Action::Delete { reference, uid, .. } => self.delete(reference, uid),
            Action::Unmark { reference, patch } => self.unmark(reference, patch),
        }
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn patch_source(&mut self, patch: &Patch) -> Outcome {
        let version = self.next_version();
        let Some(source) = &mut self.source else { return Outcome::Absent };
        let guard = ReplaceOperation {
            path: Pointer::from_static("/metadata/resourceVersion").to_buf(),
            value: source["metadata"]["resourceVersion"].clone(),
        };
        assert_eq!(patch[0], PatchOperation::Replace(guard), "every patch names the version it came from");
        apply_patch(source, patch);
        source["metadata"]["resourceVersion"] = json!(version);
        let now = source.clone();
        if is_released(&now) {
            self.source = None;
        }
        // Patches of the engine change nothing that the consumer asks for.
        Outcome::Head(Arc::new(head(&now)))
    }

    fn look(&self, reference: &Reference) -> Outcome {
        self.objects.get(reference).map_or(Outcome::Absent, |object| Outcome::Object(Arc::new(object.clone())))
    }

    fn sweep(&self, owners: &[String], places: &[Reference]) -> Outcome {
        let ours = |reference: &Reference, object: &Value| {
            owners.iter().any(|owner| marks::is_ours(object, reference, &Owner(owner.clone())))
        };
        let labelled =
            |object: &Value| marks::label(object, marks::OWNER).is_some_and(|label| owners.iter().any(|o| o == label));
        let found = self
            .objects
            .iter()
            .filter(|(reference, object)| ours(reference, object) && (labelled(object) || places.contains(reference)));
        Outcome::Found(
            found.map(|(reference, object)| Standing::new(reference.clone(), Arc::new(object.clone()))).collect(),
        )
    }

    fn apply(&mut self, reference: &Reference, body: &Value, intent: &Intent) -> Outcome {
        assert!(self.namespaces.contains(&reference.namespace), "the namespace is made first");
        let version = self.next_version();
        let former = self.objects.get(reference).cloned();
        match (intent, &former) {
            (Intent::Create, Some(_)) => panic!("a create onto an object that stands: {reference}"),
            (Intent::Update { uid }, Some(object)) => assert_eq!(uid, metadata(object, "uid")),
            (Intent::Update { .. }, None) => return Outcome::Absent,
            (Intent::Create, None) => {}
        }
        let mut object = former.unwrap_or_else(|| json!({"metadata": {
            "uid": format!("uid-{version}"), "creationTimestamp": format!("2026-01-01T00:00:{:02}Z", self.version % 60), "generation": 1,
        }}));
        if let Some(applied) = self.applied.get(reference) {
            give_up(&mut object, applied, body);
        }
        merge(&mut object, body);
        self.drops.iter().for_each(|pointer| crate::object::compare::remove_pointer(&mut object, pointer));
        object["metadata"]["resourceVersion"] = json!(version);
        self.applied.insert(reference.clone(), body.clone());
        self.objects.insert(reference.clone(), object.clone());
        Outcome::Object(Arc::new(object))
    }

    fn delete(&mut self, reference: &Reference, uid: &str) -> Outcome {
        let Some(object) = self.objects.get_mut(reference) else { return Outcome::Absent };
        assert_eq!(uid, metadata(object, "uid"), "a delete names the incarnation");
        if object.pointer("/metadata/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            self.objects.remove(reference);
            self.applied.remove(reference);
            return Outcome::Absent;
        }
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        Outcome::Object(Arc::new(object.clone()))
    }

    fn unmark(&mut self, reference: &Reference, patch: &Patch) -> Outcome {
        let Some(object) = self.objects.get_mut(reference) else { return Outcome::Absent };
        apply_patch(object, patch);
        Outcome::Object(Arc::new(object.clone()))
    }

    /// The one object of a kind.
    pub fn object(&self, kind: &str) -> &Value {
        let mut all = self.objects.iter().filter(|(reference, _)| reference.kind.kind == kind);
        let found = all.next().unwrap_or_else(|| panic!("there is no {kind}"));
        assert!(all.next().is_none(), "there is more than one {kind}");
        found.1
    }

    pub fn reference(&self, kind: &str) -> Reference {
        let found = self.objects.keys().find(|reference| reference.kind.kind == kind);
        found.unwrap_or_else(|| panic!("there is no {kind}")).clone()
    }

    pub fn edit(&mut self, kind: &str, change: impl FnOnce(&mut Value)) {
        let reference = self.reference(kind);
        change(self.objects.get_mut(&reference).expect("it was just found"));
    }

    pub fn edit_source(&mut self, change: impl FnOnce(&mut Value)) {
        let version = self.next_version();
        let source = self.source.as_mut().expect("the source is there");
        change(source);
        source["metadata"]["resourceVersion"] = json!(version);
    }

    /// What a consumer's delete does: at once without finalizers, else a timestamp.
    pub fn delete_source(&mut self) {
        self.edit_source(|source| source["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
        if self.source.as_ref().is_some_and(is_released) {
            self.source = None;
        }
    }

    /// Everything but versions and uids: what two worlds must agree on.
    pub fn essence(&self) -> (Option<Value>, BTreeMap<Reference, Value>, BTreeSet<String>) {
        let strip = |mut object: Value| {
            for field in ["resourceVersion", "uid", "creationTimestamp"] {
                object["metadata"].as_object_mut().map(|metadata| metadata.remove(field));
            }
            sorted(object)
        };
        let objects =
            self.objects.iter().map(|(reference, object)| (reference.clone(), strip(object.clone()))).collect();
        (self.source.clone().map(strip), objects, self.namespaces.clone())
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            map.into_iter().map(|(k, v)| (k, sorted(v))).collect::<BTreeMap<_, _>>().into_iter().collect()
        }
        other => other,
    }
}

fn is_released(object: &Value) -> bool {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    !metadata(object, "deletionTimestamp").is_empty() && finalizers.is_none_or(Vec::is_empty)
}

fn apply_patch(object: &mut Value, patch: &Patch) {
    json_patch::patch(object, patch).expect("a patch that fits");
}

/// An object without what its author asks for.
pub fn head(object: &Value) -> Value {
    let fields = object.as_object().into_iter().flatten();
    let head = fields.filter(|(field, _)| matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
    head.map(|(field, value)| (field.clone(), value.clone())).collect()
}

fn merge(object: &mut Value, body: &Value) {
    match (object, body) {
        (Value::Object(object), Value::Object(body)) => {
            for (key, value) in body {
                merge(object.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (object, body) => *object = body.clone(),
    }
}

/// Removes what was applied before and is not any more.
fn give_up(object: &mut Value, former: &Value, body: &Value) {
    let (Value::Object(object), Value::Object(former)) = (object, former) else { return };
    for (key, value) in former {
        match (object.get_mut(key), body.get(key)) {
            (Some(slot), Some(body)) => give_up(slot, value, body),
            (Some(_), None) if key != "uid" => drop(object.remove(key)),
            _ => {}
        }
    }
}

/// Makes a look's result look like somebody else's object.
pub fn foreign() -> Value {
    json!({"metadata": {"uid": "foreign", "resourceVersion": "1"}, "spec": {"theirs": true}})
}
