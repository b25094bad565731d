//! From a source to the objects it wants: placement, variables, templates, marks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::Reason;
use super::live::what;
use super::observed::{Observed, Subject, TargetObject, all_copies, all_in, copy_place};
use super::readable::view;
use super::readiness::state;
use super::related::{self, Related, Resolved};
use super::targets::{self, Choice};
use crate::mapping::expression::{Expression, ObjectState, Root, Scope, Several, VERDICT};
use crate::mapping::placement::{self, Place};
use crate::mapping::pointer::{self, Pointer};
use crate::mapping::template::{Text, Unrendered};
use crate::mapping::{
    Adopt, Copied, GENERATED, Mapping, ObjectRule, RELATED, RelatedMissing, RelatedRule, Side, TargetChoice,
    target_root,
};
use crate::object::compare::{
    escape_pointer, has_short_pointers, leaves, make_pointer, pointers_text, put_pointer, remove_pointer,
};
use crate::object::hash::value_hash;
use crate::object::lists::Lists;
use crate::object::marks::{self, Origin, Reference};
use crate::object::readiness::Readiness;
use crate::object::{encode_string_data, metadata};

/// What a mapping wants for one source, object by object.
#[derive(Debug)]
pub struct Rendering {
    pub place: Place,
    /// One for each object rule of the mapping, in their order.
    pub objects: Vec<Wanted>,
    /// One for each related rule of the mapping, in their order.
    pub related: Vec<Resolved>,
    /// Labels of the namespace, where the engine creates it.
    pub namespace_labels: Value,
    /// For the status rules, which read the same roots.
    pub scope: Scope,
}

/// What one object rule gives: several objects in the order of their list, or one without a key.
pub type Wanted = Result<Vec<Instance>, Unrendered>;

/// What is wanted of one object.
#[derive(Debug, Clone, PartialEq)]
pub enum Rendered {
    Present(Desired),
    /// Its `when` is false.
    Absent,
    /// A copy whose original is missing or unknown stays as it is; the reason is reported, if there is one.
    Kept(Option<Reason>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// Which of several it is. Without a key, it stands for all of its rule.
    pub key: Option<String>,
    /// What one of several is made from.
    pub item: Option<Arc<Value>>,
    /// Where one of several goes; `None`: that cannot be told.
    pub reference: Option<Reference>,
    pub rendered: Result<Rendered, Unrendered>,
}

impl Instance {
    fn single(rendered: Result<Rendered, Unrendered>) -> Self {
        Self { key: None, item: None, reference: None, rendered }
    }

    pub fn id(&self, rule: &ObjectRule) -> String {
        instance_id(rule, self.key.as_deref())
    }

    pub fn desired(&self) -> Option<&Desired> {
        match &self.rendered {
            Ok(Rendered::Present(desired)) => Some(desired),
            _ => None,
        }
    }
}

/// A rendered object with its marks.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    pub reference: Reference,
    pub body: Arc<Value>,
}

