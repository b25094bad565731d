use super::*;
use crate::compile::{Compiled, compile};
use crate::diagnostic::CODES;
use crate::schema::{Field, Form, View};
use crate::tests::{each, files, mapping, of_kind, read, rendered, snapshot};
use crate::yaml::{self, NodeValue};

fn schemas() -> Schemas {
    let mut schemas = Schemas::default();
    for path in files("tests/ui/checks/schemas").into_iter().chain(files("schemas/mongodb")) {
        assert_eq!(schemas.add_file(&std::fs::read(&path).expect("readable")), [], "{}", path.display());
    }
    schemas
}

/// Every finding of a file's mappings, which all compile.
fn shown(name: &str, file: &str, schemas: &Schemas) -> String {
    let mut parts = Vec::new();
    for document in yaml::parse(file.as_bytes()) {
        let outcome = compile(&document);
        let Some(Compiled::Mapping(mapping)) = outcome.compiled else { panic!("{name}: {:?}", outcome.findings) };
        parts.extend(rendered(check(&mapping, schemas), name, file));
        parts.push(format!("checked: mapping {}", mapping.name));
    }
    parts.join("\n\n")
}

/// Each file of `tests/ui/checks` has the text of its diagnostics beside it.
#[test]
fn diagnostics_of_checks() {
    let schemas = schemas();
    each("tests/ui/checks", |name, text| shown(name, text, &schemas));
}

/// The same of schema documents.
#[test]
fn diagnostics_of_schemas() {
    each("tests/ui/schemas", |name, text| {
        rendered(Schemas::default().add_file(text.as_bytes()), name, text).join("\n\n")
    });
}

/// What a mapping reads and writes without a schema is never wrong.
#[test]
fn without_schemas_nothing_is_said_of_types() {
    for path in files("tests/ui/checks") {
        let text = read(&path);
        for document in yaml::parse(text.as_bytes()) {
            let Some(Compiled::Mapping(mapping)) = compile(&document).compiled else { panic!("{}", path.display()) };
            let mut findings = check(&mapping, &Schemas::default());
            // A `when` of the document's own leaves things out, and some of all objects is known.
            let of_any = [" can be absent", "`metadata.", "`/metadata/", " ConfigMap (v1)", " Secret (v1)"];
            findings.retain(|finding| !of_any.iter().any(|part| finding.message.contains(part)));
            let codes = findings.into_iter().map(|finding| finding.code);
            // What the document itself writes has types without a schema.
            let of_document = [
                "SE0110", "SE0114", "SE0122", "SE0213", "SE0302", "SE0305", "SE0306", "SE0313", "SE0314", "SE0407",
                "SE0409", "SE0505", "SE0607",
            ];
            let about_types: Vec<_> =
                codes.filter(|code| !code.starts_with("SE07") && !of_document.contains(code)).collect();
            assert_eq!(about_types, Vec::<&str>::new(), "{}", path.display());
        }
    }
}

/// What a code of the registry says in words alone: it takes more than a document.
const IN_WORDS: [&str; 9] = ["SE0007", "SE0010", "SE0011", "SE0012", "SE0120", "SE0121", "SE0133", "SE0405", "SE0701"];

/// An example of the registry as a whole document: what it leaves out is as plain as can be.
fn framed(example: &str) -> String {
    if example.contains("\nkind: ") || example.starts_with("kind: ") {
        return example.to_owned();
    }
    let mut document =
        "apiVersion: sync-engine.dev/v1alpha1\nkind: Mapping\nmetadata: {name: databases}\nspec:\n".to_owned();
    let plain = [
        ("source:", "source: {apiExport: {name: databases}, resource: databases.v1.example.com}\n"),
        ("objects:", "objects:\n  - {id: db, template: {apiVersion: v1, kind: ConfigMap}}\n"),
    ];
    // Variables of an example are read, so that only what it is about is found.
    let root = yaml::parse_one(example).and_then(|document| document.root);
    let vars = match root.as_ref().and_then(|root| root.get("vars")).map(|vars| &vars.value) {
        Some(NodeValue::Mapping(entries)) => &entries[..],
        _ => &[],
    };
    let names = vars.iter().filter_map(|(key, _)| key.as_str()).filter(|name| !name.contains('-'));
    let read: String = names.map(|name| format!("{name}: \"{{{{ vars.{name} | tojson }}}}\", ")).collect();
    let missing = plain.iter().filter(|(key, _)| !example.lines().any(|line| line.starts_with(key)));
    let parts: String = missing.map(|(_, text)| *text).chain([example]).collect();
    let parts = if read.is_empty() {
        parts
    } else {
        parts.replacen("ConfigMap}", &format!("ConfigMap, data: {{{read}}}}}"), 1)
    };
    document.extend(parts.lines().map(|line| format!("  {line}\n")));
    document
}

