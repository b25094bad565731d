//! The files of a kit.

use serde_json::{Map, Value, json};

use super::operators::Secret;
use super::report::{ConditionTexts, Signal, shown_condition};
use super::{Part, Plan, given, readme};
use crate::mapping::document::API_VERSION;
use crate::mapping::schema::short::{self, Built};
use crate::object::claims::WRITE;
use crate::yaml;

/// Where the test's golden file goes, relative to the test.
pub const GOLDEN: &str = "testdata/new.golden.yaml";

/// Id of the object that a consumer's becomes.
const ID: &str = "main";

pub(super) fn all(plan: &Plan) -> Vec<(String, String)> {
    let name = &plan.name;
    let Built { resource_schema, export } = api(plan);
    let files = [
        ("README.md".to_owned(), readme::readme(plan)),
        (format!("mappings/{name}.yaml"), mapping(plan)),
        ("schemas/apiresourceschema.yaml".to_owned(), yaml::write(&resource_schema)),
        ("schemas/apiexport.yaml".to_owned(), yaml::write(&export)),
        ("schemas/crd.yaml".to_owned(), yaml::write(&plan.definition.document)),
        ("examples/apibinding.yaml".to_owned(), yaml::write(&binding(plan))),
        (format!("examples/{name}.yaml"), yaml::write_all(&plan.examples())),
        ("examples/operator.yaml".to_owned(), operator(plan)),
        (format!("examples/{name}.test.yaml"), test(plan)),
    ];
    files.into()
}

/// Name of the APIResourceSchema.
pub(super) fn schema_name(plan: &Plan) -> String {
    format!("v1.{}", plan.definition.resource.group_plural())
}

fn api(plan: &Plan) -> Built {
    let definition = &plan.definition;
    let mut version = json!({
        "name": definition.resource.version, "served": true, "storage": true, "subresources": {"status": {}},
        "schema": plan.consumer_schema(),
    });
    let columns: Vec<Value> = definition.columns.iter().filter_map(|column| offered_column(plan, column)).collect();
    if !columns.is_empty() {
        version["additionalPrinterColumns"] = columns.into();
    }
    let body = json!({
        "group": definition.resource.group, "names": definition.document["spec"]["names"], "scope": "Namespaced",
        "versions": [version],
    });
    let claims = copies_secrets(plan).then(claim).into_iter().collect();
    short::documents(&plan.name, &schema_name(plan), body, claims)
}

/// A column of the operator's, if it shows something that consumers have too. The condition that says that all is well is
/// theirs as `Ready`.
fn offered_column(plan: &Plan, column: &Value) -> Option<Value> {
    let path = column["jsonPath"].as_str().unwrap_or_default();
    if path.starts_with(".status.conditions[") {
        let sign = plan.report.sign.as_ref()?;
        let Signal::Condition { name, .. } = &sign.signal else { return None };
        let shown = shown_condition(path).filter(|shown| shown == name)?;
        let mut column = column.clone();
        if shown != "Ready" {
            column["name"] = "Ready".into();
            column["jsonPath"] = path.replacen(shown, "Ready", 1).into();
        }
        return Some(column);
    }
    // What chooses among the items of a list is as good as the list.
    let (keys, _) = path.split_once('[').unwrap_or((path, ""));
    let schema = plan.consumer_schema();
    let mut keys = keys.split('.').skip(1);
    let is_offered =
        path.starts_with(".metadata.") || keys.try_fold(&schema, |schema, key| schema["properties"].get(key)).is_some();
    is_offered.then(|| column.clone())
}

/// Whether the mapping copies Secrets from or to consumers, which their workspaces have to accept.
fn copies_secrets(plan: &Plan) -> bool {
    plan.secrets().next().is_some() || !plan.given().is_empty()
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
    let (kind, resource) = (&definition.kind, &definition.resource);
    let api_version = resource.api_version();
    let head = format!(
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
{objects}    - id: {ID}
{depends_on}      template:
        apiVersion: {api_version}
        kind: {kind}
",
        related = related(plan),
        objects = objects(plan),
        depends_on = depends_on(plan),
    );
    let parts: String = plan.parts.iter().map(|part| part_of_template(plan, part)).collect();
    [head, labels(plan), parts, ready(plan), sketch(plan), status(plan)].concat()
}

/// What the operator needs beside its object.
fn objects(plan: &Plan) -> String {
    plan.operator.map(|operator| &operator.objects).filter(|text| !text.is_empty()).map_or_else(String::new, |text| {
        format!("    # The operator needs these beside its object.\n{}\n", indented(text, 4))
    })
}

/// What is there before the operator's object.
fn depends_on(plan: &Plan) -> String {
    let copies = (!plan.given().is_empty()).then(|| format!("related.{}", given::ID));
    let objects = plan.operator.into_iter().flat_map(|operator| operator.object_ids()).map(str::to_owned);
    let all: Vec<String> = objects.chain(copies).collect();
    if all.is_empty() { String::new() } else { format!("      dependsOn: [{}]\n", all.join(", ")) }
}

