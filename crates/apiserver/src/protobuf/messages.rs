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

macro_rules! message {
    ($($number:literal $name:literal $kind:expr),+ $(,)?) => { &[$(Field($number, $name, $kind)),+] };
}

pub(super) const ENVELOPE: Message = message![1 "typeMeta" Kind::Message(TYPE_META), 2 "raw" Bytes];
const TYPE_META: Message = message![1 "apiVersion" Text, 2 "kind" Text];

pub(super) const TEXT_ENTRY: Message = message![1 "key" Text, 2 "value" Text];
pub(super) const BYTES_ENTRY: Message = message![1 "key" Text, 2 "value" Bytes];
pub(super) const FIELDS: Message = message![1 "raw" Bytes];
pub(super) const TIME: Message = message![1 "seconds" Number, 2 "nanos" Number];

const METADATA: Kind = Kind::Message(OBJECT_META);

const OBJECT_META: Message = message![
    1 "name" Text, 2 "generateName" Text, 3 "namespace" Text, 5 "uid" Text, 6 "resourceVersion" Text,
    7 "generation" Count, 8 "creationTimestamp" Time, 9 "deletionTimestamp" Time,
    10 "deletionGracePeriodSeconds" Number, 11 "labels" TextMap, 12 "annotations" TextMap,
    13 "ownerReferences" Messages(OWNER), 14 "finalizers" Texts, 17 "managedFields" Messages(MANAGER),
];

const OWNER: Message = message![
    5 "apiVersion" Text, 1 "kind" Text, 3 "name" Text, 4 "uid" Text, 6 "controller" Flag, 7 "blockOwnerDeletion" Flag,
];

const MANAGER: Message = message![
    1 "manager" Text, 2 "operation" Text, 3 "apiVersion" Text, 4 "time" Time, 6 "fieldsType" Text, 7 "fieldsV1" Json,
    8 "subresource" Text,
];

const DELETE_OPTIONS: Message = message![
    1 "gracePeriodSeconds" Number, 2 "preconditions" Kind::Message(PRECONDITIONS), 3 "orphanDependents" Flag,
    4 "propagationPolicy" Text, 5 "dryRun" Texts,
];
const PRECONDITIONS: Message = message![1 "uid" Text, 2 "resourceVersion" Text];

const NAMESPACE: Message = message![1 "metadata" METADATA, 2 "spec" Kind::Message(NAMESPACE_SPEC)];
const NAMESPACE_SPEC: Message = message![1 "finalizers" Texts];

const CONFIG_MAP: Message = message![
    1 "metadata" METADATA, 2 "data" TextMap, 3 "binaryData" BytesMap, 4 "immutable" Flag,
];

const SECRET: Message = message![
    1 "metadata" METADATA, 2 "data" BytesMap, 3 "type" Text, 4 "stringData" TextMap, 5 "immutable" Flag,
];

const SERVICE_ACCOUNT: Message = message![
    1 "metadata" METADATA, 2 "secrets" Messages(OBJECT_REFERENCE),
    3 "imagePullSecrets" Messages(message![1 "name" Text]), 4 "automountServiceAccountToken" Flag,
];

const OBJECT_REFERENCE: Message = message![
    1 "kind" Text, 2 "namespace" Text, 3 "name" Text, 4 "uid" Text, 5 "apiVersion" Text, 6 "resourceVersion" Text,
    7 "fieldPath" Text,
];

const ROLE: Message = message![
    1 "metadata" METADATA, 2 "rules" Messages(RULE), 3 "aggregationRule" Kind::Message(AGGREGATION),
];
const RULE: Message = message![
    1 "verbs" Texts, 2 "apiGroups" Texts, 3 "resources" Texts, 4 "resourceNames" Texts, 5 "nonResourceURLs" Texts,
];
const AGGREGATION: Message = message![1 "clusterRoleSelectors" Messages(LABEL_SELECTOR)];
const LABEL_SELECTOR: Message = message![1 "matchLabels" TextMap, 2 "matchExpressions" Messages(REQUIREMENT)];
const REQUIREMENT: Message = message![1 "key" Text, 2 "operator" Text, 3 "values" Texts];

const ROLE_BINDING: Message = message![
    1 "metadata" METADATA, 2 "subjects" Messages(SUBJECT), 3 "roleRef" Kind::Message(ROLE_REF),
];
const SUBJECT: Message = message![1 "kind" Text, 2 "apiGroup" Text, 3 "name" Text, 4 "namespace" Text];
const ROLE_REF: Message = message![1 "apiGroup" Text, 2 "kind" Text, 3 "name" Text];

const LEASE: Message = message![1 "metadata" METADATA, 2 "spec" Kind::Message(LEASE_SPEC)];
const LEASE_SPEC: Message = message![
    1 "holderIdentity" Text, 2 "leaseDurationSeconds" Number, 3 "acquireTime" MicroTime, 4 "renewTime" MicroTime,
    5 "leaseTransitions" Number, 6 "strategy" Text, 7 "preferredHolder" Text,
];

const EVENT: Message = message![
    1 "metadata" METADATA, 2 "involvedObject" Kind::Message(OBJECT_REFERENCE), 3 "reason" Text, 4 "message" Text,
    5 "source" Kind::Message(EVENT_SOURCE), 6 "firstTimestamp" Time, 7 "lastTimestamp" Time, 8 "count" Count,
    9 "type" Text, 10 "eventTime" MicroTime, 11 "series" Kind::Message(EVENT_SERIES), 12 "action" Text,
    13 "related" Kind::Message(OBJECT_REFERENCE), 14 "reportingComponent" Text, 15 "reportingInstance" Text,
];
const EVENT_SOURCE: Message = message![1 "component" Text, 2 "host" Text];
const EVENT_SERIES: Message = message![1 "count" Count, 2 "lastObservedTime" MicroTime];
