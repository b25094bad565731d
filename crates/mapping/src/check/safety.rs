//! SE07: what a consumer must not decide.

use super::decided;
use super::reserved::{Value, Why, fields, meaning};
use super::target::Place;
use super::types::{Shape, Type};
use crate::diagnostic::Finding;
use crate::expression::Root;
use crate::schema::{DEPTH, Field, Form, Schema};
use crate::yaml::{Node, closest};
use crate::{Kind, Resource};

pub(super) const RBAC: &str = "rbac.authorization.k8s.io";

/// Kubernetes' own kinds by their group, and whether they live in namespaces.
const BUILT_IN: [(&str, bool, &str); 27] = [
    ("", true, "Binding ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate"),
    ("", true, "ReplicationController ResourceQuota Secret Service ServiceAccount"),
    ("apps", true, "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet"),
    ("autoscaling", true, "HorizontalPodAutoscaler"),
    ("batch", true, "CronJob Job"),
    ("coordination.k8s.io", true, "Lease LeaseCandidate"),
    ("discovery.k8s.io", true, "EndpointSlice"),
    ("events.k8s.io", true, "Event"),
    ("networking.k8s.io", true, "Ingress NetworkPolicy"),
    ("policy", true, "PodDisruptionBudget"),
    (RBAC, true, "Role RoleBinding"),
    ("resource.k8s.io", true, "ResourceClaim ResourceClaimTemplate"),
    ("storage.k8s.io", true, "CSIStorageCapacity"),
    ("", false, "Namespace Node PersistentVolume"),
    ("admissionregistration.k8s.io", false, "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", false, "MutatingWebhookConfiguration ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", false, "ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration"),
    ("apiextensions.k8s.io", false, "CustomResourceDefinition"),
    ("apiregistration.k8s.io", false, "APIService"),
    ("certificates.k8s.io", false, "CertificateSigningRequest ClusterTrustBundle"),
    ("flowcontrol.apiserver.k8s.io", false, "FlowSchema PriorityLevelConfiguration"),
    ("networking.k8s.io", false, "IPAddress IngressClass ServiceCIDR"),
    ("node.k8s.io", false, "RuntimeClass"),
    (RBAC, false, "ClusterRole ClusterRoleBinding"),
    ("resource.k8s.io", false, "DeviceClass ResourceSlice"),
    ("scheduling.k8s.io", false, "PriorityClass"),
    ("storage.k8s.io", false, "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass"),
];

/// Each of them with its group.
fn built_in() -> impl Iterator<Item = (&'static str, bool, &'static str)> {
    BUILT_IN.into_iter().flat_map(|(group, within, names)| names.split(' ').map(move |name| (group, within, name)))
}

/// Where Kubernetes' own kinds have the spec of their pods.
const PODS: [(&str, &str, &[&str]); 9] = [
    ("", "Pod", &["spec"]),
    ("", "PodTemplate", &["template", "spec"]),
    ("", "ReplicationController", &["spec", "template", "spec"]),
    ("apps", "DaemonSet", &["spec", "template", "spec"]),
    ("apps", "Deployment", &["spec", "template", "spec"]),
    ("apps", "ReplicaSet", &["spec", "template", "spec"]),
    ("apps", "StatefulSet", &["spec", "template", "spec"]),
    ("batch", "CronJob", &["spec", "jobTemplate", "spec", "template", "spec"]),
    ("batch", "Job", &["spec", "template", "spec"]),
];

/// Whether a group is one of Kubernetes' own.
pub(crate) fn is_kubernetes_group(group: &str) -> bool {
    BUILT_IN.iter().any(|(own, ..)| *own == group)
}

/// Whether objects of a kind live in namespaces; `None`: nothing tells it.
fn is_namespaced(kind: &Kind, schema: Option<&Schema>) -> Option<bool> {
    let is_clusters = built_in().any(|one| one == (kind.group.as_str(), false, kind.kind.as_str()));
    let known = if is_clusters { Some(false) } else { kind.is_built_in().then_some(true) };
    schema.and_then(|schema| schema.namespaced).or(known)
}

