//! Rights that an engine needs because it hands them on: Kubernetes lets nobody grant what they do not hold.

use serde_json::Value;

use super::{Rule, rule, texts};
use crate::mapping::{Mapping, ObjectRule, Side};

const GROUP: &str = "rbac.authorization.k8s.io";

/// What a mapping's Roles on one side grant, and what its RoleBindings bind.
pub(super) fn rules(mapping: &Mapping, side: Side) -> Vec<Rule> {
    let of_kind = |kind: &str| -> Vec<Value> {
        let is_meant = |rule: &ObjectRule| rule.kind.group == GROUP && rule.kind.side == side;
        let of_group = mapping.written_objects().filter(|(_, rule)| is_meant(rule));
        of_group.filter(|(_, rule)| rule.kind.kind == kind).map(|(written, _)| written.to_json()).collect()
    };
    let roles = of_kind("Role");
    let own: Vec<&Value> = roles.iter().map(|role| &role["template"]["metadata"]["name"]).collect();
    let mut rules: Vec<Rule> = roles.iter().flat_map(|role| role_rules(mapping, role)).collect();
    rules.extend(of_kind("RoleBinding").iter().filter_map(|binding| binding_rule(mapping, binding, &own)));
    rules
}

/// A Role's rules, to be held; where they are not literal, the right to grant any.
fn role_rules(mapping: &Mapping, object: &Value) -> Vec<Rule> {
    let id = object["id"].as_str().unwrap_or_default();
    let given = &object["template"]["rules"];
    if !is_literal(given) {
        let why = format!("mapping {}: object {id} grants what an expression says", mapping.name);
        return vec![rule(GROUP, "roles", &["escalate"], &why)];
    }
    let why = format!("mapping {}: object {id} hands it on", mapping.name);
    let mut rules = Vec::new();
    for given in given.as_array().into_iter().flatten() {
        let (groups, resources) = (list(&given["apiGroups"]), list(&given["resources"]));
        for group in &groups {
            for resource in &resources {
                let verbs = list(&given["verbs"]);
                let names = list(&given["resourceNames"]);
                rules.push(Rule { verbs, names, ..rule(group, resource, &[], &why) });
            }
        }
    }
    rules
}

/// Binding a role of the mapping's own needs nothing more: its rights are held.
fn binding_rule(mapping: &Mapping, object: &Value, own: &[&Value]) -> Option<Rule> {
    let reference = &object["template"]["roleRef"];
    let name = &reference["name"];
    if reference["kind"] == "Role" && own.contains(&name) {
        return None;
    }
    let id = object["id"].as_str().unwrap_or_default();
    let resource = if reference["kind"] == "ClusterRole" { "clusterroles" } else { "roles" };
    let why = format!("mapping {}: object {id} binds it", mapping.name);
    let names = if is_literal(name) { texts(&[name.as_str().unwrap_or_default()]) } else { Vec::new() };
    Some(Rule { names, ..rule(GROUP, resource, &["bind"], &why) })
}

fn list(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Whether nothing in a part of a template is evaluated.
fn is_literal(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.contains("{{") && !text.contains("{%"),
        Value::Array(items) => items.iter().all(is_literal),
        Value::Object(fields) => fields.iter().all(|(key, value)| !key.starts_with('$') && is_literal(value)),
        _ => true,
    }
}