/// Renders every object of a source, each on its own: one that fails leaves the others alone.
///
/// # Errors
/// What stands in the way of all of them: a placement or a variable that cannot be rendered.
pub fn render(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Result<Rendering, Unrendered> {
    Ok(with_objects(mapping, observed, begin(mapping, observed, source)?))
}

/// The same without the objects: enough to tell which related objects have to be read first.
///
/// # Errors
/// As those of [`render`].
pub fn begin(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Result<Rendering, Unrendered> {
    let mut scope = base_scope(mapping, observed, source);
    if mapping.target_rule.is_some() {
        chosen(mapping, observed, source)?;
    }
    let place = place_within(mapping, observed, &scope)?;
    set_place(&place, &mut scope);
    let namespace_labels = namespace_labels(mapping, observed, &scope)?;
    // The objects that exist are readable as `objects.<id>`.
    for rule in mapping.objects.iter().filter(|rule| rule.copy.is_none()) {
        scope.set_object(&rule.id, object_state(observed, rule, &place, |standing| standing.object.clone()));
    }
    let related = related::resolve(mapping, observed, source, &place, &mut scope);
    set_vars(mapping, &mut scope);
    Ok(Rendering { place, objects: Vec::new(), related, namespace_labels, scope })
}

/// What was begun, with each object.
pub fn with_objects(mapping: &Mapping, observed: &Observed, begun: Rendering) -> Rendering {
    let Rendering { place, related, scope, .. } = &begun;
    let wanted = |rule: &ObjectRule| {
        let copied = rule.copy.and_then(|copy| Some((mapping.related.get(copy.related)?, related.get(copy.related)?)));
        match (copied, &rule.for_each) {
            (Some((of, resolved)), _) => copies(observed, rule, of, resolved, &begun),
            (None, Some(each)) => super::each::instances(observed, rule, each, place, scope),
            (None, None) => Ok(vec![Instance::single(one(observed, rule, &rule.id, place, scope))]),
        }
    };
    let mut objects: Vec<Wanted> = mapping.objects.iter().map(wanted).collect();
    keep_names_apart(mapping, place, scope, &mut objects);
    Rendering { objects, ..begun }
}

/// An object that the document names is its rule's. A copy, or one of several, has a name that a consumer may choose: it does not
/// take the place of another rule's, and of two such rules the first one has the name. What is left out has none: `when` may say
/// which of two rules makes an object.
fn keep_names_apart(mapping: &Mapping, place: &Place, scope: &Scope, objects: &mut [Wanted]) {
    let is_single = |rule: &ObjectRule| rule.copy.is_none() && !rule.is_several();
    if mapping.objects.iter().all(is_single) {
        return;
    }
    let is_left_out = |one: &Instance| matches!(one.rendered, Ok(Rendered::Absent));
    let is_made =
        |(rule, wanted): &(&ObjectRule, &Wanted)| is_single(rule) && !wanted.iter().flatten().any(is_left_out);
    let single = mapping.objects.iter().zip(&*objects).filter(is_made);
    let single = single.filter_map(|(rule, _)| Some((spot(&reference(rule, place, scope).ok()?), rule.id.as_str())));
    let mut taken: BTreeMap<_, &str> = single.collect();
    for (rule, wanted) in mapping.objects.iter().zip(objects).filter(|(rule, _)| !is_single(rule)) {
        for one in wanted.iter_mut().flatten().filter(|one| !is_left_out(one)) {
            let Some(at) = one.reference.as_ref().map(spot) else { continue };
            let first = *taken.entry(at).or_insert(&rule.id);
            if first != rule.id {
                one.rendered = Err(Unrendered::Failed(format!("it would have the name of {}", what(first))));
            }
        }
    }
}

/// Where an object is, in whichever version of its kind.
fn spot(reference: &Reference) -> (Side, [String; 4]) {
    let Reference { kind, namespace, name } = reference;
    (kind.side, [&kind.group, &kind.kind, namespace, name].map(String::clone))
}

/// Labels of a namespace that the engine creates: `managed-by`, the engine's id, and the mapping's own.
fn namespace_labels(mapping: &Mapping, observed: &Observed, scope: &Scope) -> Result<Value, Unrendered> {
    let mut labels = json!({marks::MANAGED_BY: marks::MANAGER, marks::ENGINE: observed.subject.writer.engine()});
    for (key, value) in mapping.placement.labels(scope)? {
        labels[key] = json!(value);
    }
    Ok(labels)
}

/// The roots that need no placement: enough for filters and for the placement itself.
pub fn base_scope(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Scope {
    let mut scope = source_scope(mapping, observed, source);
    let Some(rule) = &mapping.target_rule else {
        scope.set(Root::Target, mapping.constants.target.clone());
        return scope;
    };
    if let Ok(Some(Choice { key, item, cluster: Ok(cluster) })) = chosen(mapping, observed, source) {
        let root =
            if rule.is_several() { json!({"cluster": cluster, "key": key}) } else { json!({"cluster": cluster}) };
        scope.set(Root::Target, Arc::new(root));
        if let (TargetChoice::Each { each, .. }, Some(item)) = (&rule.choice, item) {
            scope.set_local(&each.item, item);
        }
    } else if let Some(among) = &observed.among {
        scope.set(Root::Target, target_root(&among.name));
    }
    scope
}

/// The roots that need no target either: enough to choose it.
pub fn source_scope(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Scope {
    let mut scope = Scope::new();
    scope.limit();
    scope.record(observed.study.recorder.clone());
    scope.set(Root::Source, Arc::new(view(source)));
    scope.set(Root::Workspace, workspace_root(&observed.subject.origin, observed.consumer.path.as_deref()));
    scope.set(Root::Mapping, mapping.constants.mapping.clone());
    scope
}

/// The same with the placement, where it can be rendered.
pub fn placed_scope(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Scope {
    let mut scope = base_scope(mapping, observed, source);
    if let Ok(place) = place_within(mapping, observed, &scope) {
        set_place(&place, &mut scope);
    }
    scope
}

fn set_place(place: &Place, scope: &mut Scope) {
    scope.set(Root::Placement, Arc::new(json!({"namespace": place.namespace, "name": place.name})));
}

/// Which of the source's targets this one is; of a mapping without an engine, its first.
fn chosen(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Result<Option<Choice>, Unrendered> {
    let all = targets::of(mapping, observed, source)?;
    let is_this = |choice: &Choice| match &observed.among {
        Some(among) => choice.cluster.as_ref() == Ok(&among.name),
        None => choice.cluster.is_ok(),
    };
    Ok(all.iter().find(|choice| is_this(choice)).cloned())
}

/// The place that the rule gives, unless objects of the source exist and none of them is there: placement is sticky.
pub fn place(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Result<Place, Unrendered> {
    place_within(mapping, observed, &base_scope(mapping, observed, source))
}

fn place_within(mapping: &Mapping, observed: &Observed, base: &Scope) -> Result<Place, Unrendered> {
    let rule = mapping.placement.name(base).and_then(|name| {
        let namespace = match mapping.side() {
            Side::Source => observed.subject.key.namespace.to_string(),
            Side::Target => {
                let mut scope = fixed_scope(&observed.subject.origin, observed.consumer.path.as_deref());
                scope.record(observed.study.recorder.clone());
                placement::namespace(&mapping.placement.namespace, &scope)?
            }
        };
        Ok(Place { namespace, name })
    });
    let side = mapping.side();
    let placed = || observed.objects.own().filter(move |object| object.reference.kind.side == side);
    let place_of = |object: &TargetObject| Place {
        namespace: object.reference.namespace.clone(),
        name: placed_as(object, mapping.rule(object.rule_id())).to_owned(),
    };
    if let Ok(place) = &rule
        && placed().any(|object| place_of(object) == *place)
    {
        return rule;
    }
    let age = |one: &&TargetObject| (metadata(&one.object, "creationTimestamp").to_owned(), one.reference.clone());
    let oldest = placed().filter(|object| !object.object_id().starts_with(RELATED)).min_by_key(age);
    oldest.map_or(rule, |object| Ok(place_of(object)))
}

/// What of a source cannot change: all that a namespace rule reads. The cluster's name is not among it: a kubeconfig file is
/// renamed, a provider becomes a fleet.
fn fixed_scope(source: &Origin, workspace_path: Option<&str>) -> Scope {
    let Origin { namespace, name, .. } = source;
    let namespace = if namespace.is_empty() { "cluster" } else { namespace };
    let mut scope = Scope::new();
    scope.set(Root::Source, Arc::new(json!({"metadata": {"namespace": namespace, "name": name}})));
    scope.set(Root::Workspace, workspace_root(source, workspace_path));
    scope
}

/// A path that is not known is absent: a plain cluster has none, and kcp tells it late.
fn workspace_root(source: &Origin, path: Option<&str>) -> Arc<Value> {
    let mut root = json!({"cluster": source.cluster});
    if let Some(path) = path {
        root["path"] = path.into();
    }
    Arc::new(root)
}

/// Work of all former namespace rules for one source, some 3 ms: whoever can write ConfigMaps on a target can write them there.
const FORMER_WORK: usize = 1 << 20;

/// The namespaces in which a source's objects may be: those that the current rule and the former ones give. A rule that
/// cannot be evaluated gives none.
pub fn namespaces(mapping: &Mapping, former: &[Arc<Text>], observed: &Observed) -> BTreeSet<String> {
    namespaces_of(mapping, former, &observed.subject.origin, observed.consumer.path.as_deref())
}

/// The same of a source that may not exist any more.
pub fn namespaces_of(
    mapping: &Mapping,
    former: &[Arc<Text>],
    source: &Origin,
    workspace_path: Option<&str>,
) -> BTreeSet<String> {
    let mut scope = fixed_scope(source, workspace_path);
    let current = Some(&mapping.placement.namespace).filter(|_| !mapping.is_beside());
    let current = current.and_then(|rule| placement::namespace(rule, &scope).ok());
    scope.limit_to(FORMER_WORK);
    current.into_iter().chain(former.iter().filter_map(|rule| placement::namespace(rule, &scope).ok())).collect()
}

/// The name of the placement that an object was rendered for: its own, unless its rule gives another. Of a rule that the mapping
/// no longer has, the object tells.
fn placed_as<'o>(standing: &'o TargetObject, rule: Option<&ObjectRule>) -> &'o str {
    let named = rule.is_none_or(ObjectRule::is_named);
    let marked = named.then(|| standing.annotation(marks::PLACEMENT_NAME)).flatten();
    marked.unwrap_or(&standing.reference.name)
}

/// A variable that waits or fails hands that on to whoever reads it.
pub fn set_vars(mapping: &Mapping, scope: &mut Scope) {
    for (name, template) in &mapping.vars {
        let evaluated = template.evaluate(scope);
        scope.set_var(name, evaluated);
    }
}

fn object_state(
    observed: &Observed,
    rule: &ObjectRule,
    place: &Place,
    read: impl Fn(&TargetObject) -> Arc<Value>,
) -> ObjectState {
    match (&rule.for_each, standing(observed, rule, place)) {
        // A map without those that cannot be seen would take them out of what is rendered from it.
        (Some(_), _) if observed.sees(&rule.kind).is_err() => ObjectState::Missing(RelatedMissing::Wait),
        (Some(_), _) => {
            let keyed = |standing: &TargetObject| Some((standing.key()?.to_owned(), read(standing)));
            let all = instances(observed, rule, place).filter_map(keyed).collect();
            ObjectState::Several(Several { all, ..Several::default() })
        }
        (None, Some(standing)) => ObjectState::Present(read(standing)),
        (None, None) => ObjectState::Missing(RelatedMissing::Wait),
    }
}

/// The objects of which expressions read more than what is observed: whether they are ready, or wanted at all.
pub fn judged(mapping: &Mapping) -> impl Iterator<Item = &ObjectRule> {
    let is_judged = |rule: &&ObjectRule| rule.is_asked || rule.is_read && rule.when.is_some();
    mapping.objects.iter().filter(is_judged)
}

/// Makes that readable: `ready` in each object; one whose `when` is false is absent, of several as well.
pub fn judge_objects(mapping: &Mapping, observed: &Observed, place: &Place, scope: &mut Scope) {
    for rule in judged(mapping) {
        let items = rule.for_each.as_ref().map(|each| super::each::keyed(each, &mut scope.clone()));
        let items: BTreeMap<_, _> = items.and_then(Result::ok).unwrap_or_default().into_iter().collect();
        let is_left_out = |scope: &Scope, when: &Expression| when.holds(scope) == Ok(false);
        let mut left_out = BTreeSet::new();
        match (&rule.when, &rule.for_each) {
            (Some(when), None) if is_left_out(scope, when) => {
                scope.set_object(&rule.id, ObjectState::Missing(RelatedMissing::Skip));
                continue;
            }
            (Some(when), Some(each)) => {
                let mut scope = scope.clone();
                for (key, item) in &items {
                    scope.set_local(&each.item, item.clone());
                    left_out.extend(is_left_out(&scope, when).then(|| key.clone()));
                }
            }
            _ => {}
        }
        let mut state = object_state(observed, rule, place, |standing| {
            let mut object = standing.object.clone();
            if rule.is_asked {
                let item = standing.key().and_then(|key| items.get(key));
                let is_ready = matches!(observed.state_of(standing), Ok(super::observed::ObjectState::Ours(_)))
                    && state(mapping, observed, rule, standing, item, scope) == Ok(Readiness::Ready);
                Arc::make_mut(&mut object)[VERDICT] = json!(is_ready);
            }
            object
        });
        if let ObjectState::Several(several) = &mut state {
            several.all.retain(|key, _| !left_out.contains(key));
            several.left_out = left_out;
        }
        scope.set_object(&rule.id, state);
    }
}

/// What stands of a rule's object at the place of the source. Only an object there is read: a forged mark elsewhere
/// must not carry status to another tenant.
pub fn standing<'o>(observed: &'o Observed, rule: &ObjectRule, place: &Place) -> Option<&'o TargetObject> {
    standing_as(observed, rule, &rule.id, place)
}

/// The same of one of several objects: `id` is its [`instance_id`].
pub fn standing_as<'o>(observed: &'o Observed, rule: &ObjectRule, id: &str, place: &Place) -> Option<&'o TargetObject> {
    observed.objects.with_id(id).into_iter().find(|standing| is_at(standing, rule, place))
}

/// What stands of several objects of one rule.
pub fn instances<'o>(
    observed: &'o Observed,
    rule: &ObjectRule,
    place: &Place,
) -> impl Iterator<Item = &'o TargetObject> {
    let of_rule = |standing: &&TargetObject| standing.key().is_some() && standing.rule_id() == rule.id;
    observed.objects.own().filter(of_rule).filter(|standing| is_at(standing, rule, place))
}