/// What a kind of Kubernetes' own groups probably means that is none of theirs. Later releases have further kinds, so that no name
/// is wrong by itself.
pub(super) fn meant(kind: &Kind) -> Option<String> {
    let known = || built_in().map(|(group, _, name)| (group, name));
    let (group, name) = (kind.group.as_str(), kind.kind.as_str());
    let may_be_own = kind.is_built_in() || group.strip_suffix(".k8s.io").is_some_and(|own| !own.contains('.'));
    if !may_be_own || known().any(|one| one == (group, name)) {
        return None;
    }
    let elsewhere = known().find(|(_, other)| *other == name);
    let similar = || {
        let names: Vec<&str> = known().filter(|(of, _)| *of == group).map(|(_, name)| name).collect();
        closest(name, &names).map(|name| (group, name))
    };
    elsewhere.or_else(similar).map(|(group, name)| match group {
        "" => format!("`{name}` of `v1`"),
        group => format!("`{name}` of the group `{group}`"),
    })
}

/// A kind that is cluster-scoped, and so cannot be placed.
pub(super) fn scope(kind: &Kind, schema: Option<&Schema>, node: &Node, findings: &mut Vec<Finding>) {
    if is_namespaced(kind, schema) == Some(false) {
        let message = format!("{kind} is cluster-scoped: all tenants would share it");
        findings.push(
            Finding::new("SE0706", node.headline(), message)
                .label("cluster-scoped")
                .help("write kinds that live in a namespace; let the cluster's owner make this one beforehand"),
        );
    }
}

/// Objects beside their sources are where their sources are: in the same namespace, or in none.
pub(super) fn scope_beside(
    kind: &Kind,
    schema: Option<&Schema>,
    (resource, source): (&Resource, Option<&Schema>),
    node: &Node,
    findings: &mut Vec<Finding>,
) {
    // Nobody has the schema of a workspace at hand.
    let of_source = source.and_then(|schema| schema.namespaced).or(resource.is_workspace().then_some(false));
    let (what, why) = match (is_namespaced(kind, schema), of_source) {
        (Some(false), Some(true)) => ("is cluster-scoped", "the source lives in a namespace"),
        (Some(true), Some(false)) => ("lives in a namespace", "the source is cluster-scoped"),
        _ => return,
    };
    findings.push(
        Finding::new("SE0706", node.headline(), format!("{kind} {what}, and {why}"))
            .help("an object beside its source has the source's namespace: choose a kind of the same scope"),
    );
}

/// What a consumer decides at a place.
pub(super) fn leaf(kind: &Kind, node: &Node, place: &Place<'_>, types: &[Type<'_>], findings: &mut Vec<Finding>) {
    let path = &place.path[..];
    if place.is_free_text {
        return;
    }
    let first = path.first().map(String::as_str).unwrap_or_default();
    if kind.group == RBAC && matches!(first, "subjects" | "roleRef" | "rules") {
        let message = format!("what a consumer writes reaches `{}` of {}", path.join("."), kind.kind);
        findings.push(
            Finding::new("SE0704", node.headline(), message)
                .label("the consumer decides this")
                .help("write who may do what as literals; names can come from `placement`"),
        );
        return;
    }
    let last = path.last().map(String::as_str).unwrap_or_default();
    if first != "metadata" && (is_namespace(last) || last == "kind") {
        findings.push(reaching(node, &path.join("."), if last == "kind" { "kind" } else { "namespace" }));
    }
    let is_scalar = |one: &Type<'_>| !one.form().meets(Form::Map) && !one.form().meets(Form::List);
    if fills_pods(kind, path) && !types.is_empty() && !types.iter().all(is_scalar) {
        findings.push(pods(node, &path.join(".")));
    } else {
        decided::check_name(kind, node, path, types, findings);
    }
}

/// Whether a field of this name says a namespace.
pub fn is_namespace(name: &str) -> bool {
    named(name, Form::Text) == Some(Why::Reach)
}

fn named(name: &str, form: Form) -> Option<Why> {
    super::reserved::named(name, &Value { form, keys: Vec::new() })
}

pub(super) fn reaching(node: &Node, path: &str, what: &str) -> Finding {
    let help = if what == "kind" {
        "write the kind as a literal"
    } else {
        "`${{ placement.namespace }}` is the tenant's own; `without(…)` leaves a field out"
    };
    let message = format!("what a consumer writes reaches a {what}: `{path}`");
    Finding::new("SE0703", node.headline(), message).label("the consumer decides this").help(help)
}

