//! Where schemas come from: APIResourceSchemas of kcp, CRDs, and OpenAPI v3 documents; APIExports say who publishes them.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::{Export, Origin, Schema, Schemas, short};
use crate::Kind;
use crate::diagnostic::Finding;
use crate::document::{ApiSchemaDocument, required_fields};
use crate::yaml::{self, Limits, Node, Typed, from_node};

impl Schemas {
    /// Adds what a file of a schemas directory holds, YAML or JSON. Documents of other kinds are passed over.
    pub fn add_file(&mut self, content: &[u8]) -> Vec<Finding> {
        if content.trim_ascii_start().starts_with(b"{")
            && let Ok(document) = serde_json::from_slice(content)
        {
            let mut findings = Vec::new();
            self.add_document(&document, None, &mut findings);
            return findings;
        }
        let mut findings = Vec::new();
        for document in yaml::parse_within(content, Limits::SCHEMAS) {
            if let Some(root) = &document.root {
                self.add_document(&root.to_json(), Some(root), &mut findings);
            }
            findings.extend(document.findings);
        }
        findings
    }

    /// Adds what an APIExport publishes, in place of what an earlier document of its name said.
    pub fn add_export(&mut self, export: &Value) {
        let name = export["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let published =
            schema_names(export).iter().filter_map(|name| Some(name.split_once('.')?.1.to_owned())).collect();
        self.exports.insert(name, Export { published, document: Arc::new(export.clone()) });
    }

    /// Adds the kinds of an OpenAPI v3 document.
    pub fn add_openapi(&mut self, document: &Value) {
        let definitions = Arc::new(document["components"]["schemas"].clone());
        for (_, definition) in definitions.as_object().into_iter().flatten() {
            for kind in definition["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
                let schema = Schema {
                    kind: kind_of(kind),
                    namespaced: None,
                    status_subresource: None,
                    root: definition.clone(),
                    definitions: definitions.clone(),
                };
                self.insert(schema, None, Origin::OpenApi);
            }
        }
        for (path, operations) in document["paths"].as_object().into_iter().flatten() {
            // A collection's path tells the resource of a kind: `/apis/<group>/<version>/…/<plural>`.
            let plural = path.rsplit('/').next().unwrap_or_default();
            let kind = kind_of(&operations["get"]["x-kubernetes-group-version-kind"]);
            let is_list = operations["get"]["x-kubernetes-action"] == "list";
            if let Some(schema) = self.kinds.get(&kind).filter(|_| is_list).cloned() {
                self.resources.entry(kind.resource(plural)).or_insert(schema);
            }
        }
    }

    fn add_document(&mut self, document: &Value, node: Option<&Arc<Node>>, findings: &mut Vec<Finding>) {
        match document["kind"].as_str() {
            Some("APIResourceSchema") => self.add_versions(document, node, Origin::ApiResourceSchema, findings),
            Some("CustomResourceDefinition") => {
                self.add_versions(document, node, Origin::CustomResourceDefinition, findings)
            }
            Some("APIExport") => self.add_export(document),
            Some("ApiSchema") => self.add_short(node, findings),
            Some("List") => {
                for item in document["items"].as_array().into_iter().flatten() {
                    self.add_document(item, None, findings);
                }
            }
            _ if document.get("openapi").is_some() => self.add_openapi(document),
            _ => {}
        }
    }

    /// What `sync-engine schema build` writes from it; where that is written and differs, it was not built again.
    fn add_short(&mut self, node: Option<&Arc<Node>>, findings: &mut Vec<Finding>) {
        let Some(node) = node else { return };
        let typed: Option<Typed<ApiSchemaDocument>> = from_node(node, &required_fields, findings);
        let Some(built) = typed.and_then(|typed| short::build(&typed.value, findings)) else { return };
        let name = &built.export["metadata"]["name"];
        if !self.exports.contains_key(name.as_str().unwrap_or_default()) {
            self.add_export(&built.export);
        }
        self.add_versions(&built.resource_schema, Some(node), Origin::Short, findings);
    }

    /// Both kinds list versions; a CRD has its schema one level deeper.
    fn add_versions(
        &mut self,
        document: &Value,
        node: Option<&Arc<Node>>,
        origin: Origin,
        findings: &mut Vec<Finding>,
    ) {
        let crd = origin == Origin::CustomResourceDefinition;
        let spec = &document["spec"];
        let at = node.map_or(0..0, |node| node.headline());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, plural) = (text(&spec["names"]["kind"]), text(&spec["names"]["plural"]));
        if kind.is_empty() || plural.is_empty() {
            findings.push(Finding::new(
                "SE0130",
                at.clone(),
                "the schema document has no `spec.names.kind` and `plural`",
            ));
            return;
        }
        for (index, version) in spec["versions"].as_array().into_iter().flatten().enumerate() {
            let name = text(&version["name"]);
            let given = &version["schema"];
            let nested = given.get("openAPIV3Schema");
            if !crd && nested.is_some() {
                let message = format!("the schema of version `{name}` stands one level too deep");
                let key = node.and_then(|node| nested_key(node, index)).unwrap_or(at.clone());
                findings.push(
                    Finding::new("SE0131", key, message)
                        .label("kcp takes this for a field of no meaning")
                        .help("leave this line out: in an APIResourceSchema, `versions[].schema` is the schema itself")
                        .note("a CustomResourceDefinition has it one level deeper, under `openAPIV3Schema`"),
                );
            }
            let Some(root) = nested.or((!crd).then_some(given)).filter(|root| root.is_object()) else { continue };
            let schema = Schema {
                kind: Kind::new(text(&spec["group"]), name, &kind),
                namespaced: spec["scope"].as_str().map(|scope| scope == "Namespaced"),
                status_subresource: Some(version["subresources"].get("status").is_some()),
                root: root.clone(),
                definitions: Arc::default(),
            };
            let resource = schema.kind.resource(&plural);
            let is_other = |other: &&Arc<Schema>| other.root != schema.root;
            if !crd && (self.shorts.contains(&resource) || origin == Origin::Short) {
                if self.of_consumers(&resource).filter(is_other).is_some() {
                    let message = format!("the APIResourceSchema of {resource} is not the one of its ApiSchema");
                    let finding = Finding::new("SE0133", at.clone(), message);
                    findings.push(finding.help("run `sync-engine schema build`"));
                }
                self.shorts.insert(resource);
            }
            self.insert(schema, Some(&plural), origin);
        }
    }
}

/// What an OpenAPI document calls a kind.
fn kind_of(named: &Value) -> Kind {
    let [group, version, kind] = ["group", "version", "kind"].map(|field| named[field].as_str().unwrap_or_default());
    Kind::new(group, version, kind)
}

/// Names of the APIResourceSchemas of an APIExport, in either version of its document: `<prefix>.<plural>.<group>`.
pub fn schema_names(export: &Value) -> Vec<String> {
    let spec = &export["spec"];
    let named = spec["resources"].as_array().into_iter().flatten().filter_map(|one| one["schema"].as_str());
    let latest = spec["latestResourceSchemas"].as_array().into_iter().flatten().filter_map(Value::as_str);
    named.chain(latest).map(str::to_owned).collect()
}

/// Where `openAPIV3Schema` of a version stands.
fn nested_key(node: &Node, version: usize) -> Option<Range<usize>> {
    node.at(&["spec", "versions"])?
        .items()
        .get(version)?
        .get("schema")?
        .entry("openAPIV3Schema")
        .map(|(key, _)| key.span.clone())
}
