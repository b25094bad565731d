//! SE07: what a consumer must not decide.

use super::target::Place;
use super::types::{Shape, Type};
use crate::mapping::Kind;
use crate::mapping::diagnostic::Finding;
use crate::mapping::expression::{Base, Root};
use crate::mapping::schema::{Field, Form, Schema, View};
use crate::yaml::Node;

/// Kinds of Kubernetes' own that live in no namespace.
const CLUSTER_SCOPED: [(&str, &str); 16] = [
    ("", "Namespace"),
    ("", "Node"),
    ("", "PersistentVolume"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
    ("networking.k8s.io", "IngressClass"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "StorageClass"),
];

/// Where Kubernetes' own kinds have the spec of their pods.
const PODS: [(&str, &str, &[&str]); 7] = [
    ("", "Pod", &["spec"]),
    ("apps", "DaemonSet", &["spec", "template", "spec"]),
    ("apps", "Deployment", &["spec", "template", "spec"]),
    ("apps", "ReplicaSet", &["spec", "template", "spec"]),
    ("apps", "StatefulSet", &["spec", "template", "spec"]),
    ("batch", "CronJob", &["spec", "jobTemplate", "spec", "template", "spec"]),
    ("batch", "Job", &["spec", "template", "spec"]),
];

/// Fields that hold pods, or parts of them, wherever operators have them.
const POD_FIELDS: [&str; 10] = [
    "containers",
    "ephemeralContainers",
    "extraContainers",
    "initContainers",
    "podSpec",
    "podTemplate",
    "podTemplateSpec",
    "sidecarContainers",
    "sidecars",
    "statefulSet",
];

/// Keys under which any text stands, whatever their names.
const FREE_TEXT: [&str; 5] = ["annotations", "binaryData", "data", "labels", "stringData"];

/// Levels of a consumer's subtree that are looked through.
const DEPTH: usize = 24;

/// A kind that lives in no namespace, and so cannot be placed.
pub(super) fn scope(kind: &Kind, schema: Option<&Schema>, node: &Node, findings: &mut Vec<Finding>) {
    let known = CLUSTER_SCOPED.contains(&(kind.group.as_str(), kind.kind.as_str()));
    let namespaced = schema.and_then(|schema| schema.namespaced).unwrap_or(!known);
    if !namespaced {
        let message = format!("{kind} is cluster-scoped: all tenants would share it");
        findings.push(
            Finding::new("SE0706", node.headline(), message)
                .label("lives in no namespace")
                .help("write kinds that live in a namespace; let the cluster's owner make this one beforehand"),
        );
    }
}

/// What a consumer decides at a leaf of a template.
pub(super) fn leaf(kind: &Kind, node: &Node, path: &[String], types: &[Type<'_>], findings: &mut Vec<Finding>) {
    if path.iter().any(|key| FREE_TEXT.contains(&key.as_str())) {
        return;
    }
    let first = path.first().map(String::as_str).unwrap_or_default();
    if kind.group == "rbac.authorization.k8s.io" && matches!(first, "subjects" | "roleRef" | "rules") {
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
    }
}

/// Whether a field of this name says a namespace.
pub fn is_namespace(name: &str) -> bool {
    name == "namespace" || name.ends_with("Namespace")
}

/// Whether a field of this name holds pods, or parts of them.
pub fn holds_pods(name: &str) -> bool {
    POD_FIELDS.contains(&name)
}

/// Whether any text stands under a key of this name, whatever its own names.
pub fn is_free_text(name: &str) -> bool {
    FREE_TEXT.contains(&name)
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

fn pods(node: &Node, path: &str) -> Finding {
    let message = format!("a consumer can fill a pod template: `{path}`");
    Finding::new("SE0705", node.headline(), message)
        .label("pods of the consumer's making would run on the target")
        .help("pick the fields that are safe with `only(…)`, or leave this one out with `without(…)`")
}

/// Whether what is written at a path decides about pods: it stands at their spec, above it, or holds their containers.
fn fills_pods(kind: &Kind, path: &[String]) -> bool {
    let pods = PODS.iter().find(|(group, name, _)| (kind.group.as_str(), kind.kind.as_str()) == (*group, *name));
    let Some((.., spec)) = pods else { return false };
    let within = path.get(spec.len()..).unwrap_or_default();
    path.iter().zip(*spec).all(|(one, other)| one == other)
        && match within {
            [] => true,
            [field] => POD_FIELDS.contains(&field.as_str()),
            _ => false,
        }
}

/// What a whole subtree of the consumer's brings along.
pub(super) fn subtree<'s>(node: &Node, types: &[Type<'s>], place: &Place<'s>, findings: &mut Vec<Finding>) {
    if place.path.iter().any(|key| FREE_TEXT.contains(&key.as_str())) {
        return;
    }
    for one in types {
        if let Type::Of(shape) = one
            && shape.path.split(['.', '[']).next() == Some(&*Base::Root(Root::Source).to_string())
        {
            brought(node, shape, place.view, DEPTH, findings);
        }
    }
}

fn brought(node: &Node, shape: &Shape<'_>, to: Option<View<'_>>, depth: usize, findings: &mut Vec<Finding>) {
    if depth == 0 {
        return;
    }
    if let Some(item) = shape.view.item() {
        let below = Shape::new(item, format!("{}[]", shape.path));
        brought(node, &below, to.and_then(View::item), depth - 1, findings);
    }
    for (name, view) in shape.view.fields().filter(|(name, _)| shape.keeps(name) && !FREE_TEXT.contains(name)) {
        let to = match to.map(|to| to.field(name)) {
            Some(Field::Known(to)) => Some(to),
            Some(Field::Unknown) => continue,
            Some(Field::Open) | None => None,
        };
        let path = format!("{}.{name}", shape.path);
        if POD_FIELDS.contains(&name) && matches!(view.form(), Form::Map | Form::List) {
            findings.push(pods(node, &path));
        } else if is_namespace(name) && view.form() == Form::Text {
            findings.push(reaching(node, &path, "namespace"));
        } else {
            brought(node, &Shape::new(view, path), to, depth - 1, findings);
        }
    }
}
