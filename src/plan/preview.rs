//! What the engine would make of one source, without any cluster: for the author of a mapping.
//!
//! Rendering, the rows of the decision table and the status rules are the engine's own. What differs is where the picture comes
//! from: a file instead of caches, and target objects that may lack ownership labels. [`offline`](super::offline) follows the whole
//! plan, writes and deletions included. A preview stops at any step of it, and leaves the objects that it is given as they are, but
//! for those that are not wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::objects::Objects;
use super::observed::{Kinds, Observed, Originals, Source, TargetObject};
use super::readiness::{Case, Waits};
use super::render::{self, Desired, Rendering};
use super::targets::{self, Choice, OtherTarget, Reach, TargetContext};
use super::{Reason, Reasons, each, is_in, live, status};
use crate::mapping::expression::Recorder;
use crate::mapping::schema::Schema;
use crate::mapping::{Mapping, ObjectRule, Side, TargetChoice};
use crate::object::marks::{self, Origin, Reference, Writer};
use crate::object::{ClusterName, Key, encode_string_data, metadata};

/// One source and what is around it.
#[derive(Debug, Clone)]
pub struct Scene {
    pub engine: String,
    pub cluster: ClusterName,
    pub workspace_path: Option<String>,
    pub source: Arc<Value>,
    /// Downstream objects as they stand. One counts as made from the object of the mapping that has its kind, and its
    /// namespace and name where it gives them.
    pub standing: Vec<Value>,
    /// Related objects as they stand where they come from.
    pub related: Vec<Arc<Value>>,
    pub schema: Option<Arc<Schema>>,
    /// How often what is rendered is taken for made and ready; [`SETTLED`]: until nothing more comes of it.
    pub steps: usize,
}

/// More steps than a chain of objects has.
pub const SETTLED: usize = 64;

#[derive(Debug)]
pub struct Preview<'m> {
    mapping: &'m Mapping,
    /// Never empty.
    targets: Vec<OnTarget>,
    /// The consumer's status as it would stand once everything rendered is applied: as it is, where a write would be
    /// withheld. Times that the engine would set are left out.
    pub status: Option<Value>,
    /// What the engine would wait for, or report.
    pub reasons: Reasons,
    /// Labels of the placement's namespace, where the engine creates it.
    pub namespace_labels: Option<Value>,
    /// Positions in the scene of standing objects that no object of the mapping looks like.
    pub strangers: Vec<usize>,
}

#[derive(Debug)]
struct OnTarget {
    target: At,
    observed: Observed,
    rendering: Rendering,
    reasons: Reasons,
    strangers: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// The target of the mapping; or each cluster of a provider, of which nobody knows here which there are.
    Any,
    Target {
        /// By which expressions know it.
        key: String,
        name: String,
    },
    /// The source's list of targets is empty.
    Nowhere,
}

impl At {
    /// The name of the target, where it is known.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Target { name, .. } => Some(name),
            Self::Any | Self::Nowhere => None,
        }
    }
}

/// Why there is nothing to show.
#[derive(Debug, Clone, PartialEq)]
pub enum Unseen {
    Out,
    /// The filter cannot be evaluated, or the placement or a variable cannot be rendered.
    Unrendered(Reason),
}

/// Renders a source and computes its status.
///
/// # Errors
/// Where the mapping leaves the source alone, or nothing of it can be rendered.
pub fn preview<'m>(mapping: &'m Mapping, scene: &Scene) -> Result<Preview<'m>, Unseen> {
    previewed(mapping, scene, None)
}

/// The same, taking down what of the mapping is evaluated.
///
/// # Errors
/// As [`preview`].
pub fn recorded<'m>(mapping: &'m Mapping, scene: &Scene, recorder: &Recorder) -> Result<Preview<'m>, Unseen> {
    // The way there counts, too: what stands in for an object that does not exist yet.
    previewed(mapping, &Scene { steps: 0, ..scene.clone() }, Some(recorder.clone()))?;
    previewed(mapping, scene, Some(recorder.clone()))
}