pub(super) fn reading(node: &Node) -> Finding {
    let message = "what is read back can be another tenant's: nothing in its namespace or name tells tenants apart";
    Finding::new("SE0711", node.headline(), message).label("two tenants can read one object by this").help(
        "put `{{ placement.name }}` into `from.name`, or `short_hash(workspace.cluster, source.metadata.namespace)` into the \
         namespace of the placement, as the default has it",
    )
}

pub(super) fn pods(node: &Node, path: &str) -> Finding {
    let message = format!("a consumer can fill a pod template: `{path}`");
    Finding::new("SE0705", node.headline(), message)
        .label("pods of the consumer's making would run on the target")
        .help("pick the fields that are safe with `only(…)`, or leave this one out with `without(…)`")
}

/// Where a kind of Kubernetes' own has the spec of its pods.
pub(super) fn pod_spec(kind: &Kind) -> Option<&'static [&'static str]> {
    let found = PODS.iter().find(|(group, name, _)| kind.group == *group && kind.kind == *name);
    found.map(|(.., spec)| *spec)
}

/// Whether what is written at a path decides about pods: it stands at their spec, above it, or holds their containers.
fn fills_pods(kind: &Kind, path: &[String]) -> bool {
    let Some(spec) = pod_spec(kind) else { return false };
    let within = path.get(spec.len()..).unwrap_or_default();
    path.iter().zip(spec).all(|(one, other)| one == other)
        && match within {
            [] => true,
            [field] => named(field, Form::List) == Some(Why::Pods),
            _ => false,
        }
}

/// What a consumer decides at a place, and what a whole subtree of the consumer's brings along.
pub(super) fn subtree<'s>(
    kind: &Kind,
    node: &Node,
    types: &[Type<'s>],
    place: &Place<'s>,
    findings: &mut Vec<Finding>,
) {
    if place.is_free_text {
        return;
    }
    leaf(kind, node, place, types, findings);
    for one in types {
        match one {
            Type::Of(shape) if shape.path.split(['.', '[']).next() == Some(Root::Source.as_str()) => {
                Brought { kind, node, findings }.all(shape, place, DEPTH);
            }
            Type::List(items) | Type::Entry(items) => subtree(kind, node, items, &place.item(), findings),
            Type::Merged(layers) => {
                let consumers = layers.iter().filter(|layer| layer.is_consumers);
                consumers.for_each(|layer| subtree(kind, node, &layer.types, place, findings));
            }
            Type::Map { fields, .. } => {
                for (name, field) in fields.iter().filter(|(_, field)| field.is_consumers) {
                    let view = place.view.and_then(|view| view.field(name).known());
                    subtree(kind, node, &field.types, &place.under(name, view), findings);
                }
            }
            _ => {}
        }
    }
}

/// A walk through what a subtree brings to an object of a kind.
struct Brought<'b> {
    kind: &'b Kind,
    node: &'b Node,
    findings: &'b mut Vec<Finding>,
}

impl Brought<'_> {
    fn all<'s>(&mut self, shape: &Shape<'s>, to: &Place<'s>, depth: usize) {
        if depth == 0 {
            return;
        }
        if let Some(item) = shape.view.item() {
            self.all(&Shape::new(item, format!("{}[]", shape.path)), &to.item(), depth - 1);
        }
        for (name, view) in shape.view.fields().filter(|(name, _)| shape.keeps(name)) {
            let view_of_target = match to.view.map(|to| to.field(name)) {
                Some(Field::Known(to)) => Some(to),
                Some(Field::Unknown) => continue,
                Some(Field::Open) | None => None,
            };
            let below = shape.field(name, view);
            let to = to.under(name, view_of_target);
            if to.is_free_text {
                continue;
            }
            let value = Value { form: view.form(), keys: decided::keys(view) };
            match meaning(fields(&self.kind.group, &self.kind.kind), &to.path.join("."), &value) {
                Some(why) if matches!(why, Why::Pods | Why::Reach) || decided::is_free(view, &[], depth) => {
                    self.findings.push(decided::named(self.node, why, &below.path));
                }
                _ => self.all(&below, &to, depth - 1),
            }
        }
    }
}
