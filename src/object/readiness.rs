//! Whether an object does what it was made for, as far as its kind tells.
//!
//! The rules are those of `kubectl rollout status` for workloads, and of the API conventions (`Ready`, `Available`,
//! `observedGeneration`) for everything else: what says nothing about itself is ready as soon as it exists, unless its schema says that its controller will.

use std::fmt;

use serde_json::Value;

use super::{generation, is_deleting};
use crate::mapping::Kind;

/// How far an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// Not yet; says what is missing.
    Pending(String),
    /// It will not become ready by itself; says why.
    Failed(String),
}

/// How far an object that stands is. Its kind is given, for items of a list do not name it. `reports`: whether its kind is one
/// whose controller says how far an object is, so that silence means that it has not looked yet.
pub fn readiness(kind: &Kind, object: &Value, reports: bool) -> Readiness {
    if is_deleting(object) {
        return pending("is being deleted");
    }
    let seen = integer(object, "/status/observedGeneration");
    if seen.is_some_and(|seen| seen < generation(object)) {
        return pending("its controller has not seen its latest change");
    }
    match (&*kind.group, &*kind.kind) {
        ("apps", "Deployment") => deployment(object, seen),
        ("apps", "StatefulSet") => stateful_set(object, seen),
        ("apps", "DaemonSet") => daemon_set(object, seen),
        ("apps", "ReplicaSet") => replica_set(object, seen),
        ("batch", "Job") => job(object),
        ("", "Pod") => pod(object),
        ("", "PersistentVolumeClaim") => phase(object, "Bound", "Lost"),
        ("", "Namespace") => phase(object, "Active", ""),
        ("", "Service") => service(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => custom_resource_definition(object),
        _ if reports && seen.is_none() && !has_conditions(object) => pending("its controller has not reported yet"),
        _ => by_conditions(object),
    }
}

fn has_conditions(object: &Value) -> bool {
    object.pointer("/status/conditions").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
}

/// New pods first, then the old ones gone, then all available.
fn deployment(object: &Value, seen: Option<i64>) -> Readiness {
    let progressing = condition(object, "Progressing");
    if progressing.is_some_and(|one| one["reason"] == "ProgressDeadlineExceeded") {
        return Readiness::Failed("it made no progress within its deadline".into());
    }
    let wanted = replicas(object);
    let is_new = status_count(object, "replicas") <= status_count(object, "updatedReplicas");
    all_of(
        seen,
        [
            enough(object, "updatedReplicas", wanted, "updated"),
            (is_new, "replicas of an earlier version are left".into()),
            enough(object, "availableReplicas", wanted, "available"),
        ],
    )
}

/// Pods below the partition keep their version, and nothing is updated by itself with `OnDelete`.
fn stateful_set(object: &Value, seen: Option<i64>) -> Readiness {
    let wanted = replicas(object);
    let partition = integer(object, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or_default();
    let on_delete = object.pointer("/spec/updateStrategy/type").is_some_and(|kind| kind == "OnDelete");
    let to_update = if on_delete { 0 } else { wanted.saturating_sub(partition).max(0) };
    let updated = enough(object, "updatedReplicas", to_update, "updated");
    all_of(seen, [enough(object, "readyReplicas", wanted, "ready"), updated])
}

fn daemon_set(object: &Value, seen: Option<i64>) -> Readiness {
    let wanted = status_count(object, "desiredNumberScheduled");
    let updated = enough(object, "updatedNumberScheduled", wanted, "updated");
    all_of(seen, [updated, enough(object, "numberAvailable", wanted, "available")])
}

fn replica_set(object: &Value, seen: Option<i64>) -> Readiness {
    if let Some(failure) = condition(object, "ReplicaFailure").filter(|one| one["status"] == "True") {
        return Readiness::Failed(said("ReplicaFailure", failure));
    }
    all_of(seen, [enough(object, "availableReplicas", replicas(object), "available")])
}

/// A job is ready when it is done: what depends on it needs its work.
fn job(object: &Value) -> Readiness {
    let holds = |kind: &str| condition(object, kind).filter(|one| one["status"] == "True");
    match (holds("Failed"), holds("Complete")) {
        (Some(failed), _) => Readiness::Failed(said("Failed", failed)),
        (None, Some(_)) => Readiness::Ready,
        (None, None) => pending("it is not complete"),
    }
}

fn pod(object: &Value) -> Readiness {
    match object.pointer("/status/phase").and_then(Value::as_str) {
        Some("Succeeded") => Readiness::Ready,
        Some("Failed") => Readiness::Failed("its containers ended with an error".into()),
        _ => match condition(object, "Ready") {
            Some(ready) if ready["status"] == "True" => Readiness::Ready,
            _ => pending("its containers are not ready"),
        },
    }
}

fn phase(object: &Value, good: &str, bad: &str) -> Readiness {
    match object.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default() {
        phase if phase == good => Readiness::Ready,
        "" => pending("it has no phase yet"),
        phase if phase == bad => Readiness::Failed(format!("its phase is {phase}")),
        phase => Readiness::Pending(format!("its phase is {phase}")),
    }
}

/// Only a load balancer takes time, and somebody to make it.
fn service(object: &Value) -> Readiness {
    let balanced = object.pointer("/spec/type").is_some_and(|kind| kind == "LoadBalancer");
    let addresses = object.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
    if balanced && addresses.is_none_or(Vec::is_empty) {
        return pending("its load balancer has no address");
    }
    Readiness::Ready
}

fn custom_resource_definition(object: &Value) -> Readiness {
    if let Some(refused) = condition(object, "NamesAccepted").filter(|one| one["status"] == "False") {
        return Readiness::Failed(said("NamesAccepted", refused));
    }
    match condition(object, "Established") {
        Some(established) if established["status"] == "True" => Readiness::Ready,
        _ => pending("it is not established"),
    }
}

/// `Ready` counts, else `Available`; an object without them is ready when it exists.
fn by_conditions(object: &Value) -> Readiness {
    if let Some(stalled) = condition(object, "Stalled").filter(|one| one["status"] == "True") {
        return Readiness::Failed(said("Stalled", stalled));
    }
    let found = ["Ready", "Available"].into_iter().find_map(|kind| Some((kind, condition(object, kind)?)));
    match found {
        Some((_, condition)) if condition["status"] == "True" => Readiness::Ready,
        Some((kind, condition)) => Readiness::Pending(said(kind, condition)),
        None => Readiness::Ready,
    }
}

fn pending(why: &str) -> Readiness {
    Readiness::Pending(why.to_owned())
}

/// Ready, where its controller has seen it and all hold; else the first that does not.
fn all_of<const N: usize>(seen: Option<i64>, conditions: [(bool, String); N]) -> Readiness {
    if seen.is_none() {
        return pending("its controller has not seen it yet");
    }
    let unmet = conditions.into_iter().find(|(holds, _)| !holds);
    unmet.map_or(Readiness::Ready, |(_, why)| Readiness::Pending(why))
}

/// Whether a count of the status is what is wanted, and what is said where it is not.
fn enough(object: &Value, field: &str, wanted: i64, what: &str) -> (bool, String) {
    let count = status_count(object, field);
    (count >= wanted, format!("{count} of {wanted} replicas are {what}"))
}

fn replicas(object: &Value) -> i64 {
    integer(object, "/spec/replicas").unwrap_or(1)
}

fn status_count(object: &Value, field: &str) -> i64 {
    object.get("status").and_then(|status| status.get(field)).and_then(Value::as_i64).unwrap_or_default()
}

fn integer(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().find(|one| one["type"] == kind)
}

/// A condition without its message, which may name anything.
fn said(kind: &str, condition: &Value) -> String {
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    let reason = if text("reason").is_empty() { String::new() } else { format!(" ({})", text("reason")) };
    format!("its condition {kind} is {}{reason}", text("status"))
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Pending(why) => write!(f, "not ready: {why}"),
            Self::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(group: &str, kind: &str) -> Kind {
        Kind::new(group, "v1", kind)
    }

    fn said_of(group: &str, name: &str, spec: Value, status: Value) -> String {
        let object = json!({"metadata": {"name": "a", "generation": 2}, "spec": spec, "status": status});
        format!("{name}: {}", readiness(&kind(group, name), &object, false))
    }

    fn conditions(all: &[(&str, &str)]) -> Value {
        all.iter().map(|(kind, status)| json!({"type": kind, "status": status, "reason": "Because"})).collect()
    }

    #[test]
    fn workloads() {
        let apps = |kind: &str, spec: Value, status: Value| said_of("apps", kind, spec, status);
        let rolled = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3, "readyReplicas": 3});
        let with = |field: &str, value: i64| {
            let mut status = rolled.clone();
            status[field] = json!(value);
            status
        };
        let late = json!({"observedGeneration": 2, "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]});
        let three = || json!({"replicas": 3});
        let partitioned =
            json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
        // A kind of this name may be of any server, which checks no bounds.
        let beyond = json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": i64::MIN}}});
        let on_delete = json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}});
        let scheduled = json!({"observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1});
        let said = [
            apps("Deployment", three(), rolled.clone()),
            apps("Deployment", three(), with("observedGeneration", 1)),
            apps("Deployment", three(), json!({})),
            apps("Deployment", three(), with("updatedReplicas", 1)),
            apps("Deployment", three(), with("replicas", 4)),
            apps("Deployment", three(), with("availableReplicas", 2)),
            apps("Deployment", json!({}), json!({"observedGeneration": 2})),
            apps("Deployment", three(), late),
            apps("StatefulSet", three(), rolled.clone()),
            apps("StatefulSet", three(), with("readyReplicas", 2)),
            apps("StatefulSet", three(), with("updatedReplicas", 1)),
            apps("StatefulSet", partitioned, with("updatedReplicas", 1)),
            apps("StatefulSet", beyond, with("updatedReplicas", 2)),
            apps("StatefulSet", on_delete, with("updatedReplicas", 0)),
            apps("DaemonSet", json!({}), scheduled),
            apps("ReplicaSet", three(), rolled.clone()),
            apps("ReplicaSet", three(), json!({"conditions": conditions(&[("ReplicaFailure", "True")])})),
        ];
        insta::assert_snapshot!(said.join("\n"), @"
        Deployment: ready
        Deployment: not ready: its controller has not seen its latest change
        Deployment: not ready: its controller has not seen it yet
        Deployment: not ready: 1 of 3 replicas are updated
        Deployment: not ready: replicas of an earlier version are left
        Deployment: not ready: 2 of 3 replicas are available
        Deployment: not ready: 0 of 1 replicas are updated
        Deployment: failed: it made no progress within its deadline
        StatefulSet: ready
        StatefulSet: not ready: 2 of 3 replicas are ready
        StatefulSet: not ready: 1 of 3 replicas are updated
        StatefulSet: ready
        StatefulSet: not ready: 2 of 9223372036854775807 replicas are updated
        StatefulSet: ready
        DaemonSet: not ready: 1 of 2 replicas are available
        ReplicaSet: ready
        ReplicaSet: failed: its condition ReplicaFailure is True (Because)
        ");
    }

    #[test]
    fn the_core_and_what_is_beside_it() {
        let of = |kind: &str, spec: Value, status: Value| said_of("", kind, spec, status);
        let job = |all: &[(&str, &str)]| said_of("batch", "Job", json!({}), json!({"conditions": conditions(all)}));
        let crd = |all: &[(&str, &str)]| {
            let status = json!({"conditions": conditions(all)});
            said_of("apiextensions.k8s.io", "CustomResourceDefinition", json!({}), status)
        };
        let said = [
            job(&[]),
            job(&[("Complete", "True")]),
            job(&[("FailureTarget", "True"), ("Failed", "True")]),
            of("Pod", json!({}), json!({"phase": "Pending"})),
            of("Pod", json!({}), json!({"phase": "Running", "conditions": conditions(&[("Ready", "True")])})),
            of("Pod", json!({}), json!({"phase": "Succeeded"})),
            of("Pod", json!({}), json!({"phase": "Failed"})),
            of("PersistentVolumeClaim", json!({}), json!({"phase": "Pending"})),
            of("PersistentVolumeClaim", json!({}), json!({"phase": "Bound"})),
            of("PersistentVolumeClaim", json!({}), json!({"phase": "Lost"})),
            of("Namespace", json!({}), json!({})),
            of("Namespace", json!({}), json!({"phase": "Active"})),
            of("Service", json!({"type": "ClusterIP"}), json!({})),
            of("Service", json!({"type": "LoadBalancer"}), json!({"loadBalancer": {}})),
            of("Service", json!({"type": "LoadBalancer"}), json!({"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}})),
            of("ConfigMap", Value::Null, Value::Null),
            crd(&[]),
            crd(&[("NamesAccepted", "True"), ("Established", "True")]),
            crd(&[("NamesAccepted", "False")]),
        ];
        insta::assert_snapshot!(said.join("\n"), @"
        Job: not ready: it is not complete
        Job: ready
        Job: failed: its condition Failed is True (Because)
        Pod: not ready: its containers are not ready
        Pod: ready
        Pod: ready
        Pod: failed: its containers ended with an error
        PersistentVolumeClaim: not ready: its phase is Pending
        PersistentVolumeClaim: ready
        PersistentVolumeClaim: failed: its phase is Lost
        Namespace: not ready: it has no phase yet
        Namespace: ready
        Service: ready
        Service: not ready: its load balancer has no address
        Service: ready
        ConfigMap: ready
        CustomResourceDefinition: not ready: it is not established
        CustomResourceDefinition: ready
        CustomResourceDefinition: failed: its condition NamesAccepted is False (Because)
        ");
    }

    #[test]
    fn everything_else_is_known_by_its_conditions() {
        let of = |status: Value| said_of("example.dev", "Cluster", json!({}), status);
        let said = [
            of(json!({"phase": "Running"})),
            of(json!({"conditions": conditions(&[("Available", "False"), ("Ready", "True")])})),
            of(json!({"conditions": conditions(&[("Available", "Unknown")])})),
            of(json!({"conditions": conditions(&[("Ready", "False"), ("Stalled", "True")])})),
            of(json!({"observedGeneration": 1, "conditions": conditions(&[("Ready", "True")])})),
            of(json!({"conditions": "none"})),
        ];
        insta::assert_snapshot!(said.join("\n"), @"
        Cluster: ready
        Cluster: ready
        Cluster: not ready: its condition Available is Unknown (Because)
        Cluster: failed: its condition Stalled is True (Because)
        Cluster: not ready: its controller has not seen its latest change
        Cluster: ready
        ");
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(readiness(&kind("", "Pod"), &deleted, false), Readiness::Pending("is being deleted".into()));
    }

    #[test]
    fn a_kind_that_reports_waits_for_its_first_report() {
        let fresh = json!({"metadata": {"generation": 1}, "spec": {"size": 1}});
        let waiting = Readiness::Pending("its controller has not reported yet".into());
        assert_eq!(readiness(&kind("op.example.org", "Server"), &fresh, true), waiting);
        assert_eq!(readiness(&kind("op.example.org", "Server"), &fresh, false), Readiness::Ready);
        // The library knows better what to expect of Kubernetes' own kinds.
        assert_eq!(readiness(&kind("", "Service"), &fresh, true), Readiness::Ready);
        for status in [json!({"observedGeneration": 1}), json!({"conditions": [{"type": "Seen", "status": "True"}]})] {
            let seen = json!({"metadata": {"generation": 1}, "status": status});
            assert_eq!(readiness(&kind("op.example.org", "Server"), &seen, true), Readiness::Ready);
        }
    }
}
