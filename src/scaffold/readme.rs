//! The README of a kit.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::Plan;
use super::report::{Sign, Signal};
use crate::mapping::check::reserved::{What, Why};

pub(super) fn readme(plan: &Plan) -> String {
    let parts: [fn(&Plan) -> String; 9] = [head, needs, kept, offered, secrets, given, ready, rules, live];
    parts.map(|part| part(plan)).concat()
}

fn head(plan: &Plan) -> String {
    let (name, kind) = (&plan.name, &plan.definition.kind);
    format!(
        "\
# {kind} for workspaces

A consumer's `{kind}` in any workspace that binds the APIExport `{name}` becomes one on the cluster where the operator
runs. Made by `sync-engine init` from the operator's CustomResourceDefinition; everything here is yours to edit.

| file | what it is |
|---|---|
| `mappings/{name}.yaml` | the mapping: what is made of a consumer's object, and what flows back |
| `schemas/apiresourceschema.yaml` | the API that consumers see: the operator's, less what stays with you |
| `schemas/apiexport.yaml` | publishes it from your workspace, `{workspace}` |
| `schemas/crd.yaml` | the operator's own API, against which the mapping is checked |
| `examples/apibinding.yaml`, `examples/{name}.yaml` | what a consumer applies |
| `examples/{name}.test.yaml` | a test of the mapping, with its golden file |
| `examples/operator.yaml` | how the sandbox plays the operator |

## Try it, without any cluster

```sh
sync-engine validate
sync-engine render -f examples/{name}.yaml
sync-engine test
sync-engine sandbox .
```
",
        workspace = plan.workspace
    )
}

/// What was left out, by reason.
fn kept(plan: &Plan) -> String {
    let mut by_reason: BTreeMap<Why, Vec<String>> = BTreeMap::new();
    let mut written = Vec::new();
    for kept in plan.kept() {
        by_reason.entry(kept.why).or_default().push(format!("`{kept}`"));
        let at = kept.path.join(".");
        let is_needed = |what: What| matches!(what, What::Written(..));
        let needed = kept.required || plan.fields.iter().any(|field| is_needed(field.what) && field.path == at);
        written.extend(needed.then(|| format!("`{kept}`")));
    }
    if by_reason.is_empty() {
        return "\n## What stays with you\n\nNothing had to be left out of the operator's API.\n".to_owned();
    }
    let mut text =
        "\n## What stays with you\n\nThese fields of the operator's API are not in the consumers':\n\n".to_owned();
    for (why, fields) in by_reason {
        let _ = writeln!(text, "* {}\n  ({})", fields.join(", "), why.sentence());
    }
    if !written.is_empty() {
        let _ = writeln!(
            text,
            "\nThe operator needs {}: the mapping writes a value that you should put your own in place of.",
            written.join(", ")
        );
    }
    text.push_str(
        "\nTo offer one of them after all, copy it from `schemas/crd.yaml` into `schemas/apiresourceschema.yaml`.\n",
    );
    text
}

/// What consumers decide although its name speaks against it.
fn offered(plan: &Plan) -> String {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for field in &plan.fields {
        if let What::Offered(why) = field.what {
            by_reason.entry(why).or_default().push(format!("`{}`", field.path));
        }
    }
    if by_reason.is_empty() {
        return String::new();
    }
    let mut text = "\n## What consumers decide, for a reason\n\n".to_owned();
    for (why, fields) in by_reason {
        let _ = writeln!(text, "* {}\n  ({why})", fields.join(", "));
    }
    text
}

/// What the operator makes beside its objects.
fn secrets(plan: &Plan) -> String {
    let mut text = String::new();
    for secret in plan.secrets() {
        let keys = secret.keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        let with = if keys.is_empty() { String::new() } else { format!(" with {keys}") };
        let _ = writeln!(text, "* `{}`{with} ([documentation]({}))", secret.name, secret.documentation);
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "
## Secrets that the operator makes

{text}
The mapping copies them to consumers (`related`). The APIExport claims Secrets for that, and each consumer accepts the claim in the APIBinding.
"
    )
}

