//! SE0708: whether two objects of one kind can get one name for two sources. As with placements, what is reported is a
//! pair that really meets.

use super::places::{Candidate, Named, placed, served_candidate, source_stand_in};
use crate::diagnostic::Finding;
use crate::names::is_dns_subdomain;
use crate::yaml::Node;
use crate::{Mapping, ObjectRule};

pub(super) fn check(mapping: &Mapping, findings: &mut Vec<Finding>) {
    for (index, (node, rule)) in mapping.written_objects().enumerate() {
        let earlier = mapping.objects[..index].iter().filter(|earlier| same_kind(earlier, rule));
        findings.extend(earlier.filter_map(|earlier| collision(mapping, earlier, rule)).map(|found| {
            let name = node.at(&["template", "metadata", "name"]);
            finding(name.or(node.get("id")).unwrap_or(node), &found)
        }));
    }
}

fn same_kind(one: &ObjectRule, other: &ObjectRule) -> bool {
    one.kind.is_same_in_any_version(&other.kind)
}

/// An object of a mapping.
#[derive(Clone, Copy)]
struct Object<'m> {
    mapping: &'m Mapping,
    rule: &'m ObjectRule,
}

/// Two sources, an object of each, and the name that both objects get.
struct Collision<'m> {
    first: (&'m ObjectRule, String),
    second: (&'m ObjectRule, &'static str),
    place: String,
}

fn collision<'m>(mapping: &'m Mapping, one: &'m ObjectRule, other: &'m ObjectRule) -> Option<Collision<'m>> {
    let source = served_candidate(mapping)?;
    meeting(Object { mapping, rule: one }, Object { mapping, rule: other }, source)
}

/// What two mappings of the same clusters can both write, in words; `None` where they get along.
pub fn common_object(one: &Mapping, other: &Mapping) -> Option<String> {
    let source = served_candidate(one).filter(|source| other.source.namespaces.matches(source.namespace))?;
    let alike = one.target == other.target && one.target_rule.is_none() && other.target_rule.is_none();
    let pairs = one.objects.iter().flat_map(|rule| other.objects.iter().map(move |theirs| (rule, theirs)));
    let mut same = pairs.filter(|(rule, theirs)| alike && same_kind(rule, theirs));
    same.find_map(|(rule, theirs)| {
        let (ours, theirs) = (Object { mapping: one, rule }, Object { mapping: other, rule: theirs });
        let here = place(ours, source)?;
        let at_once = (place(theirs, source)? == here).then(|| format!("{}/{}", here.0, here.1));
        let shared = at_once.or_else(|| meeting(ours, theirs, source).map(|found| found.place))?;
        Some(format!("{} `{shared}`", rule.kind.kind))
    })
}

fn meeting<'m>(one: Object<'m>, other: Object<'m>, source: Candidate<'static>) -> Option<Collision<'m>> {
    taking_the_name(one, other, source).or_else(|| taking_the_name(other, one, source))
}

/// A source whose object `first` gets the name that another source's object `second` has.
fn taking_the_name<'m>(first: Object<'m>, second: Object<'m>, source: Candidate<'static>) -> Option<Collision<'m>> {
    let wanted = place(second, source)?;
    let (_, own) = place(first, source)?;
    // What the rule puts around a source's name is taken off the name that is wanted.
    let (before, after) = own.split_once(source.name)?;
    let name = wanted.1.strip_prefix(before)?.strip_suffix(after)?;
    let rival = Candidate { name, ..source };
    let meets = is_dns_subdomain(name) && name != source.name && place(first, rival)? == wanted;
    meets.then(|| Collision {
        first: (first.rule, name.to_owned()),
        second: (second.rule, source.name),
        place: format!("{}/{}", wanted.0, wanted.1),
    })
}

fn place(object: Object<'_>, source: Candidate<'_>) -> Option<(String, String)> {
    let Object { mapping, rule } = object;
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
