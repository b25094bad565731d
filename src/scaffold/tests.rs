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

fn assert_nothing_is_wrong_with(kit: &Kit, mapping: &str) {
    let mut schemas = Schemas::default();
    for path in ["schemas/apiresourceschema.yaml", "schemas/crd.yaml"] {
        assert!(schemas.add_file(file(kit, path).as_bytes()).is_empty(), "{path}");
    }
    let outcome = compile(&yaml::parse_one(file(kit, mapping)).expect("a document"));
    assert_eq!(outcome.findings, []);
    let Some(Compiled::Mapping(mapping)) = outcome.compiled else { panic!("no mapping") };
    assert_eq!(check(&mapping, &schemas), []);
}

#[test]
fn a_mapping_is_made_that_nothing_is_wrong_with() {
    let kit = made(definition(), &Wishes::default()).expect("a kit");
    insta::assert_snapshot!(file(&kit, "mappings/cache.yaml"));
    insta::assert_snapshot!("operator", file(&kit, "examples/operator.yaml"));
    insta::assert_snapshot!("example", file(&kit, "examples/cache.yaml"));
    assert_nothing_is_wrong_with(&kit, "mappings/cache.yaml");
}

/// The lines of a file from the one that starts with `first` on, up to an empty line.
fn part(kit: &Kit, path: &str, first: &str) -> String {
    let lines = file(kit, path).lines().skip_while(|line| !line.starts_with(first));
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// With a changed status and changed columns.
fn reporting(status: Value, columns: Value) -> Kit {
    let mut document = definition();
    let version = &mut document["spec"]["versions"][0];
    version["additionalPrinterColumns"] = columns;
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = json!({"type": "object", "properties": status});
    made(document, &Wishes::default()).expect("a kit")
}

fn conditions(kit: &Kit) -> String {
    part(kit, "mappings/cache.yaml", "    conditions:")
}

#[test]
fn ready_is_the_condition_that_a_column_shows() {
    let item = json!({"type": "object", "properties": {"type": {"type": "string"}, "status": {"type": "string"}}});
    let columns = json!([
        {"name": "Down", "type": "string", "jsonPath": ".status.conditions[?(@.type == 'NotReady')].status"},
        {"name": "Up", "type": "string", "jsonPath": ".status.conditions[?(@.type == 'ClusterAvailable')].status"},
    ]);
    let kit = reporting(json!({"conditions": {"type": "array", "items": item}}), columns);
    assert!(!kit.lacks);
    let mapping = file(&kit, "mappings/cache.yaml");
    let ready =
        "      ready: ${{ condition(objects.main, \"ClusterAvailable\").status | default(\"\") == \"True\" }}\n";
    assert!(mapping.contains(ready), "{mapping}");
    insta::assert_snapshot!(conditions(&kit), @r#"
        conditions:
          - type: Ready
            status: ${{ objects.main.ready | default(false) }}
            reason: ${{ "Ready" if objects.main.ready | default(false) else "Provisioning" }}
    "#);
    let schema = file(&kit, "schemas/apiresourceschema.yaml");
    assert!(
        schema.contains("[?(@.type == 'Ready')]") && !schema.contains("Cluster"),
        "consumers have `Ready`: {schema}"
    );
    assert!(file(&kit, "examples/operator.yaml").contains("type: ClusterAvailable"));
}

#[test]
fn ready_is_a_listed_value_of_a_phase() {
    let phase = json!({"type": "string", "enum": ["PENDING", "RUNNING", "FAILED"]});
    let kit = reporting(json!({"phase": phase, "message": {"type": "string"}}), json!([]));
    assert!(!kit.lacks);
    let mapping = file(&kit, "mappings/cache.yaml");
    assert!(mapping.contains("ready: ${{ objects.main.status.phase | default(\"\") == \"RUNNING\" }}"), "{mapping}");
    insta::assert_snapshot!(conditions(&kit), @r#"
        conditions:
          - type: Ready
            status: ${{ objects.main.ready | default(false) }}
            reason: ${{ objects.main.status.phase | default("Provisioning") }}
            message: ${{ objects.main.status.message | default("") }}
    "#);
    assert!(file(&kit, "examples/operator.yaml").contains("phase: RUNNING"));
}

#[test]
fn where_nobody_knows_what_ready_is_the_readme_says_so() {
    let kit = reporting(json!({"replicas": {"type": "integer"}}), json!([]));
    assert!(kit.lacks && conditions(&kit).is_empty());
    assert!(file(&kit, "README.md").contains("consumers get no condition `Ready`"));
    let guessed = made(definition(), &Wishes::default()).expect("a kit");
    assert!(
        guessed.lacks && file(&guessed, "README.md").contains("does not tell which conditions the operator reports")
    );
}

#[test]
fn what_is_only_the_targets_does_not_flow_back() {
    let text = json!({"type": "string"});
    let status = json!({
        "cpu": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true},
        "lastError": text, "nextPrivateKeySecretName": text, "promotionToken": text, "selector": text,
    });
    let kit = reporting(status, json!([]));
    let fields = part(&kit, "mappings/cache.yaml", "    fields:");
    assert_eq!(fields, "    fields:\n      cpu: $.status.cpu\n      lastError: $.status.lastError");
    assert!(!file(&kit, "examples/operator.yaml").contains("lastError"), "all is well in the sandbox");
}

#[test]
fn rules_are_listed_once_and_only_of_what_is_offered() {
    let mut document = definition();
    let spec = &mut document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let rule =
        |message: &str| json!({"type": "integer", "x-kubernetes-validations": [{"rule": "true", "message": message}]});
    (spec["a"], spec["b"], spec["c"]) = (rule("must be even"), rule("must not shrink"), rule("must be even"));
    spec["affinity"] = json!({"type": "object", "properties": {"weight": rule("topologyKey is required")}});
    let kit = made(document, &Wishes::default()).expect("a kit");
    let listed: Vec<_> =
        file(&kit, "README.md").lines().filter(|line| line.contains("must") || line.contains("Key")).collect();
    assert_eq!(listed, ["* must be even", "* must not shrink"]);
}

/// Its pods are withheld, and a group without pods is of no use.
#[test]
fn what_the_author_has_to_write_is_withheld_and_said() {
    let mut document = definition();
    document["spec"]["group"] = "ray.io".into();
    document["spec"]["names"]["kind"] = "RayCluster".into();
    let spec = &mut document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    spec["workerGroupSpecs"] = json!({"type": "array", "items": {"type": "object", "properties": {
        "replicas": {"type": "integer"}, "template": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "containers": {"type": "array"},
        }}}},
    }}});
    let kit = made(document, &Wishes::default()).expect("a kit");
    assert!(kit.lacks && kit.kept.iter().any(|kept| kept.path == ["spec", "workerGroupSpecs"]), "{:?}", kit.kept);
    assert!(file(&kit, "README.md").contains("\n## What you have to add\n"));
}