fn previewed<'m>(mapping: &'m Mapping, scene: &Scene, recorder: Option<Recorder>) -> Result<Preview<'m>, Unseen> {
    let mut observed = scene.observed(mapping);
    observed.study.recorder = recorder;
    if !is_in(mapping, &observed, &scene.source).map_err(Unseen::Unrendered)? {
        return Err(Unseen::Out);
    }
    let mut targets = choices(mapping, &observed, scene)?
        .into_iter()
        .map(|target| looked_at(mapping, scene, &observed, target))
        .collect::<Result<Vec<_>, _>>()?;
    let all: BTreeMap<String, OtherTarget> = targets.iter().filter_map(OnTarget::for_another).collect();
    let OnTarget { observed, rendering, reasons: own, strangers, .. } = &mut targets[0];
    if let Some(among) = &mut observed.among {
        among.selected = Arc::new(all.keys().cloned().chain([among.name.clone()]).collect());
        among.targets = Arc::new(all);
    }
    let mut reasons = targets::overall(mapping, observed, &scene.source, own).unwrap_or_else(|| own.clone());
    let here = own.of_target().map(|reason| reason.cause);
    let mut status = status::wanted(mapping, observed, &scene.source, Some(&*rendering), here, &mut reasons);
    if status::is_withheld(observed, status.as_ref(), &mut reasons) {
        status = scene.source.get("status").cloned();
    }
    // What the engine would set now is another time each time.
    let status = status.map(|status| status::shown(&scene.source, status, |time| *time != "1970-01-01T00:00:00Z"));
    let namespace_labels = mapping.placement.create_namespace.then(|| rendering.namespace_labels.clone());
    let strangers = std::mem::take(strangers);
    targets.iter_mut().for_each(|on| on.rendering.show_generated(mapping));
    Ok(Preview { mapping, targets, status, reasons, namespace_labels, strangers })
}

impl OnTarget {
    /// As another target knows it.
    fn for_another(&self) -> Option<(String, OtherTarget)> {
        let At::Target { name, .. } = &self.target else { return None };
        let (objects, unsettled) = (self.observed.objects.clone(), self.reasons.of_target());
        Some((name.clone(), OtherTarget { reach: Reach::Seen, identity: None, url: None, objects, unsettled }))
    }
}

fn looked_at(mapping: &Mapping, scene: &Scene, observed: &Observed, target: At) -> Result<OnTarget, Unseen> {
    let mut here = seen_from(observed, &target);
    let mut strangers: Vec<usize> = (0..scene.standing.len()).collect();
    // A guess at what stands is no evaluation that anybody asked for.
    here.study.recorder = None;
    recognize(mapping, scene, &mut here, &mut strangers)?;
    here.study.recorder.clone_from(&observed.study.recorder);
    if target != At::Nowhere {
        suppose(mapping, scene, &mut here, &mut strangers)?;
    }
    let rendering = rendered(mapping, &here, scene)?;
    let reasons = match target {
        At::Nowhere => Reasons::default(),
        At::Any | At::Target { .. } => live::unsettled(mapping, &here, &rendering),
    };
    // An engine deletes what is not wanted before it writes the status.
    let wanted = mapping.objects.iter().zip(&rendering.objects);
    let unwanted = wanted.flat_map(|(rule, wanted)| each::leaving(&here, rule, wanted, &rendering.place));
    let unwanted: Vec<Reference> = unwanted.map(|one| one.reference.clone()).collect();
    unwanted.iter().for_each(|one| here.objects.remove(one));
    Ok(OnTarget { target, observed: here, rendering, reasons, strangers })
}

/// The same source, observed from one of its targets.
fn seen_from(observed: &Observed, target: &At) -> Observed {
    let among = |name: &String| {
        let selected = Arc::new(BTreeSet::from([name.clone()]));
        TargetContext { name: name.clone(), selected, ..TargetContext::default() }
    };
    let among = match target {
        At::Any => None,
        At::Nowhere => Some(TargetContext::default()),
        At::Target { name, .. } => Some(among(name)),
    };
    Observed { among, ..observed.clone() }
}

