//! Every row of the decision table, the fixpoint, and a crash after every write.

mod beside;
mod copies;
mod departure;
mod dependencies;
mod hold;
mod hostile;
mod lists;
mod ownership;
mod rows;
mod status;
mod sweep;
mod targets;
mod trace;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use world::World;

use crate::mapping::compile::Compiled;
use crate::mapping::{Kind, Mapping};
use crate::plan::{Cause, Reasons};
use crate::yaml::Finding;

/// How mappings on databases begin.
pub const HEAD: &str = r#"
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: databases}
spec:
  source:
    apiExport: {name: databases, path: "root:databases"}
    resource: databases.v1.example.dev
"#;

/// A mapping with one object of its own and one shared one.
const DATABASES: &str = r#"    selector: {matchLabels: {tier: managed}}
  objects:
    - id: account
      shared: Namespace
      template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: database}}
    - id: db
      template:
        apiVersion: example.dev/v1
        kind: Database
        spec: ${{ source.spec }}
  status:
    fields:
      phase: {path: $.status.phase, default: Pending}
      version: $.status.version
"#;

/// A mapping whose objects depend on each other: `account` and `config` by name, `db` and `view` by what they read.
const CHAIN: &str = r#"  vars:
    database: ${{ objects.db.metadata.name }}
  objects:
    - id: view
      template: {apiVersion: example.dev/v1, kind: View, spec: {of: "{{ vars.database }}"}}
    - id: db
      dependsOn: [config]
      template: {apiVersion: example.dev/v1, kind: Database, spec: "${{ source.spec }}"}
    - id: config
      dependsOn: [account]
      template: {apiVersion: v1, kind: ConfigMap, data: {a: b}}
    - id: account
      shared: Namespace
      template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: database}}
  status:
    from: db
    fields:
      phase: {path: $.status.phase, default: Pending}
"#;

/// A mapping with several objects of one rule, and one that reads them by key.
const LISTS: &str = r#"  objects:
    - id: user
      forEach: ${{ source.spec.users | default([{"name":"ann"}, {"name":"bob"}]) }}
      as: user
      key: ${{ user.name }}
      template:
        apiVersion: example.dev/v1
        kind: User
        metadata: {name: "{{ placement.name }}-{{ user.login | default(user.name) }}"}
        spec: {name: "${{ user.name }}"}
    - id: db
      template:
        apiVersion: example.dev/v1
        kind: Database
        spec:
          members: ${{ source.spec.members }}
          owner: ${{ objects.user["ann"].metadata.name }}
  status:
    from: db
    fields:
      phase: {path: $.status.phase, default: Pending}
      users: {value: "${{ objects.user | length }}"}
"#;

/// The same in the source's own cluster.
fn lists_beside() -> String {
    LISTS.replace("  objects:\n", "  target: {cluster: source}\n  objects:\n")
}

/// A mapping on databases, from what follows its resource; or of a whole document.
fn compiled(text: &str) -> Result<Mapping, Vec<Finding>> {
    let text = if text.starts_with(' ') { format!("{HEAD}{text}") } else { text.to_owned() };
    let outcome = crate::mapping::compile::compile(&crate::yaml::parse_one(&text).expect("one document"));
    match outcome.compiled {
        Some(Compiled::Mapping(mapping)) => Ok(Arc::into_inner(mapping).expect("nobody else holds it")),
        _ => Err(outcome.findings),
    }
}

pub fn mapping(text: &str) -> Mapping {
    compiled(text).expect("a mapping")
}

/// A text with parts of it replaced, all of which it has.
fn edited(text: &str, edits: &[(&str, &str)]) -> Mapping {
    let edit = |text: String, (from, to): &(&str, &str)| {
        assert!(text.contains(from), "the mapping has no `{from}`");
        text.replace(from, to)
    };
    mapping(&edits.iter().fold(text.to_owned(), edit))
}

/// The mapping with one line of it replaced.
fn changed(from: &str, to: &str) -> Mapping {
    edited(DATABASES, &[(from, to)])
}

/// The mapping with a field more.
fn spec(field: &str) -> Mapping {
    changed("  objects:\n", &format!("  {field}\n  objects:\n"))
}

/// The mapping with another policy for sources that leave its filter.
fn exit(policy: &str) -> Mapping {
    spec(&format!("  onExit: {policy}"))
}

/// The mapping with a field more of the object `db`.
fn db(field: &str) -> Mapping {
    changed("    - id: db\n", &format!("    - id: db\n      {field}\n"))
}

/// The mapping with `db` of another kind.
fn of_another_kind(policy: &str) -> Mapping {
    let db = format!("    - id: db\n      onIdentityChange: {policy}\n");
    edited(DATABASES, &[("        kind: Database\n", "        kind: Cluster\n"), ("    - id: db\n", &db)])
}

fn source() -> Value {
    json!({
        "apiVersion": "example.dev/v1",
        "kind": "Database",
        "metadata": {
            "name": "db", "namespace": "default", "uid": "source-1", "resourceVersion": "1", "generation": 1,
            "labels": {"tier": "managed"},
        },
        "spec": {"members": 3, "size": 9_007_199_254_740_993_i64},
    })
}

fn fresh() -> World {
    World::new(source())
}

/// A source that asks for something else.
fn of(spec: Value) -> World {
    let mut source = source();
    source["spec"] = spec;
    World::new(source)
}

fn synced() -> World {
    fresh().in_sync(&mapping(DATABASES))
}

fn database() -> Kind {
    Kind::new("example.dev", "v1", "Database")
}

fn recreate(world: &mut World) {
    world.edit_source(|source| source["metadata"]["uid"] = json!("source-2"));
}

/// Somebody's controller has a finalizer on the object.
fn hold(world: &mut World) {
    world.edit("Database", |object| object["metadata"]["finalizers"] = json!(["operator.example.dev/hold"]));
}

/// The object is being deleted, and held.
fn deleted_at(world: &mut World, time: &str) {
    hold(world);
    world.edit("Database", |object| object["metadata"]["deletionTimestamp"] = json!(time));
}

fn leave_filter(world: &mut World) {
    world.edit_source(|source| source["metadata"]["labels"] = json!({}));
}

/// Somebody edits an object by hand.
fn drift(world: &mut World) {
    world.edit("Database", |object| object["spec"]["members"] = json!(5));
}

/// All causes, the worst first.
fn causes(rest: &Reasons) -> String {
    let all: BTreeSet<Cause> = rest.0.iter().map(|reason| reason.cause).collect();
    let all: Vec<&str> = all.into_iter().map(Cause::as_str).collect();
    if all.is_empty() { "in sync".into() } else { all.join(", ") }
}

fn said(rest: &Reasons) -> String {
    match rest.is_blocked() {
        _ if rest.is_in_sync() => "in sync".into(),
        true => format!("blocked: {rest}"),
        false => format!("waiting: {rest}"),
    }
}