/// What the mapping lacks until its author adds it.
fn needs(plan: &Plan) -> String {
    let needs: Vec<_> = plan.operator.into_iter().flat_map(|operator| &operator.needs).collect();
    if needs.is_empty() {
        return String::new();
    }
    let lines: String = needs.iter().map(|need| format!("* {need}.\n")).collect();
    format!("\n## What you have to add\n\nThe operator needs more than its object:\n\n{lines}")
}

/// Objects beside theirs that consumers name.
fn given(plan: &Plan) -> String {
    let shown = |paths: &[&str]| paths.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
    let (given, left) = (plan.given(), plan.left());
    let left: Vec<&str> = left.iter().map(String::as_str).collect();
    let mut text = String::new();
    if !given.is_empty() {
        let _ = write!(
            text,
            "
The mapping copies the Secrets that these fields name to the operator, under the same names (`related`): {}.
",
            shown(&given)
        );
    }
    if !left.is_empty() {
        let _ = write!(
            text,
            "
The operator reads or writes objects beside its own under the names in these fields. The mapping copies none of them from the consumer's
namespace: for each that you support, add an entry with `direction: ToTarget` to `related`, and take the other fields out of
`schemas/apiresourceschema.yaml`.

{}
",
            shown(&left)
        );
    }
    if text.is_empty() { text } else { format!("\n## Secrets and ConfigMaps that consumers name\n{text}") }
}

/// How consumers see that all is well.
fn ready(plan: &Plan) -> String {
    let kind = &plan.definition.kind;
    let text = match &plan.report.sign {
        None => format!(
            "Nothing in the definition tells where the operator says that a `{kind}` is ready, so consumers get no condition `Ready`. Look \
             into the operator's documentation, and add `ready` to the object and a condition to `status.conditions` of the mapping."
        ),
        Some(Sign { signal: Signal::Condition { name, .. }, is_guess: true }) => format!(
            "The definition does not tell which conditions the operator reports. The mapping reads `{name}`, as most operators have it: look \
             into the operator's documentation, and put the right one in its place."
        ),
        Some(Sign { signal: Signal::Condition { name, .. }, .. }) => {
            format!("Consumers see a condition `Ready`: the operator's condition `{name}`.")
        }
        Some(Sign { signal: Signal::Field { name, value, .. }, .. }) => {
            format!(
                "Consumers see a condition `Ready`. It is true where the operator writes `{value}` into `status.{name}`."
            )
        }
    };
    format!("\n## Ready\n\n{text}\n")
}

/// Rules that the example may break, for nothing here can evaluate them.
fn rules(plan: &Plan) -> String {
    let mut found = Vec::new();
    for part in plan.parts.iter().filter(|part| part.required) {
        collect(&part.original, &part.offer.schema, &mut found);
    }
    if found.is_empty() {
        return String::new();
    }
    let mut text = "\n## Rules of the operator's API\n\nThe example was not checked against these (they are in CEL); its server will:\n\n".to_owned();
    for rule in found {
        let _ = writeln!(text, "* {rule}");
    }
    text
}

/// Each rule once, of what is offered.
fn collect(schema: &Value, offered: &Value, found: &mut Vec<String>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let message = rule["message"].as_str().or(rule["rule"].as_str()).unwrap_or_default();
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        if !found.contains(&message) {
            found.push(message);
        }
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(offered) = offered["properties"].get(name) {
            collect(below, offered, found);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let (Some(below), Some(offered)) = (schema.get(key), offered.get(key)) {
            collect(below, offered, found);
        }
    }
}

fn live(plan: &Plan) -> String {
    let name = &plan.name;
    format!(
        "
## For real

In the provider's workspace ({workspace}), publish the API; on the cluster, install the operator; then run the engine:

```sh
kubectl apply -f schemas/apiresourceschema.yaml -f schemas/apiexport.yaml   # in {workspace}
kubectl apply -f examples/apibinding.yaml   # in a consumer's workspace, as the next two
kubectl wait --for jsonpath='{{.status.phase}}'=Bound apibinding/{name}
kubectl apply -f examples/{name}.yaml
sync-engine --mappings mappings --kcp-kubeconfig kcp.kubeconfig --target-kubeconfig target.kubeconfig
```

An APIResourceSchema never changes: for a new version of the API, give it a new name (`v2.…`) and name that in the export.
",
        workspace = plan.workspace
    )
}
