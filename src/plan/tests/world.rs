//! A source, a target, and the servers' rules as far as the plan relies on them: every action can be carried out here.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use json_patch::jsonptr::Pointer;
use json_patch::{Patch, PatchOperation, ReplaceOperation};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::causes;
use crate::mapping::{GENERATED, Kind, Mapping, Resource, Side, placement};
use crate::object::claims::READ;
use crate::object::marks::{self, Origin, Owner, Reference, Writer};
use crate::object::{ClusterName, Key, has_finalizer, metadata};
use crate::plan::observed::copy_place;
use crate::plan::{
    Action, Cause, Evidence, Intent, Kinds, Missing, Observed, Original, Outcome, Pin, Plan, Reason, Reasons, Source,
    TargetObject, plan, render,
};

#[derive(Debug, Clone, Default)]
pub struct World {
    pub source: Option<Value>,
    pub objects: BTreeMap<Reference, Value>,
    /// What an engine knows beside source and objects: its phase, the selection, claims, namespaces and the like.
    pub seen: Observed,
    pub identity: String,
    /// Kinds that are out of sight, and why.
    pub unseen: BTreeMap<Kind, Reason>,
    /// Related objects of both sides, by the side they are on.
    pub originals: Vec<(Side, Value)>,
    /// What the server says of kinds that are not served when it is asked.
    pub unserved_for: Unserved,
    pub target_unknown: Option<String>,
    /// Namespace rules of former documents.
    pub former_placements: Vec<String>,
    /// What former documents wrote into the status.
    pub former_status: BTreeSet<String>,
    /// What is known of a source that is missing.
    pub missing: Missing,
    /// Requests that the target refuses, by the beginning of their log lines.
    pub refuses: Vec<String>,
    /// Status leaves that the consumer's server refuses, by their values, and conditions by their reasons.
    pub refused_status: Vec<Value>,
    /// Whether other sources need the shared objects.
    pub shared_in_use: Option<bool>,
    /// What the target makes of an object that is applied, with the version that it gets.
    pub alters: Option<fn(&mut Value, &str)>,
    /// What the servers were asked to do, in their order.
    pub log: Vec<String>,
    /// Why anything was deleted, given up or released, with the kind of the object; of the source, `source`.
    pub because: BTreeSet<(String, Evidence)>,
    /// What the last plan rested on.
    pub rested: Option<Observed>,
    /// What we applied last, which an apply gives up where it says less.
    applied: BTreeMap<Reference, Value>,
    version: u64,
}

/// Why caches show a kind as not served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unserved {
    #[default]
    ForNow,
    /// Its CustomResourceDefinition is missing, and with it all objects.
    Removed,
    /// It is served again, and the caches do not know.
    NoLonger,
}

/// A row of a table: the case, what happens to a world, the mapping that it is settled with, and how that ends.
pub type Row<'r, W = World> = (&'r str, fn(&mut W), &'r Mapping, &'r str);