fn is_at(standing: &TargetObject, rule: &ObjectRule, place: &Place) -> bool {
    standing.is_shared == rule.shared
        && standing.reference.kind.is_same_in_any_version(&rule.kind)
        && (rule.kind.side == Side::Source || standing.reference.namespace == place.namespace)
        && (rule.shared || placed_as(standing, Some(rule)) == place.name)
}

/// How owner marks and reasons name an object of a rule, with its key where it is one of several.
pub fn instance_id(rule: &ObjectRule, key: Option<&str>) -> String {
    key.map_or_else(|| rule.id.clone(), |key| format!("{}[{key}]", rule.id))
}

fn copies(observed: &Observed, rule: &ObjectRule, of: &RelatedRule, resolved: &Resolved, begun: &Rendering) -> Wanted {
    let all = match resolved {
        Err(reason) => return Ok(vec![Instance::single(Ok(Rendered::Kept(Some(reason.clone()))))]),
        Ok(all) if all.is_empty() && !of.is_several() => return Ok(vec![Instance::single(Ok(Rendered::Absent))]),
        Ok(all) => all,
    };
    let instance = |one: &Related| {
        let rendered = copied(observed, rule, of, one, begun);
        let reference = one.is_placed().then(|| copy_reference(rule, one));
        Instance { key: one.key.clone(), item: one.item.clone(), reference, rendered }
    };
    let mut instances: Vec<_> = all.iter().map(instance).collect();
    if rule.shared {
        let mut seen = BTreeSet::new();
        instances.retain(|one| one.desired().is_none_or(|desired| seen.insert(desired.reference.clone())));
    }
    super::each::have_names_apart(&instances)?;
    Ok(instances)
}