/// Velero takes all namespaces of the cluster where an object names none.
#[test]
fn what_would_reach_everywhere_without_a_value_is_written() {
    let mut document = definition();
    document["spec"]["group"] = "velero.io".into();
    document["spec"]["names"] = json!({"kind": "Backup", "plural": "backups", "singular": "backup"});
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let version = &mut document["spec"]["versions"][0];
    version["additionalPrinterColumns"] = json!([]);
    let fields = &mut version["schema"]["openAPIV3Schema"]["properties"];
    fields["status"]["properties"]["failureReason"] = json!({"type": "string"});
    fields["spec"]["required"] = json!(["ttl"]);
    fields["spec"]["properties"] = json!({
        "ttl": {"type": "string"}, "includedNamespaces": texts, "excludedNamespaces": texts,
        "includeClusterResources": {"type": "boolean"},
    });
    let kit = made(document, &Wishes::default()).expect("a kit");
    let mapping = file(&kit, "mappings/backup.yaml");
    assert!(mapping.contains("includedNamespaces: \"${{ [placement.namespace] }}\""), "{mapping}");
    let kept: Vec<String> = kit.kept.iter().map(ToString::to_string).collect();
    assert_eq!(kept, ["spec.includeClusterResources", "spec.includedNamespaces"]);
    assert_nothing_is_wrong_with(&kit, "mappings/backup.yaml");
}

