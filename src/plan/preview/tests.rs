//! What an author is shown.

use serde_json::json;

use super::*;
use crate::mapping::compile::{Compiled, compile};

const MAPPING: &str = r#"
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: databases}
spec:
  source:
    provider: edge
    resource: databases.v1.example.dev
    when: ${{ source.spec.size | default(0) < 100 }}
  objects:
    - id: account
      shared: Namespace
      template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: runner}}
    - id: db
      template: {apiVersion: example.dev/v1, kind: Cluster, spec: {size: "${{ source.spec.size }}"}}
    - id: view
      template:
        apiVersion: example.dev/v1
        kind: View
        spec: {host: "${{ objects.db.status.host }}"}
  status:
    from: db
    fields:
      phase: {path: $.status.phase, default: Pending}
      host: $.status.host
"#;

fn mapping() -> Arc<Mapping> {
    compiled(MAPPING)
}

fn compiled(text: &str) -> Arc<Mapping> {
    let document = crate::yaml::parse_one(text).expect("a document");
    match compile(&document).compiled {
        Some(Compiled::Mapping(mapping)) => mapping,
        other => panic!("{other:?}"),
    }
}

fn scene(spec: Value, standing: Vec<Value>) -> Scene {
    let source = json!({
        "apiVersion": "example.dev/v1", "kind": "Database", "metadata": {"namespace": "default", "name": "a"},
        "spec": spec,
    });
    Scene {
        engine: "main".into(),
        cluster: ClusterName::try_from("abc").expect("a name"),
        workspace_path: None,
        source: Arc::new(source),
        standing,
        related: Vec::new(),
        schema: None,
    }
}

#[test]
fn what_stands_is_recognized_and_read() {
    let mapping = mapping();
    let cluster = json!({"apiVersion": "example.dev/v1", "kind": "Cluster", "status": {"phase": "Up", "host": "h"}});
    let other = json!({"apiVersion": "example.dev/v1", "kind": "Cluster", "metadata": {"name": "b"}});
    let preview = preview(&mapping, &scene(json!({"size": 3}), vec![other, cluster])).expect("rendered");
    assert_eq!(preview.strangers, [0]);
    assert!(preview.reasons.0.is_empty(), "{}", preview.reasons);
    let (_, _, view) = preview.objects().nth(2).expect("rendered");
    assert_eq!(view.body["spec"], json!({"host": "h"}));
    let synced = json!([{"type": "Synced", "status": "True", "reason": "Synced", "message": ""}]);
    assert_eq!(preview.status, Some(json!({"phase": "Up", "host": "h", "conditions": synced})));
}

#[test]
fn what_does_not_stand_is_waited_for() {
    let mapping = mapping();
    let preview = preview(&mapping, &scene(json!({"size": 3}), Vec::new())).expect("rendered");
    assert!(!preview.failed());
    insta::assert_snapshot!(preview.reasons, @"Waiting: object `view`: object `db` (read at `spec.host`)");
    assert_eq!(preview.status.expect("a status")["phase"], "Pending");
}

#[test]
fn a_filter_and_a_failure_are_told_apart() {
    let mapping = mapping();
    assert_eq!(preview(&mapping, &scene(json!({"size": 100}), Vec::new())).err(), Some(Unseen::Out));
    assert!(preview(&mapping, &scene(json!({}), Vec::new())).expect("rendered").failed());
    let undecided = preview(&mapping, &scene(json!({"size": "many"}), Vec::new())).err();
    assert!(matches!(undecided, Some(Unseen::Unrendered(_))), "{undecided:?}");
}

const RELATED: &str = r#"
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: databases}
spec:
  source: {provider: edge, resource: databases.v1.example.dev}
  target: {cluster: "{{ source.spec.region }}", allowed: [east, west]}
  vars:
    ca: ${{ related.ca.data["ca.crt"] | default("none") }}
  related:
    - id: password
      direction: ToTarget
      resource: secrets.v1
      forEach: [ann, bob]
      as: user
      key: ${{ user }}
      from: {name: "{{ user }}-password"}
      to: {name: "{{ placement.name }}-{{ user }}"}
      data: {include: [password], rename: {password: pass}}
    - {id: ca, direction: ToTarget, resource: configmaps.v1, from: {name: ca}, onMissing: Skip}
    - {id: backup, direction: ToSource, resource: secrets.v1, from: {selector: {matchLabels: {of: backup}}}}
  objects:
    - id: db
      dependsOn: [related.password]
      template:
        apiVersion: example.dev/v1
        kind: Cluster
        spec: {ca: "${{ vars.ca }}", region: "${{ target.cluster }}"}
    - id: user
      template:
        apiVersion: example.dev/v1
        kind: User
        spec: {secret: "${{ related.password.bob.to.name }}", of: "${{ related.password[source.spec.owner].from.name }}"}
  status:
    fields:
      backups: {value: "${{ related.backup | items | map(attribute='0') | list }}"}
      ann: {value: "${{ related.password.ann.to.name }}"}
