//! The mapping of a world: what its author wrote, as data, and what follows from it for a source. Written from the
//! language's documentation, not from the engine's code.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sync_engine::object::hash::tuple_hash;

use super::action::Edit;
use super::server::GROUP;

/// An object that a mapping makes of each source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub id: &'static str,
    pub kind: &'static str,
    /// What follows the placement's name.
    pub suffix: &'static str,
    /// Only for sources with `spec.extra`.
    pub conditional: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub name: &'static str,
    /// Plural of the source's resource.
    pub resource: &'static str,
    pub rules: Vec<Rule>,
    /// What the author writes into every object.
    pub edition: u32,
    /// Only sources with the label `tier: managed`.
    pub selects: bool,
    pub on_exit: &'static str,
    pub on_source_delete: &'static str,
    pub on_mapping_removed: &'static str,
}

pub const MAIN: Rule = Rule { id: "main", kind: "ConfigMap", suffix: "", conditional: false };
pub const CA: Rule = Rule { id: "ca", kind: "ConfigMap", suffix: "-ca", conditional: false };
pub const EXTRA: Rule = Rule { id: "extra", kind: "Secret", suffix: "-extra", conditional: true };
pub const WIDGET: Rule = Rule { id: "widget", kind: "Widget", suffix: "", conditional: false };

/// The rules that an author adds and removes.
pub const OPTIONAL: [Rule; 3] = [CA, EXTRA, WIDGET];

/// What every world begins with.
pub fn first(resource: &'static str) -> Mapping {
    Mapping {
        name: "m",
        resource,
        rules: vec![MAIN, CA],
        edition: 1,
        selects: false,
        on_exit: "Retain",
        on_source_delete: "Delete",
        on_mapping_removed: "Retain",
    }
}

impl Mapping {
    pub fn document(&self, is_kcp: bool) -> String {
        let clusters = match is_kcp {
            true => json!({"apiExport": {"name": "things", "path": "root"}}),
            false => json!({"provider": "plain"}),
        };
        let mut source = clusters;
        source["resource"] = format!("{}.v1.{GROUP}", self.resource).into();
        source["onExit"] = self.on_exit.into();
        if self.selects {
            source["selector"] = json!({"matchLabels": {"tier": "managed"}});
        }
        let lifecycle = json!({
            "onSourceDelete": self.on_source_delete, "onMappingRemoved": self.on_mapping_removed,
            "pruneGuard": {"maxObjects": 1000, "maxPercent": 100},
        });
        let objects: Vec<Value> = self.rules.iter().map(|rule| self.object(rule)).collect();
        let mapping = json!({
            "apiVersion": "sync-engine.dev/v1alpha1", "kind": "Mapping", "metadata": {"name": self.name},
            "spec": {
                "source": source, "objects": objects, "lifecycle": lifecycle,
                "status": {"from": self.rules[0].id, "fields": {"size": "$.data.size"}},
            },
        });
        let provider = json!({
            "apiVersion": "sync-engine.dev/v1alpha1", "kind": "ClusterProvider", "metadata": {"name": "plain"},
            "spec": {"kubeconfig": {"connection": "source"}},
        });
        format!("{mapping}\n---\n{provider}\n")
    }

    fn object(&self, rule: &Rule) -> Value {
        let mut template = json!({
            "apiVersion": api_version(rule.kind), "kind": rule.kind,
            "metadata": {"name": format!("{{{{ placement.name }}}}{}", rule.suffix)},
        });
        template["data"] = match rule.kind {
            "Secret" => json!({"token": "{{ source.spec.token | b64encode }}"}),
            _ => json!({
                "size": "{{ source.spec.size }}", "token": "{{ source.spec.token }}",
                "edition": self.edition.to_string(),
            }),
        };
        let mut object = json!({"id": rule.id, "template": template});
        if rule.conditional {
            object["when"] = "${{ source.spec.extra | default(false) }}".into();
        }
        object
    }

