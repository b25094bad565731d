use serde_json::{Value, json};

use super::*;
use crate::mapping::check::check;
use crate::mapping::compile::{Compiled, compile};
use crate::mapping::schema::Schemas;
use crate::yaml;

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"kind": "Cache", "plural": "caches", "singular": "cache"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Endpoint", "type": "string", "jsonPath": ".status.write.host"},
                    {"name": "Image", "type": "string", "jsonPath": ".spec.runtime.image"},
                ],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["size", "runtime"], "properties": {
                        "size": {"type": "integer", "minimum": 3},
                        "runtime": {"type": "object", "required": ["image"], "properties": {"image": {"type": "string"}}},
                        "sidecars": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                    }},
                    "policy": {"type": "string", "enum": ["Keep", "Drop"]},
                    "status": {"type": "object", "required": ["phase"], "properties": {
                        "phase": {"type": "string"},
                        "write": {"type": "object", "properties": {"host": {"type": "string"}}},
                        "conditions": {"type": "array", "items": {"type": "object", "properties": {
                            "type": {"type": "string"}, "status": {"type": "string"}, "reason": {"type": "string"},
                        }}},
                    }},
                }}},
            }],
        },
    })
}

fn made(document: Value, wishes: &Wishes) -> Result<Kit, Unsuitable> {
    kit(Definition::choose(&[document], None, None)?, wishes)
}

fn file<'k>(kit: &'k Kit, path: &str) -> &'k str {
    let found = kit.files.iter().find(|(name, _)| name == path);
    found.map(|(_, content)| content.as_str()).unwrap_or_else(|| panic!("no {path}"))
}

#[test]
fn a_mapping_is_made_that_nothing_is_wrong_with() {
    let kit = made(definition(), &Wishes::default()).expect("a kit");
    insta::assert_snapshot!(file(&kit, "mappings/cache.yaml"));
    insta::assert_snapshot!("operator", file(&kit, "examples/operator.yaml"));
    insta::assert_snapshot!("example", file(&kit, "examples/cache.yaml"));
    insta::assert_snapshot!("readme", file(&kit, "README.md"));
    let mut schemas = Schemas::default();
    for path in ["schemas/apiresourceschema.yaml", "schemas/crd.yaml"] {
        assert!(schemas.add_file(file(&kit, path).as_bytes()).is_empty(), "{path}");
    }
    let document = yaml::parse_one(file(&kit, "mappings/cache.yaml")).expect("a document");
    let outcome = compile(&document);
    assert!(outcome.findings.is_empty(), "{:#?}", outcome.findings);
    let Some(Compiled::Mapping(mapping)) = outcome.compiled else { panic!("no mapping") };
    let findings = check(&mapping, &schemas);
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn what_cannot_be_offered_is_said() {
    let refused = |change: fn(&mut Value), wishes: &Wishes| {
        let mut document = definition();
        change(&mut document);
        made(document, wishes).expect_err("refused").to_string()
    };
    let none = Wishes::default();
    insta::assert_snapshot!(refused(|document| document["kind"] = "Pod".into(), &none));
    insta::assert_snapshot!(refused(|document| document["spec"]["scope"] = "Cluster".into(), &none));
    insta::assert_snapshot!(refused(|document| document["spec"]["group"] = Value::Null, &none));
    insta::assert_snapshot!(refused(|document| document["spec"]["versions"][0]["schema"] = json!({}), &none));
    insta::assert_snapshot!(refused(|_| {}, &Wishes { name: Some("Cache".into()), ..Wishes::default() }));
    let both = [definition(), definition()];
    let choose = |kind, version| Definition::choose(&both, kind, version).expect_err("refused").to_string();
    insta::assert_snapshot!(choose(None, None), @"it defines several kinds: Cache, Cache; choose one with --kind");
    insta::assert_snapshot!(choose(Some("Cash"), None), @"it defines no kind `Cash`; it defines Cache, Cache");
    insta::assert_snapshot!(choose(Some("Cache"), Some("v2")), @"Cache has no version `v2`; it has v1");
}