"#;

fn secret(namespace: &str, name: &str) -> Arc<Value> {
    Arc::new(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"namespace": namespace, "name": name, "labels": {"of": "backup"}, "uid": "u"},
        "data": {"password": "aHVudGVyMg==", "other": "eA=="},
    }))
}

/// Reasons, what is rendered, and the status.
fn shown(scene: &Scene) -> String {
    let mapping = compiled(RELATED);
    let preview = match preview(&mapping, scene) {
        Ok(preview) => preview,
        Err(unseen) => return format!("{unseen:?}"),
    };
    let objects = preview.objects().map(|(rule, _, desired)| format!("{}: {}", rule.id, desired.body["spec"]));
    let related = preview.related().map(|copy| copy.to_string());
    let status = preview.status.clone().unwrap_or_default();
    let fields = format!("backups {} ann {}", status["backups"], status["ann"]);
    let reasons = preview.reasons.0.iter().map(|reason| format!("{}: {}", reason.cause.as_str(), reason.detail));
    objects.chain(related).chain([fields]).chain(reasons).collect::<Vec<_>>().join("\n")
}

#[test]
fn related_objects_are_read_waited_for_and_carried() {
    let mut scene = scene(json!({"region": "west", "owner": "ann"}), Vec::new());
    let mut all = vec![shown(&scene)];
    scene.related = vec![secret("default", "ann-password"), secret("elsewhere", "bob-password")];
    all.push(shown(&scene));
    let namespace = preview(&compiled(RELATED), &scene).expect("rendered").rendering.place.namespace;
    let ca = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}, "data": {"ca.crt": "PEM"}});
    scene.related = vec![
        secret("default", "ann-password"),
        secret("default", "bob-password"),
        secret(&namespace, "nightly"),
        Arc::new(ca),
    ];
    all.push(shown(&scene).replace(&namespace, "NAMESPACE"));
    insta::assert_snapshot!(all.join("\n---\n"), @r#"
    db: {"ca":"none","region":"west"}
    backups [] ann null
    Waiting: related object `password[ann]`: it is not there yet
    Waiting: object `user`: related object `password[bob]` (read at `spec.secret`)
    Waiting: object `db`: waits for related object `password[ann]`: it is not there yet
    ---
    db: {"ca":"none","region":"west"}
    {"apiVersion":"v1","data":{"pass":"aHVudGVyMg=="},"kind":"Secret","metadata":{"name":"a-ann","namespace":"default-r7udrysckmmlkpz2"},"type":"Opaque"}
    backups [] ann "a-ann"
    Waiting: related object `password[bob]`: it is not there yet
    Waiting: object `user`: related object `password[bob]` (read at `spec.secret`)
    Waiting: object `db`: waits for related object `password[bob]`: it is not there yet
    ---
    db: {"ca":"PEM","region":"west"}
    user: {"of":"ann-password","secret":"a-bob"}
    {"apiVersion":"v1","data":{"pass":"aHVudGVyMg=="},"kind":"Secret","metadata":{"name":"a-ann","namespace":"NAMESPACE"},"type":"Opaque"}
    {"apiVersion":"v1","data":{"pass":"aHVudGVyMg=="},"kind":"Secret","metadata":{"name":"a-bob","namespace":"NAMESPACE"},"type":"Opaque"}
    {"apiVersion":"v1","data":{"ca.crt":"PEM"},"kind":"ConfigMap","metadata":{"name":"ca","namespace":"NAMESPACE"}}
    {"apiVersion":"v1","data":{"other":"eA==","password":"aHVudGVyMg=="},"kind":"Secret","metadata":{"name":"nightly","namespace":"default"},"type":"Opaque"}
    backups ["nightly"] ann "a-ann"
    "#);
}

#[test]
fn a_target_is_one_that_is_allowed() {
    let of = |spec: Value| shown(&scene(spec, Vec::new()));
    insta::assert_snapshot!([of(json!({"region": "north"})), of(json!({}))].join("\n"), @r#"
    Unrendered(Reason { cause: RenderFailed, detail: "target.cluster: it gives none of the targets that are allowed (`east`, `west`)" })
    Unrendered(Reason { cause: RenderFailed, detail: "target.cluster: `source.spec.region` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`" })
    "#);
}