/// The namespace that a source's objects go to, and the shared copies that it names, as far as it can be told.
pub fn places_in_use(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> BTreeSet<String> {
    match begin(mapping, observed, source) {
        Ok(begun) => shared_places(mapping, &begun),
        Err(_) => all_places(mapping, observed, source),
    }
}

/// The namespace of a source that cannot tell which shared copies it names, with all of them.
pub fn all_places(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> BTreeSet<String> {
    place(mapping, observed, source).map(|place| all_in(&place.namespace).into()).unwrap_or_default()
}

/// The same, where the rendering has begun.
pub fn shared_places(mapping: &Mapping, begun: &Rendering) -> BTreeSet<String> {
    let Rendering { place, related, scope, .. } = begun;
    let rules = mapping.objects.iter().filter(|rule| rule.shared).filter_map(|rule| Some((rule, rule.copy?)));
    let of = |(rule, copy): (&ObjectRule, Copied)| match related.get(copy.related) {
        Some(Ok(all)) if all.iter().all(Related::is_placed) => {
            places(rule, place, scope, related).iter().map(|(_, at)| copy_place(at)).collect()
        }
        _ => vec![all_copies(&place.namespace)],
    };
    rules.flat_map(of).chain([place.namespace.clone()]).collect()
}

fn copied(
    observed: &Observed,
    rule: &ObjectRule,
    of: &RelatedRule,
    one: &Related,
    begun: &Rendering,
) -> Result<Rendered, Unrendered> {
    let copy = related::copy(of, one, &begun.scope)?;
    let Some(mut body) = copy else { return Ok(Rendered::Kept(related::lacking(of, one))) };
    let reference = copy_reference(rule, one);
    // A source that is a file has no uid.
    if let Some(source) = observed.present()
        && of.owner_reference
        && !metadata(source, "uid").is_empty()
    {
        let text = |field: &str| source.get(field).cloned().unwrap_or_default();
        body["metadata"]["ownerReferences"] = json!([{
            "apiVersion": text("apiVersion"), "kind": text("kind"),
            "name": metadata(source, "name"), "uid": metadata(source, "uid"),
        }]);
    }
    // A shared copy is the same for all who name it.
    let id = instance_id(rule, one.key.as_deref().filter(|_| !rule.shared));
    let body = mark(observed, rule, &id, &begun.place, &reference, body)?;
    Ok(Rendered::Present(Desired { reference, body: Arc::new(body) }))
}

/// Where a related object is copied to.
pub fn copy_reference(rule: &ObjectRule, one: &Related) -> Reference {
    Reference { kind: rule.kind.clone(), namespace: one.to.namespace.clone(), name: one.to.name.clone() }
}

pub fn one(
    observed: &Observed,
    rule: &ObjectRule,
    id: &str,
    place: &Place,
    scope: &Scope,
) -> Result<Rendered, Unrendered> {
    if let Some(when) = &rule.when
        && !when.holds(scope)?
    {
        return Ok(Rendered::Absent);
    }
    let mut body = rule.template.render(scope)?;
    if rule.kind.is_secret() {
        check_string_data(&body)?;
        encode_string_data(&mut body);
    }
    let reference = reference(rule, place, scope)?;
    // What it is written onto.
    let owned = observed.objects.at(&reference).map(|owned| &owned.object);
    let existing = owned.or_else(|| adoptable(observed, rule, &reference));
    let ignored = take(&mut body, &rule.ignore, existing);
    let once = take(&mut body, &rule.at_creation, existing);
    rule.generate.keys().for_each(|key| remove_pointer(&mut body, &key_pointer(key)));
    // The hash is of what the engine keeps as it is rendered.
    let mut body = mark(observed, rule, id, place, &reference, body)?;
    put_back(&mut body, once, existing);
    if let Some(existing) = existing {
        put_back(&mut body, of_whole_lists(ignored, existing), Some(existing));
    }
    for key in rule.generate.keys() {
        let made = existing.and_then(|existing| existing.get("data")?.get(key));
        make_pointer(&mut body, &key_pointer(key), made.cloned().unwrap_or_else(|| json!(GENERATED)));
    }
    Ok(Rendered::Present(Desired { reference, body: Arc::new(body) }))
}

/// Servers take texts alone there; a null is an empty one.
fn check_string_data(secret: &Value) -> Result<(), Unrendered> {
    let is_text = |value: &Value| value.is_string() || value.is_null();
    let wrong = match secret.get("stringData") {
        None | Some(Value::Null) => None,
        Some(Value::Object(plain)) => {
            let found = plain.iter().find(|(_, value)| !is_text(value));
            found.map(|(key, _)| format!("stringData.{key}: it gives no text"))
        }
        Some(_) => Some("stringData: it gives no map".to_owned()),
    };
    wrong.map_or(Ok(()), |why| Err(Unrendered::Failed(why)))
}

fn key_pointer(key: &str) -> String {
    format!("/data/{}", escape_pointer(key))
}

/// Takes out what is left to others.
fn take(body: &mut Value, pointers: &[Pointer], existing: Option<&Arc<Value>>) -> Vec<(pointer::Place, Value)> {
    let places = pointers.iter().flat_map(|pointer| pointer.places(body, existing.map(|existing| &**existing)));
    let found: Vec<_> = places.filter_map(|place| Some((body.pointer(&place.at)?.clone(), place))).collect();
    found.iter().for_each(|(_, place)| remove_pointer(body, &place.at));
    found.into_iter().map(|(value, place)| (place, value)).collect()
}

/// Of an object that exists, the values that it has now: an apply without them would remove what the engine set. An item that it
/// does not have yet is as it was rendered.
fn put_back(body: &mut Value, taken: Vec<(pointer::Place, Value)>, existing: Option<&Arc<Value>>) {
    for (place, rendered) in taken {
        let value = match (existing, &place.there) {
            (Some(existing), Some(there)) => existing.pointer(there),
            _ => Some(&rendered),
        };
        if let Some(value) = value {
            put_pointer(body, &place.at, value.clone());
        }
    }
}

/// What is in lists that an apply replaces as a whole, the values of others included.
fn of_whole_lists(mut ignored: Vec<(pointer::Place, Value)>, existing: &Value) -> Vec<(pointer::Place, Value)> {
    let merged = Lists::of(existing);
    ignored.retain(|(place, _)| place.there.is_some() && place.lists.iter().any(|list| merged.at(list).is_none()));
    ignored
}

/// An object that nobody owns, where a rule would have its own and takes such objects over.
pub fn adoptable<'o>(observed: &'o Observed, rule: &ObjectRule, reference: &Reference) -> Option<&'o Arc<Value>> {
    let found = observed.answers.foreign.get(reference).filter(|_| rule.adopt == Adopt::IfUnowned)?;
    marks::is_unowned(found).then_some(found)
}

