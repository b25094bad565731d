//! SE0702 and SE0313: whether two sources can meet at one place, at one time or one after the other. The rule is tried on sources
//! that tell weak rules apart, so that what is reported is a pair that really meets.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::coverage::reads_of_source;
use crate::diagnostic::Finding;
use crate::expression::{Base, Expr, NAMESPACE_READS, Path, Root, Scope, Segment, Text};
use crate::yaml::Node;
use crate::{
    Adopt, Direction, ForEach, Mapping, ObjectRule, OriginalOwner, RelatedRule, Side, SourceClusters, placement,
};

const CLUSTERS: [&str; 2] = ["2xcau5l8pb5n4bev", "1kd7fq0ntn2qv9ew"];

/// A path tells no workspaces apart: the next workspace of a name has the path of the one before. Nor does kcp's admission protect
/// the annotation `kcp.io/path` of a LogicalCluster from those who administer the workspace.
const PATH: &str = "root:acme";
const OTHER_PATH: &str = "root:other";

/// Namespaces and names that meet where a rule joins, shortens or simplifies them. The plain ones come first: the
/// simplest pair is the one to show.
pub(super) const NAMESPACES: [&str; 6] = ["default", "team", "team-a", "a", LONG_NAMESPACES[0], LONG_NAMESPACES[1]];
const NAMES: [&str; 7] = ["my-database", "a", "a-b", "b", "a.b", LONG_NAMES[0], LONG_NAMES[1]];

const LONG_NAMESPACES: [&str; 2] = [
    "a-namespace-with-a-name-as-long-as-kubernetes-lets-it-become-01",
    "a-namespace-with-a-name-as-long-as-kubernetes-lets-it-become-02",
];
const LONG_NAMES: [&str; 2] = [
    "a-database-with-a-name-as-long-as-the-longest-label-may-become1",
    "a-database-with-a-name-as-long-as-the-longest-label-may-become2",
];

/// A source that the rule is tried on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'n> {
    pub cluster: &'static str,
    pub path: &'static str,
    pub namespace: &'static str,
    pub name: &'n str,
}

pub(super) fn check(mapping: &Mapping, findings: &mut Vec<Finding>) {
    copies_of_tenants(mapping, findings);
    path(mapping, findings);
    let written = |field| mapping.spec.at(&["placement", field]);
    // The default rule is injective.
    let node = written("namespace").or(written("name"));
    match node.and_then(|node| Some(finding(node, &meeting(mapping, None)?))) {
        Some(found) => findings.push(found),
        // Copies of sources that meet are no second finding.
        None => {
            copies(mapping, findings);
            names(mapping, findings);
        }
    }
}

/// What gives an object a name of its own.
#[derive(Clone, Copy)]
pub(super) struct Named<'m> {
    text: &'m Text,
    each: Option<&'m ForEach>,
    /// It is in the namespace of its source.
    is_beside: bool,
}

impl<'m> Named<'m> {
    /// `None`: it has the name of the placement.
    pub fn of(rule: &'m ObjectRule) -> Option<Self> {
        Some(Self { text: rule.name.as_ref()?, each: rule.for_each.as_deref(), is_beside: false })
    }

    /// Of the copies of a related object; `None`: each has the name of its original.
    fn of_copies(rule: &'m RelatedRule) -> Option<Self> {
        let text = rule.to.name.as_ref().or(rule.from.name.as_ref())?;
        Some(Self { text, each: rule.for_each.as_deref(), is_beside: rule.direction == Direction::ToSource })
    }
}

