//! The messages of the kinds that are served, by the field numbers of Kubernetes' `generated.proto`.

pub(super) type Message = &'static [Field];

/// Number, name in JSON, and what it holds.
pub(super) struct Field(pub u32, pub &'static str, pub Kind);

/// What a field holds.
pub(super) enum Kind {
    /// Nothing where it is empty.
    Text,
    Texts,
    Flag,
    Number,
    /// A number that is left out where it is zero.
    Count,
    Bytes,
    Json,
    Time,
    MicroTime,
    TextMap,
    BytesMap,
    Message(Message),
    Messages(Message),
}

use Kind::{Bytes, BytesMap, Count, Flag, Json, Messages, MicroTime, Number, Text, TextMap, Texts, Time};

/// The message of a kind.
pub(super) fn known(api_version: &str, kind: &str) -> Option<Message> {
    Some(match (api_version, kind) {
        ("v1", "Namespace") => NAMESPACE,
        ("v1", "ConfigMap") => CONFIG_MAP,
        ("v1", "Secret") => SECRET,
        ("v1", "ServiceAccount") => SERVICE_ACCOUNT,
        ("v1", "Event") => EVENT,
        ("rbac.authorization.k8s.io/v1", "Role" | "ClusterRole") => ROLE,
        ("rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding") => ROLE_BINDING,
        ("coordination.k8s.io/v1", "Lease") => LEASE,
        (_, "DeleteOptions") => DELETE_OPTIONS,
        _ => return None,
    })
}

pub(super) const ENVELOPE: Message = &[Field(1, "typeMeta", Kind::Message(TYPE_META)), Field(2, "raw", Bytes)];
const TYPE_META: Message = &[Field(1, "apiVersion", Text), Field(2, "kind", Text)];

pub(super) const TEXT_ENTRY: Message = &[Field(1, "key", Text), Field(2, "value", Text)];
pub(super) const BYTES_ENTRY: Message = &[Field(1, "key", Text), Field(2, "value", Bytes)];
pub(super) const FIELDS: Message = &[Field(1, "raw", Bytes)];
pub(super) const TIME: Message = &[Field(1, "seconds", Number), Field(2, "nanos", Number)];

const METADATA: Field = Field(1, "metadata", Kind::Message(OBJECT_META));

const OBJECT_META: Message = &[
    Field(1, "name", Text),
    Field(2, "generateName", Text),
    Field(3, "namespace", Text),
    Field(5, "uid", Text),
    Field(6, "resourceVersion", Text),
    Field(7, "generation", Count),
    Field(8, "creationTimestamp", Time),
    Field(9, "deletionTimestamp", Time),
    Field(10, "deletionGracePeriodSeconds", Number),
    Field(11, "labels", TextMap),
    Field(12, "annotations", TextMap),
    Field(13, "ownerReferences", Messages(OWNER)),
    Field(14, "finalizers", Texts),
    Field(17, "managedFields", Messages(MANAGER)),
];

const OWNER: Message = &[
    Field(5, "apiVersion", Text),
    Field(1, "kind", Text),
    Field(3, "name", Text),
    Field(4, "uid", Text),
    Field(6, "controller", Flag),
    Field(7, "blockOwnerDeletion", Flag),
];

const MANAGER: Message = &[
    Field(1, "manager", Text),
    Field(2, "operation", Text),
    Field(3, "apiVersion", Text),
    Field(4, "time", Time),
    Field(6, "fieldsType", Text),
    Field(7, "fieldsV1", Json),
    Field(8, "subresource", Text),
];

const DELETE_OPTIONS: Message = &[
    Field(1, "gracePeriodSeconds", Number),
    Field(2, "preconditions", Kind::Message(PRECONDITIONS)),
    Field(3, "orphanDependents", Flag),
    Field(4, "propagationPolicy", Text),
    Field(5, "dryRun", Texts),
];
const PRECONDITIONS: Message = &[Field(1, "uid", Text), Field(2, "resourceVersion", Text)];

const NAMESPACE: Message = &[METADATA, Field(2, "spec", Kind::Message(NAMESPACE_SPEC))];
const NAMESPACE_SPEC: Message = &[Field(1, "finalizers", Texts)];

const CONFIG_MAP: Message =
    &[METADATA, Field(2, "data", TextMap), Field(3, "binaryData", BytesMap), Field(4, "immutable", Flag)];

const SECRET: Message = &[
    METADATA,
    Field(2, "data", BytesMap),
    Field(3, "type", Text),
    Field(4, "stringData", TextMap),
    Field(5, "immutable", Flag),
];

const SERVICE_ACCOUNT: Message = &[
    METADATA,
    Field(2, "secrets", Messages(OBJECT_REFERENCE)),
    Field(3, "imagePullSecrets", Messages(&[Field(1, "name", Text)])),
    Field(4, "automountServiceAccountToken", Flag),
];

const OBJECT_REFERENCE: Message = &[
    Field(1, "kind", Text),
    Field(2, "namespace", Text),
    Field(3, "name", Text),
    Field(4, "uid", Text),
    Field(5, "apiVersion", Text),
    Field(6, "resourceVersion", Text),
    Field(7, "fieldPath", Text),
];

const ROLE: Message =
    &[METADATA, Field(2, "rules", Messages(RULE)), Field(3, "aggregationRule", Kind::Message(AGGREGATION))];
const RULE: Message = &[
    Field(1, "verbs", Texts),
    Field(2, "apiGroups", Texts),
    Field(3, "resources", Texts),
    Field(4, "resourceNames", Texts),
    Field(5, "nonResourceURLs", Texts),
];
const AGGREGATION: Message = &[Field(1, "clusterRoleSelectors", Messages(LABEL_SELECTOR))];
const LABEL_SELECTOR: Message =
    &[Field(1, "matchLabels", TextMap), Field(2, "matchExpressions", Messages(REQUIREMENT))];
const REQUIREMENT: Message = &[Field(1, "key", Text), Field(2, "operator", Text), Field(3, "values", Texts)];

const ROLE_BINDING: Message =
    &[METADATA, Field(2, "subjects", Messages(SUBJECT)), Field(3, "roleRef", Kind::Message(ROLE_REF))];
const SUBJECT: Message =
    &[Field(1, "kind", Text), Field(2, "apiGroup", Text), Field(3, "name", Text), Field(4, "namespace", Text)];
const ROLE_REF: Message = &[Field(1, "apiGroup", Text), Field(2, "kind", Text), Field(3, "name", Text)];

const LEASE: Message = &[METADATA, Field(2, "spec", Kind::Message(LEASE_SPEC))];
const LEASE_SPEC: Message = &[
    Field(1, "holderIdentity", Text),
    Field(2, "leaseDurationSeconds", Number),
    Field(3, "acquireTime", MicroTime),
    Field(4, "renewTime", MicroTime),
    Field(5, "leaseTransitions", Number),
    Field(6, "strategy", Text),
    Field(7, "preferredHolder", Text),
];

const EVENT: Message = &[
    METADATA,
    Field(2, "involvedObject", Kind::Message(OBJECT_REFERENCE)),
    Field(3, "reason", Text),
    Field(4, "message", Text),
    Field(5, "source", Kind::Message(EVENT_SOURCE)),
    Field(6, "firstTimestamp", Time),
    Field(7, "lastTimestamp", Time),
    Field(8, "count", Count),
    Field(9, "type", Text),
    Field(10, "eventTime", MicroTime),
    Field(11, "series", Kind::Message(EVENT_SERIES)),
    Field(12, "action", Text),
    Field(13, "related", Kind::Message(OBJECT_REFERENCE)),
    Field(14, "reportingComponent", Text),
    Field(15, "reportingInstance", Text),
];
const EVENT_SOURCE: Message = &[Field(1, "component", Text), Field(2, "host", Text)];
const EVENT_SERIES: Message = &[Field(1, "count", Count), Field(2, "lastObservedTime", MicroTime)];
