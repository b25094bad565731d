//! Columns of the kinds that a server brings itself (`pkg/printers/internalversion` of Kubernetes; kcp's own kinds as
//! its CustomResourceDefinitions say).

use serde_json::{Value, json};

use super::super::builtin::{APIS, CORE, TENANCY};
use super::super::object;
use super::super::timestamp::Timestamp;
use super::{Column, since, stated_columns};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The columns of a built-in kind; the age where nothing else is known of it.
pub(crate) fn columns_of(group: &str, plural: &str) -> Vec<Column> {
    match (group, plural) {
        ("", "events") => return events(),
        (TENANCY | CORE | APIS, _) => return of_kcp(plural),
        _ => {}
    }
    let rest = match (group, plural) {
        ("", "namespaces") => {
            vec![Column::computed("Status", |namespace, _| namespace["status"]["phase"].clone()), age()]
        }
        ("", "secrets") => {
            let kind = Column::computed("Type", |secret, _| secret["type"].clone());
            vec![kind, Column::computed("Data", |secret, _| count(&secret["data"]).into()), age()]
        }
        ("", "configmaps") => {
            let data = |map: &Value, _| (count(&map["data"]) + count(&map["binaryData"])).into();
            vec![Column::computed("Data", data), age()]
        }
        ("coordination.k8s.io", "leases") => {
            vec![Column::computed("Holder", |lease, _| text(&lease["spec"]["holderIdentity"]).into()), age()]
        }
        (RBAC, "roles" | "clusterroles") | ("apiextensions.k8s.io", "customresourcedefinitions") => vec![created()],
        (RBAC, _) => bindings(),
        _ => vec![age()],
    };
    std::iter::once(Column::name()).chain(rest).collect()
}

pub(super) fn age() -> Column {
    Column::computed("Age", |object, now| since(object::text(object, "creationTimestamp"), now).into())
}

fn created() -> Column {
    let column = Column::computed("Created At", |object, _| object::text(object, "creationTimestamp").into());
    Column { kind: "date".into(), ..column }
}

fn bindings() -> Vec<Column> {
    let role = |binding: &Value, _| {
        let role = &binding["roleRef"];
        format!("{}/{}", text(&role["kind"]), text(&role["name"])).into()
    };
    vec![
        Column::computed("Role", role),
        age(),
        Column::computed("Users", |binding, _| subjects(binding, "User")).wide(),
        Column::computed("Groups", |binding, _| subjects(binding, "Group")).wide(),
        Column::computed("ServiceAccounts", |binding, _| subjects(binding, "ServiceAccount")).wide(),
    ]
}

fn subjects(binding: &Value, kind: &str) -> Value {
    let subjects = binding["subjects"].as_array().into_iter().flatten().filter(|subject| subject["kind"] == kind);
    let name = |subject: &Value| match text(&subject["namespace"]) {
        "" => text(&subject["name"]).to_owned(),
        namespace => format!("{namespace}/{}", text(&subject["name"])),
    };
    subjects.map(name).collect::<Vec<_>>().join(", ").into()
}

/// Events have no column `Name` in front.
fn events() -> Vec<Column> {
    vec![
        Column::computed("Last Seen", last_seen),
        Column::computed("Type", |event, _| event["type"].clone()),
        Column::computed("Reason", |event, _| event["reason"].clone()),
        Column::computed("Object", |event, _| regarded(event).into()),
        Column::computed("Subobject", |event, _| text(&event["involvedObject"]["fieldPath"]).into()).wide(),
        Column::computed("Source", |event, _| source(event).into()).wide(),
        Column::computed("Message", |event, _| text(&event["message"]).trim().into()),
        Column::computed("First Seen", first_seen).wide(),
        Column::computed("Count", count_of_event).wide(),
        Column { priority: 1, ..Column::name() },
    ]
}

fn first_seen(event: &Value, now: Timestamp) -> Value {
    let first = text(&event["firstTimestamp"]);
    since(if first.is_empty() { text(&event["eventTime"]) } else { first }, now).into()
}