/// SE0708: copies that are not shared need names that differ between sources, for two may name one original.
fn copies(mapping: &Mapping, findings: &mut Vec<Finding>) {
    let own = mapping.objects.iter().filter(|rule| !rule.shared).filter_map(|rule| rule.copy);
    for (node, rule) in own.filter_map(|copy| mapping.written_related().nth(copy.related)) {
        // Whether the lists of two sources share a name cannot be told, and only their consumer would meet it.
        if rule.direction == Direction::ToSource && rule.for_each.is_some() {
            continue;
        }
        let message =
            "two sources that name one object would each copy it to one name: the second would wait in `Conflict`";
        let at = node.at(&["to", "name"]).or(node.get("from")).unwrap_or(node);
        let finding = Finding::new("SE0708", at.headline(), message);
        let finding = finding.help(match (rule.direction, &rule.from.selector) {
            (Direction::ToTarget, None) => {
                "put `{{ placement.name }}` into `to.name`, or share one copy: `shared: Namespace`"
            }
            (Direction::ToTarget, Some(_)) => "share one copy: `shared: Namespace`",
            (Direction::ToSource, None) => "put `{{ placement.name }}` into `to.name`",
            (Direction::ToSource, Some(_)) => "read each by its name, and put `{{ placement.name }}` into `to.name`",
        });
        findings.extend(match Named::of_copies(rule) {
            None => Some(finding),
            named => meeting(mapping, named).map(|(first, second, place)| {
                finding.label(format!("both can be `{place}`")).note(format!("for example {first} and {second}"))
            }),
        });
    }
}

/// SE0702: all sources of a namespace have one shared copy, so that its original must be one as well. Nor does a consumer choose which
/// object of a namespace of several tenants the copy takes over.
fn copies_of_tenants(mapping: &Mapping, findings: &mut Vec<Finding>) {
    let Some(first) = served_candidate(mapping) else { return };
    for (node, rule) in common_copies(mapping) {
        let takes_it = |other: &Candidate<'_>| meet_in_copy(mapping, rule, first, *other);
        if let Some(other) = candidates(mapping).filter(|one| one.name == first.name).find(takes_it) {
            let namespace = placement::namespace(&mapping.placement.namespace, &reading(mapping, rule, first));
            let written = node.get("adopt").or(node.get("shared")).unwrap_or(node);
            findings.push(finding(written, &(first, other, namespace.unwrap_or_default())));
        }
    }
}

/// The id of such a copy that sources of two clusters of a provider would have.
pub(crate) fn copy_of_clusters(mapping: &Mapping) -> Option<&str> {
    let first = served_candidate(mapping)?;
    let other = Candidate { cluster: CLUSTERS[1], ..first };
    let (_, rule) = common_copies(mapping).find(|(_, rule)| meet_in_copy(mapping, rule, first, other))?;
    Some(&rule.id)
}

/// Copies that are not of one source alone, or can take the place of what is nobody's.
fn common_copies(mapping: &Mapping) -> impl Iterator<Item = (&Arc<Node>, &RelatedRule)> {
    let takes_over = |rule: &ObjectRule| rule.adopt == Adopt::IfUnowned && rule.kind.side == Side::Target;
    let is_common = move |rule: &&ObjectRule| rule.shared || takes_over(rule);
    let copies = mapping.objects.iter().filter(is_common).filter_map(|rule| rule.copy);
    copies.filter_map(move |copy| mapping.written_related().nth(copy.related))
}

/// Whether the copies of two sources' objects are one.
fn meet_in_copy(mapping: &Mapping, rule: &RelatedRule, first: Candidate<'_>, other: Candidate<'_>) -> bool {
    let [of_first, of_other] = [first, other].map(|candidate| reading(mapping, rule, candidate));
    let apart = |text: &Text| text.tells_apart(&of_first, &of_other);
    let from_elsewhere = rule.from.namespace.as_ref().map_or(first.namespace != other.namespace, apart);
    let name = rule.to.name.as_ref().or(rule.from.name.as_ref());
    (first.cluster != other.cluster || from_elsewhere)
        && !apart(&mapping.placement.namespace)
        && !name.is_some_and(apart)
}