/// Where a rule's object goes.
pub fn reference(rule: &ObjectRule, place: &Place, scope: &Scope) -> Result<Reference, Unrendered> {
    let name = match &rule.name {
        Some(name) => name.render(scope)?,
        None => place.name.clone(),
    };
    Ok(Reference { kind: rule.kind.clone(), namespace: place.namespace.clone(), name })
}

/// Where all objects of a rule go, by their ids, as far as that can be told without rendering them.
pub fn places(rule: &ObjectRule, place: &Place, scope: &Scope, related: &[Resolved]) -> Vec<(String, Reference)> {
    if let Some(copy) = rule.copy {
        let id = |one: &Related| instance_id(rule, one.key.as_deref());
        let all = related.get(copy.related).into_iter().flatten().flatten();
        let named = all.filter(|one| !one.to.name.is_empty());
        return named.map(|one| (id(one), copy_reference(rule, one))).collect();
    }
    super::each::of_each(rule, scope, |key, scope| Some((instance_id(rule, key), reference(rule, place, scope).ok()?)))
}

/// Puts identity and owner marks on a rendered body.
pub fn mark(
    observed: &Observed,
    rule: &ObjectRule,
    id: &str,
    place: &Place,
    reference: &Reference,
    mut body: Value,
) -> Result<Value, Unrendered> {
    // A template may copy all that a consumer writes. What the engine says of the object is the engine's alone.
    for field in ["/metadata/labels", "/metadata/annotations"] {
        if let Some(Value::Object(given)) = body.pointer_mut(field) {
            given.retain(|key, _| !marks::is_ours_to_write(key));
        }
    }
    // Beside the source, server-side apply does not work as on Kubernetes, so no field manager knows what the engine set. A copy
    // holds nothing but what its original has.
    let needs_fields = rule.kind.side == Side::Source && rule.copy.is_none();
    if needs_fields && !has_short_pointers(&body) {
        return Err(Unrendered::Failed("too many of its fields are below a long name".to_owned()));
    }
    let fields = needs_fields.then(|| pointers_text(&leaves(&body)));
    let Value::Object(mut body) = body else {
        return Err(Unrendered::Failed(format!("the template of `{}` is no map", rule.id)));
    };
    let Subject { writer, origin, owner, .. } = &observed.subject;
    let owner = if rule.shared { writer.shared_owner(&reference.namespace) } else { owner.clone() };
    let mut annotations = vec![(marks::OBJECT, id.to_owned()), (marks::SELF, owner.self_mark(id, reference))];
    if !rule.shared {
        annotations.extend(marks::origin_annotations(origin));
        annotations.push((marks::SOURCE_UID, observed.source_uid().to_owned()));
        annotations.extend(observed.consumer.path.clone().map(|path| (marks::WORKSPACE, path)));
        annotations.extend((reference.name != place.name).then(|| (marks::PLACEMENT_NAME, place.name.clone())));
    }
    annotations.extend(fields.map(|fields| (marks::FIELDS, fields)));
    marks::stamp(&mut body, "labels", marks::labels(writer, &owner));
    marks::stamp(&mut body, "annotations", annotations);
    let mut body = Value::Object(body);
    body["metadata"]["name"] = json!(reference.name);
    if !reference.namespace.is_empty() {
        body["metadata"]["namespace"] = json!(reference.namespace);
    }
    let hash = value_hash(&body, 10);
    body["metadata"]["annotations"][marks::HASH] = json!(hash);
    Ok(body)
}

