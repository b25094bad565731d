//! The files of a kit.

use serde_json::{Value, json};

use super::{Part, Plan, operators, readme};
use crate::mapping::document::API_VERSION;
use crate::object::claims::WRITE;
use crate::yaml;

/// Where the test's golden file goes, relative to the test.
const GOLDEN: &str = "testdata/new.golden.yaml";

/// Id of the object that a consumer's becomes.
const ID: &str = "main";

pub(super) fn all(plan: &Plan) -> Vec<(String, String)> {
    let name = &plan.name;
    let files = [
        ("README.md".to_owned(), readme::readme(plan)),
        (format!("mappings/{name}.yaml"), mapping(plan)),
        ("schemas/apiresourceschema.yaml".to_owned(), yaml::write(&schema(plan))),
        ("schemas/apiexport.yaml".to_owned(), yaml::write(&export(plan))),
        ("schemas/crd.yaml".to_owned(), yaml::write(&plan.definition.document)),
        ("examples/apibinding.yaml".to_owned(), yaml::write(&binding(plan))),
        (format!("examples/{name}.yaml"), yaml::write(&plan.example())),
        ("examples/operator.yaml".to_owned(), operator(plan)),
        (format!("examples/{name}.test.yaml"), test(plan)),
    ];
    files.into()
}

/// Name of the APIResourceSchema.
pub(super) fn schema_name(plan: &Plan) -> String {
    format!("v1.{}.{}", plan.definition.plural, plan.definition.group)
}

fn schema(plan: &Plan) -> Value {
    let definition = &plan.definition;
    let mut version = json!({
        "name": definition.version, "served": true, "storage": true, "subresources": {"status": {}},
        "schema": plan.consumer_schema(),
    });
    let columns: Vec<&Value> = definition.columns.iter().filter(|column| is_offered(plan, column)).collect();
    if !columns.is_empty() {
        version["additionalPrinterColumns"] = json!(columns);
    }
    json!({
        "apiVersion": "apis.kcp.io/v1alpha1",
        "kind": "APIResourceSchema",
        "metadata": {"name": schema_name(plan)},
        "spec": {
            "group": definition.group, "names": definition.names, "scope": "Namespaced", "versions": [version],
        },
    })
}

/// Whether a column of the operator's shows something that consumers have too.
fn is_offered(plan: &Plan, column: &Value) -> bool {
    let path = column["jsonPath"].as_str().unwrap_or_default();
    if path.starts_with(".status.conditions[") {
        return plan.report.conditions.is_some() && shows_ready(path);
    }
    // What chooses among the items of a list is as good as the list.
    let (keys, _) = path.split_once('[').unwrap_or((path, ""));
    let schema = plan.consumer_schema();
    let mut keys = keys.split('.').skip(1);
    path.starts_with(".metadata.") || keys.try_fold(&schema, |schema, key| schema["properties"].get(key)).is_some()
}

/// Whether a column shows the one condition that the mapping carries.
fn shows_ready(path: &str) -> bool {
    let choice = path.strip_prefix(".status.conditions[?(@.type").unwrap_or_default();
    let choice = choice.trim_start_matches([' ', '=']);
    choice.starts_with("\"Ready\"") || choice.starts_with("'Ready'")
}

fn export(plan: &Plan) -> Value {
    let definition = &plan.definition;
    let mut export = json!({
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIExport",
        "metadata": {"name": plan.name},
        "spec": {"resources": [{
            "group": definition.group, "name": definition.plural, "schema": schema_name(plan), "storage": {"crd": {}},
        }]},
    });
    if copies_secrets(plan) {
        export["spec"]["permissionClaims"] = json!([claim()]);
    }
    export
}

/// Whether the mapping copies Secrets to consumers, which their workspaces have to accept.
fn copies_secrets(plan: &Plan) -> bool {
    plan.secrets().next().is_some()
}

fn claim() -> Value {
    json!({"group": "", "resource": "secrets", "verbs": WRITE})
}

fn binding(plan: &Plan) -> Value {
    let mut binding = json!({
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": plan.name},
        "spec": {"reference": {"export": {"name": plan.name, "path": plan.workspace}}},
    });
    if copies_secrets(plan) {
        let mut accepted = claim();
        accepted["state"] = json!("Accepted");
        accepted["selector"] = json!({"matchAll": true});
        binding["spec"]["permissionClaims"] = json!([accepted]);
    }
    binding
}