/// SE0313: kcp tells a path late, and who administers a workspace can change it. The namespaces that the rule gave before would be
/// its source's no longer, and what is in them would stay when the source is released.
fn path(mapping: &Mapping, findings: &mut Vec<Finding>) {
    let is_cluster = |segment: &Segment| matches!(segment, Segment::Key(key) if key == "cluster");
    let reads_path =
        |path: &Path| path.base == Base::Root(Root::Workspace) && !path.segments.first().is_some_and(is_cluster);
    let node = mapping.spec.at(&["placement", "namespace"]);
    let mut read = mapping.placement.namespace.expressions().into_iter().flat_map(Expr::paths);
    if let Some(node) = node.filter(|_| read.any(reads_path)) {
        let finding = Finding::new("SE0313", node.headline(), "a namespace rule reads what can change");
        findings.push(finding.label("`workspace.path` can change").help(NAMESPACE_READS));
    }
}

/// Objects that are named by a template of their own.
fn names(mapping: &Mapping, findings: &mut Vec<Finding>) {
    for (node, rule) in mapping.written_objects() {
        let name = node.at(&["template", "metadata", "name"]);
        let own = rule.name.as_ref().filter(|name| !rule.shared && name.literal().is_none());
        if let (Some(node), Some(_)) = (name, own)
            && let Some(pair) = meeting(mapping, Named::of(rule))
        {
            findings.push(finding(node, &pair));
        }
    }
}

/// Two sources, and the place where they meet.
type Pair = (Candidate<'static>, Candidate<'static>, String);

/// The first two sources whose objects get one namespace and name.
fn meeting(mapping: &Mapping, named: Option<Named<'_>>) -> Option<Pair> {
    let spec = source_stand_in(mapping, named);
    let mut taken: BTreeMap<(&str, String, String), Candidate<'static>> = BTreeMap::new();
    for candidate in candidates(mapping) {
        let Some((mut namespace, name)) = placed(mapping, named, candidate, &spec) else { continue };
        let mut cluster = "";
        if named.is_some_and(|named| named.is_beside) {
            (cluster, namespace) = (candidate.cluster, candidate.namespace.to_owned());
        }
        let shown = format!("{namespace}/{name}");
        if let Some(first) = taken.insert((cluster, namespace, name), candidate) {
            return Some((first, candidate, shown));
        }
    }
    None
}

/// A single cluster tells no clusters apart, and needs not.
fn candidates(mapping: &Mapping) -> impl Iterator<Item = Candidate<'static>> {
    let clusters = match mapping.source.clusters {
        SourceClusters::ApiExport(_) => &CLUSTERS[..],
        SourceClusters::Provider(_) => &CLUSTERS[..1],
    };
    let served = |namespace: &&&str| mapping.source.namespaces.matches(namespace);
    let namespaces: Vec<&'static str> = NAMESPACES.iter().filter(served).copied().collect();
    let of = move |name: &'static str| {
        let namespaces = namespaces.clone();
        namespaces.into_iter().flat_map(move |namespace| {
            clusters.iter().map(move |cluster| Candidate { cluster, path: PATH, namespace, name })
        })
    };
    NAMES.into_iter().flat_map(of)
}

/// A source with a name as long as it may become, in a served namespace with a long name if there is one.
pub(super) fn longest_candidate<'n>(mapping: &Mapping, name: &'n str) -> Option<Candidate<'n>> {
    let plain = served_candidate(mapping)?;
    let long = LONG_NAMESPACES.into_iter().find(|namespace| mapping.source.namespaces.matches(namespace));
    Some(Candidate { name, namespace: long.unwrap_or(plain.namespace), cluster: plain.cluster, path: plain.path })
}

/// A plain source of a namespace that is served.
pub(super) fn served_candidate(mapping: &Mapping) -> Option<Candidate<'static>> {
    candidates(mapping).next()
}

/// Namespace and name of a source's objects, or of the one object of a rule.
pub(super) fn placed(
    mapping: &Mapping,
    named: Option<Named<'_>>,
    candidate: Candidate<'_>,
    spec: &Map<String, Value>,
) -> Option<(String, String)> {
    let mut scope = scope(mapping, candidate, spec.clone());
    let place = mapping.placement.place(&scope).ok()?;
    let Some(Named { text: name, each, .. }) = named else {
        return Some((place.namespace, place.name));
    };
    if let Some(each) = each {
        // Two sources may well have an item in common.
        scope.set_local(&each.item, Arc::new(stand_in(&[name], &Base::Local(each.item.clone()))));
    }
    scope.set(Root::Placement, Arc::new(json!({"namespace": place.namespace, "name": place.name})));
    Some((place.namespace, name.render(&scope).ok()?))
}