/// Takes the standing objects for ours, each for the first object of the mapping that it looks like, and leaves the positions of
/// those that look like none, or that say that another mapping owns them. One that is recognized may tell where others are: copies
/// that come back, and objects of a list.
fn recognize(
    mapping: &Mapping,
    scene: &Scene,
    here: &mut Observed,
    strangers: &mut Vec<usize>,
) -> Result<Rendering, Unseen> {
    loop {
        let rendering = rendered(mapping, here, scene)?;
        if strangers.is_empty() {
            return Ok(rendering);
        }
        let Rendering { place, scope, related, .. } = &rendering;
        let places = |rule| render::places(rule, place, scope, related).into_iter().map(move |(id, at)| (rule, id, at));
        let places: Vec<_> = mapping.objects.iter().flat_map(places).collect();
        let before = strangers.len();
        strangers.retain(|position| {
            let object = &scene.standing[*position];
            let names = marks::label(object, marks::MAPPING).and_then(|label| label.split_once('.'));
            if names.is_some_and(|(_, owner)| owner != mapping.name) {
                return true;
            }
            // Without a namespace it is on the target, where the original of such a copy is.
            let is_beside = |rule: &ObjectRule| rule.copy.is_some() && rule.kind.side == Side::Source;
            let may_be = |rule: &ObjectRule| !is_beside(rule) || !metadata(object, "namespace").is_empty();
            let found = places.iter().find(|(rule, _, reference)| reference.is(object) && may_be(rule));
            let marked = found.and_then(|(rule, id, reference)| {
                let body = render::mark(here, rule, id, place, reference, object.clone()).ok()?;
                Some(TargetObject::of_rule(rule, reference.clone(), Arc::new(body)))
            });
            let is_stranger = marked.is_none();
            here.objects.extend(marked);
            is_stranger
        });
        if strangers.len() == before {
            return Ok(rendering);
        }
    }
}

/// What a scene has of its source on each target, by the name of that as far as files tell it: whether the source passes the filter,
/// or not.
pub fn there(mapping: &Mapping, scene: &Scene) -> BTreeMap<String, Objects> {
    let observed = scene.observed(mapping);
    let only = if mapping.target_rule.is_none() { mapping.target.as_str() } else { "" };
    let of = |target: At| {
        let mut here = seen_from(&observed, &target);
        recognize(mapping, scene, &mut here, &mut (0..scene.standing.len()).collect()).ok()?;
        Some((target.name().unwrap_or(only).to_owned(), here.objects))
    };
    let targets = choices(mapping, &observed, scene).unwrap_or_default().into_iter();
    targets.filter(|target| *target != At::Nowhere).filter_map(of).collect()
}

/// Takes what is rendered for made and ready, as it is rendered then, until nothing more comes of it. What is made in one step is
/// waited for until the next one, whatever the order in the mapping.
fn suppose(mapping: &Mapping, scene: &Scene, here: &mut Observed, strangers: &mut Vec<usize>) -> Result<(), Unseen> {
    for _ in 0..scene.steps {
        let rendering = recognize(mapping, scene, here, strangers)?;
        let mut made = Vec::new();
        for (rule, key, desired) in rendering.desired(mapping) {
            let standing = here.objects.at(&desired.reference);
            let is_kept = match standing {
                Some(standing) => !here.study.supposed.contains(&standing.reference) || standing.object == desired.body,
                None => {
                    let case = Case { mapping, observed: here, rendering: &rendering };
                    case.unmet((rule, key), &Waits::default()).is_some()
                }
            };
            if !is_kept {
                made.push(TargetObject::of_rule(rule, desired.reference.clone(), desired.body.clone()));
            }
        }
        if made.is_empty() {
            break;
        }
        for object in made {
            here.objects.remove(&object.reference);
            here.study.supposed.insert(object.reference.clone());
            here.objects.push(object);
        }
    }
    Ok(())
}