/// Everything that is found in a file of one document, of whatever kind.
fn found(file: &str, schemas: &Schemas) -> Vec<Finding> {
    if file.contains("kind: APIResourceSchema") {
        return Schemas::default().add_file(file.as_bytes());
    }
    let document = yaml::parse(file.as_bytes()).remove(0);
    let outcome = compile(&document);
    match outcome.compiled {
        Some(Compiled::Mapping(mapping)) => [outcome.findings, check(&mapping, schemas)].concat(),
        _ => outcome.findings,
    }
}

/// A line without the names and values that it quotes.
fn form(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Each code's example brings it about, with a text that is reviewed here if no other file shows its like, its help included, and its
/// fix brings about nothing at all.
#[test]
fn every_code_has_an_example_and_a_fix() {
    let schemas = schemas();
    let folders = ["checks", "documents", "expressions", "schemas", "yaml"].map(|folder| format!("tests/ui/{folder}"));
    let reviewed: String = folders.iter().flat_map(|folder| of_kind(folder, "snap")).map(|path| read(&path)).collect();
    let reviewed: Vec<String> = reviewed.lines().map(form).collect();
    let is_reviewed = |Finding { code, message, help, .. }: &Finding| {
        let (message, help) = (form(message), help.as_deref().map(|help| form(&format!("= help: {help}"))));
        reviewed.iter().any(|line| line.contains(code) && line.ends_with(&message))
            && help.is_none_or(|help| reviewed.iter().any(|line| line.ends_with(&help)))
    };
    let mut wrong = Vec::new();
    for code in CODES.iter() {
        assert!(code.title.len() > 10 && code.explanation.ends_with('.'), "{}", code.code);
        // What is found on live clusters takes clusters.
        if IN_WORDS.contains(&code.code) || code.code.starts_with("SE08") {
            assert!(code.example.starts_with("# ") || code.example.contains("provider"), "{}", code.code);
            continue;
        }
        let bad = framed(code.example);
        // The schemas at hand are few.
        let about = |finding: &Finding| finding.code != "SE0505" || code.code == "SE0505";
        let findings: Vec<_> = found(&bad, &schemas).into_iter().filter(about).collect();
        if !findings.iter().any(|finding| finding.code == code.code) {
            wrong.push(format!("{}: the example gives {findings:?}", code.code));
        }
        if !code.fix.starts_with('#') {
            let left: Vec<_> = found(&framed(code.fix), &schemas).into_iter().filter(about).collect();
            if !left.is_empty() {
                wrong.push(format!("{}: the fix gives {left:?}", code.code));
            }
        }
        if findings.iter().all(is_reviewed) {
            continue;
        }
        snapshot("tests/ui/codes", code.code, &rendered(findings, "mapping.yaml", &bad).join("\n\n"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A fallback of another form takes no type away, and an entry of a map has those of its key and value.
#[test]
fn types_outlast_fallbacks_and_entries() {
    let schemas = schemas();
    let told = |text: &str| {
        let object = "objects:\n  - {id: db, template: {apiVersion: v1, kind: ConfigMap, data: {x: \"TEXT\"}}}\n";
        let findings = found(&framed(&object.replace("TEXT", text)), &schemas);
        findings.into_iter().map(|finding| format!("{} {}", finding.code, finding.message)).collect::<Vec<_>>()
    };
    let missing = "does not exist in Database (example.com/v1)";
    assert_eq!(
        told("{{ (source.spec.users | default([])).name }}"),
        [format!("SE0401 `(source.spec.users | default([])).name` {missing}")]
    );
    assert_eq!(
        told("{{ source.spec.regon | default('') == 'north' }}"),
        [format!("SE0401 `source.spec.regon` {missing}")]
    );
    let sum = "SE0407 `+` cannot take a string and an integer";
    assert_eq!(told("{{ (source.spec.tls | default('')).secret | default('') + 1 }}"), [sum]);
    let entries = "source.spec.tls | default({}) | items";
    let each = |names: &str, body: &str| told(&format!("{{% for {names} in {entries} %}}{body}{{% endfor %}}"));
    assert_eq!(each("name, one", "{{ name + 1 }}"), [sum]);
    assert_eq!(each("name, one", "{{ one.on }}"), [format!("SE0401 `one.on` {missing}")]);
    assert_eq!(each("entry", "{{ entry[0] + 1 }}"), [sum]);
    assert_eq!(each("entry", "{{ entry[0] }}={{ entry[1] }}"), Vec::<String>::new());
}

/// What the schema does not require of a condition is waited for with it.
#[test]
fn what_is_read_of_a_condition_is_what_conditions_have() {
    let mut schemas = schemas();
    let definition = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: engines.example.org}
spec:
  group: example.org
  names: {kind: Engine, plural: engines}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            status:
              type: object
              properties:
                conditions:
                  type: array
                  items:
                    type: object
                    properties: {type: {type: string}, reason: {type: string}, status: {type: string, enum: ['True', 'False']}}
";
    assert_eq!(schemas.add_file(definition.as_bytes()), []);
    let condition = "condition(objects.db, \"Ready\")";
    let told_of = |read: &str| {
        let objects = format!(
            "vars: {{ready: '${{{{ {condition} }}}}'}}
objects:
  - {{id: db, template: {{apiVersion: example.org/v1, kind: Engine}}}}
  - {{id: view, template: {{apiVersion: v1, kind: ConfigMap, data: {{x: '{{{{ {read} }}}}', y: '{{{{ vars.ready.type }}}}'}}}}}}
"
        );
        let findings = found(&framed(&objects), &schemas).into_iter();
        findings.map(|finding| format!("{} {}", finding.code, finding.message)).collect::<Vec<_>>()
    };
    let told = |rest: &str| told_of(&format!("{condition}{rest}"));
    for good in [
        "vars.ready.reason".to_owned(),
        "vars.ready.status == \"True\"".to_owned(),
        format!("({condition} | required(\"not reported\")).reason"),
        format!("({condition} if placement.name == \"a\" else condition(objects.db, \"Up\")).reason"),
    ] {
        assert_eq!(told_of(&good), Vec::<String>::new(), "{good}");
    }
    for good in [".reason", ".status == \"True\"", ".status | default(\"\") == \"True\""] {
        assert_eq!(told(good), Vec::<String>::new(), "{good}");
    }
    assert_eq!(told(".status == \"true\""), ["SE0403 what is compared here is never \"true\""]);
    assert_eq!(told(".status | default(\"\") == true"), ["SE0403 what is compared here is never true"]);
    let missing = "SE0404 `condition(objects.db, \"Ready\").stats` does not exist in Engine (example.org/v1)";
    assert_eq!(told(".stats == \"True\""), [missing]);
}

/// The name of a ClusterTrustBundle begins with that of its signer, with a `:` for each `/`.
#[test]
fn a_colon_is_refused_in_names_that_cannot_have_one() {
    let schemas = schemas();
    let is_refused = |kind: &str| {
        let name = "example.com:ca:{{ placement.name }}";
        let object = format!("objects:\n  - {{id: db, template: {{{kind}, metadata: {{name: \"{name}\"}}}}}}\n");
        found(&framed(&object), &schemas).iter().any(|finding| finding.code == "SE0110")
    };
    assert!(is_refused("apiVersion: v1, kind: ConfigMap"));
    assert!(!is_refused("apiVersion: rbac.authorization.k8s.io/v1, kind: Role"));
    assert!(!is_refused("apiVersion: certificates.k8s.io/v1beta1, kind: ClusterTrustBundle"));
}

/// Entries of a map that are chosen by what is in their values have that.
#[test]
fn what_entries_are_chosen_by_is_there() {
    let schemas = schemas();
    let told = |names: &str, chosen: &str, read: &str| {
        let text = format!("{{% for {names} in {{'a': source.spec}} | items{chosen} %}}{{{{ {read} }}}}{{% endfor %}}");
        let object = format!(
            "objects:\n  - {{id: db, template: {{apiVersion: v1, kind: ConfigMap, data: {{x: \"{text}\"}}}}}}\n"
        );
        found(&framed(&object), &schemas).into_iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    for (names, read) in [("name, one", "one.region"), ("entry", "entry[1].region")] {
        assert_eq!(told(names, "", read), ["SE0402"], "{read}");
        assert_eq!(told(names, " | selectattr('1.region', 'defined')", read), Vec::<&str>::new(), "{read}");
        assert_eq!(told(names, " | selectattr('1.plan', 'defined')", read), ["SE0402"], "{read}");
    }
}

/// A number or a truth value is text where it is printed alone, and only some texts are taken.
#[test]
fn a_number_that_is_printed_is_tried_against_the_pattern_of_its_place() {
    let schemas = schemas();
    let told = |field: &str, value: &str| {
        let spec = format!("{{type: ReplicaSet, size: 1, {field}: \"{value}\"}}");
        let object = format!(
            "objects:\n  - {{id: db, template: {{apiVersion: db.example.com/v1, kind: Cluster, spec: {spec}}}}}\n"
        );
        let findings = found(&framed(&object), &schemas).into_iter();
        findings.map(|finding| format!("{} {}", finding.code, finding.help.unwrap_or_default())).collect::<Vec<_>>()
    };
    let refused = [r"SE0504 the pattern is `^[0-9]+\.[0-9]+$`, and no integer is like that"];
    assert_eq!(told("version", "{{ source.spec.port }}"), refused);
    assert_eq!(told("version", "${{ source.spec.port | string }}"), refused);
    let port = "{{ source.spec.port }}";
    for (field, value) in
        [("version", "{{ source.spec.port }}.0"), ("listener", port), ("gate", port), ("members", port)]
    {
        assert_eq!(told(field, value), Vec::<String>::new(), "{field}: {value}");
    }
}

/// It has a `plan`, a storage, endpoints, a connection's secret and members' hosts, which the shipped schemas have not.
#[test]
fn the_full_document_is_checked_without_a_panic() {
    let mapping = mapping(include_str!("../../../../tests/ui/documents/good.yaml"));
    let codes: Vec<_> = check(&mapping, &schemas()).into_iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["SE0314", "SE0401", "SE0122", "SE0118", "SE0601", "SE0606", "SE0601", "SE0606"]);
}

/// A consumer who asks for a million members or an exabyte is refused by the schema.
#[test]
fn what_consumers_ask_for_has_an_upper_bound_in_the_shipped_schemas() {
    fn look(view: View<'_>, path: &str, unbounded: &mut Vec<String>) {
        let (pattern, _, maximum) = view.bounds();
        let is_number = matches!(view.form(), Form::Integer | Form::Number);
        // A pattern of quantities takes no words.
        let pattern = pattern.map(|pattern| regex::Regex::new(pattern).expect("a pattern"));
        let takes = |text: &str| pattern.as_ref().is_some_and(|pattern| pattern.is_match(text));
        let is_endless = ["Mi", "Gi", "Ti", ""].iter().any(|unit| takes(&format!("999999999{unit}")));
        if view.choices().is_none() && (is_number && maximum.is_none() || is_endless && !takes("zz")) {
            unbounded.push(path.to_owned());
        }
        if let Some(item) = view.item() {
            look(item, &format!("{path}[]"), unbounded);
        }
        view.fields().for_each(|(name, view)| look(view, &format!("{path}.{name}"), unbounded));
    }
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let examples = std::fs::read_dir(root.join("examples")).expect("the examples");
    let folders = examples.map(|entry| entry.expect("readable").path().join("schemas"));
    let files = folders.chain([root.join("schemas/mongodb")]).map(|folder| folder.join("apiresourceschema.yaml"));
    let mut seen = 0;
    for path in files.filter(|file| file.is_file()) {
        let mut schemas = Schemas::default();
        schemas.add_file(&std::fs::read(&path).expect("readable"));
        for schema in schemas.resources.values() {
            let mut unbounded = Vec::new();
            if let Field::Known(spec) = schema.view().field("spec") {
                seen += 1;
                look(spec, "spec", &mut unbounded);
            }
            assert_eq!(unbounded, Vec::<String>::new(), "{}", path.display());
        }
    }
    assert!(seen > 5, "{seen}");
}