/// Each row on a world of its own, which comes to rest: [`World::ends`].
pub fn check(start: fn() -> World, rows: &[Row<'_>]) {
    check_by(start, rows, |world, mapping| {
        let ends = world.ends(mapping);
        if !world.refuses.is_empty() {
            return ends;
        }
        world.settle(mapping);
        let reads = ["get source", "list all"];
        let again: Vec<_> = world.writes().into_iter().filter(|line| !reads.contains(&line.as_str())).collect();
        if again.is_empty() { ends } else { format!("{ends}; again {}", again.join(", ")) }
    });
}

/// The same, where something else tells how a row ends.
pub fn check_by<W>(start: fn() -> W, rows: &[Row<'_, W>], tell: impl Fn(&mut W, &Mapping) -> String) {
    compare(rows, |change, mapping| {
        let mut world = start();
        change(&mut world);
        tell(&mut world, mapping)
    });
}

/// All rows on one world, one after the other.
pub fn steps<W>(mut world: W, rows: &[Row<'_, W>], tell: impl Fn(&mut W, &Mapping) -> String) -> W {
    compare(rows, |change, mapping| {
        change(&mut world);
        tell(&mut world, mapping)
    });
    world
}

/// All rows that end otherwise are told. Rows have single quotes.
fn compare<W>(rows: &[Row<'_, W>], mut run: impl FnMut(fn(&mut W), &Mapping) -> String) {
    let wrong = rows.iter().filter_map(|(case, change, mapping, expected)| {
        let came = catch_unwind(AssertUnwindSafe(|| run(*change, mapping).replace('"', "'")));
        let came = came.unwrap_or_else(|_| "a panic".into());
        (came != *expected).then(|| format!("{case}\n  expected: {expected}\n  came:     {came}\n"))
    });
    let wrong: String = wrong.collect();
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// How a row ends that is about one part of the one object of a kind: the causes, the writes, and that part.
pub fn part(kind: &'static str, pointer: &'static str) -> impl Fn(&mut World, &Mapping) -> String {
    move |world, mapping| {
        let causes = causes(&world.settle(mapping));
        let part = world.object(kind).pointer(pointer).map_or_else(|| "none".to_owned(), Value::to_string);
        format!("{causes}; {}; {part}", world.writes().join(", "))
    }
}

/// What an engine knows before it sees anything.
impl Default for Observed {
    fn default() -> Self {
        let (source, kinds) = (Ok(Source::Missing(Missing::default())), Err(Reason::unseen("it is seen later")));
        let now = Timestamp::from_second(1_800_000_000).expect("a time in range");
        let mut observed = Self::new(World::writer(), World::key(), World::origin(), source, kinds, now);
        observed.consumer.path = Some("root:acme".into());
        observed
    }
}

impl World {
    pub fn new(source: Value) -> Self {
        let identity = "target-1".into();
        Self { source: Some(source), identity, shared_in_use: Some(false), version: 100, ..Self::default() }
    }

    /// The world after something happened to it.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub fn writer() -> Writer {
        Writer::new("main", "databases")
    }

    pub fn key() -> Key {
        let cluster = ClusterName::try_from("abc").expect("a valid name");
        Key::new(cluster, "default", "db")
    }

    pub fn origin() -> Origin {
        let resource = Resource { group: "example.dev".into(), version: "v1".into(), plural: "databases".into() };
        Origin::new(&resource, "abc", &Self::key())
    }

    /// What an engine with caches in sync would see.
    pub fn observe(&self, mapping: &Mapping) -> Observed {
        // The state store knows the kinds that a former document had.
        let kinds = mapping.objects.iter().map(|rule| &rule.kind).chain(self.objects.keys().map(|one| &one.kind));
        let kinds = kinds.map(|kind| (kind.clone(), self.unseen.get(kind).cloned().map_or(Ok(()), Err)));
        let missing = || Source::Missing(self.missing.clone());
        let connection = self.seen.among.as_ref().map_or("target", |among| &among.name).to_owned();
        let mut observed = self.seen.clone();
        observed.source = Ok(self.source.clone().map_or_else(missing, |source| Source::Present(Arc::new(source))));
        observed.target.kinds = match &self.target_unknown {
            Some(why) => Err(Reason::unseen(why)),
            None => Ok(Kinds(kinds.collect())),
        };
        observed.target.pin = Some(Pin { connection, identity: self.identity.clone() });
        observed.objects.in_use = self.in_use();
        observed.consumer.former_status = Arc::new(mapping.status.no_longer_written(&self.former_status));
        let former = self.former_placements.iter().filter_map(|text| placement::rule(text)).map(Arc::new);
        observed.target.places = render::namespaces(mapping, &former.collect::<Vec<_>>(), &observed);
        let labelled = self.labelled(&observed);
        observed.objects.extend(labelled);
        observed
    }

    fn in_use(&self) -> BTreeMap<String, bool> {
        let places = self.objects.keys().flat_map(|reference| [reference.namespace.clone(), copy_place(reference)]);
        self.shared_in_use.map(|in_use| places.map(|one| (one, in_use)).collect()).unwrap_or_default()
    }

    /// Objects that a watch filtered by the engine's label shows, as far as they are the source's or shared.
    fn labelled(&self, observed: &Observed) -> Vec<TargetObject> {
        let labelled = |object: &Value| marks::label(object, marks::MAPPING) == Some(Self::writer().label());
        let shown = self.objects.iter().filter(|(_, object)| labelled(object));
        shown.filter_map(|(reference, object)| observed.recognize(reference, &Arc::new(object.clone()))).collect()
    }

    /// Plans and acts until the plan rests; stops after `writes` writes, as a crash would.
    pub fn settle_within(&mut self, mapping: &Mapping, writes: usize) -> Option<Reasons> {
        let observed = self.observe(mapping);
        self.settle_from(mapping, observed, writes, |_| None)
    }

    /// The same from what caches show that lag behind, and with answers that are not the servers'.
    pub fn settle_from(
        &mut self,
        mapping: &Mapping,
        mut observed: Observed,
        mut writes: usize,
        mut answer: impl FnMut(&Action) -> Option<Outcome>,
    ) -> Option<Reasons> {
        for _ in 0..40 {
            let (actions, last) = plan(mapping, &observed).into_steps();
            if actions.is_empty() {
                let rest = last.expect("a plan to act says how");
                self.rest_on(mapping, observed, &rest);
                return Some(rest);
            }
            for action in actions {
                if action.verb().is_some() {
                    writes = writes.checked_sub(1)?;
                }
                let outcome = answer(&action).unwrap_or_else(|| self.execute(mapping, &action));
                let refused = matches!(outcome, Outcome::StatusRefused { .. });
                observed.absorb(&action, outcome);
                if let Some(then) = last.clone().filter(|_| !refused) {
                    assert_eq!(plan(mapping, &observed), Plan::Rest(then.clone()), "the last plan tells how it rests");
                    self.rest_on(mapping, observed, &then);
                    return Some(then);
                }
            }
        }
        panic!("the plan does not come to rest: {:?}", self.log);
    }

    /// What is kept in a file is all that a decision follows from.
    fn rest_on(&mut self, mapping: &Mapping, observed: Observed, rest: &Reasons) {
        let kept = serde_json::to_string(&observed).expect("it can be kept");
        let read: Observed = serde_json::from_str(&kept).expect("it can be read");
        assert_eq!(plan(mapping, &read), Plan::Rest(rest.clone()), "another machine decides the same");
        self.rested = Some(observed);
    }

    pub fn settle(&mut self, mapping: &Mapping) -> Reasons {
        self.settle_within(mapping, usize::MAX).expect("no limit of writes")
    }

    pub fn sync(&mut self, mapping: &Mapping) {
        assert_eq!(self.settle(mapping), Reasons::default(), "{:?}", self.log);
    }

    pub fn in_sync(self, mapping: &Mapping) -> Self {
        let mut world = self.with(|world| world.sync(mapping));
        world.log.clear();
        world
    }

    /// Nothing more is written.
    pub fn rests(&mut self, mapping: &Mapping) {
        self.log.clear();
        self.settle(mapping);
        assert_eq!(self.take_log(), Vec::<String>::new());
    }

    /// Settles, and tells how that ends in one line: the causes; whether the source is there and held, with its condition;
    /// the writes since the last look; the objects. One that is not the engine's has a `?`, one of an
    /// earlier source a `^`, one that is being deleted a `!`.
    pub fn ends(&mut self, mapping: &Mapping) -> String {
        let rest = self.settle(mapping);
        let source = match &self.source {
            None => "gone".to_owned(),
            Some(source) if has_finalizer(source, Self::writer().finalizer()) => format!("held, {}", self.condition()),
            Some(_) => format!("free, {}", self.condition()),
        };
        let objects = self.objects.iter().map(|(reference, object)| {
            let mark = |is: bool, mark: &'static str| if is { mark } else { "" };
            let is_foreign = mark(marks::annotation(object, marks::SELF).is_none(), "?");
            let is_deleting = mark(!metadata(object, "deletionTimestamp").is_empty(), "!");
            let uid = marks::annotation(object, marks::SOURCE_UID);
            let is_of_another =
                uid.is_some() && self.source.as_ref().is_some_and(|source| uid != Some(metadata(source, "uid")));
            format!("{}{is_foreign}{}{is_deleting}", reference.kind.kind, mark(is_of_another, "^"))
        });
        let objects = objects.collect::<Vec<_>>().join(" ");
        format!("{}; {source}; {}; {objects}", causes(&rest), self.writes().join(", "))
    }

    /// What an engine remembers that the consumer's server refused of the status.
    pub fn refused(&self) -> BTreeMap<String, (Value, String)> {
        self.rested.as_ref().map(|rested| rested.answers.refused_status.clone()).unwrap_or_default()
    }

    /// Status and reason of the first condition.
    pub fn condition(&self) -> String {
        let text = |field: &str| self.status()["conditions"][0][field].as_str().unwrap_or("none").to_owned();
        format!("{} {}", text("status"), text("reason"))
    }

    /// What the first condition tells the consumer.
    pub fn message(&self) -> String {
        self.status()["conditions"][0]["message"].as_str().unwrap_or_default().to_owned()
    }

    pub fn status(&self) -> &Value {
        &self.live()["status"]
    }

    /// The source, which is there.
    pub fn live(&self) -> &Value {
        self.source.as_ref().expect("the source is there")
    }

    /// The log since the last call.
    pub fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    /// The same without the places: what was done, and to which kind.
    pub fn writes(&mut self) -> Vec<String> {
        let short = |line: &String| {
            line.split(' ').take(2 + usize::from(line.starts_with("give up"))).collect::<Vec<_>>().join(" ")
        };
        self.take_log().iter().map(short).collect()
    }

    pub fn execute(&mut self, mapping: &Mapping, action: &Action) -> Outcome {
        self.log.push(action.to_string());
        let about = action.reference().map_or("source", |reference| &reference.kind.kind).to_owned();
        self.because.extend(action.because().map(|because| (about, because)));
        if self.refuses.iter().any(|start| action.to_string().starts_with(start)) {
            return Outcome::Failed(Reason { cause: Cause::Refused, detail: "refused by admission".into() });
        }
        match action {
            Action::PatchSource { patch, .. } => self.patch_source(patch),
            Action::PatchStatus { patch, values } => self.patch_status(patch, values),
            Action::Read(original) | Action::ReadAnew(original) => self.read(mapping, original),
            Action::LookForSource => Outcome::Absent,
            Action::Sweep { owners, namespaces, objects, .. } => self.sweep(owners, namespaces, objects),
            Action::CreateNamespace { name, .. } => {
                self.seen.target.namespaces.insert(name.clone());
                Outcome::Absent
            }
            Action::Apply { reference, body, intent } => self.apply(reference, body, intent),
            Action::Delete { reference, uid, resource_version, .. } => self.delete(reference, uid, resource_version),
            Action::GiveUp { reference, patch, .. } | Action::Restore { reference, patch } => {
                self.patch_object(reference, patch)
            }
        }
    }

    fn read(&mut self, mapping: &Mapping, original: &Original) -> Outcome {
        self.log.pop();
        let claims = self.seen.consumer.claims.as_ref().filter(|_| original.side == Side::Source);
        let wanted = mapping.verbs_beside(&original.resource);
        if let Some(detail) = claims.and_then(|claims| claims.lacking_of(&original.resource, READ, wanted)) {
            return Outcome::Seen(Err(Reason { cause: Cause::ClaimNotAccepted, detail }));
        }
        let there = self.originals.iter().filter(|(side, object)| *side == original.side && original.is(object));
        Outcome::Seen(Ok(there.map(|(_, object)| Arc::new(object.clone())).collect()))
    }

    /// The schema names every leaf that it refuses: a value, or the reason of a condition.
    fn patch_status(&mut self, patch: &Patch, values: &BTreeMap<String, Value>) -> Outcome {
        let is_refused = |value: &Value| self.refused_status.contains(value);
        let leaves = values.iter().flat_map(|(pointer, value)| {
            let conditions = value.as_array().into_iter().flatten().enumerate();
            let conditions = conditions.filter(|(_, one)| is_refused(&one["reason"]));
            let conditions = conditions.map(|(place, _)| format!("{pointer}/{place}/reason"));
            conditions.chain(is_refused(value).then(|| pointer.clone())).collect::<Vec<_>>()
        });
        let leaves: Vec<String> = leaves.collect();
        if leaves.is_empty() {
            self.patch_source(patch)
        } else {
            Outcome::StatusRefused { leaves, why: "not in the enum".into() }
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
        Outcome::Object(Arc::new(now))
    }

    fn sweep(&self, owners: &[String], namespaces: &[String], places: &[Reference]) -> Outcome {
        let ours = |reference: &Reference, object: &Value| {
            owners.iter().any(|owner| marks::is_ours(object, reference, &Owner(owner.clone())))
        };
        let labelled =
            |object: &Value| marks::label(object, marks::OWNER).is_some_and(|label| owners.iter().any(|o| o == label));
        let is_unserved = |kind: &Kind| self.unseen.get(kind).is_some_and(|why| why.cause == Cause::Waiting);
        if self.unserved_for == Unserved::ForNow && self.unseen.keys().any(is_unserved) {
            return Outcome::Failed(Reason { cause: Cause::Refused, detail: "not served".into() });
        }
        let is_removed = |kind: &Kind| self.unserved_for == Unserved::Removed && is_unserved(kind);
        let listed = |reference: &Reference, object: &Value| {
            ours(reference, object) && labelled(object) && namespaces.contains(&reference.namespace)
        };
        let served = self.objects.iter().filter(|(reference, _)| !is_removed(&reference.kind));
        let found = served.filter(|(reference, object)| listed(reference, object) || places.contains(reference));
        Outcome::Found(
            found.map(|(reference, object)| TargetObject::new(reference.clone(), Arc::new(object.clone()))).collect(),
        )
    }

    fn apply(&mut self, reference: &Reference, body: &Value, intent: &Intent) -> Outcome {
        let is_beside = reference.kind.side == Side::Source;
        assert!(is_beside || self.seen.target.namespaces.contains(&reference.namespace), "the namespace is made first");
        let version = self.next_version();
        let mut body = body.clone();
        let created_only = body["metadata"].as_object_mut().and_then(|metadata| metadata.remove("resourceVersion"));
        let is_create = if is_beside { created_only.is_none() } else { created_only == Some(json!("1")) };
        assert_eq!(is_create, *intent == Intent::Create, "a create cannot hit an object");
        for value in body["data"].as_object_mut().into_iter().flat_map(|data| data.values_mut()) {
            if *value == GENERATED {
                *value = json!(format!("made-{version}"));
            }
        }
        let body = &body;
        let former = self.objects.get(reference).cloned();
        let is_stale = |object: &Value| {
            created_only.is_some() && object["metadata"].get("resourceVersion") != created_only.as_ref()
        };
        if let Some(object) = former.as_ref().filter(|object| !is_create && is_stale(object)) {
            return Outcome::Existing(Arc::new(object.clone()));
        }
        match (intent, &former) {
            // 409: the executor reads what is there.
            (Intent::Create, Some(object)) => return Outcome::Existing(Arc::new(object.clone())),
            (Intent::Update { uid } | Intent::Adopt { uid }, Some(object)) => assert_eq!(uid, metadata(object, "uid")),
            (Intent::Update { .. } | Intent::Adopt { .. }, None) => return Outcome::Absent,
            (Intent::Create, None) => {}
        }
        let mut object = former.unwrap_or_else(|| json!({"metadata": {
            "uid": format!("uid-{version}"), "creationTimestamp": format!("2026-01-01T00:00:{:02}Z", self.version % 60), "generation": 1,
        }}));
        // Beside the source, server-side apply does not work.
        if let Some(applied) = self.applied.get(reference).filter(|_| !is_beside) {
            drop_given_up(&mut object, applied, body);
        }
        json_patch::merge(&mut object, body);
        if let Some(alter) = self.alters {
            alter(&mut object, &version);
        }
        object["metadata"]["resourceVersion"] = json!(version);
        self.applied.insert(reference.clone(), body.clone());
        self.objects.insert(reference.clone(), object.clone());
        Outcome::Object(Arc::new(object))
    }

    fn delete(&mut self, reference: &Reference, uid: &str, version: &str) -> Outcome {
        let Some(object) = self.objects.get_mut(reference) else { return Outcome::Absent };
        assert_eq!(uid, metadata(object, "uid"), "a delete names the incarnation");
        assert_eq!(version, metadata(object, "resourceVersion"), "and its version");
        if object.pointer("/metadata/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            self.objects.remove(reference);
            self.applied.remove(reference);
            return Outcome::Absent;
        }
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        Outcome::Object(Arc::new(object.clone()))
    }

    fn patch_object(&mut self, reference: &Reference, patch: &Patch) -> Outcome {
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

    /// The list of a kind is not complete.
    pub fn unsee(&mut self, kind: &Kind) {
        self.unseen.insert(kind.clone(), Reason::unseen(format!("{} is not served", kind.kind)));
    }

    pub fn has(&self, kind: &str) -> bool {
        self.objects.keys().any(|reference| reference.kind.kind == kind)
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
            object
        };
        let objects =
            self.objects.iter().map(|(reference, object)| (reference.clone(), strip(object.clone()))).collect();
        (self.source.clone().map(strip), objects, self.seen.target.namespaces.clone())
    }
}

fn is_released(object: &Value) -> bool {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    !metadata(object, "deletionTimestamp").is_empty() && finalizers.is_none_or(Vec::is_empty)
}

fn apply_patch(object: &mut Value, patch: &Patch) {
    json_patch::patch(object, patch).expect("a patch that fits");
}

/// Removes what was applied before and is not any more.
fn drop_given_up(object: &mut Value, former: &Value, body: &Value) {
    let (Value::Object(object), Value::Object(former)) = (object, former) else { return };
    for (key, value) in former {
        match (object.get_mut(key), body.get(key)) {
            (Some(slot), Some(body)) => drop_given_up(slot, value, body),
            (Some(_), None) if key != "uid" => drop(object.remove(key)),
            _ => {}
        }
    }
}

/// An object that a tenant writes with true ownership labels and annotations of the source, under any id.
pub fn planted(at: &Reference, id: &str) -> Value {
    let (writer, owner) = (World::writer(), World::writer().owner(&World::origin()));
    json!({"metadata": {
        "uid": "planted", "resourceVersion": "1", "creationTimestamp": "2020-01-01T00:00:00Z",
        "labels": {marks::OWNER: owner.0, marks::MAPPING: writer.label()},
        "annotations": {marks::OBJECT: id, marks::SELF: owner.self_mark(id, at), marks::SOURCE_UID: "source-1"},
    }})
}

/// An object that does not belong to the engine.
pub fn foreign() -> Value {
    json!({"metadata": {"uid": "foreign", "resourceVersion": "7"}, "spec": {"theirs": true}})
}
