//! SE0708: whether two objects of one kind can get one name for two sources. As with placements, what is reported is a
//! pair that really meets.

use std::cell::OnceCell;

use super::places::{Candidate, NAMESPACES, Named, placed, served_candidate, source_stand_in};
use crate::diagnostic::Finding;
use crate::names::is_dns_subdomain;
use crate::yaml::Node;
use crate::{Mapping, ObjectRule};

pub(super) fn check(mapping: &Mapping, findings: &mut Vec<Finding>) {
    let Some(source) = served_candidate(mapping) else { return };
    let places = Places::default();
    let objects: Vec<Option<Object<'_>>> = places.objects(mapping, source).collect();
    for (index, ((node, _), object)) in mapping.written_objects().zip(&objects).enumerate() {
        let Some(object) = *object else { continue };
        let earlier = objects[..index].iter().flatten().filter(|earlier| same_kind(earlier.rule, object.rule));
        findings.extend(earlier.filter_map(|earlier| meeting(*earlier, object, source)).map(|found| {
            let name = node.at(&["template", "metadata", "name"]);
            finding(name.or(node.get("id")).unwrap_or(node), &found)
        }));
    }
}

fn same_kind(one: &ObjectRule, other: &ObjectRule) -> bool {
    one.kind.is_same_in_any_version(&other.kind)
}

/// Namespace and name.
type Place = (String, String);

/// Where the objects of a mapping are for a plain source of each namespace. A place is rendered once, with however many other mappings
/// this one is compared: there may be a thousand.
#[derive(Debug, Default)]
pub struct Places([OnceCell<Vec<Option<Place>>>; NAMESPACES.len()]);

/// An object of a mapping, and where it is.
#[derive(Clone, Copy)]
struct Object<'m> {
    mapping: &'m Mapping,
    rule: &'m ObjectRule,
    place: &'m Place,
}

impl Places {
    /// The objects of the mapping that these places are of; `None`: one whose place cannot be told.
    fn objects<'m>(
        &'m self,
        mapping: &'m Mapping,
        source: Candidate<'static>,
    ) -> impl Iterator<Item = Option<Object<'m>>> {
        let known = NAMESPACES.into_iter().zip(&self.0).filter(move |(namespace, _)| *namespace == source.namespace);
        known.flat_map(move |(_, known)| {
            let rules = mapping.objects.iter();
            let places = known.get_or_init(|| rules.clone().map(|rule| place(mapping, rule, source)).collect());
            rules.zip(places).map(move |(rule, place)| place.as_ref().map(|place| Object { mapping, rule, place }))
        })
    }
}

/// Two sources, an object of each, and the name that both objects get.
struct Collision<'m> {
    first: (&'m ObjectRule, String),
    second: (&'m ObjectRule, &'static str),
    place: String,
}

/// What two mappings of the same clusters can both write, in words; `None` where they get along.
pub fn common_object((one, ours): (&Mapping, &Places), (other, theirs): (&Mapping, &Places)) -> Option<String> {
    let alike = one.target == other.target && one.target_rule.is_none() && other.target_rule.is_none();
    let is_served = |source: &Candidate<'_>| other.source.namespaces.matches(source.namespace);
    let source = served_candidate(one).filter(is_served).filter(|_| alike)?;
    let theirs: Vec<Object<'_>> = theirs.objects(other, source).flatten().collect();
    ours.objects(one, source).flatten().find_map(|ours| {
        theirs.iter().filter(|theirs| same_kind(ours.rule, theirs.rule)).find_map(|theirs| {
            let at_once = (ours.place == theirs.place).then(|| format!("{}/{}", ours.place.0, ours.place.1));
            let shared = at_once.or_else(|| meeting(ours, *theirs, source).map(|found| found.place))?;
            Some(format!("{} `{shared}`", ours.rule.kind.kind))
        })
    })
}

fn meeting<'m>(one: Object<'m>, other: Object<'m>, source: Candidate<'static>) -> Option<Collision<'m>> {
    taking_the_name(one, other, source).or_else(|| taking_the_name(other, one, source))
}

/// A source whose object `first` gets the name that another source's object `second` has.
fn taking_the_name<'m>(first: Object<'m>, second: Object<'m>, source: Candidate<'static>) -> Option<Collision<'m>> {
    let wanted = second.place;
    // What the rule puts around a source's name is taken off the name that is wanted.
    let (before, after) = first.place.1.split_once(source.name)?;
    let name = wanted.1.strip_prefix(before)?.strip_suffix(after)?;
    let rival = Candidate { name, ..source };
    let meets = is_dns_subdomain(name) && name != source.name && place(first.mapping, first.rule, rival)? == *wanted;
    meets.then(|| Collision {
        first: (first.rule, name.to_owned()),
        second: (second.rule, source.name),
        place: format!("{}/{}", wanted.0, wanted.1),
    })
}

fn place(mapping: &Mapping, rule: &ObjectRule, source: Candidate<'_>) -> Option<Place> {
    placed(mapping, Named::of(rule), source, &source_stand_in(mapping, Named::of(rule)))
}

fn finding(node: &Node, found: &Collision<'_>) -> Finding {
    let ((first, one), (second, other)) = (&found.first, found.second);
    let message = format!(
        "objects `{}` and `{}` can get one name for two sources: the second of them would wait in `Conflict`",
        second.id, first.id
    );
    let theirs = if second.shared { "of all sources".to_owned() } else { format!("of the source `{other}`") };
    Finding::new("SE0708", node.headline(), message)
        .label(format!("both can be `{}`", found.place))
        .help(
            "give both names an ending, and neither the ending of the other: `{{ placement.name }}-db` and `{{ placement.name }}-ca`",
        )
        .note(format!("for example `{}` {theirs} and `{}` of the source `{one}`", second.id, first.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::mapping;

    #[test]
    fn a_place_is_rendered_once_with_however_many_mappings_it_is_compared() {
        let text = "apiVersion: sync-engine.dev/v1alpha1\nkind: Mapping\nmetadata: {name: a}\nspec:\n  \
                    source: {apiExport: {name: a}, resource: things.v1.example.com}\n  \
                    objects:\n    - {id: o, template: {apiVersion: v1, kind: ConfigMap}}\n";
        let (mapping, places) = (mapping(text), Places::default());
        let source = served_candidate(&mapping).expect("a source");
        let looked_at = || {
            let objects = places.objects(&mapping, source).flatten();
            objects.map(|object| std::ptr::from_ref(object.place)).collect::<Vec<_>>()
        };
        let first = looked_at();
        assert_eq!((first.len(), looked_at()), (1, first));
    }
}