/// What expressions read of a source that has no place yet.
pub(super) fn scope(mapping: &Mapping, candidate: Candidate<'_>, mut source: Map<String, Value>) -> Scope {
    source.insert("metadata".to_owned(), json!({"namespace": candidate.namespace, "name": candidate.name}));
    let mut scope = Scope::new();
    scope.set(Root::Source, Arc::new(Value::Object(source)));
    scope.set(Root::Workspace, Arc::new(json!({"cluster": candidate.cluster, "path": candidate.path})));
    scope.set(Root::Target, mapping.constants.target.clone());
    scope.set(Root::Mapping, mapping.constants.mapping.clone());
    scope
}

/// Fields of the source that the rule reads beside its identity: two sources may well have the same there.
pub(super) fn source_stand_in(mapping: &Mapping, named: Option<Named<'_>>) -> Map<String, Value> {
    let placement = &mapping.placement;
    let texts = [&placement.namespace, &placement.name].into_iter().chain(named.map(|named| named.text));
    match stand_in(&texts.collect::<Vec<_>>(), &Base::Root(Root::Source)) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// A value that has the same word wherever the texts read it.
pub(super) fn stand_in(texts: &[&Text], base: &Base) -> Value {
    let mut value = Value::Object(Map::new());
    // The identity of a source is left out: it is what differs.
    let is_identity = |path: &Path| matches!(path.segments.first(), Some(Segment::Key(key)) if key == "metadata");
    let paths = texts.iter().flat_map(|text| text.expressions()).flat_map(Expr::paths);
    let read = paths.filter(|path| path.base == *base && !(*base == Base::Root(Root::Source) && is_identity(path)));
    for path in read {
        let keys = path.segments.iter().map(|segment| match segment {
            Segment::Key(key) => Some(key.as_str()),
            Segment::Index(_) => None,
        });
        if let Some(keys) = keys.collect::<Option<Vec<_>>>() {
            put(&mut value, keys.into_iter());
        }
    }
    value
}

/// Two sources of two tenants, which say the same in everything that they decide: of two workspaces, or, where all are in
/// one cluster, of two namespaces.
fn tenants(mapping: &Mapping) -> [Candidate<'static>; 2] {
    let plain = Candidate { cluster: CLUSTERS[0], path: PATH, namespace: NAMESPACES[0], name: NAMES[0] };
    let first = served_candidate(mapping).unwrap_or(plain);
    let elsewhere = candidates(mapping).find(|one| one.namespace != first.namespace);
    let second = match (&mapping.source.clusters, elsewhere) {
        (SourceClusters::ApiExport(_), _) => Candidate { cluster: CLUSTERS[1], ..first },
        (SourceClusters::Provider(_), Some(one)) if !mapping.source.resource.is_workspace() => one,
        (SourceClusters::Provider(_), _) => Candidate { name: NAMES[1], ..first },
    };
    [first, second]
}

/// Whose the objects are that a rule reads on the target. A recorded document may tell them apart by paths, as earlier builds let
/// it: it goes on to read them, for what it made of them would be deleted otherwise.
pub(crate) fn owner_of(mapping: &Mapping, rule: &RelatedRule) -> OriginalOwner {
    let [one, other] = tenants(mapping);
    let path = if one.cluster == other.cluster { one.path } else { OTHER_PATH };
    owner_among(mapping, rule, [one, Candidate { path, ..other }])
}

/// Whether nothing that a rule is written with tells whose the objects are that it reads.
pub(super) fn is_anybodys(mapping: &Mapping, rule: &RelatedRule) -> bool {
    owner_among(mapping, rule, tenants(mapping)) == OriginalOwner::Unknown
}

/// The rule is tried on two tenants.
fn owner_among(mapping: &Mapping, rule: &RelatedRule, tenants: [Candidate<'_>; 2]) -> OriginalOwner {
    if rule.direction == Direction::ToTarget || mapping.is_beside() {
        return OriginalOwner::Tenant;
    }
    let [one, other] = tenants.map(|candidate| reading(mapping, rule, candidate));
    let apart = |text: &Text| text.tells_apart(&one, &other);
    let namespace = rule.from.namespace.as_ref();
    if apart(namespace.unwrap_or(&mapping.placement.namespace)) || rule.from.name.as_ref().is_some_and(apart) {
        return OriginalOwner::Tenant;
    }
    let is_written = |text: &Text| text.literal().is_some();
    let is_placement = |namespace: &Text| mapping.placement.namespace.literal() == namespace.literal();
    match namespace.filter(|namespace| is_written(namespace) && !is_placement(namespace)) {
        Some(_) if rule.from.name.as_ref().is_none_or(is_written) => OriginalOwner::Provider,
        _ => OriginalOwner::Unknown,
    }
}

/// Whether two tenants of one cluster can read a related object in one namespace of it.
pub(super) fn share_namespace(mapping: &Mapping, rule: &RelatedRule, namespace: &Text) -> bool {
    let tenants = tenants(mapping);
    let [one, other] = tenants.map(|candidate| reading(mapping, rule, candidate));
    tenants[0].cluster == tenants[1].cluster && !namespace.tells_apart(&one, &other)
}

/// What the places of a related object read of a source. What two tenants write may well be the same.
fn reading(mapping: &Mapping, rule: &RelatedRule, candidate: Candidate<'_>) -> Scope {
    let mut read: Vec<_> = reads_of_source(mapping).into_iter().map(|read| read.path).collect();
    read.sort_by_key(|path| std::cmp::Reverse(path.len()));
    let mut source = json!({});
    for path in read.iter().filter(|path| path.first() != Some(&"metadata")) {
        put(&mut source, path.iter().copied());
    }
    let Value::Object(source) = source else { return Scope::new() };
    let mut scope = scope(mapping, candidate, source);
    let placement = &mapping.placement;
    let place = json!({
        "namespace": placement::namespace(&placement.namespace, &scope).ok(),
        "name": placement.name(&scope).ok(),
    });
    scope.set(Root::Placement, Arc::new(place));
    if let Some(each) = &rule.for_each {
        let texts: Vec<_> = rule.from.namespace.iter().chain(&rule.from.name).collect();
        scope.set_local(&each.item, Arc::new(stand_in(&texts, &Base::Local(each.item.clone()))));
    }
    for (name, template) in &mapping.vars {
        let evaluated = template.evaluate(&scope);
        scope.set_var(name, evaluated);
    }
    scope
}

/// Puts a word at a path, unless something is there.
pub(super) fn put<'k>(mut at: &mut Value, keys: impl Iterator<Item = &'k str>) {
    for key in keys {
        let Value::Object(fields) = at else { return };
        at = fields.entry(key).or_insert_with(|| json!({}));
    }
    if at.as_object().is_some_and(Map::is_empty) {
        *at = json!("same");
    }
}

fn finding(node: &Node, (first, second, place): &Pair) -> Finding {
    let part = match (first.cluster == second.cluster, first.namespace == second.namespace) {
        (false, _) => {
            "`short_hash(workspace.cluster, source.metadata.namespace)` in the namespace tells workspaces apart"
        }
        (true, false) => "`short_hash(workspace.cluster, source.metadata.namespace)` tells namespaces apart",
        (true, true) => "`short_hash(source.metadata.name)` beside a shortened name tells names apart",
    };
    Finding::new("SE0702", node.headline(), "two sources can meet at one place, and one would overwrite the other")
        .label(format!("both get `{place}`"))
        .help(part)
        .note(format!("for example {first} and {second}"))
}

impl fmt::Display for Candidate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}/{}` of workspace {}", self.namespace, self.name, self.cluster)
    }
}