/// What the operator needs as well, and the provider has to decide.
fn sketch(plan: &Plan) -> String {
    plan.operator.map(|operator| &operator.sketch).filter(|text| !text.is_empty()).map_or_else(String::new, |text| {
        let text = text.replace("API_VERSION", &plan.definition.resource.api_version());
        let lines: String = text.lines().map(|line| format!("    # {line}\n")).collect();
        format!("\n    # The operator needs this as well; how much of it is yours to say.\n{lines}")
    })
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

/// Secrets that the operator makes, for the consumer, and those of the consumer's that it reads.
fn related(plan: &Plan) -> String {
    let made = plan.secrets().next().map(|first| {
        let entries: String = plan.secrets().map(|secret| secret.related()).collect();
        format!("# Secrets that the operator makes: {}\n{entries}", first.documentation)
    });
    let given = plan
        .copy_of_given()
        .map(|entry| format!("# Secrets that consumers name. The operator reads them beside its object.\n{entry}\n"));
    let entries: Vec<String> = made.into_iter().chain(given).collect();
    let (head, sketch) = match (entries.is_empty(), plan.sketch_of_given()) {
        (true, None) => return String::new(),
        (true, Some(sketch)) => ("  # related:\n", Some(sketch)),
        (false, sketch) => ("  related:\n", sketch),
    };
    let all: Vec<String> = entries.into_iter().chain(sketch).map(|text| indented(&text, 4)).collect();
    format!("{head}{}\n", all.join("\n"))
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
    let field = |path: String| format!("      {path}: $.status.{path}\n");
    let fields: String = plan.report.fields.iter().map(|(path, _)| field(path.join("."))).collect();
    let mut text = format!("\n  status:\n    from: {ID}\n");
    if !fields.is_empty() {
        text.push_str(&format!("    fields:\n{fields}"));
    }
    text.push_str(&condition(plan));
    text
}

/// When the object is ready, where that is not what the engine takes for it by itself.
fn ready(plan: &Plan) -> String {
    let all_is_well = match plan.report.sign.as_ref().map(|sign| &sign.signal) {
        Some(Signal::Condition { name, .. }) if name != "Ready" => {
            format!("condition(objects.{ID}, \"{name}\").status | default(\"\") == \"True\"")
        }
        Some(Signal::Field { name, value, .. }) => {
            format!("objects.{ID}.status.{name} | default(\"\") == \"{value}\"")
        }
        _ => return String::new(),
    };
    format!("      ready: ${{{{ {all_is_well} }}}}\n")
}

/// The consumer's condition `Ready`.
fn condition(plan: &Plan) -> String {
    let Some(sign) = &plan.report.sign else { return String::new() };
    let lines: Vec<(&str, String)> = match &sign.signal {
        Signal::Field { name, value, message } => {
            let said = format!("objects.{ID}.status.{name} | default(\"Provisioning\")");
            let is_capital = value.starts_with(|first: char| first.is_ascii_uppercase());
            let reason = if is_capital { said } else { format!("{said} | capitalize") };
            let message = message.iter().map(|path| ("message", format!("objects.{ID}.status.{path} | default(\"\")")));
            let ready = ("status", format!("objects.{ID}.ready | default(false)"));
            [ready, ("reason", reason)].into_iter().chain(message).collect()
        }
        Signal::Condition { name, otherwise, texts } => texts_of_condition(name, otherwise.as_deref(), *texts),
    };
    let lines: String = lines.iter().map(|(key, value)| format!("        {key}: ${{{{ {value} }}}}\n")).collect();
    format!("    conditions:\n      - type: Ready\n{lines}")
}

fn texts_of_condition(name: &str, otherwise: Option<&str>, texts: ConditionTexts) -> Vec<(&'static str, String)> {
    let read = |name: &str, key: &str| format!("condition(objects.{ID}, \"{name}\").{key}");
    let is_true = |name: &str| format!("{} | default(\"\") == \"True\"", read(name, "status"));
    // The mapping says when the object is ready, where the engine does not know by itself.
    let holds = if name == "Ready" { is_true(name) } else { format!("objects.{ID}.ready | default(false)") };
    let said = |key: &str, fallback: &str| match otherwise {
        Some(otherwise) => {
            let (own, other) = (read(name, key), read(otherwise, key));
            format!("({other} if {} else {own}) | default({fallback})", is_true(otherwise))
        }
        None => format!("{} | default({fallback})", read(name, key)),
    };
    let mut lines = vec![("status", holds.clone())];
    // Some operators give no reason, or give one only where something is wrong.
    let reason = format!("\"Ready\" if {holds} else \"Provisioning\"");
    lines.push(("reason", if texts.reason { said("reason", &reason) } else { reason }));
    lines.extend(texts.message.then(|| ("message", said("message", "\"\""))));
    lines
}

/// How the sandbox plays the operator.
fn operator(plan: &Plan) -> String {
    let mut step = json!({"status": plan.report.sample(&plan.definition, plan.operator)});
    // The names are those that the mapping reads on the target.
    let name = |text: &str| text.replace("placement.name", "object.metadata.name").replace("source.", "object.");
    let secret = |secret: &Secret| {
        let data: Map<String, Value> = secret.keys.iter().map(|key| (key.clone(), "example".into())).collect();
        json!({"name": name(&secret.name), "data": data})
    };
    let secrets: Vec<Value> = plan.secrets().filter(|secret| secret.each.is_none()).map(secret).collect();
    if !secrets.is_empty() {
        step["secrets"] = secrets.into();
    }
    let step = indented(&yaml::write(&step), 6);
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
{step}",
        plan.name, plan.definition.resource
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