/// What no rule of the mapping makes any more.
pub fn dropped<'o>(mapping: &Mapping, observed: &'o Observed) -> impl Iterator<Item = &'o TargetObject> {
    observed.objects.iter().filter(|object| !has_rule(mapping, object))
}

/// Whether the mapping still has the rule that made an object. A shared copy has no key: it is the same for all who name it.
pub fn has_rule(mapping: &Mapping, object: &TargetObject) -> bool {
    let is_of = |rule: &ObjectRule| {
        rule.shared == object.is_shared && (rule.shared || rule.is_several() == object.key().is_some())
    };
    mapping.rule(object.rule_id()).is_some_and(is_of)
}

/// Where the source's objects are, as far as that can be told without rendering them: a rule that cannot be evaluated any
/// more must not hold a deletion up.
pub fn expected(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Vec<Reference> {
    let mut scope = base_scope(mapping, observed, source);
    let Ok(place) = place_within(mapping, observed, &scope) else { return Vec::new() };
    set_place(&place, &mut scope);
    let related = related::resolve(mapping, observed, source, &place, &mut scope);
    let own = mapping.objects.iter().filter(|rule| !rule.shared);
    own.flat_map(|rule| places(rule, &place, &scope, &related)).map(|(_, reference)| reference).collect()
}

impl Rendering {
    /// Every object that is wanted, with its rule, and its key where it is one of several.
    pub fn desired<'r>(
        &'r self,
        mapping: &'r Mapping,
    ) -> impl Iterator<Item = (&'r ObjectRule, Option<&'r str>, &'r Desired)> {
        let of = |(rule, wanted): (&'r ObjectRule, &'r Wanted)| {
            let present = move |one: &'r Instance| Some((rule, one.key.as_deref(), one.desired()?));
            wanted.iter().flatten().filter_map(present)
        };
        mapping.objects.iter().zip(&self.objects).flat_map(of)
    }

    /// For people: the place of random text reads `(generated)`.
    pub fn show_generated(&mut self, mapping: &Mapping) {
        for (rule, wanted) in mapping.objects.iter().zip(&mut self.objects) {
            for one in wanted.iter_mut().flatten() {
                let Ok(Rendered::Present(desired)) = &mut one.rendered else { continue };
                for key in rule.generate.keys() {
                    if desired.body["data"][key] == GENERATED {
                        Arc::make_mut(&mut desired.body)["data"][key] = json!("(generated)");
                    }
                }
            }
        }
    }

    /// What could not be rendered, by the id of its object.
    pub fn unrendered<'r>(&'r self, mapping: &'r Mapping) -> impl Iterator<Item = (String, &'r Unrendered)> {
        let of = |(rule, wanted): (&'r ObjectRule, &'r Wanted)| {
            let whole = wanted.as_ref().err().map(|why| (rule.id.clone(), why));
            let failed = move |one: &'r Instance| Some((one.id(rule), one.rendered.as_ref().err()?));
            whole.into_iter().chain(wanted.iter().flatten().filter_map(failed))
        };
        mapping.objects.iter().zip(&self.objects).flat_map(of)
    }
}