fn last_seen(event: &Value, now: Timestamp) -> Value {
    let series = text(&event["series"]["lastObservedTime"]);
    match [series, text(&event["lastTimestamp"])].into_iter().find(|time| !time.is_empty()) {
        Some(last) => since(last, now).into(),
        None => first_seen(event, now),
    }
}

fn count_of_event(event: &Value, _: Timestamp) -> Value {
    event["series"]["count"].as_i64().or(event["count"].as_i64()).unwrap_or(1).into()
}

fn regarded(event: &Value) -> String {
    let object = &event["involvedObject"];
    let kind = text(&object["kind"]).to_ascii_lowercase();
    match text(&object["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Value) -> String {
    let old = [text(&event["source"]["component"]), text(&event["source"]["host"])];
    let new = [text(&event["reportingComponent"]), text(&event["reportingInstance"])];
    let named = if old[0].is_empty() { new } else { old };
    named.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn of_kcp(plural: &str) -> Vec<Column> {
    let column = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
    let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
    let columns = match plural {
        "workspaces" => json!([
            column("Type", ".spec.type.name"),
            column("Region", ".metadata.labels['region']"),
            column("Phase", ".status.phase"),
            column("URL", ".spec.URL"),
            age,
        ]),
        "apibindings" => json!([age, column("Ready", ".status.conditions[?(@.type==\"Ready\")].status")]),
        "apiexportendpointslices" => {
            json!([column("Export", ".spec.export.name"), column("Partition", ".spec.partition"), age])
        }
        "logicalclusters" => json!([column("Phase", ".status.phase"), column("URL", ".status.URL"), age]),
        _ => json!([age]),
    };
    stated_columns(&json!({"additionalPrinterColumns": columns}))
}

fn count(map: &Value) -> usize {
    map.as_object().map_or(0, serde_json::Map::len)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(group: &str, plural: &str, object: &Value) -> Vec<Value> {
        columns_of(group, plural).iter().map(|column| column.cell(object, Timestamp(90))).collect()
    }

    #[test]
    fn an_event_tells_what_happened_to_what() {
        let event = json!({
            "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}, "reason": "Started",
            "message": "It runs.\n", "type": "Normal", "source": {"component": "kubelet", "host": "n1"},
            "firstTimestamp": "1970-01-01T00:00:30Z", "lastTimestamp": "1970-01-01T00:01:00Z", "count": 2,
        });
        let expected = json!(["30s", "Normal", "Started", "pod/p", "", "kubelet, n1", "It runs.", "60s", 2, "e"]);
        assert_eq!(Value::from(row("", "events", &event)), expected);
    }

    #[test]
    fn kinds_of_kcp_show_what_they_are_about() {
        let binding = json!({
            "metadata": {"name": "b", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "status": {"conditions": [{"type": "APIExportValid", "status": "True"}, {"type": "Ready", "status": "False"}]},
        });
        assert_eq!(Value::from(row(APIS, "apibindings", &binding)), json!(["b", "90s", "False"]));
        let slice = json!({"metadata": {"name": "s"}, "spec": {"export": {"name": "e"}}});
        assert_eq!(Value::from(row(APIS, "apiexportendpointslices", &slice)), json!(["s", "e", null, null]));
        let workspace = json!({"metadata": {"name": "w"}, "spec": {"URL": "http://x"}, "status": {"phase": "Ready"}});
        assert_eq!(
            Value::from(row(TENANCY, "workspaces", &workspace)),
            json!(["w", null, null, "Ready", "http://x", null])
        );
    }

    #[test]
    fn a_binding_names_role_and_subjects() {
        let binding = json!({
            "metadata": {"name": "b", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"}],
        });
        assert_eq!(Value::from(row(RBAC, "rolebindings", &binding)), json!(["b", "Role/r", "90s", "u", "", "n/s"]));
    }
}
