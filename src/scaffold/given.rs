//! Secrets that consumers name in their objects, and that the operator reads beside its own.

use serde_json::{Value, json};

use super::Plan;

/// Id of the entry of `related` that copies them.
pub const ID: &str = "given";

impl Plan {
    /// Fields with names of Secrets that the mapping copies: those that are known of the operator, as far as this API has them.
    pub fn given(&self) -> Vec<&'static str> {
        let known = self.operator.into_iter().flat_map(|operator| &operator.given.paths).map(String::as_str);
        known.filter(|path| self.offered(path).is_some()).collect()
    }

    /// Fields with names of Secrets and ConfigMaps that nothing brings to the operator: found by what fields are called.
    pub fn left(&self) -> Vec<String> {
        let mut named = Vec::new();
        self.parts.iter().for_each(|part| references(&part.offer.schema, &mut vec![part.name.clone()], &mut named));
        let (given, made) = (self.given(), self.operator.map(|operator| &operator.given.made[..]).unwrap_or_default());
        // Not what the operator makes under a name of the consumer's choice.
        let is_made = |path: &String| {
            made.contains(path) || self.secrets().any(|secret| secret.name.contains(&format!("source.{path} ")))
        };
        named.retain(|path| !is_made(path) && !given.iter().any(|known| known.starts_with(path.as_str())));
        named
    }

    /// The schema of a field that consumers have.
    fn offered(&self, path: &str) -> Option<&Value> {
        let (part, rest) = path.split_once('.')?;
        let part = self.parts.iter().find(|one| one.name == part)?;
        rest.split('.').try_fold(&part.offer.schema, |schema, key| {
            let field = schema["properties"].get(key.trim_end_matches("[]"))?;
            if key.ends_with("[]") { field.get("items") } else { Some(field) }
        })
    }

    /// The entry of `related` that copies them under their own names, for the operator looks for those. Without a line break at
    /// its end.
    pub fn copy_of_given(&self) -> Option<String> {
        let (given, operator) = (self.given(), self.operator?);
        (!given.is_empty()).then(|| copy(&given, operator.given.own.as_deref()))
    }

    /// What such an entry would be for the first field that nobody knows, as a comment.
    pub fn sketch_of_given(&self) -> Option<String> {
        let whole = |path: &String| {
            let is_secret = path.to_lowercase().contains("secret");
            let leaves = ["", ".name", ".secretName"].map(|end| format!("{path}{end}"));
            let text = |path: &String| self.offered(path).is_some_and(|schema| schema["type"] == "string");
            leaves.into_iter().find(|path| text(path) && is_secret && path.matches("[]").count() < 2)
        };
        let first = self.left().iter().find_map(whole)?;
        let lacks = "# Consumers name Secrets that nothing brings to the operator (README.md).";
        if !self.given().is_empty() {
            // A second entry would copy what both name to one place.
            let first = names_at(&first);
            return Some(format!("{lacks} Add those that you support to the list of\n# `{ID}`, such as `{first}`.\n"));
        }
        let entry = copy(&[&first], None);
        let lines: String = entry.lines().map(|line| format!("# {line}\n")).collect();
        Some(format!("{lacks} For each that you support, such as\n# `{first}`:\n{lines}"))
    }

    /// The Secrets that an object names, as a consumer would write them.
    pub fn secrets_of(&self, object: &Value) -> Vec<Value> {
        let mut names: Vec<&str> = self.given().iter().flat_map(|path| texts(object, path)).collect();
        names.sort_unstable();
        names.dedup();
        let keys = self.operator.into_iter().flat_map(|operator| &operator.given.keys);
        let data: Value = keys.map(|key| (key.clone(), Value::from("change-me"))).collect();
        let secret = |name: &str| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"},
                "stringData": data,
            })
        };
        names.into_iter().map(secret).collect()
    }
}

/// The entry of `related` for these fields. `own`: what the operator makes itself. Ends without a line break.
pub fn copy(paths: &[&str], own: Option<&str>) -> String {
    let lists: Vec<String> = paths.iter().map(|path| names_at(path)).collect();
    let all = format!("[{}] | flatten | select | unique", lists.join(",\n      "));
    let name = match own {
        None => "${{ name }}".to_owned(),
        // A copy in the place of the operator's own would be read as that.
        Some(own) => format!(
            "${{{{ (name if name == name | regex_replace(\"{own}\", \"\") else null)\n    | required(\"the operator makes Secrets with such names; rename the Secret\") }}}}"
        ),
    };
    let key = if name.contains('\n') { format!(">-\n    {name}") } else { name };
    format!(
        "- id: {ID}\n  direction: ToTarget\n  resource: secrets.v1\n  shared: Namespace\n  forEach: >-\n    ${{{{ {all} }}}}\n  as: name\n  key: {key}\n  from: {{name: \"{{{{ name }}}}\"}}"
    )
}

/// The names at a path, which may lead through a list.
fn names_at(path: &str) -> String {
    let (part, rest) = path.split_once('.').unwrap_or((path, ""));
    match rest.split_once("[].") {
        Some((list, below)) => {
            format!("source.{part} | dig(\"{list}\", []) | map(attribute=\"{below}\", default=\"\")")
        }
        None => format!("source.{part} | dig(\"{rest}\", \"\")"),
    }
}

/// The texts at a path.
fn texts<'o>(object: &'o Value, path: &str) -> Vec<&'o str> {
    let mut found = vec![object];
    for key in path.split('.') {
        let below = found.into_iter().filter_map(|value| value.get(key.trim_end_matches("[]")));
        found = match key.ends_with("[]") {
            true => below.filter_map(Value::as_array).flatten().collect(),
            false => below.collect(),
        };
    }
    found.into_iter().filter_map(Value::as_str).collect()
}

fn references(schema: &Value, path: &mut Vec<String>, found: &mut Vec<String>) {
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        if is_reference(name, below) {
            found.push(path.join("."));
        } else {
            references(below, path, found);
        }
        path.pop();
    }
    for key in ["items", "additionalProperties"] {
        let Some(below) = schema.get(key).filter(|below| below.is_object()) else { continue };
        if let Some(last) = path.last_mut() {
            last.push_str("[]");
            references(below, path, found);
        }
        if let Some(last) = path.last_mut() {
            last.truncate(last.len() - "[]".len());
        }
    }
}

/// Whether a field names a Secret or a ConfigMap: by its name, and by what it holds.
fn is_reference(name: &str, schema: &Value) -> bool {
    let lower = name.to_lowercase();
    let is_about = lower.contains("secret") || lower.contains("configmap");
    let inner = schema.get("items").unwrap_or(schema);
    let has_name = ["name", "secretName"].iter().any(|key| inner["properties"].get(key).is_some());
    is_about && (schema["type"] == "string" && (lower.ends_with("name") || lower.ends_with("secret")) || has_name)
}