fn mapping(plan: &Plan) -> String {
    let Plan { name, workspace, definition, .. } = plan;
    let (kind, api_version, resource) = (&definition.kind, definition.api_version(), definition.resource());
    let mut text = format!(
        "\
# {kind} as a service: an object of it in a consumer's workspace becomes one on the cluster where the operator runs.
# Written by `sync-engine init`, and yours from here on: README.md says what was left out of the consumers' API and why.
apiVersion: {API_VERSION}
kind: Mapping
metadata:
  name: {name}
spec:
  description: {kind} ({api_version})

  source:
    apiExport: {{name: {name}, path: \"{workspace}\"}}
    resource: {resource}

{related}  objects:
    - id: {ID}
      template:
        apiVersion: {api_version}
        kind: {kind}
",
        related = related(plan),
    );
    text.push_str(&labels(plan));
    plan.parts.iter().for_each(|part| text.push_str(&part_of_template(plan, part)));
    text.push_str(&status(plan));
    text
}

/// The labels that the operator reads.
fn labels(plan: &Plan) -> String {
    let mut lines = String::new();
    for label in plan.labels() {
        let says = format!("# The operator reads it: {} ({})", label.holds, label.documentation);
        lines.push_str(&format!("            {says}\n            {}: {}\n", label.key, label.value()));
    }
    if lines.is_empty() { lines } else { format!("        metadata:\n          labels:\n{lines}") }
}

/// The Secrets that the operator makes, for the consumer.
fn related(plan: &Plan) -> String {
    let entries: String = plan.secrets().map(|secret| indented(&secret.related(), 4)).collect();
    let Some(first) = plan.secrets().next() else { return String::new() };
    format!("  # Secrets that the operator makes: {}\n  related:\n{entries}\n", first.documentation)
}

/// A field of the template: the consumer's, and what the operator requires beside it.
fn part_of_template(plan: &Plan, part: &Part) -> String {
    let name = &part.name;
    let fallback = if part.required { "" } else { " | default(omit)" };
    let given = format!("${{{{ source.{name}{fallback} }}}}");
    let literals = part.offer.literals(&part.original, &plan.fields);
    if !part.required || literals.as_object().is_none_or(serde_json::Map::is_empty) {
        return format!("        {name}: {given}\n");
    }
    let literals = indented(&yaml::write(&literals), 14);
    format!(
        "        {name}:
          $merge:
            - {given}
            # The operator needs these, and they are not the consumer's to choose: put in what you run.
            - {}
",
        literals.trim()
    )
}

fn status(plan: &Plan) -> String {
    let fields: String = plan.report.fields.iter().map(|(path, _)| line(&path.join("."))).collect();
    let mut text = format!("\n  status:\n    from: {ID}\n");
    if !fields.is_empty() {
        text.push_str(&format!("    fields:\n{fields}"));
    }
    if let Some(operators::Ready { field, value, .. }) = plan.ready() {
        let says = format!("objects.{ID}.status.{field} | default(\"\")");
        text.push_str(&format!(
            "    conditions:\n      - type: Ready\n        status: ${{{{ {says} == \"{value}\" }}}}\n        reason: ${{{{ objects.{ID}.status.{field} | default(\"Provisioning\") }}}}\n"
        ));
        return text;
    }
    let Some(texts) = plan.report.conditions else { return text };
    let ready = format!("condition(objects.{ID}, \"Ready\")");
    text.push_str(&format!(
        "    conditions:\n      - type: Ready\n        status: ${{{{ {ready}.status | default(\"Unknown\") == \"True\" }}}}\n"
    ));
    if texts.reason {
        text.push_str(&format!("        reason: ${{{{ {ready}.reason | default(\"Provisioning\") }}}}\n"));
    }
    if texts.message {
        text.push_str(&format!(
            "        message: ${{{{ {ready}.message | default(\"\") | replace(placement.namespace, source.metadata.namespace) }}}}\n"
        ));
    }
    text
}

fn line(path: &str) -> String {
    format!("      {path}: $.status.{path}\n")
}

/// How the sandbox plays the operator.
fn operator(plan: &Plan) -> String {
    let status = json!({"status": plan.report.sample(&plan.definition)});
    let status = indented(&yaml::write(&status), 6);
    format!(
        "\
# How `sync-engine sandbox` plays the operator: what it writes into an object's status, some time after it was made.
apiVersion: sandbox.sync-engine.dev/v1alpha1
kind: ToyOperator
metadata:
  name: {}
spec:
  resource: {}
  steps:
    - after: 1s
{status}",
        plan.name,
        plan.definition.resource()
    )
}

fn test(plan: &Plan) -> String {
    let name = &plan.name;
    format!(
        "\
# What the mapping makes of the consumer's object beside this file: `sync-engine test`.
# `--update` writes the golden file anew.
apiVersion: {API_VERSION}
kind: MappingTest
metadata:
  name: {name}
spec:
  mapping: {name}
  cases:
    - name: a new one
      source: {name}.yaml
      workspace: {{cluster: abc123, path: \"root:orgs:acme\"}}
      expect:
        placement.name: {}
        objects.{ID}.kind: {}
      golden: {GOLDEN}
",
        plan.example_name(),
        plan.definition.kind
    )
}

fn indented(text: &str, columns: usize) -> String {
    let indent = " ".repeat(columns);
    let line = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("{indent}{line}\n") };
    text.lines().map(line).collect()
}