/// The targets that a source's objects go to; never empty.
fn choices(mapping: &Mapping, observed: &Observed, scene: &Scene) -> Result<Vec<At>, Unseen> {
    let Some(rule) = &mapping.target_rule else { return Ok(vec![At::Any]) };
    let choices = targets::of(mapping, observed, &scene.source).map_err(|why| Unseen::Unrendered(why.into()))?;
    let at = |choice: &Choice| Some(At::Target { key: choice.key.clone(), name: choice.cluster.clone().ok()? });
    let named: Vec<At> = choices.iter().filter_map(at).collect();
    Ok(match (named.is_empty(), &rule.choice) {
        (false, _) => named,
        (true, TargetChoice::All) => vec![At::Any],
        (true, _) => vec![At::Nowhere],
    })
}

fn rendered(mapping: &Mapping, observed: &Observed, scene: &Scene) -> Result<Rendering, Unseen> {
    render::render(mapping, observed, &scene.source).map_err(|unrendered| Unseen::Unrendered(unrendered.into()))
}

impl Scene {
    /// A target where every kind is served and nothing stands.
    pub fn observed(&self, mapping: &Mapping) -> Observed {
        let source = &self.source;
        let writer = Writer::new(&self.engine, &mapping.name);
        let key = Key::new(self.cluster.clone(), metadata(source, "namespace"), metadata(source, "name"));
        let origin = Origin::new(&mapping.source.resource, self.cluster.as_str(), &key);
        let kinds = Ok(Kinds::in_sight(mapping.objects.iter().map(|rule| &rule.kind)));
        let present = Ok(Source::Present(source.clone()));
        let mut observed = Observed::new(writer, key, origin, present, kinds, Timestamp::UNIX_EPOCH);
        let related = self.related.iter().map(|object| stored(object, &observed.subject.key));
        observed.related = Originals::Given(related.collect());
        observed.consumer.path.clone_from(&self.workspace_path);
        observed.consumer.schema.clone_from(&self.schema);
        observed.target.places = render::namespaces(mapping, &[], &observed);
        observed
    }
}

/// A related object as a server would store it: where the source has a namespace, so has what always lives in one.
fn stored(object: &Arc<Value>, source: &Key) -> Arc<Value> {
    let mut stored = object.clone();
    let is_placed = object["kind"] == "Secret" || object["kind"] == "ConfigMap";
    if is_placed
        && !source.namespace.is_empty()
        && metadata(object, "namespace").is_empty()
        && let Some(fields) = Arc::make_mut(&mut stored).get_mut("metadata").and_then(Value::as_object_mut)
    {
        fields.insert("namespace".to_owned(), "default".into());
    }
    if object["kind"] == "Secret" && object.get("stringData").is_some() {
        encode_string_data(Arc::make_mut(&mut stored));
    }
    stored
}

impl Preview<'_> {
    /// The first target's, which also has the placement and what expressions read.
    pub fn rendering(&self) -> &Rendering {
        &self.targets[0].rendering
    }

    /// What is rendered on each target, in the mapping's order; with its key what is one of several.
    pub fn objects(&self) -> impl Iterator<Item = (&At, &ObjectRule, Option<&str>, &Desired)> {
        let wanted = self.targets.iter().filter(|on| on.target != At::Nowhere);
        wanted.flat_map(|on| {
            on.rendering.desired(self.mapping).map(|(rule, key, desired)| (&on.target, rule, key, desired))
        })
    }

    /// Whether an object was taken for made on a target.
    pub fn is_made(&self, at: &At, reference: &Reference) -> bool {
        self.targets.iter().any(|on| on.target == *at && on.observed.study.supposed.contains(reference))
    }

    /// Whether nothing reads a related object of the scene. Of a kind, all that the mapping reads must be known.
    pub fn is_unread(&self, object: &Arc<Value>) -> bool {
        let object = stored(object, &self.targets[0].observed.subject.key);
        let mut all = self.targets.iter().flat_map(|on| self.mapping.related.iter().zip(&on.rendering.related));
        !all.any(|(rule, resolved)| match resolved {
            Ok(all) if !all.is_empty() => all.iter().any(|one| one.present() == Some(&object)),
            _ => rule.resource.may_have(&object),
        })
    }

    /// Whether something cannot be rendered or computed; waiting is none.
    pub fn failed(&self) -> bool {
        self.reasons.is_blocked()
    }
}

#[cfg(test)]
mod tests;