/// Of an operator that is not known, they are a comment.
#[test]
fn secrets_that_consumers_name_are_listed() {
    let mut document = definition();
    let spec = &mut document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let name = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    spec["properties"]["users"] =
        json!({"type": "array", "items": {"type": "object", "properties": {"passwordSecretRef": name}}});
    spec["properties"]["tls"] = json!({"type": "object", "properties": {"secretName": {"type": "string"}}});
    spec["properties"]["secretRotation"] = json!({"type": "boolean"});
    let kit = made(document.clone(), &Wishes::default()).expect("a kit");
    let readme = file(&kit, "README.md");
    assert!(readme.contains("\n`spec.tls.secretName`, `spec.users[].passwordSecretRef`\n"), "{readme}");
    insta::assert_snapshot!(part(&kit, "mappings/cache.yaml", "  # related:"));
    // This one is known to read `spec.tls.secretName`.
    document["spec"]["group"] = "rabbitmq.com".into();
    document["spec"]["names"]["kind"] = "RabbitmqCluster".into();
    let kit = made(document, &Wishes::default()).expect("a kit");
    let sketch = part(&kit, "mappings/cache.yaml", "    # Consumers name Secrets that nothing brings");
    let list = r#"`source.spec | dig("users", []) | map(attribute="passwordSecretRef.name", default="")`"#;
    assert!(sketch.ends_with(&format!("to the list of\n    # `given`, such as {list}.")), "{sketch}");
    let operator = file(&kit, "examples/operator.yaml");
    assert!(operator.contains("{{ object.metadata.name }}-default-user"), "the sandbox shows its copy: {operator}");
}

/// Crossplane writes that Secret, so it goes back to the consumer.
#[test]
fn a_secret_that_an_object_asks_for_is_the_consumers() {
    let mut document = definition();
    let spec = &mut document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    spec["writeConnectionSecretToRef"] = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let kit = made(document, &Wishes::default()).expect("a kit");
    insta::assert_snapshot!(part(&kit, "mappings/cache.yaml", "  related:"), @r#"
      related:
        # Secrets that the operator makes: https://docs.crossplane.io/v1.20/concepts/connection-details/
        - id: connection
          direction: ToSource
          resource: secrets.v1
          from: {name: "{{ placement.name }}-connection"}
          to: {name: "{{ source.metadata.name }}-connection"}
          ownerReference: true
          onMissing: Skip
    "#);
    let written = r#"writeConnectionSecretToRef: "${{ {\"name\": placement.name ~ \"-connection\"} }}""#;
    assert!(file(&kit, "mappings/cache.yaml").contains(written), "{}", file(&kit, "mappings/cache.yaml"));
}

/// The target has the consumers' names.
#[test]
fn names_that_are_too_long_for_the_target_are_none_for_consumers() {
    let mut document = definition();
    let name = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 63}}});
    document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["metadata"] = name;
    let kit = made(document.clone(), &Wishes::default()).expect("a kit");
    assert!(file(&kit, "schemas/apiresourceschema.yaml").contains("maxLength: 63"));
    // This operator takes fewer characters.
    document["spec"]["group"] = "pxc.percona.com".into();
    document["spec"]["names"]["kind"] = "PerconaXtraDBCluster".into();
    let spec = &mut document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    spec["pxc"] = json!({"type": "object", "properties": {"image": {"type": "string"}, "size": {"type": "integer"}}});
    let named = Wishes { name: Some("a-name-of-20-letters".into()), ..Wishes::default() };
    let kit = made(document, &named).expect("a kit");
    assert!(file(&kit, "schemas/apiresourceschema.yaml").contains("maxLength: 22"));
    assert!(file(&kit, "examples/a-name-of-20-letters.yaml").contains("name: example\n"));
    let mapping = file(&kit, "mappings/a-name-of-20-letters.yaml");
    assert!(mapping.contains("image: \"percona/percona-xtradb-cluster:"), "it takes none without an image: {mapping}");
}

/// What is wrong with whole files, the tests of `init` show.
#[test]
fn what_cannot_be_offered_is_said() {
    let mut document = definition();
    let other = Definition::choose(std::slice::from_ref(&document), None, Some("v2")).expect_err("refused");
    insta::assert_snapshot!(other, @"Cache has no version `v2`; it has v1");
    let named = Wishes { name: Some("Cache".into()), ..Wishes::default() };
    insta::assert_snapshot!(made(document.clone(), &named).expect_err("refused"), @"`Cache` cannot name a mapping; give a name of at most 40 lower case letters, digits and `-` with --name");
    document["spec"]["group"] = Value::Null;
    insta::assert_snapshot!(made(document, &Wishes::default()).expect_err("refused"), @"the definition lacks `spec.group`");
}