    /// Whether the mapping makes the object of this id for a source.
    pub fn wants(&self, id: &str, source: &Value) -> bool {
        let wanted = |rule: &Rule| !rule.conditional || source["spec"]["extra"] == true;
        self.rules.iter().any(|rule| rule.id == id && wanted(rule))
    }

    /// What becomes of it by an edit.
    pub fn edit(&mut self, edit: Edit, optional: &[Rule]) {
        match edit {
            Edit::Resource(resource) => self.resource = resource,
            Edit::Edition => self.edition += 1,
            Edit::Toggle(id) => match self.rules.iter().position(|present| present.id == id) {
                Some(index) => drop(self.rules.remove(index)),
                None => self.rules.extend(optional.iter().find(|rule| rule.id == id)),
            },
            Edit::Selector => self.selects = !self.selects,
            Edit::OnExit(policy) => self.on_exit = policy,
            Edit::OnSourceDelete(policy) => self.on_source_delete = policy,
            Edit::OnMappingRemoved(policy) => self.on_mapping_removed = policy,
            Edit::Name(suffix) => self.rules[0].suffix = suffix,
            Edit::Kind(kind) => self.rules[0].kind = kind,
            Edit::Id(id) => self.rules[0].id = id,
            Edit::Rename(name) => self.name = name,
            Edit::Remove | Edit::Break => {}
        }
    }

    /// Whether a source is one of those that the mapping selects.
    pub fn selects(&self, source: &Value) -> bool {
        !self.selects || source["metadata"]["labels"]["tier"] == "managed"
    }

    /// What a source should have on the target.
    pub fn objects(&self, cluster: &str, source: &Value) -> Vec<Wanted> {
        let text = |field: &str| source["metadata"][field].as_str().unwrap_or_default().to_owned();
        let namespace = placement(cluster, &text("namespace"));
        let token = source["spec"]["token"].as_str().unwrap_or_default();
        let wanted = self.rules.iter().filter(|rule| self.wants(rule.id, source));
        wanted
            .map(|rule| {
                let data = match rule.kind {
                    "Secret" => BTreeMap::from([("token".to_owned(), base64(token))]),
                    _ => BTreeMap::from([
                        ("size".to_owned(), source["spec"]["size"].to_string()),
                        ("token".to_owned(), token.to_owned()),
                        ("edition".to_owned(), self.edition.to_string()),
                    ]),
                };
                let name = format!("{}{}", text("name"), rule.suffix);
                Wanted { id: rule.id, kind: rule.kind, namespace: namespace.clone(), name, data }
            })
            .collect()
    }
}

/// Kinds that objects are made of, with their plurals: the last one by a CustomResourceDefinition.
pub const KINDS: [(&str, &str); 3] = [("ConfigMap", "configmaps"), ("Secret", "secrets"), ("Widget", "widgets")];

pub fn api_version(kind: &str) -> String {
    if kind == "Widget" { format!("{GROUP}/v1") } else { "v1".to_owned() }
}

/// Where a kind's objects are on the target.
pub fn url(kind: &str, namespace: &str, name: &str) -> String {
    let plural = KINDS.iter().find(|(known, _)| *known == kind).map_or("", |(_, plural)| plural);
    let prefix = if kind == "Widget" { format!("/apis/{GROUP}/v1") } else { "/api/v1".to_owned() };
    let namespace = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    let name = if name.is_empty() { String::new() } else { format!("/{name}") };
    format!("{prefix}{namespace}/{plural}{name}")
}

/// An object that should be on the target.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub id: &'static str,
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub data: BTreeMap<String, String>,
}

/// The default namespace of a source's objects.
pub fn placement(cluster: &str, namespace: &str) -> String {
    format!("{namespace}-{}", tuple_hash([cluster, namespace], 10))
}

fn base64(text: &str) -> String {
    data_encoding::BASE64.encode(text.as_bytes())
}
